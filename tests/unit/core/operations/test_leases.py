"""The operations renew, running, release and reclaim, and the end of a lease."""

from __future__ import annotations

import pytest

from claimdagd.wire import Claim, Code, Reclaim, Release, Renew, Running
from tests.support.driver import Driver


@pytest.fixture
def held(driver: Driver) -> str:
    """A node that ann holds at generation 2, with a lease of 60 s."""
    node = driver.add()
    driver.apply(Claim(id=node, actor="ann", lease=60))
    return node


def test_renew_moves_the_deadline_and_leaves_the_generation(driver: Driver, held: str) -> None:
    """The lease runs anew from now."""
    driver.now = 50
    renewed = driver.apply(Renew(id=held, gen=2))
    assert (renewed["gen"], renewed["expires_in"]) == (2, 60)


def test_renew_is_no_mutation(driver: Driver, held: str) -> None:
    """A renewal is not journaled."""
    driver.apply(Renew(id=held, gen=2))
    assert not driver.mutation


def test_running_is_noted_once(driver: Driver, held: str) -> None:
    """The first time it is a mutation, then a renewal."""
    driver.apply(Running(id=held))
    assert driver.status(held) == "running"
    driver.apply(Running(id=held))
    assert not driver.mutation


def test_release_hands_the_node_back(driver: Driver, held: str) -> None:
    """Ready, without an assignee, at the next generation."""
    assert driver.apply(Release(id=held))["gen"] == 3
    assert driver.nodes()[held].assignee is None
    assert driver.status(held) == "ready"


def test_release_by_another_actor_is_refused(driver: Driver, held: str) -> None:
    """Only the holder speaks for a held node."""
    assert driver.refused(Release(id=held, actor="bob")).code is Code.NOT_ASSIGNEE


def test_release_of_a_node_that_is_not_held_is_refused(driver: Driver) -> None:
    """There is nothing to give back."""
    assert driver.refused(Release(id=driver.add())).code is Code.BAD_STATUS


def test_release_returns_the_units_of_an_idle_group(driver: Driver) -> None:
    """No node under it is active, so the group holds none."""
    goal = driver.goal(needs={"gpu": 1})
    node = driver.add(under=goal)
    driver.claim(node)
    driver.apply(Release(id=node))
    assert driver.grants(goal) == []


def test_lease_that_ran_out_is_handed_back(driver: Driver, held: str) -> None:
    """At its deadline, not before."""
    driver.now = 59
    assert driver.expire() == []
    driver.now = 60
    assert driver.expire() == [held]
    assert driver.nodes()[held].gen == 3


def test_last_allowed_expiry_fails_the_node(driver: Driver) -> None:
    """`max_attempts` bounds how often a lease may run out."""
    node = driver.add(max_attempts=1)
    driver.apply(Claim(id=node, actor="ann", lease=60))
    driver.now = 60
    driver.expire()
    assert driver.nodes()[node].error == "lease expired on attempt 1 of 1"


def test_reclaim_takes_the_quiet_ones(driver: Driver, held: str) -> None:
    """Quiet for so long or more; without a length, past their own lease."""
    driver.now = 30
    assert driver.apply(Reclaim())["ids"] == []
    assert driver.apply(Reclaim(lease=31))["ids"] == []
    assert driver.apply(Reclaim(lease=30))["ids"] == [held]
