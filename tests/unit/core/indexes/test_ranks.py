"""Depth and effective priority: what a node inherits from what waits on it."""

from __future__ import annotations

from claimdagd.model import Kind
from claimdagd.wire import Cancel, Link, Reopen, Unlink, Upsert
from tests.support.driver import Driver


def depth(driver: Driver, node: str) -> float:
    return float(driver.view(node)["depth"])


def priority(driver: Driver, node: str) -> int:
    driver.graph.ranks.update()
    return driver.graph.vertices[node].priority_start


def test_depth_is_the_longest_chain_by_cost(driver: Driver) -> None:
    """Its own cost included."""
    first = driver.add(cost=2.0)
    driver.add(first, cost=3.0)
    driver.add(driver.add(first, cost=1.0), cost=1.5)
    assert depth(driver, first) == 5.0


def test_group_costs_nothing_itself(driver: Driver) -> None:
    """Its child has what waits on the group."""
    goal = driver.goal(cost=100.0)
    child = driver.add(under=goal, cost=2.0)
    driver.add(goal, cost=3.0)
    assert depth(driver, child) == 5.0


def test_finished_work_counts_no_more(driver: Driver) -> None:
    """What is done has nothing left."""
    first = driver.add()
    then = driver.add(first, cost=5.0)
    driver.complete(then)
    assert depth(driver, first) == 1.0


def test_priority_is_inherited_from_what_waits(driver: Driver) -> None:
    """The highest of all of it."""
    first = driver.add()
    driver.add(driver.add(first, priority=-3), priority=9)
    assert priority(driver, first) == 9


def test_unlink_lowers_the_rank(driver: Driver) -> None:
    """All the way up."""
    first = driver.add()
    second = driver.add(first)
    third = driver.add(second, cost=8.0, priority=4)
    driver.apply(Unlink(before=second, after=third))
    assert (depth(driver, first), priority(driver, first)) == (2.0, 0)


def test_link_raises_the_rank(driver: Driver) -> None:
    """Against the numbers too."""
    last, first = driver.add(cost=4.0), driver.add()
    driver.apply(Link(before=first, after=last))
    assert depth(driver, first) == 5.0


def test_members_of_a_gated_group_raise_what_gates_it(driver: Driver) -> None:
    """The group's dep holds all of them back."""
    first = driver.add()
    driver.add(under=driver.goal(first), cost=6.0, priority=2)
    assert (depth(driver, first), priority(driver, first)) == (7.0, 2)


def test_reopened_work_counts_again(driver: Driver) -> None:
    """Rank follows every change of status."""
    first = driver.add()
    then = driver.add(first, cost=5.0)
    driver.apply(Cancel(id=then))
    assert depth(driver, first) == 1.0
    driver.apply(Reopen(id=then))
    assert depth(driver, first) == 6.0


def test_work_that_becomes_a_group_costs_nothing(driver: Driver) -> None:
    """And the reverse."""
    first = driver.add()
    then = driver.add(first, cost=5.0)
    driver.apply(Upsert(id=then, kind=Kind.GOAL))
    assert depth(driver, first) == 1.0
