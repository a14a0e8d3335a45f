"""The state of the work as text that people paste elsewhere."""

from __future__ import annotations

import csv
from typing import Any

from claimdag_client.cli.render import report
from claimdag_client.importers.table import TableImporter
from claimdag_client.importers.tasks import TasksImporter
from tests.support.scripted_daemon import view
from tests.unit.importers.drafts import faults, read

NODES: list[dict[str, Any]] = [
    view(1, summary="p-1 release", kind="goal", status="running"),
    view(2, summary="p-2 parse [it]", parent="7q2f-1", status="done"),
    view(3, summary="p-3 ship", parent="7q2f-1", deps=[{"on": "7q2f-2", "when": "after_ok"}], assignee="@ann",
         status="claimed"),
    view(4, summary="p-4 tell\nall \x1b[31m [held: x]", status="failed", error="exit status 2: @bob"),
    view(5, summary="=1+1", status="cancelled"),
]  # fmt: skip


def test_a_check_list_is_nested_as_the_work_is() -> None:
    """It is read by the importer of check lists again: what is done is done there."""
    lines = [*report.tasks(NODES)]
    assert lines == [
        "- [ ] p-1 release",
        "  - [x] p-2 parse [it]",
        "  - [ ] p-3 ship (in hand: @ann)",
        "- [ ] p-4 tell all \\x1b[31m (failed: exit status 2: @bob)",
        "- [-] =1+1",
    ]
    found = read(TasksImporter(), "\n".join(lines))
    assert faults(found) == []
    assert found.left_out() == {"done": 1}


def test_a_table_is_one_for_the_importer_of_tables() -> None:
    """With the columns of a plan and some more; no cell is a formula."""
    lines = [*report.table(NODES)]
    rows = [*csv.DictReader(lines)]
    assert [row["ref"] for row in rows] == [f"7q2f-{n}" for n in range(1, 6)]
    assert rows[2]["after"] == "7q2f-2"
    assert rows[4]["summary"] == "'=1+1"
    fields = [*rows[0]]
    assert fields[:-2] == [*report.COLUMNS[:-2]]
    without = "\n".join(",".join(line) for line in ([row[field] for field in fields[:3]] for row in [*rows]))
    assert faults(read(TableImporter(), f"ref,summary,kind\n{without}")) == []


def test_a_comment_mentions_nobody_and_links_nothing() -> None:
    """Whatever people wrote into the summaries."""
    text = "\n".join(report.comment(NODES))
    assert text.startswith("**1 of 4 tasks done**\n\n### Done (1)\n\n- p-2 parse \\[it\\]\n\n### In hand (1)\n")
    assert "@\u200bann" in text
    assert "@\u200bbob" in text
