"""The operations cancel, reopen, archive and unarchive."""

from __future__ import annotations

from claimdagd.core.queries.views import listed
from claimdagd.model import Outcome
from claimdagd.wire import Archive, Cancel, Code, List, Reopen, Unarchive
from tests.support.driver import Driver


def test_cancel_ends_a_whole_subtree(driver: Driver) -> None:
    """Held nodes too, whose holders are fenced."""
    goal = driver.goal()
    held, waiting = driver.add(under=goal), driver.add(under=goal)
    driver.claim(held)
    assert set(driver.apply(Cancel(id=goal))["ids"]) == {goal, held, waiting}
    assert driver.nodes()[held].gen == 3


def test_cancel_ends_what_waits_on_any_of_it(driver: Driver) -> None:
    """The node comes first in the answer."""
    goal = driver.goal()
    child = driver.add(under=goal)
    outside = driver.add(child)
    ids = driver.apply(Cancel(id=goal, error="changed my mind"))["ids"]
    assert ids[0] == goal
    assert driver.status(outside) == "cancelled"
    assert driver.nodes()[goal].error == "changed my mind"


def test_cancel_of_a_finished_node_is_refused(driver: Driver) -> None:
    """Terminal is sticky."""
    node = driver.add()
    driver.complete(node)
    assert driver.refused(Cancel(id=node)).code is Code.TERMINAL


def test_reopen_brings_back_what_a_cascade_cancelled(driver: Driver) -> None:
    """And what was done by itself stays done."""
    first = driver.add()
    then, other = driver.add(first), driver.add()
    driver.complete(other)
    driver.complete(first, status=Outcome.FAILED, error="no")
    driver.apply(Reopen(id=first))
    assert [driver.status(node) for node in (first, then, other)] == ["ready", "todo", "done"]
    assert driver.nodes()[first].error is None


def test_reopen_moves_the_generation(driver: Driver) -> None:
    """So that the last holder is fenced."""
    node = driver.add()
    driver.complete(node)
    assert driver.apply(Reopen(id=node))["gen"] == 2


def test_reopen_opens_terminal_ancestors(driver: Driver) -> None:
    """A group is open again, work completing."""
    goal = driver.goal()
    work = driver.add(under=goal)
    child = driver.add(under=work)
    driver.complete(work)
    driver.complete(child)
    assert driver.status(goal) == "done"
    driver.apply(Reopen(id=child))
    assert [driver.status(node) for node in (goal, work, child)] == ["running", "completing", "ready"]


def test_reopen_lets_ready_dependents_fall_back(driver: Driver) -> None:
    """Claims that others hold are not broken."""
    first = driver.add()
    ready, held = driver.add(first), driver.add(first)
    driver.complete(first)
    driver.claim(held)
    driver.apply(Reopen(id=first))
    assert [driver.status(node) for node in (ready, held)] == ["todo", "claimed"]


def test_reopen_of_unfinished_work_is_refused(driver: Driver) -> None:
    """There is nothing to reopen."""
    assert driver.refused(Reopen(id=driver.add())).code is Code.NOT_TERMINAL


def test_archive_hides_and_unarchive_shows(driver: Driver) -> None:
    """The status stays; each moves the generation."""
    node = driver.add()
    driver.complete(node)
    assert driver.apply(Archive(id=node))["gen"] == 2
    assert listed(driver.graph, List(terminal=True)) == []
    driver.apply(Unarchive(id=node))
    assert [v.record.id for v in listed(driver.graph, List(terminal=True))] == [node]


def test_archive_of_unfinished_work_is_refused(driver: Driver) -> None:
    """Only finished work is hidden."""
    assert driver.refused(Archive(id=driver.add())).code is Code.NOT_TERMINAL
