"""Several nodes in one request (law 10.6, 10.7)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from claimdagd.core.apply import Result
from claimdagd.model import Outcome
from claimdagd.wire import Archive, Cancel, Code, Complete, Next, Release, Renew, Reopen, Request, Running, Unarchive
from tests.support.driver import Driver, after_any

KINDS = (Renew, Running, Release, Reopen, Archive, Unarchive, Complete, Cancel)


def results(driver: Driver, request: Request) -> list[Result]:
    """Do a request for several nodes, with every invariant checked."""
    found = driver.perform(request).many
    driver.check()
    assert found is not None
    return found


def statuses(driver: Driver, *ids: str) -> list[str]:
    return [driver.status(node_id) for node_id in ids]


@pytest.mark.parametrize("kind", KINDS)
def test_neither_id_nor_ids_is_refused_by_field(driver: Driver, kind: Any) -> None:
    """Every request of the kind says which field is missing."""
    refusal = driver.refused_only(kind())
    assert (refusal.code, refusal.details["field"]) == (Code.BAD_REQUEST, "id")


@pytest.mark.parametrize("kind", KINDS)
def test_both_id_and_ids_are_refused_by_field(driver: Driver, kind: Any) -> None:
    """One way of naming nodes excludes the other."""
    node = driver.add()
    refusal = driver.refused_only(kind(id=node, ids=(node,)))
    assert (refusal.code, refusal.details["field"]) == (Code.BAD_REQUEST, "ids")


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (Reopen(id="t3st-1", failed=True), "failed"),
        (Reopen(ids=("t3st-1",), failed=True), "failed"),
        (Reopen(under="t3st-1"), "under"),
        (Reopen(id="t3st-1", under="t3st-1"), "under"),
        (Cancel(id="t3st-1", under="t3st-1"), "under"),
        (Cancel(ids=("t3st-1",), under="t3st-1"), "under"),
        (Complete(ids=("t3st-1",), next=Next(actor="ann")), "next"),
    ],
)
def test_fields_that_exclude_each_other_are_refused(driver: Driver, request_: Request, field: str) -> None:
    """Each is told by its name."""
    driver.add()
    refusal = driver.refused_only(request_)
    assert (refusal.code, refusal.details["field"]) == (Code.BAD_REQUEST, field)


def test_one_bad_id_among_three_changes_nothing(driver: Driver) -> None:
    """Every fault is told, with its place and its own code."""
    good, ended = driver.add(), driver.add()
    driver.complete(ended)
    refusal = driver.refused_only(Cancel(ids=(good, "t3st-99", ended)))
    assert refusal.code is Code.BAD_REQUEST
    assert [(fault["index"], fault["id"], fault["code"]) for fault in refusal.details["faults"]] == [
        (1, "t3st-99", Code.NOT_FOUND),
        (2, ended, Code.TERMINAL),
    ]
    assert driver.status(good) == "ready"


def test_faults_of_one_code_give_it_to_the_refusal(driver: Driver) -> None:
    """So that a caller who knows the code of one knows that of many."""
    refusal = driver.refused_only(Archive(ids=(driver.add(), driver.add())))
    assert refusal.code is Code.NOT_TERMINAL
    assert len(refusal.details["faults"]) == 2


def test_refused_renewal_of_several_moves_no_lease(driver: Driver) -> None:
    """A lease is no part of the mutation, and is put back all the same."""
    held, free = driver.add(), driver.add()
    driver.claim(held, "ann")
    before = driver.graph.vertices[held].lease
    driver.now += 5
    driver.refused(Renew(ids=(held, free), lease=7.0))
    assert driver.graph.vertices[held].lease == before
    driver.refused(Running(ids=(held, held, free), lease=7.0))
    assert driver.graph.vertices[held].lease == before
    driver.check()


def test_renewals_and_releases_of_several_are_done_in_order(driver: Driver) -> None:
    """A renewal is no mutation; a release of two is one."""
    first, second = driver.add(), driver.add()
    driver.claim(first, "ann")
    driver.claim(second, "bob")
    found = results(driver, Renew(ids=(second, first), lease=60.0))
    assert [each.v.record.id for each in found if each.v] == [second, first]
    assert not driver.mutation
    results(driver, Running(ids=(first, second)))
    assert statuses(driver, first, second) == ["running", "running"]
    results(driver, Release(ids=(first, second)))
    assert statuses(driver, first, second) == ["ready", "ready"]
    driver.undo()
    driver.check()
    assert statuses(driver, first, second) == ["running", "running"]


def test_cancel_of_what_the_same_request_cancelled_is_no_fault(driver: Driver) -> None:
    """A dependent, a child, or the same id twice."""
    first = driver.add()
    then = driver.add(first)
    child = driver.add(under=first)
    found = results(driver, Cancel(ids=(first, then, child, first)))
    assert [each.ids for each in found] == [[first, child, then], [], [], []]
    before = driver.nodes()
    driver.undo()
    driver.check()
    assert statuses(driver, first, then) == ["ready", "todo"]
    results(driver, Cancel(ids=(first, then, child, first)))
    assert driver.nodes() == before


def test_completed_several_each_say_what_they_made_ready(driver: Driver) -> None:
    """Not what the same request has ended meanwhile, and nothing twice."""
    first, second = driver.add(), driver.add()
    one, both = driver.add(first), driver.add(first, second)
    found = results(driver, Complete(ids=(first, second)))
    assert [list(each.ready) for each in found] == [[one], [both]]
    again = results(driver, Complete(ids=(first, second)))
    assert [list(each.ready) for each in again] == [[one], [both]]
    assert not driver.mutation


def test_completed_chain_names_none_of_its_own_as_ready(driver: Driver) -> None:
    """What was ready only in between is not."""
    first = driver.add()
    then = driver.add(first)
    last = driver.add(then)
    found = results(driver, Complete(ids=(first, then)))
    assert [list(each.ready) for each in found] == [[], [last]]


def test_group_is_completed_after_its_children(driver: Driver) -> None:
    """In whatever order they are named."""
    goal = driver.goal()
    child = driver.add(under=goal)
    results(driver, Complete(ids=(goal, child)))
    assert statuses(driver, goal, child) == ["done", "done"]


def test_failure_of_a_chain_is_no_fault(driver: Driver) -> None:
    """The dependent is cancelled by the first failure, and told as it is."""
    first = driver.add()
    then = driver.add(first)
    found = results(driver, Complete(ids=(first, then), status=Outcome.FAILED))
    assert [each.v.record.status.value for each in found if each.v] == ["failed", "cancelled"]


def test_result_fixed_before_the_request_is_a_fault(driver: Driver) -> None:
    """Only what this very request did excuses it."""
    node = driver.add()
    driver.complete(node)
    refusal = driver.refused_only(Complete(ids=(driver.add(), node), status=Outcome.FAILED))
    assert refusal.code is Code.TERMINAL


def test_reopen_failed_brings_back_all_with_what_they_cancelled(driver: Driver) -> None:
    """A node that two failures hold back comes back too, and done work stays."""
    done, first, second = driver.add(), driver.add(), driver.add()
    both = driver.add(first, second)
    later = driver.add(after_any(first))
    driver.complete(done)
    for node in (first, second):
        driver.complete(node, status=Outcome.FAILED)
    given_up = driver.add()
    driver.complete(given_up, status=Outcome.CANCELLED)
    found = results(driver, Reopen(failed=True))
    assert [each.v.record.id for each in found if each.v] == [first, second]
    assert statuses(driver, done, first, second, both, later) == ["done", "ready", "ready", "todo", "todo"]
    assert driver.status(given_up) == "cancelled"
    before = driver.nodes()
    assert driver.reloaded().nodes() == before
    driver.undo()
    driver.check()
    assert statuses(driver, first, second, both) == ["failed", "failed", "cancelled"]


def test_reopen_failed_keeps_to_its_scope(driver: Driver) -> None:
    """A group that failed because of a child comes back with that child; a parent's own failure comes before it."""
    goal, other = driver.goal(), driver.add()
    parent = driver.add(under=goal)
    child = driver.add(under=parent)
    driver.claim(child, "ann")
    for node in (child, parent, other):
        driver.complete(node, status=Outcome.FAILED)
    found = results(driver, Reopen(failed=True, under=goal))
    assert [each.v.record.id for each in found if each.v] == [parent, child]
    assert statuses(driver, goal, parent, child, other) == ["ready", "ready", "ready", "failed"]
    assert driver.graph.vertices[parent].record.outcome is None


