"""What a second import of a file does, by example: a pure comparison of rows with nodes."""

from __future__ import annotations

from typing import Any

import pytest

from claimdag_client.importers.interface import Dependency, Draft, Item
from claimdag_client.importers.matching import Comparison, compare
from claimdag_client.importers.resolve import resolve

Fields = dict[str, Any]


def item(key: str, title: str = "t", **fields: Any) -> Item:
    made = Item(key, title, at=0, place="line 1")
    for name, value in fields.items():
        setattr(made, name, [Dependency(on) for on in value] if name == "deps" else value)
    return made


def view(number: int, summary: str, **fields: Any) -> Fields:
    deps = [{"on": on, "when": "after_ok"} for on in fields.pop("deps", ())]
    plain = {"kind": "task", "role": "unset", "status": "ready", "cost": 1.0, "priority": 0, "parent": None,
             "needs": {}, "max_attempts": None, "assignee": None}  # fmt: skip
    return {"id": f"7q2f-{number}", "summary": summary, **plain, "deps": deps, **fields}


def compared(
    items: list[Item], nodes: list[Fields], *, finished: tuple[str, ...] = (), owns: str | None = "p-", **options: Any
) -> Comparison:
    draft = Draft()
    for each in items:
        draft.add(each)
    for key in finished:
        draft.finish(key, "closed", at=9, place="line 9")
    draft.owns = None if owns is None else lambda word: word.startswith(owns)
    return compare(resolve(draft), nodes, **options)


def actions(comparison: Comparison) -> dict[str, str]:
    return {step.key: step.action for step in comparison.steps}


def test_rows_that_no_node_opens_with_are_new() -> None:
    """Their parents and dependencies are the ids of nodes that are there, else refs."""
    rows = [item("p-1"), item("p-2", deps=["p-1", "p-3"], parent="p-1"), item("p-3")]
    comparison = compared(rows, [view(1, "p-1 t"), view(9, "p-33 t")])
    assert actions(comparison) == {"p-1": "same", "p-2": "new", "p-3": "new"}
    fields = comparison.steps[1].fields
    assert fields["parent"] == "7q2f-1"
    assert fields["deps"] == [{"on": "7q2f-1"}, {"on": "p-3"}]
    assert comparison.steps[1].fields["ref"] == "p-2"


@pytest.mark.parametrize(
    ("row", "node", "changes"),
    [
        ({}, {}, None),
        ({"title": "u"}, {}, {"summary": "p-1 u"}),
        ({"priority": 5}, {}, {"priority": 5}),
        ({}, {"priority": 5}, {"priority": 0}),
        ({"cost": 3.0}, {}, {"cost": 3.0}),
        ({}, {"cost": 3.0}, None),
        ({"kind": "goal"}, {}, {"kind": "goal"}),
        ({"deps": ["p-2"]}, {"deps": ["7q2f-2"]}, None),
        ({}, {"deps": ["7q2f-2"]}, {"deps": []}),
        ({}, {"deps": ["7q2f-7"]}, None),
        ({"deps": ["p-2"]}, {}, {"deps": [{"on": "7q2f-2", "when": "after_ok"}]}),
        ({"parent": "p-2"}, {}, {"parent": "7q2f-2"}),
        ({}, {"parent": "7q2f-2"}, {"parent": None}),
        ({}, {"parent": "7q2f-7"}, None),
        ({"holds": ["why"]}, {}, {"summary": "p-1 t [held: why]", "status": "blocked"}),
        ({"holds": ["why"]}, {"summary": "p-1 t [held: why]", "status": "ready"}, None),
        ({}, {"summary": "p-1 t [held: why]", "status": "blocked"}, {"summary": "p-1 t", "status": "todo"}),
        ({}, {"status": "blocked"}, None),
        ({"title": "u"}, {"status": "done"}, None),
    ],
)
def test_an_unfinished_node_is_brought_up_to_its_row(row: Fields, node: Fields, changes: Fields | None) -> None:
    """What people did by hand stays: links to other nodes, a parent of their own, a block, a release (law 17.4)."""
    nodes = [view(1, **{"summary": "p-1 t", **node}), view(2, "p-2 t"), view(7, "by hand")]
    comparison = compared([item("p-1", **row), item("p-2")], nodes)
    step = comparison.steps[0]
    assert (step.fields if step.action == "update" else None) == changes


