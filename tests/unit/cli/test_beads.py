"""A tracker's export becomes nodes, and everything wrong with it is reported by its line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from claimdag_client.importers import beads


def issue(issue_id: str, *deps: tuple[str, str], **fields: Any) -> bytes:
    """A line of an export; `deps` are (type, issue) pairs."""
    listed = [{"issue_id": issue_id, "depends_on_id": on, "type": kind} for kind, on in deps]
    record = {"id": issue_id, "title": f"title of {issue_id}", "status": "open", "priority": 2, "issue_type": "task"}
    return json.dumps({**record, **({"dependencies": listed} if listed else {}), **fields}).encode() + b"\n"


def read(*lines: bytes, closed: bool = False) -> beads.Export:
    return beads.read(lines, closed=closed)


def faults(export: beads.Export) -> list[str]:
    return [str(fault) for fault in export.faults]


def test_issues_become_nodes() -> None:
    """Epics are goals, blocks an order, parent-child the parent, minutes the cost, 0 to 4 the priority."""
    export = read(
        issue("p-1", issue_type="epic", priority=0),
        issue("p-2", ("parent-child", "p-1"), priority=1, estimated_minutes=90),
        issue("p-3", ("parent-child", "p-1"), ("blocks", "p-2"), ("related", "p-2"), priority=4, issue_type="bug"),
        issue("p-4", priority=3, issue_type="chore", status="blocked"),
        issue("p-5", status="deferred", issue_type="feature", estimated_minutes=0),
        issue("p-6", status="in_progress"),
        issue("p-7", status="hooked"),
    )
    assert faults(export) == []
    assert export.nodes() == [
        {"ref": "p-1", "summary": "p-1 title of p-1", "kind": "goal", "priority": 20},
        {"ref": "p-2", "summary": "p-2 title of p-2", "priority": 10, "cost": 90, "parent": "p-1"},
        {"ref": "p-3", "summary": "p-3 title of p-3", "priority": -20, "parent": "p-1", "deps": [{"on": "p-2"}]},
        {"ref": "p-4", "summary": "p-4 title of p-4", "status": "blocked", "priority": -10},
        {"ref": "p-5", "summary": "p-5 title of p-5", "status": "blocked"},
        {"ref": "p-6", "summary": "p-6 title of p-6"},
        {"ref": "p-7", "summary": "p-7 title of p-7"},
    ]


def test_what_is_not_taken_counts_as_met() -> None:
    """Closed, deleted and pinned issues, and records that are no work, hold nothing up; --all takes closed ones."""
    lines = [
        issue("p-1", issue_type="epic", status="closed"),
        issue("p-2", ("parent-child", "p-1"), status="closed"),
        issue("p-3", status="tombstone"),
        issue("p-4", status="pinned"),
        issue("p-5", issue_type="agent"),
        issue("p-6", *(("blocks", f"p-{n}") for n in range(2, 6)), ("parent-child", "p-1")),
    ]
    export = read(*lines)
    assert faults(export) == []
    assert export.nodes() == [{"ref": "p-6", "summary": "p-6 title of p-6"}]
    assert export.left_out() == {"closed": 2, "deleted": 1, "pinned": 1, "of type agent": 1}
    everything = read(*lines, closed=True)
    assert [node["ref"] for node in everything.nodes()] == ["p-1", "p-2", "p-6"]
    assert everything.nodes()[2]["deps"] == [{"on": "p-2"}]
    assert everything.nodes()[2]["parent"] == "p-1"


def test_an_epic_with_nothing_to_do_under_it_is_work_itself() -> None:
    """As a goal nobody could claim it, and all that waits on it would wait for ever."""
    export = read(
        issue("p-1", issue_type="epic"),
        issue("p-2", ("parent-child", "p-1"), status="closed"),
        issue("p-3", ("blocks", "p-1")),
    )
    assert [node.get("kind", "task") for node in export.nodes()] == ["task", "task"]
    assert export.noted() == {"epics with nothing to do under them, taken as tasks": 1}


def test_every_fault_is_reported_by_its_line() -> None:
    """One reading finds all of them, in the order of the file, and what is left is whole without them."""
    export = read(
        b"{not json\n",
        b"\xff\xfe\n",
        b"[1]\n",
        b"\n",
        issue("p-1"),
        issue("p-1", title="again"),
        issue("p-2", status="sleeping"),
        issue("p-3", issue_type="hat"),
        issue("p-4", priority=9),
        issue("p-5", estimated_minutes="long"),
        issue("p-6", ("blocks", "p-none"), ("parent-child", "p-gone"), ("haunts", "p-1"), ("blocks", "p-6")),
        issue("p-7", dependencies="none"),
        issue("p-8", dependencies=[{"type": "blocks"}, 7]),
        issue("p-9", dependencies=[{"issue_id": "p-1", "depends_on_id": "p-4", "type": "blocks"}]),
        issue("p-10", ("parent-child", "p-1"), ("parent-child", "p-4")),
        issue("", title="nameless"),
        b'{"id": 7}\n',
    )
    assert faults(export) == [
        "line 1: it is not JSON: Expecting property name enclosed in double quotes at column 2",
        "line 2: it is not UTF-8",
        "line 3: it is not a JSON object",
        "line 6: p-1 is on line 5 already",
        "line 7: p-2 has the unknown status 'sleeping'",
        "line 8: p-3 has the unknown type 'hat'",
        "line 9: p-4 has the priority 9, which is not one of 0 to 4",
        "line 10: p-5 has the estimate 'long', which is not a number of minutes",
        "line 11: p-6 has 'blocks' on p-none, which is not in the file",
        "line 11: p-6 has 'parent-child' on p-gone, which is not in the file",
        "line 11: p-6 has 'haunts' on p-1: an unknown type of dependency",
        "line 11: p-6 has 'blocks' on p-6, which is itself",
        "line 12: p-7: its dependencies are not a list",
        "line 13: p-8: a dependency is {'type': 'blocks'}, which names no issue",
        "line 13: p-8: a dependency is 7, which names no issue",
        "line 14: p-9 has 'blocks' on p-4, but it says that it is of 'p-1'",
        "line 15: p-10 has 'parent-child' on p-4, but its parent is p-1 already",
        "line 16: its id is '', not a name",
        "line 17: its id is 7, not a name",
    ]
    assert [node["ref"] for node in export.nodes()] == ["p-1", "p-4", "p-5", *(f"p-{n}" for n in range(6, 11))]
    assert all("deps" not in node for node in export.nodes())


def test_cycles_are_reported_with_their_path_and_all_of_them() -> None:
    """Through dependencies, through parents, and through a group above."""
    export = read(
        issue("a", ("blocks", "b")),
        issue("b", ("blocks", "c")),
        issue("c", ("blocks", "a")),
        issue("e1", ("parent-child", "e2"), issue_type="epic"),
        issue("e2", ("parent-child", "e1"), issue_type="epic"),
        issue("g", issue_type="epic"),
        issue("h", ("parent-child", "g"), ("blocks", "g")),
        issue("i", ("parent-child", "h"), ("blocks", "g")),
        issue("j", ("parent-child", "h"), ("blocks", "h")),
    )
    assert faults(export) == [
        "line 3: c has 'blocks' on a, which closes a cycle: c -> a -> b -> c",
        "line 5: e2 has 'parent-child' on e1, which closes a cycle: e2 -> e1 -> e2",
        "line 7: h has 'blocks' on g, which closes a cycle: h -> g's end -> h",
        "line 8: i has 'blocks' on g, which closes a cycle: i -> g's end -> h -> i",
    ]
    by_ref = {node["ref"]: node for node in export.nodes()}
    assert by_ref["e1"]["parent"] == "e2"
    assert "parent" not in by_ref["e2"]
    assert by_ref["j"]["deps"] == [{"on": "h"}]


def test_a_long_title_is_cut_where_a_character_ends() -> None:
    """The summary opens with the id and holds 4,096 bytes."""
    (node,) = read(issue("p-1", title="é" * 3000)).nodes()
    assert node["summary"].startswith("p-1 é")
    assert node["summary"].endswith("é…")
    assert 4090 < len(node["summary"].encode()) <= 4096


def test_other_records_and_a_byte_order_mark_are_passed_over() -> None:
    """An export may hold the tracker's memories, and begin with a mark."""
    export = read(b"\xef\xbb\xbf" + issue("p-1"), b'{"_type": "memory", "key": "x"}\n')
    assert faults(export) == []
    assert len(export.taken) == 1
    assert export.noted() == {"lines that are no issues": 1}


@pytest.mark.parametrize(
    ("name", "closed", "taken", "found"),
    [("small", True, 130, 0), ("small", False, 0, 0), ("medium", True, 882, 1), ("large", False, 286, 2),
     ("large", True, 689, 26)],
)  # fmt: skip
def test_real_exports_are_read_whole(name: str, closed: bool, taken: int, found: int, shared_data: Path) -> None:
    """Real projects' issues, with their dangling references and their one cycle."""
    path = shared_data / "beads" / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"no {path}")
    lines = path.read_bytes().splitlines(keepends=True)
    export = beads.read(lines, closed=closed)
    assert len(export.taken) == taken
    assert len(export.faults) == found
    records = [json.loads(line) for line in lines]
    refs = {node["ref"] for node in export.nodes()}
    named = Counter(
        record["id"]
        for record in records
        for dep in record.get("dependencies") or ()
        if dep["type"] == "blocks" and record["id"] in refs and dep["depends_on_id"] in refs
    )
    taken_edges = sum(len(node.get("deps", ())) for node in export.nodes())
    cycles = sum("cycle" in str(fault) for fault in export.faults)
    assert taken_edges == named.total() - cycles
