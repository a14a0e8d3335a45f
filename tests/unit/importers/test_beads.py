"""A tracker's export becomes nodes, and everything wrong with it is reported by its line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from claimdag_client.importers.beads import BeadsImporter
from claimdag_client.importers.interface import Options
from claimdag_client.importers.resolve import Resolved, resolve

from .drafts import faults, held


def issue(issue_id: str, *deps: tuple[str, str], **fields: Any) -> bytes:
    """A line of an export; `deps` are (type, issue) pairs."""
    listed = [{"issue_id": issue_id, "depends_on_id": on, "type": kind} for kind, on in deps]
    record = {"id": issue_id, "title": f"title of {issue_id}", "status": "open", "priority": 2, "issue_type": "task"}
    return json.dumps({**record, **({"dependencies": listed} if listed else {}), **fields}).encode() + b"\n"


def read(*lines: bytes, closed: bool = False, keep_holders: bool = False, now: float = 0.0) -> Resolved:
    options = Options(now=now, closed=closed, keep_holders=keep_holders)
    return resolve(BeadsImporter().read(lines, options))


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
        {
            "ref": "p-4",
            "summary": "p-4 title of p-4 [held: blocked in the tracker]",
            "status": "blocked",
            "priority": -10,
        },
        {"ref": "p-5", "summary": "p-5 title of p-5 [held: deferred in the tracker]", "status": "blocked"},
        {"ref": "p-6", "summary": "p-6 title of p-6"},
        {"ref": "p-7", "summary": "p-7 title of p-7"},
    ]


def test_what_is_finished_counts_as_met() -> None:
    """Closed and deleted issues hold nothing up; --all takes closed ones as work."""
    lines = [
        issue("p-1", issue_type="epic", status="closed"),
        issue("p-2", ("parent-child", "p-1"), status="closed"),
        issue("p-3", status="tombstone"),
        issue("p-6", ("blocks", "p-2"), ("blocks", "p-3"), ("parent-child", "p-1")),
    ]
    export = read(*lines)
    assert faults(export) == []
    assert export.nodes() == [{"ref": "p-6", "summary": "p-6 title of p-6"}]
    assert export.left_out() == {"closed": 2, "deleted": 1}
    everything = read(*lines, closed=True)
    assert [node["ref"] for node in everything.nodes()] == ["p-1", "p-2", "p-6"]
    assert everything.nodes()[2]["deps"] == [{"on": "p-2"}]
    assert everything.nodes()[2]["parent"] == "p-1"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"status": "blocked"}, "blocked in the tracker"),
        ({"status": "deferred"}, "deferred in the tracker"),
        ({"status": "pinned"}, "pinned in the tracker"),
        ({"status": "review"}, "it has the status 'review', which is one of the project's own"),
        ({"status": 7}, "it has the status 7, which is one of the project's own"),
        ({"pinned": True}, "pinned in the tracker"),
        ({"status": "pinned", "pinned": True}, "pinned in the tracker"),
        ({"is_template": True}, "a template in the tracker"),
        ({"ephemeral": True}, "ephemeral in the tracker"),
        ({"issue_type": "hat"}, "it is of the unknown type 'hat'"),
        ({"issue_type": ["task"]}, "it is of the unknown type ['task']"),
        ({"issue_type": "gate"}, "an open gate"),
        ({"issue_type": "gate", "await_type": "gh:run", "await_id": "17"}, "an open gate, until gh:run 17"),
        ({"defer_until": "1970-01-01T00:16:41Z"}, "put off until 1970-01-01T00:16:41Z"),
        ({"defer_until": "1970-01-01T01:16:41+01:00"}, "put off until 1970-01-01T01:16:41+01:00"),
        ({"defer_until": "1970-01-01T00:16:39Z"}, None),
        ({"defer_until": None}, None),
    ],
)
def test_what_the_tracker_would_not_offer_is_blocked_with_the_reason(
    fields: dict[str, Any], reason: str | None
) -> None:
    """The node is there, so that what waits on it waits, but nobody can claim it (law 17.1)."""
    export = read(issue("p-1", **fields), issue("p-2", ("blocks", "p-1")), now=1000.0)
    assert faults(export) == []
    assert held(export) == ({} if reason is None else {"p-1": reason})
    assert len(export.draft.held) == (reason is not None)
    assert export.nodes()[1]["deps"] == [{"on": "p-1"}]


@pytest.mark.parametrize("status", ["in_progress", "hooked"])
def test_what_is_in_hand_is_held_with_keep_holders_alone(status: str) -> None:
    """Without it the work is offered, and that is noted."""
    line = issue("p-1", status=status, assignee="ann")
    assert held(read(line, keep_holders=True)) == {"p-1": f"{status} in the tracker by ann"}
    offered = read(line)
    assert held(offered) == {}
    assert offered.noted() == {"in hand in the tracker, offered all the same": 1}


@pytest.mark.parametrize("kind", ["agent", "message", "convoy", "role", "event"])
def test_a_row_that_is_no_work_holds_what_waits_on_it_until_it_is_closed(kind: str) -> None:
    """It is left out, but nobody knows that it is finished."""
    waiting = issue("p-2", ("blocks", "p-1"))
    assert held(read(issue("p-1", issue_type=kind), waiting)) == {
        "p-2": f"has 'blocks' on p-1, which is of type {kind} and not finished"
    }
    assert held(read(issue("p-1", issue_type=kind, status="closed"), waiting)) == {}


@pytest.mark.parametrize(
    ("kind", "target", "reason"),
    [
        ("waits-for", {}, "has 'waits-for' on p-1"),
        ("waits-for", {"status": "closed"}, None),
        ("conditional-blocks", {}, "has 'conditional-blocks' on p-1"),
        ("conditional-blocks", {"status": "closed"}, "has 'conditional-blocks' on p-1, which did not fail"),
        ("conditional-blocks", {"status": "closed", "close_reason": "Failed in CI"}, None),
        ("haunts", {}, "has the unknown dependency 'haunts' on p-1"),
        ("haunts", {"status": "closed"}, None),
        ("parent_child", {}, "has the unknown dependency 'parent_child' (is 'parent-child' meant?) on p-1"),
        ("Blocks", {}, "has the unknown dependency 'Blocks' (is 'blocks' meant?) on p-1"),
        ("related", {}, None),
    ],
)
def test_a_dependency_that_is_no_plain_order_holds(kind: str, target: dict[str, Any], reason: str | None) -> None:
    """Unless what it names is known to be finished (law 17.2)."""
    export = read(issue("p-1", **target), issue("p-2", (kind, "p-1")))
    assert faults(export) == []
    assert held(export) == ({} if reason is None else {"p-2": reason})


def test_waits_for_looks_at_the_children_too() -> None:
    """The one that made them may be closed long before they are."""
    lines = [issue("p-1", status="closed"), issue("p-2", ("parent-child", "p-1")), issue("p-3", ("waits-for", "p-1"))]
    assert held(read(*lines)) == {"p-3": "has 'waits-for' on p-1"}


def test_an_external_dependency_holds() -> None:
    """What another project has ready stands in no file of this one."""
    export = read(issue("p-1", ("blocks", "external:other:parser")))
    assert faults(export) == []
    assert held(export) == {"p-1": "has 'blocks' on external:other:parser, which is not of this file"}


def test_epics_and_molecules_stay_groups_with_nothing_open_under_them() -> None:
    """Nobody is handed one; whoever looks at it completes it."""
    export = read(
        issue("p-1", issue_type="epic"),
        issue("p-2", ("parent-child", "p-1"), status="closed"),
        issue("p-3", ("blocks", "p-1")),
        issue("p-4", issue_type="molecule"),
    )
    assert [node.get("kind", "task") for node in export.nodes()] == ["goal", "task", "molecule"]
    assert export.noted() == {"groups with nothing open under them": 2}


def test_children_of_work_wait_for_what_their_parent_waits_for() -> None:
    """The tracker blocks them with it; the daemon does so under groups alone."""
    export = read(
        issue("p-1"),
        issue("p-2", ("blocks", "p-1")),
        issue("p-3", ("parent-child", "p-2")),
        issue("p-4", ("parent-child", "p-3")),
        issue("p-5", status="deferred"),
        issue("p-6", ("parent-child", "p-5")),
        issue("p-7", ("blocks", "p-8")),
        issue("p-8", ("parent-child", "p-7")),
    )
    assert faults(export) == []
    by_ref = {node["ref"]: node for node in export.nodes()}
    assert by_ref["p-3"]["deps"] == by_ref["p-4"]["deps"] == [{"on": "p-1"}]
    assert held(export) == {"p-5": "deferred in the tracker", "p-6": "p-5 above it is held"}
    assert "deps" not in by_ref["p-8"]


def test_skip_bad_takes_nothing_that_is_in_doubt_for_finished() -> None:
    """Every fault of a row's order holds the row (law 17.5)."""
    export = read(
        issue("p-1", status="closed"),
        issue("p-1"),
        issue("p-2", ("blocks", "p-1")),
        issue("p-3", ("blocks", "p-gone")),
        issue("p-4", defer_until="soon"),
        issue("p-5", dependencies=7),
        issue("p-6", blocked_by=["p-none"]),
        b'{"id": "p-7", "tit\n',
        issue("p-8", ("blocks", "p-7")),
    )
    assert sorted(held(export)) == ["p-1", "p-3", "p-4", "p-5", "p-6", "p-8"]
    assert {node["ref"]: node.get("deps") for node in export.nodes()}["p-2"] == [{"on": "p-1"}]


