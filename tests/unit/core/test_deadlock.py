"""Deadlocks between subtrees are found and named; what only looks like one is not."""

from __future__ import annotations

from typing import Any

import pytest

from claimdagd import wire
from claimdagd.model import Kind, Status
from claimdagd.wire import Code
from tests.support.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def holding_goal(driver: Driver, resource: str) -> str:
    """A goal that holds one unit of a resource, with its first child done and nothing live below it."""
    goal = driver.goal(needs={resource: 1})
    opener = driver.add(under=goal)
    driver.add(under=goal, status=Status.BLOCKED, summary="keeps the goal open")
    driver.claim(opener)
    driver.complete(opener)
    assert driver.grants(goal) == [(resource, 1, None)]
    return goal


def ring(driver: Driver, size: int) -> tuple[list[str], list[str]]:
    """Goals that each hold one resource, each with a child that needs the next one's."""
    goals, children = [], []
    for number in range(size):
        goal = driver.goal(needs={f"r{number}": 1})
        opener = driver.add(under=goal)
        children.append(driver.add(under=goal, needs={f"r{(number + 1) % size}": 1}))
        driver.claim(opener)
        driver.complete(opener)
        goals.append(goal)
    return goals, children


def nothing(driver: Driver) -> dict[str, Any]:
    refusal = driver.refused(wire.ClaimNext(actor="idle"))
    assert refusal.code == Code.NOTHING_RUNNABLE
    return dict(refusal.details)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_ring_of_subtrees_is_named_as_one_deadlock(driver: Driver, size: int) -> None:
    """Each holds what the next one's child needs: all of them are named, with the resources (law 6.8)."""
    goals, children = ring(driver, size)
    details = nothing(driver)
    assert details["stuck"] is True
    (knot,) = details["deadlocks"]
    assert set(knot["subtrees"]) == set(goals)
    assert set(knot["nodes"]) == set(children)
    assert set(knot["resources"]) == {f"r{number}" for number in range(size)}


def test_deadlock_is_told_by_why_and_stats(driver: Driver) -> None:
    """It is never silent (law 6.8)."""
    _, children = ring(driver, 2)
    why = driver.apply(wire.Why(id=children[0]))
    assert "deadlock" in {reason["type"] for reason in why["reasons"]}


def test_deadlock_is_found_while_a_claim_elsewhere_is_live(driver: Driver) -> None:
    """Found as soon as it is certain, not only when everything stands still; but then nobody is stuck."""
    other = driver.add()
    driver.claim(other)
    ring(driver, 2)
    details = nothing(driver)
    assert details["stuck"] is False
    assert len(details["deadlocks"]) == 1


def test_deadlock_is_found_while_a_member_has_a_live_claim(driver: Driver) -> None:
    """The live child's end will not end its goal, so the knot is certain already."""
    goals, children = ring(driver, 2)
    driver.claim(driver.add(under=goals[0]))
    (knot,) = nothing(driver)["deadlocks"]
    assert set(knot["nodes"]) == set(children)


def test_completing_tasks_that_hold_what_their_children_need_are_a_deadlock(driver: Driver) -> None:
    """Not only goals hold for a subtree."""
    tasks, children = [], []
    for mine, other in (("gpu", "net"), ("net", "gpu")):
        task = driver.add(needs={mine: 1})
        driver.claim(task)
        children.append(driver.add(under=task, needs={other: 1}))
        driver.complete(task)
        tasks.append(task)
    (knot,) = nothing(driver)["deadlocks"]
    assert set(knot["subtrees"]) == set(tasks)
    assert set(knot["nodes"]) == set(children)


def test_two_separate_rings_are_two_deadlocks(driver: Driver) -> None:
    """Each is named by itself."""
    ring(driver, 2)
    for mine, other in (("a", "b"), ("b", "a")):
        goal = driver.goal(needs={mine: 1})
        opener = driver.add(under=goal)
        driver.add(under=goal, needs={other: 1})
        driver.claim(opener)
        driver.complete(opener)
    assert len(nothing(driver)["deadlocks"]) == 2


