"""Which ready node: priority with inheritance, then depth, then id; roles with slack; and what it is worth."""

from __future__ import annotations

import statistics

import pytest

from claimdagd import wire
from claimdagd.core.refusal import Refusal
from claimdagd.model import Dep, Kind, Outcome, Role, Status
from claimdagd.wire import Code
from tests.benchmarks import stg
from tests.support.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def drain(driver: Driver, **fields: object) -> list[str]:
    """What one worker is given until there is nothing left."""
    given: list[str] = []
    while True:
        try:
            given.append(driver.next(**fields))
        except Refusal:
            return given
        driver.complete(given[-1])


def queue(driver: Driver, **fields: object) -> list[str]:
    return [node["id"] for node in driver.apply(wire.Ready(**fields))["nodes"]]  # type: ignore[arg-type]


def test_equal_nodes_come_in_the_order_of_their_ids(driver: Driver) -> None:
    """First come first served, also past one digit (law 5.2)."""
    nodes = [driver.add() for _ in range(12)]
    assert drain(driver) == nodes


def test_deepest_comes_first(driver: Driver) -> None:
    """The head of the costliest chain is what the end waits for (law 5.2, 2.7)."""
    short = driver.add(cost=3.0)
    long = driver.add(cost=1.0)
    driver.add(driver.add(long, cost=1.0), cost=1.5)
    assert driver.view(long)["depth"] == 3.5
    assert driver.next() == long
    assert driver.view(short)["depth"] == 3.0


def test_priority_goes_ahead_of_depth(driver: Driver) -> None:
    """A person's word weighs more than the critical path (law 2.8, 5.2)."""
    long = driver.add()
    driver.add(long, cost=100.0)
    urgent = driver.add(priority=1)
    assert driver.next() == urgent


def test_priority_is_inherited_by_what_it_waits_on(driver: Driver) -> None:
    """Urgent work makes urgent what it stands on, however far below (law 2.8)."""
    plain = driver.add(cost=9.0)
    base = driver.add(priority=-5)
    driver.add(driver.add(base), priority=7)
    assert driver.next() == base
    assert driver.next("other") == plain


def test_priority_of_a_goal_lifts_its_children(driver: Driver) -> None:
    """The goal waits on them; what waits on the goal does as well."""
    driver.add(cost=50.0)
    goal = driver.goal()
    child = driver.add(under=goal)
    driver.add(goal, priority=2)
    assert driver.next() == child


def test_inherited_priority_ends_with_the_waiting(driver: Driver) -> None:
    """A cancelled dependent or a removed edge pulls no longer."""
    one, two = driver.add(), driver.add(cost=2.0)
    urgent = driver.add(one, priority=5)
    assert queue(driver)[0] == one
    driver.apply(wire.Unlink(before=one, after=urgent))
    assert queue(driver) == [urgent, two, one]
    driver.apply(wire.Link(before=one, after=urgent))
    driver.apply(wire.Cancel(id=urgent))
    assert queue(driver) == [two, one]


def test_depth_counts_children_and_the_waiters_of_the_parent(driver: Driver) -> None:
    """The end of a parent waits for its child, so what follows the parent is behind the child (law 5.3, 3.6)."""
    parent = driver.add(cost=2.0)
    child = driver.add(under=parent, cost=1.0)
    driver.add(parent, cost=10.0)
    assert driver.view(child)["depth"] == 11.0
    assert driver.view(parent)["depth"] == 12.0


def test_depth_of_an_ancestor_counts_the_child_that_waits_for_its_result(driver: Driver) -> None:
    """A child after its own parent's outcome is behind that parent."""
    parent = driver.add(cost=2.0)
    child = driver.add(parent, under=parent, cost=5.0)
    after = driver.add(parent, cost=1.0)
    assert driver.view(parent)["depth"] == 8.0
    driver.complete(parent)
    assert driver.status(child) == "ready"
    assert driver.status(after) == "todo"
    assert (driver.view(parent)["depth"], driver.view(child)["depth"]) == (1.0, 6.0)


