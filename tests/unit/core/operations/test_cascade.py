"""Roll-up and cascade: what follows from an end."""

from __future__ import annotations

from claimdagd.model import Outcome
from claimdagd.wire import Cancel, Complete
from tests.support.driver import Driver, after_any


def fail(driver: Driver, node: str) -> None:
    driver.complete(node, status=Outcome.FAILED, error="no")


def test_failure_cancels_what_waits_on_it_transitively(driver: Driver) -> None:
    """With the first as the cause of all."""
    first = driver.add()
    second = driver.add(first)
    third = driver.add(second)
    fail(driver, first)
    assert [driver.status(node) for node in (second, third)] == ["cancelled", "cancelled"]
    assert driver.nodes()[third].cause == first


def test_after_any_dependent_proceeds(driver: Driver) -> None:
    """It waits for the end, whatever that is."""
    first = driver.add()
    cleaning = driver.add(after_any(first))
    fail(driver, first)
    assert driver.status(cleaning) == "ready"


def test_failure_cancels_children_that_have_not_started(driver: Driver) -> None:
    """Held ones run on, and the node is completing until then."""
    node = driver.add()
    held, waiting = driver.add(under=node), driver.add(under=node)
    driver.claim(held)
    fail(driver, node)
    assert [driver.status(x) for x in (node, held, waiting)] == ["completing", "claimed", "cancelled"]
    driver.complete(held)
    assert driver.status(node) == "failed"


def test_done_node_with_a_failed_child_is_failed(driver: Driver) -> None:
    """Its own outcome stays done."""
    node = driver.add()
    child = driver.add(under=node)
    fail(driver, child)
    driver.complete(node)
    assert driver.status(node) == "failed"
    assert driver.nodes()[node].outcome is Outcome.DONE


def test_group_is_failed_if_a_child_is(driver: Driver) -> None:
    """When the last child has ended."""
    goal = driver.goal()
    bad, good = driver.add(under=goal), driver.add(under=goal)
    fail(driver, bad)
    assert driver.status(goal) == "running"
    driver.complete(good)
    assert driver.status(goal) == "failed"


def test_group_is_cancelled_if_all_children_are(driver: Driver) -> None:
    """One child that is done makes it done."""
    goal, mixed = driver.goal(), driver.goal()
    driver.apply(Cancel(id=driver.add(under=goal)))
    done, gone = driver.add(under=mixed), driver.add(under=mixed)
    driver.complete(done)
    driver.apply(Cancel(id=gone))
    assert (driver.status(goal), driver.status(mixed)) == ("cancelled", "done")


def test_end_of_a_group_frees_what_waits_on_it(driver: Driver) -> None:
    """Roll-up and readiness are one step."""
    goal = driver.goal()
    child = driver.add(under=goal)
    after = driver.add(goal)
    assert driver.complete(child)["ready"] == [after]


def test_child_that_waits_for_its_parents_result_goes_on(driver: Driver) -> None:
    """The parent's end waits for the child, so the child waits for the result alone."""
    parent = driver.add()
    child = driver.add(parent, under=parent)
    assert driver.complete(parent)["ready"] == [child]
    assert driver.status(parent) == "completing"


def test_grants_stay_until_the_subtree_has_ended(driver: Driver) -> None:
    """A completing node holds its units for what is below it."""
    node = driver.add(needs={"gpu": 1})
    child = driver.add(under=node)
    driver.claim(node)
    driver.complete(node)
    assert driver.used("gpu") == 1
    driver.complete(child)
    assert driver.used("gpu") == 0


def test_undo_takes_a_whole_cascade_back(driver: Driver) -> None:
    """One mutation is whole or absent."""
    first = driver.add()
    driver.add(driver.add(first), under=driver.goal())
    before = driver.nodes()
    driver.apply(Complete(id=first, status=Outcome.FAILED))
    driver.undo()
    assert driver.nodes() == before
