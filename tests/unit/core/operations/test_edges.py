"""The operations link and unlink."""

from __future__ import annotations

from claimdagd.model import Dep, Outcome, When
from claimdagd.wire import Code, Link, Unlink
from tests.support.driver import Driver


def test_link_lets_after_wait(driver: Driver) -> None:
    """A ready node that gets an unmet dep is todo."""
    before, after = driver.add(), driver.add()
    driver.apply(Link(before=before, after=after))
    assert driver.status(after) == "todo"


def test_unlink_lets_after_go(driver: Driver) -> None:
    """Without its last unmet dep it is ready."""
    before = driver.add()
    after = driver.add(before)
    driver.apply(Unlink(before=before, after=after))
    assert driver.status(after) == "ready"


def test_link_again_changes_when(driver: Driver) -> None:
    """There is one edge between two nodes; it takes the new `when`."""
    before = driver.add()
    after = driver.add(before)
    driver.apply(Link(before=before, after=after, when=When.AFTER_ANY))
    assert driver.nodes()[after].deps == (Dep(before, When.AFTER_ANY),)


def test_link_of_an_edge_that_is_there_changes_nothing(driver: Driver) -> None:
    """The same edge again is no mutation."""
    before = driver.add()
    after = driver.add(before)
    driver.apply(Link(before=before, after=after))
    assert not driver.mutation


def test_link_that_closes_a_cycle_is_refused_with_its_path(driver: Driver) -> None:
    """Each node of the path waits on the one before it."""
    first = driver.add()
    second = driver.add(first)
    refusal = driver.refused(Link(before=second, after=first))
    assert refusal.code is Code.CYCLE
    assert refusal.details["path"][0] == refusal.details["path"][-1]


def test_link_to_itself_is_refused(driver: Driver) -> None:
    """No node waits on itself."""
    node = driver.add()
    assert driver.refused(Link(before=node, after=node)).code is Code.CYCLE


def test_link_onto_failed_work_cancels(driver: Driver) -> None:
    """An edge is judged when it is added."""
    failed, node = driver.add(), driver.add()
    driver.complete(failed, status=Outcome.FAILED)
    driver.apply(Link(before=failed, after=node))
    assert driver.status(node) == "cancelled"
    assert driver.nodes()[node].cause == failed


def test_link_onto_done_work_is_met(driver: Driver) -> None:
    """It changes no status."""
    done, node = driver.add(), driver.add()
    driver.complete(done)
    driver.apply(Link(before=done, after=node))
    assert driver.status(node) == "ready"


def test_unlink_of_an_edge_that_is_not_there_is_refused(driver: Driver) -> None:
    """The refusal names both ends."""
    before, after = driver.add(), driver.add()
    assert driver.refused(Unlink(before=before, after=after)).code is Code.NOT_FOUND


def test_unlink_by_when_takes_only_that_edge(driver: Driver) -> None:
    """An after_ok edge is not an after_any edge."""
    before = driver.add()
    after = driver.add(before)
    assert driver.refused(Unlink(before=before, after=after, when=When.AFTER_ANY)).code is Code.NOT_FOUND


def test_link_of_a_held_node_is_refused(driver: Driver) -> None:
    """Deps of a claim do not move under it."""
    before, after = driver.add(), driver.add()
    driver.claim(after)
    assert driver.refused(Link(before=before, after=after)).code is Code.BAD_STATUS