def test_depth_goes_through_the_gate_of_a_group(driver: Driver) -> None:
    """What a group waits on, all below it wait on; the group itself costs nothing."""
    first = driver.add(cost=1.0)
    goal = driver.goal(first, cost=1000.0)
    driver.add(under=driver.goal(under=goal), cost=4.0)
    assert driver.view(first)["depth"] == 5.0
    assert driver.view(goal)["depth"] == 0.0


def test_depth_shrinks_as_the_chain_is_worked_off(driver: Driver) -> None:
    """Only unfinished work counts, also when it is done out of order and reopened."""
    one = driver.add(cost=1.0)
    two = driver.add(one, cost=2.0)
    three = driver.add(two, cost=4.0)
    assert driver.view(one)["depth"] == 7.0
    driver.complete(three)
    assert driver.view(one)["depth"] == 3.0
    driver.apply(wire.Reopen(id=three))
    assert driver.view(one)["depth"] == 7.0
    driver.apply(wire.Upsert(id=three, cost=0.5))
    assert driver.view(one)["depth"] == 3.5


def test_depth_falls_all_the_way_where_a_rise_before_was_not_followed(driver: Driver) -> None:
    """The child of a node that was lifted, and fell before the child heard of it, falls from where it was."""
    parent = driver.add()
    child = driver.add(under=parent, priority=1)
    short = driver.add(parent, cost=1.5)
    assert driver.view(child)["depth"] == 2.5
    long = f"{driver.graph.tag}-{driver.graph.next_number}"
    driver.perform(wire.Upsert(deps=(Dep(parent),), cost=3.0))
    driver.graph.ranks.update(budget=1)
    driver.perform(wire.Cancel(id=long))
    driver.perform(wire.Cancel(id=short))
    driver.check()
    assert driver.view(child)["depth"] == 1.0


def test_role_without_slack_breaks_ties_alone(driver: Driver) -> None:
    """Depth comes before affinity unless slack allows."""
    deep = driver.add(cost=3.0)
    mine = driver.add(cost=2.0, role=Role.VERIFIER)
    assert queue(driver, role=Role.VERIFIER) == [deep, mine]
    assert queue(driver, role=Role.VERIFIER, slack=1.0) == [mine, deep]
    assert queue(driver, role=Role.VERIFIER, slack=0.5) == [deep, mine]


def test_role_within_slack_is_exact_then_general_then_other(driver: Driver) -> None:
    """Affinity is a preference, in three classes (law 5.4, 2.3)."""
    other = driver.add(cost=3.0, role=Role.EXPLORE)
    unset = driver.add(cost=2.5)
    general = driver.add(cost=2.75, role=Role.GENERAL)
    mine = driver.add(cost=2.0, role=Role.VERIFIER)
    assert queue(driver, role=Role.VERIFIER, slack=1.0) == [mine, general, unset, other]
    assert queue(driver, role=Role.VERIFIER, slack=1.0, strict=True) == [mine, general, unset]
    assert queue(driver) == [other, general, unset, mine]


def test_slack_does_not_reach_below_the_highest_priority(driver: Driver) -> None:
    """Among nodes of the highest priority only."""
    driver.add(cost=3.0, role=Role.VERIFIER)
    urgent = driver.add(cost=3.0, priority=1, role=Role.EXPLORE)
    assert driver.next(role=Role.VERIFIER, slack=10.0) == urgent


def test_strict_filters_before_priority(driver: Driver) -> None:
    """A strict worker is given its own though another's is more urgent (law 5.4)."""
    driver.add(priority=9, role=Role.EXPLORE)
    mine = driver.add(role=Role.VERIFIER)
    assert driver.next(role=Role.VERIFIER, strict=True) == mine