def test_the_same_issues_are_read_from_lines_arrays_and_objects() -> None:
    """However the tracker's commands print them; the line is told where a fault is."""
    rows = [json.loads(issue("p-1")), json.loads(issue("p-2", ("blocks", "p-1"), ("blocks", "p-gone")))]
    nodes = read(*(json.dumps(row).encode() + b"\n" for row in rows)).nodes()
    for text, line in [
        (json.dumps(rows), 1),
        (json.dumps(rows, indent=2), 9),
        (json.dumps({"issues": rows}), 1),
        ("\n".join(json.dumps(row, indent=2) for row in rows), 8),
        ("\ufeff" + json.dumps(rows, indent="\t").replace("\n", "\r\n"), 9),
    ]:
        for pieces in ([text.encode()], [text.encode()[at : at + 7] for at in range(0, len(text.encode()), 7)]):
            export = read(*pieces)
            assert export.nodes() == nodes
            assert faults(export) == [f"line {line}: p-2 has 'blocks' on p-gone, which is not in the file"]


def test_a_broken_array_is_one_fault() -> None:
    """Not one for each of its lines; what stands before it is read."""
    text = json.dumps([json.loads(issue(f"p-{n}")) for n in range(5)], indent=2)
    export = read(text[:-30].encode())
    assert len(export.nodes()) == 4
    (fault,) = faults(export)
    assert fault.startswith("line 35: it is not JSON")
    assert len(faults(read(json.dumps(json.loads(issue("p-1")), indent=2).replace('"open",', '"open"').encode()))) == 1