def test_ring_through_a_dependency_is_a_deadlock(driver: Driver) -> None:
    """What its goal waits for may wait for the units only by way of another node."""
    one = driver.goal(needs={"gpu": 1})
    opener = driver.add(under=one)
    outside = driver.add(needs={"gpu": 1})
    driver.add(outside, under=one)
    driver.claim(opener)
    driver.complete(opener)
    (knot,) = nothing(driver)["deadlocks"]
    assert set(knot["subtrees"]) == {one}
    assert outside in knot["nodes"]


def test_ring_with_a_spare_unit_is_none(driver: Driver) -> None:
    """One more unit of one resource lets everybody through."""
    driver.apply(wire.SetCapacity(resource="r0", units=2))
    _, children = ring(driver, 2)
    assert driver.next() == children[1]


def test_ring_opened_by_more_capacity_is_none_any_more(driver: Driver) -> None:
    """A person's way out."""
    _, children = ring(driver, 3)
    driver.apply(wire.SetCapacity(resource="r0", units=2))
    assert driver.next() == children[2]
    assert nothing_left(driver) == []


def nothing_left(driver: Driver) -> list[Any]:
    """The deadlocks that a second worker is told of."""
    refusal = driver.refused(wire.ClaimNext(actor="second"))
    return list(refusal.details["deadlocks"])


def test_ring_opened_by_a_cancel_is_none_any_more(driver: Driver) -> None:
    """Cancelling one waiting child ends its goal, whose units then come back."""
    goals, children = ring(driver, 2)
    driver.apply(wire.Cancel(id=children[0]))
    assert driver.status(goals[0]) == "done"
    assert driver.next() == children[1]


def test_chain_without_a_closing_edge_is_none(driver: Driver) -> None:
    """Waiting for each other in a row ends by itself."""
    goals, _ = ring(driver, 2)
    driver.apply(wire.Cancel(id=goals[1]))
    driver.apply(wire.Cancel(id=goals[0]))
    first = driver.goal(needs={"a": 1})
    opener = driver.add(under=first)
    second = driver.add(under=first, needs={"b": 1})
    driver.claim(opener)
    driver.complete(opener)
    holder = driver.add(needs={"b": 1})
    driver.claim(holder)
    details = nothing(driver)
    assert (details["resources"], details["deadlocks"]) == (1, [])
    driver.complete(holder)
    assert driver.next() == second


def test_child_that_needs_its_own_group_units_is_none(driver: Driver) -> None:
    """Units are borrowed again within the subtree."""
    goal = driver.goal(needs={"gpu": 1})
    opener, child = driver.add(under=goal), driver.add(under=goal, needs={"gpu": 1})
    driver.claim(opener)
    driver.complete(opener)
    assert driver.next() == child


def test_ring_whose_second_holder_has_not_started_is_none(driver: Driver) -> None:
    """All or nothing: the second goal takes its unit only when its first child runs."""
    one = driver.goal(needs={"r0": 1})
    opener, child = driver.add(under=one), driver.add(under=one, needs={"r1": 1})
    two = driver.goal(needs={"r1": 1})
    driver.add(under=two, needs={"r0": 1})
    driver.claim(opener)
    driver.complete(opener)
    assert driver.next() == child


def test_unit_also_held_by_one_that_can_end_is_none(driver: Driver) -> None:
    """One of two units comes back from outside the ring."""
    driver.apply(wire.SetCapacity(resource="r0", units=2))
    third = driver.add(needs={"r0": 1})
    driver.claim(third)
    ring(driver, 2)
    details = nothing(driver)
    assert (details["stuck"], details["deadlocks"]) == (False, [])


def test_need_above_a_lowered_capacity_is_none(driver: Driver) -> None:
    """Nobody holds what it lacks: that is for a person to raise, and no deadlock."""
    driver.apply(wire.SetCapacity(resource="gpu", units=2))
    driver.add(needs={"gpu": 2})
    driver.apply(wire.SetCapacity(resource="gpu", units=1))
    details = nothing(driver)
    assert (details["stuck"], details["deadlocks"]) == (True, [])


def test_group_deps_that_wait_for_the_ring_wait_but_are_not_named(driver: Driver) -> None:
    """Only those who lack the units are in the knot."""
    goals, children = ring(driver, 2)
    after = driver.add(goals[0])
    gated = driver.goal(goals[1])
    driver.add(under=gated, kind=Kind.STEP)
    (knot,) = nothing(driver)["deadlocks"]
    assert set(knot["nodes"]) == set(children)
    assert after not in knot["nodes"]
