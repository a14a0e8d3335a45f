"""Faults of the importers that use in the field showed, with the real command and a real daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Claimdag = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def claimdag(short_dir: Path) -> Iterator[Claimdag]:
    """Run the command as the process that it is for a shell, on a fresh directory."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(*argv: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "claimdag_client.cli", "--dir", str(short_dir), *argv],
            input=text, capture_output=True, text=True, timeout=30, check=False, env=environ,
        )  # fmt: skip

    yield run
    run("--no-start", "stop")


def row(issue_id: str, *deps: tuple[str, str], **fields: Any) -> str:
    """A line of a tracker's export; `deps` are (type, issue) pairs."""
    listed = [{"issue_id": issue_id, "depends_on_id": on, "type": kind} for kind, on in deps]
    record = {"id": issue_id, "title": "t", "status": "open", "priority": 2, "issue_type": "task"}
    return json.dumps({**record, **({"dependencies": listed} if listed else {}), **fields}) + "\n"


def test_import_offers_nothing_that_the_tracker_holds_back(claimdag: Claimdag) -> None:
    """Of all these rows one is work that may start; the reason of each other is in `why` of it."""
    text = "".join(
        (
            row("p-1", issue_type="gate"), row("p-2", ("blocks", "p-1")),
            row("p-3", defer_until="2999-01-01T00:00:00Z"), row("p-4", pinned=True), row("p-5", is_template=True),
            row("p-6", ephemeral=True), row("p-7", status="odd"),
            row("p-8", issue_type="molecule"), row("p-9", ("blocks", "p-7")), row("p-10", ("waits-for", "p-20")),
            row("p-11", ("conditional-blocks", "p-20")), row("p-12", ("blocks", "external:a:b")),
            row("p-13", issue_type="agent"), row("p-14", ("blocks", "p-13")), row("p-15", ("sings", "p-20")),
            row("p-16", ("blocks", "p-gone")), row("p-17", status="hooked"), row("p-18", ("parent-child", "p-3")),
            row("p-20", status="open"),
        )
    )  # fmt: skip
    assert claimdag("import", "beads", "-", "--keep-holders", text=text).returncode == 1
    ran = claimdag("import", "beads", "-", "--keep-holders", "--skip-bad", text=text)
    assert ran.returncode == 0, ran.stderr
    ready = [json.loads(line) for line in claimdag("ready", "--json").stdout.splitlines()]
    assert [node["summary"] for node in ready] == ["p-20 t"]
    nodes = [json.loads(line) for line in claimdag("list", "--json").stdout.splitlines()]
    by_issue = {node["summary"].split()[0]: node for node in nodes}
    assert set(by_issue) == {f"p-{n}" for n in range(1, 21) if n not in (13, 19)}
    assert by_issue["p-8"]["kind"] == "molecule"
    shown = claimdag("why", by_issue["p-3"]["id"])
    assert "put off until 2999-01-01T00:00:00Z" in shown.stdout


def test_import_reads_a_pretty_array_and_reports_each_fault_once(claimdag: Claimdag) -> None:
    """It was reported as bad JSON once for each of its lines."""
    rows = [json.loads(row("p-1")), json.loads(row("p-2", ("blocks", "p-1"), ("blocks", "p-gone")))]
    ran = claimdag("import", "beads", "-", text=json.dumps(rows, indent=2))
    assert ran.returncode == 1
    assert ran.stderr.count("which is not in the file\n") == 2  # the fault, and that the row is held for it
    assert "line 9: p-2" in ran.stderr
    ran = claimdag("import", "beads", "-", "--skip-bad", text=json.dumps({"issues": rows}))
    assert ran.stdout.startswith("2 nodes")
