"""Why a node has its status."""

from __future__ import annotations

from typing import Any

from claimdagd.model import Outcome, Status
from claimdagd.wire import Why
from tests.support.driver import Driver


def why(driver: Driver, node: str) -> Any:
    return driver.apply(Why(id=node))


def test_ready_node_names_its_place(driver: Driver) -> None:
    """How many are taken before it."""
    first, second = driver.add(), driver.add()
    assert why(driver, first)["text"].endswith("can be claimed now; first in line")
    assert why(driver, second)["text"].endswith("1 ready before it in line")


def test_waiting_node_names_what_it_waits_on(driver: Driver) -> None:
    """And who holds that."""
    first = driver.add()
    node = driver.add(first)
    driver.claim(first, "ann")
    (reason,) = why(driver, node)["reasons"]
    assert (reason["type"], reason["id"]) == ("dep", first)
    assert reason["text"].endswith("it is claimed, held by ann")


def test_blocked_node_says_how_to_let_it_go(driver: Driver) -> None:
    """A hold of a group is the group's."""
    node = driver.add(status=Status.BLOCKED)
    inner = driver.add(under=driver.goal(status=Status.BLOCKED))
    assert why(driver, node)["reasons"][0]["type"] == "blocked"
    assert why(driver, inner)["reasons"][0]["type"] == "group"


def test_held_node_names_its_holder(driver: Driver) -> None:
    """With generation and the rest of the lease."""
    node = driver.add()
    driver.claim(node, "ann")
    (reason,) = why(driver, node)["reasons"]
    assert (reason["type"], reason["assignee"], reason["gen"]) == ("holder", "ann", 2)


def test_completing_node_names_its_open_children(driver: Driver) -> None:
    """They are what it waits for."""
    node = driver.add()
    child = driver.add(under=node)
    driver.complete(node)
    (reason,) = why(driver, node)["reasons"]
    assert (reason["type"], reason["id"]) == ("group", child)


def test_cancelled_node_names_its_cause(driver: Driver) -> None:
    """Reopening that brings it back."""
    first = driver.add()
    node = driver.add(first)
    driver.complete(first, status=Outcome.FAILED, error="no")
    assert why(driver, node)["reasons"][0]["id"] == first
    assert why(driver, first)["text"].endswith("is failed: no")


def test_node_without_units_names_their_holders(driver: Driver) -> None:
    """And how many are free."""
    holder, node = driver.add(needs={"gpu": 1}), driver.add(needs={"gpu": 1})
    driver.claim(holder)
    (reason,) = why(driver, node)["reasons"]
    assert (reason["type"], reason["resource"], reason["holders"]) == ("resource", "gpu", [holder])


def test_borrower_names_who_uses_the_loan(driver: Driver) -> None:
    """One branch at a time."""
    parent = driver.add(needs={"gpu": 1})
    driver.claim(parent)
    first, second = (driver.add(under=parent, needs={"gpu": 1}) for _ in range(2))
    driver.claim(first)
    (reason,) = why(driver, second)["reasons"]
    assert reason["holders"] == [first]


def test_empty_group_says_how_it_ends(driver: Driver) -> None:
    """By hand."""
    assert why(driver, driver.goal())["text"].endswith("it has no children; complete ends it")
