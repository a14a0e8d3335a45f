"""The operation complete."""

from __future__ import annotations

from claimdagd.model import Outcome
from claimdagd.wire import ClaimNext, Code, Complete, Next, Reopen
from tests.support.driver import Driver


def test_complete_names_what_became_ready(driver: Driver) -> None:
    """Work only, in the order in which it changed."""
    first = driver.add()
    then = driver.add(first)
    assert driver.complete(first)["ready"] == [then]


def test_complete_needs_no_claim(driver: Driver) -> None:
    """A person speaks for work done elsewhere."""
    node = driver.add(driver.add())
    driver.complete(node)
    assert driver.status(node) == "done"


def test_complete_with_open_children_is_completing(driver: Driver) -> None:
    """The holder is free; the node ends with its last child."""
    node = driver.add()
    driver.claim(node, "ann")
    child = driver.add(under=node)
    driver.complete(node)
    assert driver.status(node) == "completing"
    assert driver.next("ann") == child
    driver.complete(child)
    assert driver.status(node) == "done"


def test_complete_again_is_answered_as_before(driver: Driver) -> None:
    """The same status at the same generation changes nothing."""
    first = driver.add()
    then = driver.add(first)
    driver.complete(first)
    assert driver.complete(first)["ready"] == [then]
    assert not driver.mutation


def test_complete_again_otherwise_is_refused(driver: Driver) -> None:
    """Terminal is sticky."""
    node = driver.add()
    driver.complete(node)
    assert driver.refused(Complete(id=node, status=Outcome.FAILED)).code is Code.TERMINAL


def test_complete_after_a_reopen_remembers_nothing(driver: Driver) -> None:
    """What an earlier generation made ready is not told again."""
    first = driver.add()
    driver.add(first)
    driver.complete(first)
    driver.apply(Reopen(id=first))
    assert driver.complete(first)["ready"] != []


def test_complete_at_an_old_generation_is_refused(driver: Driver) -> None:
    """In the words of the contract."""
    node = driver.add()
    driver.claim(node)
    refusal = driver.refused(Complete(id=node, gen=1))
    assert (refusal.message, refusal.details["gen"]) == ("complete: gen mismatch", 2)


def test_complete_by_another_actor_is_refused(driver: Driver) -> None:
    """Without an actor nobody is compared."""
    node = driver.add()
    driver.claim(node, "ann")
    assert driver.refused(Complete(id=node, actor="bob")).code is Code.NOT_ASSIGNEE
    driver.complete(node)


def test_error_goes_with_a_failure_only(driver: Driver) -> None:
    """Done work has no error."""
    assert driver.refused(Complete(id=driver.add(), error="no")).code is Code.BAD_REQUEST


def test_group_with_open_children_is_decided_by_them(driver: Driver) -> None:
    """One without children ends by hand."""
    goal, empty = driver.goal(), driver.goal()
    driver.add(under=goal)
    assert driver.refused(Complete(id=goal)).code is Code.BAD_STATUS
    driver.complete(empty)
    assert driver.status(empty) == "done"


def test_next_claims_in_the_same_step(driver: Driver) -> None:
    """One answer holds both; if there is none, its code."""
    first, second = driver.add(), driver.add()
    driver.apply(ClaimNext(actor="ann"))
    assert driver.complete(first, actor="ann", next=Next())["next"]["id"] == second
    assert driver.complete(second, actor="ann", next=Next())["code"] is Code.NOTHING_PENDING
