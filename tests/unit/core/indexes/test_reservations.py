"""Reservations: a node that was bypassed too often has units kept for it."""

from __future__ import annotations

from typing import Any

import pytest

from claimdagd.wire import ClaimNext, Code, SetCapacity
from tests.support.driver import Driver


@pytest.fixture
def driver() -> Driver:
    """Two units of gpu, and nodes that starve after two bypasses."""
    driver = Driver(starvation=2)
    driver.apply(SetCapacity(resource="gpu", units=2))
    return driver


def bypass(driver: Driver, times: int) -> tuple[str, str]:
    """A node that needs both units, bypassed so often, and a node that holds one of them."""
    holder = driver.add(needs={"gpu": 1}, priority=50)
    driver.claim(holder)
    large = driver.add(needs={"gpu": 2}, priority=9)
    for _ in range(times):
        small = driver.add(needs={"gpu": 1})
        assert driver.next() == small
        driver.complete(small)
    return large, holder


def test_bypasses_are_counted(driver: Driver) -> None:
    """One for each claim of units that the node ahead waits for."""
    large, _ = bypass(driver, 1)
    assert driver.passes(large) == 1
    driver.check()


def test_units_are_kept_for_a_starved_node(driver: Driver) -> None:
    """A free unit is not free for the others."""
    bypass(driver, 2)
    driver.add(needs={"gpu": 1})
    assert driver.refused(ClaimNext(actor="late")).code is Code.NOTHING_RUNNABLE


def test_starved_node_runs_when_the_units_are_back(driver: Driver) -> None:
    """And is starved no longer."""
    large, holder = bypass(driver, 2)
    driver.add(needs={"gpu": 1})
    driver.complete(holder)
    assert driver.next() == large
    assert driver.graph.ready_queue.reservations.starved == {}
    driver.check()


def test_nothing_is_kept_while_no_claim_could_bring_units_back(driver: Driver) -> None:
    """No live claim holds what the starved node lacks."""
    large, holder = bypass(driver, 2)
    driver.complete(holder)
    driver.apply(SetCapacity(resource="gpu", units=1))
    small = driver.add(needs={"gpu": 1})
    assert driver.next() == small
    assert driver.status(large) == "ready"


def test_undo_restores_the_count(driver: Driver) -> None:
    """With the place among the starved."""
    large, _ = bypass(driver, 1)
    small = driver.add(needs={"gpu": 1})
    assert driver.next() == small
    assert list(driver.graph.ready_queue.reservations.starved) == [driver.graph.vertices[large]]
    driver.undo()
    assert driver.passes(large) == 1
    assert driver.graph.ready_queue.reservations.starved == {}
    driver.check()


def test_claim_resets_the_count(driver: Driver) -> None:
    """A node that runs was not passed over."""
    large, holder = bypass(driver, 1)
    driver.complete(holder)
    assert driver.next() == large
    assert driver.passes(large) == 0


def test_work_below_held_units_is_exempt(driver: Driver) -> None:
    """It must go on, or those units never come back."""
    parent = driver.add(needs={"gpu": 1, "net": 1}, priority=80)
    driver.claim(parent)
    child = driver.add(under=parent, needs={"gpu": 1})
    bypass_child: dict[str, Any] = driver.claim(child)
    assert bypass_child["id"] == child
    assert driver.grants(child) == [("gpu", 1, parent)]
    driver.check()
