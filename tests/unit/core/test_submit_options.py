"""The options of submit: capacities in the same step, and a dry run that changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from claimdagd import wire
from claimdagd.core.refusal import Refusal
from claimdagd.wire import Submit, SubmitNode
from tests.support.driver import Driver


def state(core: Driver) -> tuple[Any, ...]:
    return core.nodes(), core.capacities(), core.graph.next_number


def test_capacities_are_set_before_needs_are_judged() -> None:
    """In one mutation, so that both are there or neither is."""
    core = Driver()
    core.apply(Submit(nodes=(SubmitNode(needs={"gpu": 3}),), capacities={"gpu": 4, "cpu": 2}))
    assert core.capacities() == {"gpu": 4, "cpu": 2}
    assert core.mutation is not None
    assert core.mutation.capacity == {"gpu": 4, "cpu": 2}
    core.check()
    core.undo()
    assert core.capacities() == {}
    core.check()


def test_capacities_of_a_refused_submission_are_not_kept() -> None:
    """Whole or not at all."""
    core = Driver()
    before = state(core)
    with pytest.raises(Refusal):
        core.apply(Submit(nodes=(SubmitNode(needs={"gpu": 5}),), capacities={"gpu": 4}))
    assert state(core) == before
    core.check()


def test_a_dry_run_answers_as_the_submission_would_and_changes_nothing() -> None:
    """Neither nodes, nor capacities, nor the number of the next id; not even what would be pruned for room."""
    core = Driver(max_nodes=2)
    core.apply(Submit(nodes=(SubmitNode(), SubmitNode())))
    for node_id in list(core.nodes()):
        core.apply(wire.Complete(id=node_id))
    before = state(core)
    nodes = (SubmitNode(ref="a", needs={"gpu": 2}), SubmitNode(deps=(wire.Dep("a"),)))
    dry = core.apply(Submit(nodes=nodes, capacities={"gpu": 2}, dry_run=True))
    assert state(core) == before
    assert not core.mutation
    core.check()
    assert core.apply(Submit(nodes=nodes, capacities={"gpu": 2})) == dry


def test_a_dry_run_is_refused_as_the_submission_would_be() -> None:
    """With every fault at once."""
    core = Driver()
    nodes = (SubmitNode(needs={"gpu": 2}), SubmitNode(parent=f"{core.graph.tag}-9"), SubmitNode(deps=(wire.Dep("x"),)))
    refusals = []
    for dry_run in (True, False):
        with pytest.raises(Refusal) as caught:
            core.apply(Submit(nodes=nodes, dry_run=dry_run))
        refusals.append((caught.value.code, caught.value.details))
    assert refusals[0] == refusals[1]
    assert [fault["index"] for fault in refusals[0][1]["faults"]] == [0, 1, 2]


def test_every_cycle_of_a_submission_is_listed() -> None:
    """Once only the first one was, and the next round had the next."""
    core = Driver()
    deps = {"a": "b", "b": "a", "c": "d", "d": "c", "e": "a"}
    nodes = tuple(SubmitNode(ref=ref, deps=(wire.Dep(on),)) for ref, on in deps.items())
    before = state(core)
    with pytest.raises(Refusal) as caught:
        core.apply(Submit(nodes=nodes))
    told = [fault["message"] for fault in caught.value.details["faults"]]
    assert len(told) == 2
    assert "a -> b -> a" in told[0] or "b -> a -> b" in told[0]
    assert "c -> d -> c" in told[1] or "d -> c -> d" in told[1]
    assert state(core) == before
    core.check()


def test_a_dry_run_takes_no_token() -> None:
    """The real submission with the same token would be answered with ids that are nobody's."""
    with pytest.raises(Refusal, match="dry_run takes no once"):
        Driver().apply(Submit(nodes=(SubmitNode(),), dry_run=True, once="t"))
