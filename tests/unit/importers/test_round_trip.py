"""Import, and import again: the second time changes nothing, whatever is in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimdag_client.importers import registry
from claimdag_client.importers.matching import compare
from claimdag_client.importers.resolve import Resolved
from claimdagd.wire import Submit, SubmitNode
from tests.support.driver import Driver

from .drafts import read

KEYS = st.sampled_from([f"p-{n}" for n in range(6)])
KINDS = ["blocks", "parent-child", "waits-for", "conditional-blocks", "related", "odd"]
ROWS = st.fixed_dictionaries(
    {"id": KEYS, "title": st.text(max_size=12)},
    optional={
        "status": st.sampled_from(["open", "closed", "blocked", "deferred", "in_progress", "odd", "tombstone"]),
        "issue_type": st.sampled_from(["task", "epic", "gate", "molecule", "agent", "odd"]),
        "priority": st.integers(-1, 5),
        "estimated_minutes": st.one_of(st.none(), st.integers(-1, 90), st.just("x")),
        "pinned": st.booleans(),
        "defer_until": st.sampled_from(["2999-01-01T00:00:00Z", "1999-01-01T00:00:00Z", "odd"]),
        "dependencies": st.lists(
            st.fixed_dictionaries({"depends_on_id": KEYS, "type": st.sampled_from(KINDS)}), max_size=3
        ),
    },
)
BOXES = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from([" ", " ", "x", "~"]),
        st.sampled_from(["", "T001 ", "T002 [P] ", "T003 ", "[P] "]),
        st.sampled_from(["a", "b", "a after T001", "write it", "depends on T002-T003"]),
    ),
    max_size=10,
)


def submitted(found: Resolved) -> Driver:
    """A graph of the nodes; the core refuses what is no sound submission."""
    core = Driver()
    nodes = tuple(msgspec.convert(node, SubmitNode) for node in found.nodes())
    if nodes:
        core.apply(Submit(nodes=nodes))
    core.check()
    return core


def views(core: Driver) -> list[dict[str, Any]]:
    return [core.shown(v) for v in core.graph.vertices.values()]


def check(found: Resolved, again: Resolved) -> None:
    core = submitted(found)
    comparison = compare(again, views(core))
    assert [step.action for step in comparison.steps] == ["same"] * len(found.items)
    assert comparison.missing == []


@given(st.lists(ROWS, max_size=8))
def test_beads_twice_changes_nothing(rows: list[dict[str, Any]]) -> None:
    """Odd rows, cycles and ids that stand twice too: what is left of them is sound, and is found again (law 17.4)."""
    text = "\n".join(json.dumps(row) for row in rows)
    importer = registry.named("beads")
    check(read(importer, text), read(importer, text))


@given(st.lists(ROWS, max_size=8))
def test_nothing_is_ready_that_has_a_blocker_which_is_not_finished(rows: list[dict[str, Any]]) -> None:
    """Also where the blocker is faulty, left out or of an unknown sort: --skip-bad takes it so."""
    found = read(registry.named("beads"), "\n".join(json.dumps(row) for row in rows))
    core = submitted(found)
    ready = {view["summary"].split(" ")[0] for view in views(core) if view["status"] == "ready"}
    finished = {row["id"] for row in rows if row.get("status") in ("closed", "tombstone")}
    finished -= {row["id"] for row in rows if row.get("status") not in ("closed", "tombstone")}
    for row in rows:
        if row["id"] in ready and row.get("status") not in ("closed", "tombstone"):
            assert row.get("status", "open") in ("open", "in_progress")
            for dep in row.get("dependencies", ()):
                assert dep["type"] in ("related", "parent-child") or dep["depends_on_id"] in finished


@given(BOXES)
def test_tasks_twice_change_nothing(boxes: list[tuple[int, str, str, str]]) -> None:
    """Nested and numbered ones, twice the same too."""
    text = "".join(f"{'  ' * depth}- [{mark}] {number}{title}\n" for depth, mark, number, title in boxes)
    importer = registry.named("tasks")
    check(read(importer, text), read(importer, text))


@pytest.mark.parametrize("name", ["small", "medium", "large"])
def test_a_real_export_twice_changes_nothing(name: str, shared_data: Path) -> None:
    """Three public projects, as they were."""
    path = shared_data / "beads" / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"no {path}")
    importer = registry.named("beads")
    found, again = (read(importer, path.read_bytes(), closed=True) for _ in range(2))
    check(found, again)
