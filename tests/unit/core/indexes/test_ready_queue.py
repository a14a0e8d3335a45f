"""The ready queue: which ready node is next, and for whom."""

from __future__ import annotations

from claimdagd.core.queries.order import claim_order
from claimdagd.model import Role
from claimdagd.wire import Claim, Release, SetCapacity, Upsert
from tests.support.driver import Driver


def order(driver: Driver, role: Role | None = None, slack: float = 0.0, strict: bool = False) -> list[str]:
    return [v.record.id for v, _ in claim_order(driver.graph, role, slack, strict)]


def test_order_is_priority_depth_age(driver: Driver) -> None:
    """In this order of weight."""
    old, deep, urgent = driver.add(), driver.add(cost=5.0), driver.add(priority=1)
    assert order(driver) == [urgent, deep, old]


def test_role_comes_before_others_within_slack(driver: Driver) -> None:
    """Exact role, then unset or general, then another role."""
    other = driver.add(role=Role.EXPLORE, cost=2.0)
    broad, exact = driver.add(cost=2.0), driver.add(role=Role.VERIFIER, cost=1.5)
    assert order(driver, Role.VERIFIER, slack=0.5) == [exact, broad, other]
    assert order(driver, Role.VERIFIER, slack=0.0) == [broad, other, exact]


def test_strict_leaves_other_roles_out(driver: Driver) -> None:
    """Unset and general stay."""
    driver.add(role=Role.EXPLORE)
    broad = driver.add(role=Role.GENERAL)
    assert order(driver, Role.VERIFIER, strict=True) == [broad]


def test_node_without_units_is_passed_by(driver: Driver) -> None:
    """What can run is picked, though it is later."""
    driver.claim(driver.add(needs={"gpu": 1}))
    driver.add(needs={"gpu": 1}, priority=9)
    free = driver.add()
    assert driver.next() == free


def test_nodes_with_the_same_needs_are_one_class(driver: Driver) -> None:
    """However many there are: if one cannot run, none can."""
    for _ in range(5):
        driver.add(needs={"gpu": 1})
    driver.graph.ready_queue.refresh()
    assert len(driver.graph.ready_queue.classes) == 1


def test_class_that_lacks_units_is_deferred_and_woken(driver: Driver) -> None:
    """By the resource's name."""
    holder = driver.add(needs={"gpu": 1})
    driver.claim(holder)
    waiting = driver.add(needs={"gpu": 1})
    queue = driver.graph.ready_queue
    assert queue.pick(None, 0.0, False) is None
    assert list(queue.deferred) == ["gpu"]
    driver.apply(Release(id=holder))
    assert queue.deferred == {}
    assert {holder, waiting} == set(order(driver))


def test_wake_leaves_classes_that_need_more(driver: Driver) -> None:
    """Only what the free units may help is looked at."""
    driver.apply(SetCapacity(resource="gpu", units=3))
    first, second = driver.add(needs={"gpu": 2}), driver.add(needs={"gpu": 1})
    driver.claim(first)
    driver.claim(second)
    driver.add(needs={"gpu": 2})
    queue = driver.graph.ready_queue
    assert queue.pick(None, 0.0, False) is None
    driver.complete(second)
    assert list(queue.deferred) == ["gpu"]
    driver.complete(first)
    assert queue.deferred == {}


def test_new_needs_move_a_node_to_another_bucket(driver: Driver) -> None:
    """From the free queue and back."""
    node = driver.add()
    driver.apply(Upsert(id=node, needs={"gpu": 1}))
    driver.graph.ready_queue.refresh()
    assert driver.graph.ready_queue.free_count == 0
    driver.apply(Upsert(id=node, needs={}))
    driver.graph.ready_queue.refresh()
    assert driver.graph.ready_queue.free_count == 1


def test_new_role_moves_a_node_to_another_queue(driver: Driver) -> None:
    """It is found under its new role alone."""
    node = driver.add(role=Role.EXPLORE)
    driver.apply(Upsert(id=node, role=Role.VERIFIER))
    assert order(driver, Role.VERIFIER, strict=True) == [node]
    assert order(driver, Role.EXPLORE, strict=True) == []


def test_claimed_node_is_not_in_the_queue(driver: Driver) -> None:
    """A release puts it back."""
    node = driver.add()
    driver.apply(Claim(id=node, actor="ann"))
    assert order(driver) == []
    driver.apply(Release(id=node))
    assert order(driver) == [node]
