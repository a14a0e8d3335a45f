"""The operations pause and resume (law 10.4, 10.5)."""

from __future__ import annotations

import pytest

from claimdagd.core.queries.explain import why
from claimdagd.model import Kind
from claimdagd.wire import Claim, ClaimNext, Code, Complete, Next, Pause, Ready, Resume, Submit, SubmitNode, Upsert
from tests.support.driver import Driver


def goal_with(driver: Driver, count: int = 2) -> tuple[str, list[str]]:
    """A goal, and work below it."""
    goal = driver.add(kind=Kind.GOAL)
    return goal, [driver.add(under=goal) for _ in range(count)]


def test_nothing_is_claimed_of_a_paused_graph(driver: Driver) -> None:
    """By no op, and the refusals say so and are not stuck."""
    node = driver.add()
    assert driver.apply(Pause()) == {"paused": [None]}
    nothing = driver.refused(ClaimNext(actor="ann"))
    assert (nothing.code, nothing.details["paused"], nothing.details["stuck"]) == (Code.NOTHING_RUNNABLE, 1, False)
    assert "1 paused" in nothing.message
    named = driver.refused(Claim(id=node, actor="ann"))
    assert (named.code, named.details["paused"]) == (Code.NOT_CLAIMABLE, None)
    assert "resume" in named.message
    assert driver.apply(Resume()) == {"paused": []}
    assert driver.next("ann") == node


def test_what_is_held_goes_on_and_claims_no_next(driver: Driver) -> None:
    """A complete is done; its next is refused with the reason."""
    held = driver.add()
    driver.claim(held, "ann")
    driver.add()
    driver.apply(Pause())
    done = driver.apply(Complete(id=held, actor="ann", next=Next()))
    assert done["node"]["status"] == "done"
    assert (done["next"], done["code"]) == (None, "nothing_runnable")


def test_pause_of_a_subtree_holds_back_that_alone(driver: Driver) -> None:
    """Also what becomes ready, or is added, later."""
    goal, (first, second) = goal_with(driver)
    other = driver.add()
    driver.claim(first, "ann")
    assert driver.apply(Pause(under=goal)) == {"paused": [goal]}
    late = driver.add(under=second)
    assert driver.next("ben") == other
    for node in (second, late):
        assert driver.refused(Claim(id=node, actor="cat")).details["paused"] == goal
    nothing = driver.refused(ClaimNext(actor="cat"))
    assert (nothing.details["paused"], nothing.details["leases"]) == (2, 2)
    driver.apply(Resume(under=goal))
    assert {driver.next("cat"), driver.next("dan")} == {second, late}


def test_pauses_nest_and_each_resume_lifts_its_own(driver: Driver) -> None:
    """The one below stands when the one above is lifted."""
    goal, (node,) = goal_with(driver, 1)
    for under in (node, None, goal):
        driver.apply(Pause(under=under))
    assert driver.apply(Resume()) == {"paused": [node, goal]}
    assert driver.apply(Resume(under=goal)) == {"paused": [node]}
    assert driver.refused(ClaimNext(actor="ann")).details["paused"] == 1
    driver.apply(Resume(under=node))
    assert driver.next("ann") == node


def test_same_pause_again_journals_nothing(driver: Driver) -> None:
    """Nor does a resume of what is not paused."""
    driver.apply(Pause())
    assert driver.apply(Pause()) == {"paused": [None]}
    assert not driver.mutation
    driver.apply(Resume())
    assert driver.apply(Resume()) == {"paused": []}
    assert not driver.mutation


@pytest.mark.parametrize("request_", [Pause(under="xxxx-1"), Resume(under="xxxx-1")])
def test_unknown_scope_is_refused(driver: Driver, request_: Pause | Resume) -> None:
    """As any other id."""
    assert driver.refused(request_).code is Code.NOT_FOUND


def test_node_that_moves_out_of_a_paused_scope_can_run(driver: Driver) -> None:
    """And one that moves in cannot."""
    goal, (inside,) = goal_with(driver, 1)
    outside = driver.add()
    driver.apply(Pause(under=goal))
    driver.apply(Upsert(id=inside, parent=None))
    driver.apply(Upsert(id=outside, parent=goal))
    driver.check()
    assert driver.next("ann") == inside
    assert driver.refused(Claim(id=outside, actor="ben")).code is Code.NOT_CLAIMABLE


def test_ready_lists_what_is_paused_as_not_runnable(driver: Driver) -> None:
    """In its place in the order."""
    goal, (first, second) = goal_with(driver)
    driver.apply(Pause(under=first))
    assert [(n["id"], n["runnable"]) for n in driver.apply(Ready())["nodes"]] == [(first, False), (second, True)]
    driver.apply(Pause())
    assert [n["runnable"] for n in driver.apply(Ready())["nodes"]] == [False, False]
    assert goal in driver.nodes()


def test_why_says_that_a_node_is_paused(driver: Driver) -> None:
    """And what lets it go."""
    goal, (node,) = goal_with(driver, 1)
    driver.apply(Pause(under=goal))
    told = why(driver.graph, driver.graph.vertices[node])
    assert told["reasons"][0]["type"] == "paused"
    assert f"resume --under {goal}" in told["text"]


def test_node_with_needs_waits_for_the_resume_and_keeps_no_units(driver: Driver) -> None:
    """Work beside it takes them meanwhile."""
    goal = driver.add(kind=Kind.GOAL)
    paused = driver.add(under=goal, needs={"gpu": 1}, priority=5)
    beside = driver.add(needs={"gpu": 1})
    driver.apply(Pause(under=goal))
    assert driver.next("ann") == beside
    driver.apply(Resume(under=goal))
    driver.check()
    assert driver.refused(Claim(id=paused, actor="ben")).code is Code.RESOURCES_BUSY


def test_undo_takes_a_pause_and_a_resume_back(driver: Driver) -> None:
    """With all that they had moved."""
    goal, nodes = goal_with(driver)
    driver.apply(Pause(under=goal))
    driver.undo()
    driver.check()
    assert driver.next("ann") == nodes[0]
    driver.apply(Pause(under=goal))
    driver.apply(Resume(under=goal))
    driver.undo()
    driver.check()
    assert driver.graph.pauses.ids() == [goal]
    assert driver.refused(ClaimNext(actor="ben")).details["paused"] == 1


def test_pause_ends_with_its_node() -> None:
    """It is pruned, the entry says what is paused still, and an undo brings both back."""
    driver = Driver(max_nodes=2)
    first = driver.add()
    driver.apply(Pause())
    driver.apply(Pause(under=first))
    driver.apply(Complete(id=first))
    driver.apply(Submit(nodes=(SubmitNode(), SubmitNode())))
    assert driver.mutation is not None
    assert driver.mutation.paused == [None] == driver.graph.pauses.ids()
    driver.undo()
    driver.check()
    assert driver.graph.pauses.ids() == [None, first]


def test_reloaded_graph_is_paused_as_before(driver: Driver) -> None:
    """From the records and the scopes."""
    goal, _ = goal_with(driver)
    driver.apply(Pause(under=goal))
    again = driver.reloaded()
    again.check()
    assert again.refused(ClaimNext(actor="ann")).details["paused"] == 2
