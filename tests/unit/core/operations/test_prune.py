"""The cap on nodes."""

from __future__ import annotations

import pytest

from claimdagd.model import Outcome
from claimdagd.wire import Archive, Code, Submit, SubmitNode, Upsert
from tests.support.driver import Driver, after_any


@pytest.fixture
def driver() -> Driver:
    """A graph of at most three nodes."""
    return Driver(max_nodes=3)


def done(driver: Driver) -> str:
    node = driver.add()
    driver.now += 1
    driver.complete(node)
    return node


def test_oldest_finished_node_gives_way(driver: Driver) -> None:
    """One for one."""
    first, second, _third = done(driver), done(driver), driver.add()
    driver.add()
    assert first not in driver.nodes()
    assert second in driver.nodes()


def test_archived_node_gives_way_first(driver: Driver) -> None:
    """Though it finished later."""
    old, archived, _third = done(driver), done(driver), driver.add()
    driver.apply(Archive(id=archived))
    driver.add()
    assert old in driver.nodes()
    assert archived not in driver.nodes()


def test_full_of_live_work_is_refused(driver: Driver) -> None:
    """Nothing is changed."""
    for _ in range(3):
        driver.add()
    assert driver.refused(Upsert()).code is Code.FULL


def test_node_that_live_work_waits_on_stays(driver: Driver) -> None:
    """A failed one, too, as long as something may look at it."""
    failed = driver.add()
    driver.add(after_any(failed))
    driver.add()
    driver.complete(failed, status=Outcome.FAILED)
    assert driver.refused(Upsert()).code is Code.FULL


def test_subtree_goes_whole(driver: Driver) -> None:
    """The parent with its child."""
    goal = driver.goal()
    child = driver.add(under=goal)
    driver.complete(child)
    driver.add()
    driver.add()
    assert goal not in driver.nodes()
    assert child not in driver.nodes()


def test_finished_child_of_an_open_group_stays(driver: Driver) -> None:
    """Whole finished subtrees go, never a part."""
    goal = driver.goal()
    child = driver.add(under=goal)
    driver.add(under=goal)
    driver.complete(child)
    assert driver.refused(Upsert()).code is Code.FULL


def test_undo_brings_pruned_nodes_back(driver: Driver) -> None:
    """With their deps in both directions."""
    first = done(driver)
    second = driver.add(first)
    driver.complete(second)
    driver.add()
    before = driver.nodes()
    driver.add()
    driver.undo()
    assert driver.nodes() == before
    driver.check()


def test_submission_larger_than_the_cap_is_refused(driver: Driver) -> None:
    """However much could be pruned."""
    done(driver)
    assert driver.refused(Submit(nodes=tuple(SubmitNode() for _ in range(4)))).code is Code.FULL