def test_dependencies_are_read_in_each_spelling() -> None:
    """Of an export, of the show command, of the blocked command, and plain names."""
    spellings: list[dict[str, Any]] = [
        {"dependencies": [{"issue_id": "p-2", "depends_on_id": "p-1", "type": "blocks"}]},
        {"dependencies": [{"depends_on_id": "p-1"}]},
        {"dependencies": [{"id": "p-1", "title": "x", "status": "open", "dependency_type": "blocks"}]},
        {"dependencies": ["p-1"]},
        {"blocked_by": ["p-1"]},
    ]
    for spelling in spellings:
        export = read(issue("p-1"), issue("p-2", **spelling))
        assert faults(export) == []
        assert export.nodes()[1]["deps"] == [{"on": "p-1"}]
    shown = {"dependencies": [{"id": "p-9", "status": "closed", "dependency_type": "blocks"}]}
    assert held(read(issue("p-2", **shown))) == {}
    shown["dependencies"][0]["status"] = "open"
    assert held(read(issue("p-2", **shown))) == {"p-2": "has 'blocks' on p-9, which is not in the file"}
    assert read(issue("p-1"), issue("p-2", parent="p-1")).nodes()[1]["parent"] == "p-1"


def test_every_fault_is_reported_by_its_line() -> None:
    """One reading finds all of them, in the order of the file, and what is left is whole without them (law 17.3)."""
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
        "line 9: p-4 has the priority 9, which is not one of 0 to 4",
        "line 10: p-5 has the estimate 'long', which is not a number of minutes",
        "line 11: p-6 is part of p-gone, which is not in the file",
        "line 11: p-6 has 'blocks' on p-none, which is not in the file",
        "line 11: p-6 has 'blocks' on p-6, which is itself",
        "line 12: p-7: its dependencies are not a list",
        "line 13: p-8: a dependency is {'type': 'blocks'}, which names no issue",
        "line 13: p-8: a dependency is 7, which names no issue",
        "line 14: p-9 has 'blocks' on p-4, but it says that it is of 'p-1'",
        "line 15: p-10 has 'parent-child' on p-4, but its parent is p-1 already",
        "line 16: its id is '', not a name",
        "line 17: its id is 7, not a name",
    ]
    assert [node["ref"] for node in export.nodes()] == [f"p-{n}" for n in range(1, 11)]
    assert sorted(held(export)) == sorted(f"p-{n}" for n in (1, 2, 3, 6, 7, 8, 9, 10))
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
        "line 5: e2 is part of e1, which closes a cycle: e2 -> e1 -> e2",
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
    assert len(export.nodes()) == 1
    assert export.noted() == {"rows that are no issues": 1}


@pytest.mark.parametrize(
    ("name", "closed", "taken", "found"),
    [("small", True, 130, 0), ("small", False, 0, 0), ("medium", True, 882, 1), ("large", False, 289, 2),
     ("large", True, 692, 26)],
)  # fmt: skip
def test_real_exports_are_read_whole(name: str, closed: bool, taken: int, found: int, shared_data: Path) -> None:
    """Real projects' issues, with their dangling references and their one cycle."""
    path = shared_data / "beads" / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"no {path}")
    lines = path.read_bytes().splitlines(keepends=True)
    export = read(*lines, closed=closed)
    assert len(export.nodes()) == taken
    assert len(faults(export)) == found
    records = [json.loads(line) for line in lines]
    refs = {node["ref"] for node in export.nodes()}
    named = Counter(
        record["id"]
        for record in records
        for dep in record.get("dependencies") or ()
        if dep["type"] == "blocks" and record["id"] in refs and dep["depends_on_id"] in refs
    )
    taken_edges = sum(len(node.get("deps", ())) for node in export.nodes())
    cycles = sum("cycle" in str(fault) for fault in faults(export))
    assert taken_edges >= named.total() - cycles