def test_a_held_node_keeps_what_it_stands_on() -> None:
    """The daemon would refuse it; the summary may change."""
    held = view(1, "p-1 t", status="running", assignee="ann")
    comparison = compared([item("p-1", "u", deps=["p-2"]), item("p-2")], [held, view(2, "p-2 t")])
    assert comparison.steps[0].fields == {"summary": "p-1 u"}
    assert "held by ann" in comparison.steps[0].why
    assert actions(compared([item("p-1", deps=["p-2"]), item("p-2")], [held, view(2, "p-2 t")]))["p-1"] == "keep"


@pytest.mark.parametrize(
    ("node", "action"),
    [
        ({}, "done"),
        ({"status": "done"}, "same"),
        ({"status": "claimed", "assignee": "ann"}, "keep"),
        ({"kind": "goal"}, "keep"),
    ],
)
def test_what_is_finished_there_is_finished_here(node: Fields, action: str) -> None:
    """Unless somebody has it in hand, or work under it decides it."""
    nodes = [view(1, "p-1 t", **node), view(2, "p-2 t", parent="7q2f-1")]
    assert actions(compared([item("p-2", parent="p-1")], nodes, finished=("p-1",)))["p-1"] == action


def test_what_the_file_has_no_more_is_cancelled_on_request_alone() -> None:
    """Only nodes of this source, and none that is held; what waited on it no longer does."""
    nodes = [view(1, "p-1 t", deps=["7q2f-2"]), view(2, "p-2 t"), view(3, "q-3 t"), view(4, "p-4 t", status="done"),
             view(5, "p-5 t", status="claimed", assignee="ann")]  # fmt: skip
    plain = compared([item("p-1")], nodes)
    assert actions(plain) == {"p-1": "same"}
    assert [node["id"] for node in plain.missing] == ["7q2f-2", "7q2f-5"]
    pruned = compared([item("p-1")], nodes, prune=True)
    assert actions(pruned) == {"p-1": "update", "p-2": "cancel", "p-5": "keep"}
    assert pruned.steps[0].fields == {"deps": []}
    assert compared([item("p-1")], nodes, owns=None).missing == []
    assert len(compared([item("p-1")], nodes, owns=None, under="7q2f-9").missing) == 3


def test_rows_without_an_id_are_found_by_their_whole_title() -> None:
    """One word of it is not enough."""
    nodes = [view(1, "write the parser"), view(2, "write [held: marked [~]]", status="blocked")]
    rows = [item("write the parser", "write the parser", shown=False), item("write", "write", shown=False)]
    comparison = compared(rows, nodes)
    assert [(step.action, step.id) for step in comparison.steps] == [("same", "7q2f-1"), ("update", "7q2f-2")]


def test_a_key_that_is_too_long_for_a_ref_is_named_in_short() -> None:
    """The same everywhere in the submission, and another one for another key."""
    keys = ["x" * 5000, "x" * 5001]
    rows = [item(keys[0], shown=False), item(keys[1], shown=False, parent=keys[0], deps=[keys[0]])]
    first, second = (step.fields for step in compared(rows, []).steps)
    assert len(first["ref"]) <= 256
    assert first["ref"] == second["parent"] == second["deps"][0]["on"] != second["ref"]


def test_of_several_nodes_of_one_row_the_unfinished_one_counts() -> None:
    """An earlier session's is done."""
    nodes = [view(1, "p-1 t"), view(2, "p-1 t", status="done"), view(3, "p-1 t", status="cancelled")]
    assert compared([item("p-1", "u")], nodes).steps[0].id == "7q2f-1"
