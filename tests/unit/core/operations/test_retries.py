"""Retries of a failed node, and a time before which a node does not begin."""

from __future__ import annotations

from typing import Any

from claimdagd.model import Outcome, Status
from claimdagd.wire import Cancel, Claim, ClaimNext, Code, Complete, Reopen, Upsert, Why
from tests.support.driver import Driver


def fail(driver: Driver, node: str, **fields: Any) -> Any:
    return driver.complete(node, status=Outcome.FAILED, error="no", **fields)


def pass_time(driver: Driver, seconds: float) -> None:
    driver.now += seconds
    driver.begin_due()


def test_failure_with_retries_left_is_not_final(driver: Driver) -> None:
    """The node goes back to todo at the next generation, and nothing is cancelled."""
    node = driver.add(retries=1)
    then = driver.add(node)
    driver.claim(node)
    assert fail(driver, node)["node"]["status"] == "todo"
    record = driver.nodes()[node]
    assert (record.gen, record.failures, record.last_error, record.error) == (3, 1, "no", None)
    assert driver.status(then) == "todo"


def test_delay_doubles_with_each_failure(driver: Driver) -> None:
    """From the first delay, to an hour at most."""
    node = driver.add(retries=9, retry_delay=100.0)
    delays = []
    for _ in range(8):
        fail(driver, node)
        begins = driver.nodes()[node].not_before
        assert isinstance(begins, float)
        delays.append(begins - driver.wall)
        pass_time(driver, delays[-1])
    assert delays == [100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0, 3600.0, 3600.0]


def test_node_is_ready_again_after_the_delay(driver: Driver) -> None:
    """Not before."""
    node = driver.add(retries=1, retry_delay=10.0)
    fail(driver, node)
    pass_time(driver, 9.0)
    assert driver.status(node) == "todo"
    pass_time(driver, 1.0)
    assert driver.next() == node


def test_last_try_fails_for_good_and_cascades(driver: Driver) -> None:
    """After as many failures as there are retries."""
    node = driver.add(retries=1)
    then = driver.add(node)
    fail(driver, node)
    pass_time(driver, 30.0)
    fail(driver, node)
    assert [driver.status(x) for x in (node, then)] == ["failed", "cancelled"]


def test_final_fails_at_once(driver: Driver) -> None:
    """It goes with a failure alone."""
    node = driver.add(retries=5)
    assert driver.refused(Complete(id=node, final=True)).code is Code.BAD_REQUEST
    assert fail(driver, node, final=True)["node"]["status"] == "failed"


def test_retry_returns_units_as_a_release_does(driver: Driver) -> None:
    """Those of an idle group too."""
    goal = driver.goal(needs={"gpu": 1})
    node = driver.add(under=goal, retries=1)
    driver.claim(node)
    fail(driver, node)
    assert driver.used("gpu") == 0


def test_expired_lease_is_no_failure(driver: Driver) -> None:
    """`max_attempts` bounds those."""
    node = driver.add(retries=5, max_attempts=1)
    driver.apply(Claim(id=node, actor="ann", lease=60))
    driver.now = 60
    driver.expire()
    assert driver.status(node) == "failed"


def test_reopen_gives_all_retries_back(driver: Driver) -> None:
    """The failures count from zero."""
    node = driver.add(retries=1, retry_delay=0.0)
    fail(driver, node)
    pass_time(driver, 1.0)
    fail(driver, node)
    driver.apply(Reopen(id=node))
    assert fail(driver, node)["node"]["status"] == "ready"


def test_blocked_node_that_is_retried_stays_blocked(driver: Driver) -> None:
    """A hold is sticky."""
    node = driver.add(retries=1, status=Status.BLOCKED)
    assert fail(driver, node)["node"]["status"] == "blocked"


def test_node_that_begins_later_is_todo_and_why_says_so(driver: Driver) -> None:
    """With the time, and what the last try ended with."""
    node = driver.add(not_before=driver.wall + 60.0)
    view = driver.view(node)
    assert (view["status"], view["waiting_on"]["time"]) == ("todo", driver.wall + 60.0)
    (reason,) = driver.apply(Why(id=node))["reasons"]
    assert (reason["type"], reason["text"]) == ("time", "is to begin in 60 s")


def test_claim_before_the_time_is_refused(driver: Driver) -> None:
    """With the time."""
    node = driver.add(not_before=driver.wall + 60.0)
    refusal = driver.refused(Claim(id=node, actor="ann"))
    assert (refusal.code, refusal.details["not_before"]) == (Code.NOT_CLAIMABLE, driver.wall + 60.0)


def test_nothing_runnable_says_when_the_next_begins(driver: Driver) -> None:
    """It is not stuck: time alone helps."""
    driver.add(not_before=driver.wall + 60.0)
    details = driver.refused(ClaimNext(actor="ann")).details
    assert (details["later"], details["next_begin"], details["deps"], details["stuck"]) == (1, 60.0, 0, False)


def test_group_that_begins_later_gates_its_members(driver: Driver) -> None:
    """Until its time."""
    goal = driver.goal(not_before=driver.wall + 60.0)
    node = driver.add(under=goal)
    assert driver.status(node) == "todo"
    pass_time(driver, 60.0)
    assert driver.status(node) == "ready"


def test_time_that_is_taken_away_lets_the_node_begin(driver: Driver) -> None:
    """Null clears it."""
    node = driver.add(not_before=driver.wall + 60.0)
    driver.apply(Upsert(id=node, not_before=None))
    assert driver.status(node) == "ready"


def test_cancelled_node_waits_for_no_time(driver: Driver) -> None:
    """It is forgotten."""
    driver.apply(Cancel(id=driver.add(not_before=driver.wall + 60.0)))
    assert driver.graph.start_times.next_due() is None


def test_fields_are_written_only_if_given(driver: Driver) -> None:
    """A node without them reads as before."""
    assert "retries" not in driver.view(driver.add())


def test_undo_of_a_retry_brings_the_claim_back(driver: Driver) -> None:
    """With its generation."""
    node = driver.add(retries=1)
    driver.claim(node)
    before = driver.nodes()
    fail(driver, node)
    driver.undo()
    assert driver.nodes() == before
