"""The table of resources: what a claim takes, borrows and gives back."""

from __future__ import annotations

from collections.abc import Hashable

from claimdagd.core.indexes.resources import ResourceTable
from claimdagd.core.state import Vertex
from claimdagd.model import Grant, Kind, Node


def vertex(number: int, under: Vertex | None = None, kind: Kind = Kind.TASK, **needs: int) -> Vertex:
    v = Vertex(Node(id=f"t3st-{number}", needs=needs, kind=kind), number)
    v.resource_ancestor = under
    return v


def give(table: ResourceTable, v: Vertex, *grants: Grant) -> None:
    old, v.record = v.record.grants, Node(id=v.record.id, needs=v.record.needs, kind=v.record.kind, grants=grants)
    table.index_grants(v, old, grants)


def table_and_freed() -> tuple[ResourceTable, list[tuple[Hashable, int | None]]]:
    freed: list[tuple[Hashable, int | None]] = []
    return ResourceTable(on_freed=lambda key, free: freed.append((key, free))), freed


def test_capacity_is_one_unless_configured() -> None:
    """And again when the configuration is removed."""
    table, _ = table_and_freed()
    table.set_capacity("gpu", 4)
    assert (table.capacity("gpu"), table.capacity("net")) == (4, 1)
    table.set_capacity("gpu", None)
    assert table.capacity("gpu") == 1


def test_free_is_never_negative() -> None:
    """The capacity may be below what is held."""
    table, _ = table_and_freed()
    table.set_capacity("gpu", 2)
    give(table, vertex(1, gpu=2), Grant("gpu", 2))
    table.set_capacity("gpu", 1)
    assert table.free("gpu") == 0


def test_units_that_come_back_are_told() -> None:
    """With how many are free; of a loan, that it is over."""
    table, freed = table_and_freed()
    v, borrower = vertex(1, gpu=1), vertex(2, gpu=1)
    give(table, v, Grant("gpu", 1))
    give(table, borrower, Grant("gpu", 1, "t3st-1"))
    give(table, borrower)
    give(table, v)
    assert freed == [(("t3st-1", "gpu"), None), ("gpu", 1)]
    assert table.semaphores == {}


def test_claim_borrows_from_the_nearest_ancestor() -> None:
    """Before it takes fresh units."""
    table, _ = table_and_freed()
    top = vertex(1, gpu=1, net=1)
    give(table, top, Grant("gpu", 1), Grant("net", 1))
    inner = vertex(2, top, gpu=1)
    give(table, inner, Grant("gpu", 1, "t3st-1"))
    leaf = vertex(3, inner, gpu=1, net=1, disk=1)
    assert table.claim_grants(leaf) == [
        (leaf, (Grant("disk", 1), Grant("gpu", 1, "t3st-2"), Grant("net", 1, "t3st-1")))
    ]


def test_claim_takes_for_groups_that_hold_none_yet() -> None:
    """Highest first, and the claim borrows from them."""
    table, _ = table_and_freed()
    goal = vertex(1, kind=Kind.GOAL, gpu=1)
    leaf = vertex(2, goal, gpu=1)
    assert table.claim_grants(leaf) == [(goal, (Grant("gpu", 1),)), (leaf, (Grant("gpu", 1, "t3st-1"),))]


def test_external_units_leave_out_what_is_lent_in_the_same_step() -> None:
    """Only the group's own unit comes from outside."""
    table, _ = table_and_freed()
    goal = vertex(1, kind=Kind.GOAL, gpu=1)
    assert table.external_units({"gpu": 1}, goal) == ((("gpu", 1, None),), False)


def test_work_below_held_units_is_exempt() -> None:
    """An ancestor holds some."""
    table, _ = table_and_freed()
    top = vertex(1, gpu=1)
    give(table, top, Grant("gpu", 1))
    assert table.external_units({"gpu": 1}, top) == ((("gpu", 1, "t3st-1"),), True)


def test_released_units_pass_to_the_borrower() -> None:
    """What a live descendant uses becomes its own."""
    table, _ = table_and_freed()
    top, borrower = vertex(1, gpu=1), vertex(2, gpu=1)
    give(table, top, Grant("gpu", 1))
    give(table, borrower, Grant("gpu", 1, "t3st-1"))
    assert table.grants_after_release(top) == [(top, ()), (borrower, (Grant("gpu", 1),))]


def test_idle_group_is_one_without_active_members() -> None:
    """It holds units for nobody."""
    table, _ = table_and_freed()
    goal = vertex(1, kind=Kind.GOAL, gpu=1)
    give(table, goal, Grant("gpu", 1))
    leaf = vertex(2, goal)
    assert table.idle_groups(leaf) == [goal]
    goal.active = 1
    assert table.idle_groups(leaf) == []