def test_ready_lists_what_claim_next_takes_in_that_order(driver: Driver) -> None:
    """The list is a promise, roles and slack included."""
    for number in range(20):
        driver.add(cost=1.0 + number % 5, priority=number % 2, role=list(Role)[number % 4])
    expected = queue(driver, role=Role.EXPLORE, slack=2.0)
    assert [driver.next(f"w{n}", role=Role.EXPLORE, slack=2.0) for n in range(20)] == expected


def test_ready_says_what_lacks_units(driver: Driver) -> None:
    """Ready is about dependencies; runnable is about units as well."""
    driver.claim(driver.add(needs={"gpu": 1}))
    waiting, free = driver.add(needs={"gpu": 1}), driver.add()
    nodes = driver.apply(wire.Ready())["nodes"]
    assert [(node["id"], node["runnable"]) for node in nodes] == [(waiting, False), (free, True)]


def test_nothing_pending_is_not_nothing_runnable(driver: Driver) -> None:
    """No work left is another answer than work held up; groups are no work (law 5.5)."""
    empty = driver.goal()
    assert driver.refused(wire.ClaimNext(actor="ann")).code == Code.NOTHING_PENDING
    node = driver.add(under=empty)
    driver.claim(node, "bob")
    refusal = driver.refused(wire.ClaimNext(actor="ann"))
    assert refusal.code == Code.NOTHING_RUNNABLE
    assert (refusal.details["leases"], refusal.details["next_expiry"]) == (1, 900.0)
    driver.complete(node)
    assert driver.refused(wire.ClaimNext(actor="ann")).code == Code.NOTHING_PENDING


def test_nothing_runnable_counts_what_holds_each_up(driver: Driver) -> None:
    """Deps, blocks, leases and resources, each counted (law 5.5)."""
    held = driver.add(needs={"gpu": 1})
    driver.claim(held, "bob")
    driver.add(held)
    driver.add(held)
    driver.add(status=Status.BLOCKED)
    driver.add(needs={"gpu": 1})
    driver.goal(held)
    details = driver.refused(wire.ClaimNext(actor="ann")).details
    counts = {name: details[name] for name in ("deps", "blocked", "leases", "resources")}
    assert counts == {"deps": 2, "blocked": 1, "leases": 1, "resources": 1}
    assert details["stuck"] is False


def test_all_blocked_is_stuck(driver: Driver) -> None:
    """No claim is live whose end could free anything (law 5.6)."""
    blocked = driver.add(status=Status.BLOCKED)
    driver.add(blocked)
    assert driver.refused(wire.ClaimNext(actor="ann")).details["stuck"] is True


def test_complete_with_next_hands_over_in_one_step(driver: Driver) -> None:
    """What the completion made ready may be what is claimed (law 5.9)."""
    one = driver.add()
    two = driver.add(one, kind=Kind.STEP)
    driver.claim(one, "ann")
    answer = driver.apply(wire.Complete(id=one, actor="ann", next=wire.Next()))
    assert list(answer["ready"]) == [two]
    assert answer["next"]["id"] == two
    answer = driver.apply(wire.Complete(id=two, actor="ann", status=Outcome.DONE, next=wire.Next()))
    assert (answer["next"], answer["code"]) == (None, Code.NOTHING_PENDING)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_claim_next_order_on_real_task_graphs_is_close_to_the_best_known(workers: int) -> None:
    """The mean makespan over the 180 graphs is at most 1 % over the best known."""
    directory = stg.data_directory()
    if not directory.is_dir():
        pytest.skip(f"no task graphs at {directory}; CLAIMDAG_DATA names another place")
    even = [1.0] * workers
    over = [
        stg.makespan(tasks, even) / best[name]
        for size in stg.SIZES
        for best in [stg.read_best(directory, size, workers)]
        for name, tasks in stg.graphs(directory, size)
    ]
    assert len(over) == 180
    assert statistics.fmean(over) <= 1.01
