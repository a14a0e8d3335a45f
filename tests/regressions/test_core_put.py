"""A wrong call of the choke point is an error at once: nothing may enter the graph that the indexes do not follow."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from claimdagd.core import invariants
from claimdagd.core.graph import SHAPE
from claimdagd.model import Dep, Kind, Node, Role
from tests.support.driver import Driver


@pytest.fixture
def driver() -> Driver:
    """A graph with a goal, `t3st-1`, a node outside of it, `t3st-2`, and one inside, `t3st-3`."""
    driver = Driver()
    goal = driver.goal()
    driver.add()
    driver.add(under=goal)
    return driver


CHANGED: dict[str, Any] = {
    "parent": "t3st-1",
    "deps": (Dep("t3st-3"),),
    "needs": {"gpu": 1},
    "kind": Kind.GOAL,
    "role": Role.VERIFIER,
    "cost": 2.0,
    "priority": 5,
}


@pytest.mark.parametrize("field", SHAPE)
def test_put_refuses_a_record_of_another_shape(driver: Driver, field: str) -> None:
    """Each of the fields that only `reshape` follows is refused by name, and nothing has changed."""
    v, before = driver.graph.vertices["t3st-2"], driver.nodes()
    with pytest.raises(ValueError, match=f"the {field} of t3st-2 differs"):
        driver.graph.put(v, replace(v.record, **{field: CHANGED[field]}))
    assert driver.nodes() == before
    driver.check()


@pytest.mark.parametrize("field", SHAPE)
def test_reshape_follows_a_record_of_another_shape(driver: Driver, field: str) -> None:
    """What `put` refuses, `reshape` does, and every index is right after it."""
    graph = driver.graph
    v = graph.vertices["t3st-2"]
    graph.reshape(v, replace(v.record, **{field: CHANGED[field]}))
    graph.finish()
    driver.check()


def test_put_takes_an_equal_shape_that_is_another_object(driver: Driver) -> None:
    """A record that was decoded anew shares nothing with the present one, and is the same all the same."""
    v = driver.graph.vertices["t3st-2"]
    driver.graph.put(v, replace(v.record, needs={}, deps=(), summary="again"))
    driver.graph.finish()
    driver.check()


@pytest.mark.parametrize("method", ["put", "reshape"])
def test_a_record_of_another_node_is_refused(driver: Driver, method: str) -> None:
    """One node's record is never filed under another's vertex."""
    vertices = driver.graph.vertices
    with pytest.raises(ValueError, match="in the place of"):
        getattr(driver.graph, method)(vertices["t3st-2"], vertices["t3st-3"].record)
    driver.check()


@pytest.mark.parametrize("method", ["put", "reshape"])
def test_a_node_that_was_pruned_is_not_put_again(driver: Driver, method: str) -> None:
    """A vertex that has left the graph takes no record, which would be filed nowhere."""
    graph = driver.graph
    v = graph.vertices["t3st-2"]
    graph.drop(v)
    with pytest.raises(ValueError, match="in the place of"):
        getattr(graph, method)(v, v.record)
    graph.finish()
    driver.check()


def test_an_id_is_added_once(driver: Driver) -> None:
    """A second node of the same id would leave the first in the indexes for ever."""
    with pytest.raises(ValueError, match="in the graph already"):
        driver.graph.add(Node(id="t3st-2"))
    driver.check()


def test_a_parent_is_not_dropped_before_its_children(driver: Driver) -> None:
    """A node without a parent that it names could not be loaded again."""
    graph = driver.graph
    with pytest.raises(ValueError, match="has children"):
        graph.drop(graph.vertices["t3st-1"])
    invariants.check(graph)
