"""The operation upsert."""

from __future__ import annotations

from claimdagd import wire
from claimdagd.model import Dep, Kind, Status
from claimdagd.wire import Code, Upsert
from tests.support.driver import TAG, Driver


def test_node_without_deps_is_ready(driver: Driver) -> None:
    """Ready is derived: a new node waits on nothing."""
    assert driver.status(driver.add()) == "ready"


def test_ids_count_up(driver: Driver) -> None:
    """Ids are the tag and a number that grows by one."""
    assert [driver.add() for _ in range(3)] == [f"{TAG}-1", f"{TAG}-2", f"{TAG}-3"]


def test_asking_for_ready_does_not_make_ready(driver: Driver) -> None:
    """The dependencies decide, whatever status is asked for."""
    node = driver.add(driver.add())
    driver.apply(Upsert(id=node, status=Status.READY))
    assert driver.status(node) == "todo"


def test_blocked_stays_until_todo_is_asked_for(driver: Driver) -> None:
    """A hold is sticky."""
    node = driver.add(status=Status.BLOCKED)
    driver.apply(Upsert(id=node, summary="still"))
    assert driver.status(node) == "blocked"
    driver.apply(Upsert(id=node, status=Status.TODO))
    assert driver.status(node) == "ready"


def test_fields_that_are_absent_stay(driver: Driver) -> None:
    """An upsert of one field leaves the others."""
    node = driver.add(summary="write it", cost=3.0, priority=7)
    driver.apply(Upsert(id=node, priority=8))
    record = driver.nodes()[node]
    assert (record.summary, record.cost, record.priority) == ("write it", 3.0, 8)


def test_upsert_without_a_change_journals_nothing(driver: Driver) -> None:
    """The same values again are no mutation."""
    node = driver.add(summary="same")
    driver.apply(Upsert(id=node, summary="same"))
    assert not driver.mutation


def test_dep_of_a_held_node_does_not_move(driver: Driver) -> None:
    """What a claim stands on stays under it; its summary may change."""
    node, other = driver.add(), driver.add()
    driver.claim(node)
    assert driver.refused(Upsert(id=node, deps=(Dep(other),))).code is Code.BAD_STATUS
    driver.apply(Upsert(id=node, summary="half done"))


def test_parent_below_its_own_child_is_a_cycle(driver: Driver) -> None:
    """The refusal names the path."""
    top = driver.goal()
    below = driver.goal(under=top)
    refusal = driver.refused(Upsert(id=top, parent=below))
    assert refusal.code is Code.CYCLE
    assert refusal.details["path"] == [top, below, top]


def test_status_of_a_claim_is_not_asked_for(driver: Driver) -> None:
    """The refusal names the operation that does it."""
    refusal = driver.refused(Upsert(id=driver.add(), status=Status.DONE))
    assert refusal.message.endswith("use complete")


def test_work_becomes_a_group_before_it_has_started(driver: Driver) -> None:
    """And not afterwards."""
    node, started = driver.add(), driver.add()
    driver.apply(Upsert(id=node, kind=Kind.GOAL))
    driver.claim(started)
    assert driver.refused(Upsert(id=started, kind=Kind.GOAL)).code is Code.BAD_STATUS


def test_last_open_child_moved_away_decides_the_group(driver: Driver) -> None:
    """The children that stay are all done, so the group is."""
    goal = driver.goal()
    done, moved = driver.add(under=goal), driver.add(under=goal)
    driver.complete(done)
    driver.apply(Upsert(id=moved, parent=None))
    assert driver.status(goal) == "done"


def test_terminal_node_is_refused(driver: Driver) -> None:
    """Only reopen leaves a terminal status."""
    node = driver.add()
    driver.complete(node)
    assert driver.refused(wire.Upsert(id=node, summary="more")).code is Code.TERMINAL
