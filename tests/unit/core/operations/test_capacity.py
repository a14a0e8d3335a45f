"""The operation capacity."""

from __future__ import annotations

from claimdagd.wire import ClaimNext, Code, SetCapacity, Upsert
from tests.support.driver import Driver


def test_unconfigured_resource_has_one_unit(driver: Driver) -> None:
    """It is made on use."""
    driver.add(needs={"gpu": 1})
    assert driver.refused(Upsert(needs={"gpu": 2})).code is Code.WOULD_NOT_RUN


def test_raised_capacity_lets_waiting_work_run(driver: Driver) -> None:
    """The deferred class is woken."""
    driver.claim(driver.add(needs={"gpu": 1}))
    waiting = driver.add(needs={"gpu": 1})
    driver.refused(ClaimNext(actor="ann"))
    driver.apply(SetCapacity(resource="gpu", units=2))
    assert driver.next("ann") == waiting


def test_lowered_capacity_takes_nothing_from_holders(driver: Driver) -> None:
    """It only stops new grants."""
    driver.apply(SetCapacity(resource="gpu", units=2))
    holders = [driver.add(needs={"gpu": 1}) for _ in range(2)]
    for node in holders:
        driver.claim(node)
    assert driver.apply(SetCapacity(resource="gpu", units=1))["used"] == 2


def test_same_capacity_again_journals_nothing(driver: Driver) -> None:
    """No mutation, and the view all the same."""
    driver.apply(SetCapacity(resource="gpu", units=2))
    assert driver.apply(SetCapacity(resource="gpu", units=2))["capacity"] == 2
    assert not driver.mutation


def test_capacity_of_none_stops_all(driver: Driver) -> None:
    """What needs a unit is refused when it is added."""
    driver.apply(SetCapacity(resource="gpu", units=0))
    assert driver.refused(Upsert(needs={"gpu": 1})).code is Code.WOULD_NOT_RUN


def test_undo_takes_a_capacity_back(driver: Driver) -> None:
    """To no configuration, if there was none."""
    driver.apply(SetCapacity(resource="gpu", units=2))
    driver.undo()
    assert driver.capacities() == {}
