"""The operations claim and claim_next."""

from __future__ import annotations

from claimdagd.model import Role, Status
from claimdagd.wire import Claim, ClaimNext, Code, Upsert
from tests.support.driver import Driver


def test_claim_moves_the_generation(driver: Driver) -> None:
    """And counts the attempt."""
    node = driver.add()
    assert driver.claim(node)["gen"] == 2
    assert driver.nodes()[node].attempts == 1


def test_claim_takes_the_units_of_groups_above(driver: Driver) -> None:
    """All or nothing: its own needs and those of a group that holds none yet."""
    goal = driver.goal(needs={"gpu": 1})
    node = driver.add(under=goal, needs={"net": 1})
    driver.claim(node)
    assert driver.grants(goal) == [("gpu", 1, None)]
    assert driver.grants(node) == [("net", 1, None)]


def test_second_claim_of_an_actor_is_refused_with_the_first(driver: Driver) -> None:
    """One live node per assignee; the refusal names it and its generation."""
    first, second = driver.add(), driver.add()
    driver.claim(first, "ann")
    refusal = driver.refused(Claim(id=second, actor="ann"))
    assert (refusal.code, refusal.details) == (Code.ASSIGNEE_BUSY, {"id": first, "gen": 2})


def test_claim_at_an_old_generation_is_refused(driver: Driver) -> None:
    """The fence."""
    node = driver.add()
    refusal = driver.refused(Claim(id=node, actor="ann", gen=7))
    assert (refusal.code, refusal.message) == (Code.GEN_MISMATCH, "claim: gen mismatch")


def test_group_is_not_claimed(driver: Driver) -> None:
    """Its children are."""
    assert driver.refused(Claim(id=driver.goal(), actor="ann")).code is Code.NOT_CLAIMABLE


def test_claim_of_a_waiting_node_names_what_it_waits_on(driver: Driver) -> None:
    """Its own unmet deps and those of groups above."""
    own, of_group = driver.add(), driver.add()
    node = driver.add(own, under=driver.goal(of_group))
    refusal = driver.refused(Claim(id=node, actor="ann"))
    assert refusal.code is Code.DEPS_UNSATISFIED
    assert refusal.details["waiting_on"] == [own, of_group]


def test_claim_without_units_names_them(driver: Driver) -> None:
    """What it lacks and how much is free."""
    holder, node = driver.add(needs={"gpu": 1}), driver.add(needs={"gpu": 1})
    driver.claim(holder)
    refusal = driver.refused(Claim(id=node, actor="ann"))
    assert refusal.code is Code.RESOURCES_BUSY
    assert refusal.details["resources"] == [{"resource": "gpu", "units": 1, "free": 0, "lender": None}]


def test_claim_next_takes_the_highest_priority(driver: Driver) -> None:
    """Ahead of depth and of age."""
    driver.add()
    urgent = driver.add(priority=5)
    assert driver.next() == urgent


def test_claim_next_with_strict_leaves_other_roles(driver: Driver) -> None:
    """Exact role, then unset or general; another role never."""
    driver.add(role=Role.EXPLORE)
    refusal = driver.refused(ClaimNext(actor="ann", role=Role.VERIFIER, strict=True))
    assert refusal.code is Code.NOTHING_RUNNABLE


def test_nothing_pending_and_nothing_runnable_differ(driver: Driver) -> None:
    """Stuck: no claim is live whose end could free anything."""
    assert driver.refused(ClaimNext(actor="ann")).code is Code.NOTHING_PENDING
    node = driver.add(status=Status.BLOCKED)
    refusal = driver.refused(ClaimNext(actor="ann"))
    assert (refusal.code, refusal.details["blocked"], refusal.details["stuck"]) == (Code.NOTHING_RUNNABLE, 1, True)
    driver.apply(Upsert(id=node, status=Status.TODO))
    assert driver.next("ann") == node