def test_reopen_failed_where_nothing_failed_changes_nothing(driver: Driver) -> None:
    """It is asked of a state, not of a node."""
    driver.add()
    assert results(driver, Reopen(failed=True)) == []
    assert not driver.mutation


def test_cancel_under_ends_the_subtree_and_may_find_nothing(driver: Driver) -> None:
    """As the cancel of its root, except that it may be asked again."""
    goal = driver.goal()
    child, outside = driver.add(under=goal), driver.add()
    assert [each.ids for each in results(driver, Cancel(under=goal))] == [[goal, child]]
    assert results(driver, Cancel(under=goal)) == []
    assert driver.status(outside) == "ready"
    assert driver.refused_only(Cancel(under="t3st-99")).code is Code.NOT_FOUND


def test_archive_and_unarchive_of_several(driver: Driver) -> None:
    """Each at its next generation."""
    ids = (driver.add(), driver.add())
    results(driver, Complete(ids=ids))
    found = results(driver, Archive(ids=ids))
    assert [each.v.record.gen for each in found if each.v] == [2, 2]
    results(driver, Unarchive(ids=ids))
    assert not any(driver.graph.vertices[node_id].record.archived for node_id in ids)


def test_id_left_out_is_no_text() -> None:
    """So it cannot be taken for an id that was given."""
    assert Cancel(ids=("a",)).id is UNSET  # type: ignore[comparison-overlap]


def test_group_that_failed_by_hand_is_reopened(driver: Driver) -> None:
    """It has no child to come back with."""
    goal = driver.goal()
    driver.complete(goal, status=Outcome.FAILED)
    assert [each.v.record.id for each in results(driver, Reopen(failed=True)) if each.v] == [goal]
    assert driver.status(goal) != "failed"
