"""Which edges close a cycle of the wait graph."""

from __future__ import annotations

import pytest

from claimdagd.core.cycles import cycle_among
from claimdagd.model import Dep, Kind
from claimdagd.wire import Code, Link, Upsert
from tests.support.driver import Driver


def test_dep_on_a_group_above_is_a_cycle(driver: Driver) -> None:
    """The group ends only after its child."""
    goal = driver.goal()
    child = driver.add(under=goal)
    assert driver.refused(Link(before=goal, after=child)).code is Code.CYCLE


def test_dep_on_work_above_is_none(driver: Driver) -> None:
    """Its own result does not wait for the child."""
    work = driver.add()
    driver.apply(Link(before=work, after=driver.add(under=work)))


def test_dep_of_a_group_on_its_own_member_is_a_cycle(driver: Driver) -> None:
    """The member waits for the group's deps."""
    goal = driver.goal()
    child = driver.add(under=goal)
    assert driver.refused(Link(before=child, after=goal)).code is Code.CYCLE


def test_dep_of_work_on_its_child_is_a_cycle_through_its_result(driver: Driver) -> None:
    """The child waits on the parent's result, which waits on its start."""
    parent = driver.add()
    child = driver.add(parent, under=parent)
    assert driver.refused(Link(before=child, after=parent)).code is Code.CYCLE


def test_move_below_a_group_that_waits_on_it_is_a_cycle(driver: Driver) -> None:
    """A parent closes a cycle as a dep does."""
    node = driver.add()
    goal = driver.goal(node)
    assert driver.refused(Upsert(id=node, parent=goal)).code is Code.CYCLE


def test_work_that_becomes_a_group_closes_a_cycle(driver: Driver) -> None:
    """Its child waited on its result; on the group it would wait for its end."""
    parent = driver.add()
    driver.add(parent, under=parent)
    assert driver.refused(Upsert(id=parent, kind=Kind.GOAL)).code is Code.CYCLE


@pytest.mark.parametrize("length", [2, 3, 10])
def test_path_of_a_long_cycle_is_whole(driver: Driver, length: int) -> None:
    """It names every node once, and the first again."""
    nodes = [driver.add()]
    while len(nodes) < length:
        nodes.append(driver.add(nodes[-1]))
    refusal = driver.refused(Link(before=nodes[-1], after=nodes[0]))
    assert set(refusal.details["path"]) == set(nodes)
    assert len(refusal.details["path"]) == length + 1


def test_new_nodes_without_edges_are_in_no_cycle(driver: Driver) -> None:
    """Nodes that name older ones only cannot be."""
    vertices = [driver.graph.vertices[node] for node in (driver.add(), driver.add())]
    assert cycle_among(vertices) is None


def test_cycle_through_finished_work_is_refused_too(driver: Driver) -> None:
    """It may be reopened."""
    first = driver.add()
    second = driver.add(first)
    driver.complete(second)
    assert driver.refused(Upsert(id=first, deps=(Dep(second),))).code is Code.CYCLE
