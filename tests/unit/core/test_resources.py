"""Units: taken all or none, held for the subtree, lent to one branch at a time, and given back."""

from __future__ import annotations

import pytest

from claimdagd import wire
from claimdagd.core.indexes.reservations import Reservations
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import SchedulingClass
from claimdagd.model import Kind
from claimdagd.wire import Code
from tests.support.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_resource_unconfigured_has_capacity_one(driver: Driver) -> None:
    """Two nodes that need the same new resource exclude each other (law 6.1)."""
    one, two = driver.add(needs={"gpu": 1}), driver.add(needs={"gpu": 1})
    driver.claim(one)
    refusal = driver.refused(wire.Claim(id=two, actor="bob"))
    assert refusal.code == Code.RESOURCES_BUSY
    driver.complete(one)
    driver.claim(two, "bob")
    assert driver.used("gpu") == 1


def test_claim_lacking_one_of_two_resources_takes_neither(driver: Driver) -> None:
    """Nobody waits while holding part (law 6.2)."""
    disk, both = driver.add(needs={"disk": 1}), driver.add(needs={"disk": 1, "gpu": 1})
    other = driver.add(needs={"gpu": 1})
    driver.claim(disk)
    assert driver.refused(wire.Claim(id=both, actor="bob")).code == Code.RESOURCES_BUSY
    assert driver.used("gpu") == 0
    driver.claim(other)
    driver.complete(disk)
    assert driver.refused(wire.Claim(id=both, actor="bob")).code == Code.RESOURCES_BUSY
    driver.complete(other)
    driver.claim(both, "bob")
    assert (driver.used("disk"), driver.used("gpu")) == (1, 1)


def test_claim_next_passes_over_what_lacks_units(driver: Driver) -> None:
    """A free node behind a waiting one is given out."""
    driver.claim(driver.add(needs={"gpu": 1}))
    driver.add(needs={"gpu": 1}, priority=5)
    free = driver.add()
    assert driver.next() == free


def test_group_needs_are_taken_with_the_first_claim_below(driver: Driver) -> None:
    """The group's units are its own, however deep the node that started it (law 6.2)."""
    driver.apply(wire.SetCapacity(resource="gpu", units=3))
    outer = driver.goal(needs={"gpu": 2})
    inner = driver.goal(under=outer, needs={"disk": 1})
    leaf = driver.add(under=inner)
    assert driver.used("gpu") == 0
    driver.claim(leaf)
    assert driver.grants(outer) == [("gpu", 2, None)]
    assert driver.grants(inner) == [("disk", 1, None)]
    assert driver.grants(leaf) == []


def test_group_units_lacking_hold_up_every_child(driver: Driver) -> None:
    """All or nothing counts the groups above as well."""
    driver.claim(driver.add(needs={"gpu": 1}))
    goal = driver.goal(needs={"gpu": 1})
    leaf = driver.add(under=goal)
    assert driver.refused(wire.Claim(id=leaf, actor="bob")).code == Code.RESOURCES_BUSY


def test_units_go_back_when_the_whole_subtree_is_terminal(driver: Driver) -> None:
    """A node that is done but has open children keeps its units (law 6.3)."""
    node = driver.add(needs={"gpu": 1})
    driver.claim(node)
    child = driver.add(under=node)
    driver.complete(node)
    assert driver.status(node) == "completing"
    assert driver.used("gpu") == 1
    driver.complete(child)
    assert driver.status(node) == "done"
    assert driver.used("gpu") == 0


def test_descendant_borrows_from_the_nearest_holder(driver: Driver) -> None:
    """Units that an ancestor holds are used again, not taken afresh (law 6.4)."""
    outer = driver.goal(needs={"gpu": 1})
    inner = driver.goal(under=outer, needs={"gpu": 1})
    leaf = driver.add(under=inner, needs={"gpu": 1})
    driver.claim(leaf)
    assert driver.grants(outer) == [("gpu", 1, None)]
    assert driver.grants(inner) == [("gpu", 1, outer)]
    assert driver.grants(leaf) == [("gpu", 1, inner)]
    assert driver.used("gpu") == 1


def test_lender_serves_one_branch_at_a_time(driver: Driver) -> None:
    """A second child waits for the first even though both could fit into the grant (law 6.4)."""
    driver.apply(wire.SetCapacity(resource="gpu", units=4))
    goal = driver.goal(needs={"gpu": 2})
    one, two = driver.add(under=goal, needs={"gpu": 1}), driver.add(under=goal, needs={"gpu": 1})
    driver.claim(one)
    assert driver.refused(wire.Claim(id=two, actor="bob")).code == Code.RESOURCES_BUSY
    missing = driver.view(two)["waiting_on"]["resources"]
    assert [(lack["resource"], lack["lender"]) for lack in missing] == [("gpu", goal)]
    driver.complete(one)
    driver.claim(two, "bob")
    assert driver.grants(two) == [("gpu", 1, goal)]


def test_release_passes_the_units_to_the_live_borrower(driver: Driver) -> None:
    """A lender that lets go leaves the borrower with what it uses, and gives the rest back (law 6.3)."""
    driver.apply(wire.SetCapacity(resource="gpu", units=3))
    node = driver.add(needs={"gpu": 3})
    driver.claim(node)
    child = driver.add(under=node, needs={"gpu": 1})
    driver.claim(child)
    driver.apply(wire.Release(id=node))
    assert driver.grants(node) == []
    assert driver.grants(child) == [("gpu", 1, None)]
    assert driver.used("gpu") == 1
    driver.complete(child)
    assert driver.used("gpu") == 0


def test_release_in_the_middle_of_a_chain_passes_the_loan_on(driver: Driver) -> None:
    """The borrower of a borrower borrows from the first lender afterwards."""
    top = driver.add(needs={"gpu": 1})
    driver.claim(top)
    middle = driver.add(under=top, needs={"gpu": 1})
    driver.claim(middle)
    leaf = driver.add(under=middle, needs={"gpu": 1})
    driver.claim(leaf)
    driver.apply(wire.Release(id=middle))
    assert driver.grants(leaf) == [("gpu", 1, top)]
    assert driver.used("gpu") == 1


def test_expiry_of_the_only_claim_below_gives_the_group_units_back(driver: Driver) -> None:
    """A crashed worker does not leave a goal sitting on its units."""
    goal = driver.goal(needs={"gpu": 1})
    leaf = driver.add(under=goal)
    driver.claim(leaf)
    driver.now += 1000.0
    driver.expire()
    assert driver.status(leaf) == "ready"
    assert driver.grants(goal) == []
    assert driver.used("gpu") == 0


def test_group_keeps_its_units_between_children(driver: Driver) -> None:
    """Held for the subtree: a finished child does not give them up."""
    goal = driver.goal(needs={"gpu": 1})
    one, two = driver.add(under=goal), driver.add(under=goal)
    driver.claim(one)
    driver.complete(one)
    assert driver.used("gpu") == 1
    driver.claim(two)
    driver.complete(two)
    assert driver.status(goal) == "done"
    assert driver.used("gpu") == 0


def test_need_above_capacity_is_refused_when_added(driver: Driver) -> None:
    """It could never run; raising the capacity first lets it in (law 6.5)."""
    assert driver.refused(wire.Upsert(needs={"gpu": 2})).code == Code.WOULD_NOT_RUN
    driver.apply(wire.SetCapacity(resource="gpu", units=2))
    assert driver.status(driver.add(needs={"gpu": 2})) == "ready"


def test_need_above_the_lender_is_refused_when_added(driver: Driver) -> None:
    """A child never gets more than its nearest ancestor that needs the resource has (law 6.4)."""
    driver.apply(wire.SetCapacity(resource="gpu", units=5))
    goal = driver.goal(needs={"gpu": 2})
    inner = driver.goal(under=goal)
    assert driver.refused(wire.Upsert(parent=inner, needs={"gpu": 3})).code == Code.WOULD_NOT_RUN
    outside = driver.add(needs={"gpu": 3})
    assert driver.refused(wire.Upsert(id=outside, parent=inner)).code == Code.WOULD_NOT_RUN


def test_lowered_capacity_leaves_holders_alone(driver: Driver) -> None:
    """It only stops new grants (law 6.1)."""
    driver.apply(wire.SetCapacity(resource="gpu", units=2))
    one, two, three = (driver.add(needs={"gpu": 1}) for _ in range(3))
    driver.claim(one)
    driver.claim(two)
    driver.apply(wire.SetCapacity(resource="gpu", units=1))
    assert driver.used("gpu") == 2
    driver.complete(one)
    assert driver.refused(wire.Claim(id=three, actor="bob")).code == Code.RESOURCES_BUSY
    driver.complete(two)
    driver.claim(three)


def test_reparent_of_a_subtree_that_holds_units_is_refused(driver: Driver) -> None:
    """What a claim stands on does not move under it (law 5.8)."""
    goal = driver.goal(needs={"gpu": 1})
    driver.claim(driver.add(under=goal))
    other = driver.goal()
    assert driver.refused(wire.Upsert(id=goal, parent=other)).code == Code.BAD_STATUS


def test_cancel_of_a_subtree_gives_everything_back(driver: Driver) -> None:
    """Held nodes are fenced and their units are free at once."""
    goal = driver.goal(needs={"gpu": 1})
    leaf = driver.add(under=goal, needs={"gpu": 1, "disk": 1})
    gen = driver.claim(leaf)["gen"]
    driver.apply(wire.Cancel(id=goal))
    assert driver.used("gpu") == driver.used("disk") == 0
    assert driver.view(leaf)["gen"] == gen + 1


def test_reopened_parent_has_no_units_until_it_is_claimed(driver: Driver) -> None:
    """Terminal ancestors come back without the grants that they once held."""
    node = driver.add(needs={"gpu": 1})
    driver.claim(node)
    child = driver.add(under=node)
    driver.complete(node)
    driver.complete(child)
    driver.apply(wire.Reopen(id=child))
    assert driver.status(node) == "completing"
    assert driver.used("gpu") == 0


def passed_over(driver: Driver, waiting: str, holding: dict[str, str]) -> int:
    """How many claims go by before `waiting` is given out: workers end what they hold in turn, and ask for the next."""
    for count in range(400):
        actor = list(holding)[count % len(holding)]
        if holding[actor]:
            driver.complete(holding[actor])
        try:
            holding[actor] = driver.next(actor)
        except Refusal:
            holding[actor] = ""
        if holding[actor] == waiting:
            return count
    raise AssertionError("starved")


def test_wide_node_among_narrow_ones_is_not_starved(driver: Driver) -> None:
    """Passed over a hundred times for units, it has them kept as they come back (law 6.7)."""
    driver.apply(wire.SetCapacity(resource="gpu", units=2))
    narrow = [driver.add(needs={"gpu": 1}) for _ in range(400)]
    for node, actor in zip(narrow[:2], ("one", "two"), strict=True):
        driver.claim(node, actor)
    wide = driver.add(needs={"gpu": 2}, priority=1)
    assert 100 <= passed_over(driver, wide, dict(zip(("one", "two"), narrow[:2], strict=True))) <= 103


def test_node_that_needs_two_resources_is_not_starved_by_their_turns(driver: Driver) -> None:
    """Whichever it lacks at the time, a claim of the other one passes it over as well."""
    nodes = [driver.add(needs={"gpu" if number % 2 else "net": 1}) for number in range(400)]
    for node, actor in zip(nodes[:2], ("one", "two"), strict=True):
        driver.claim(node, actor)
    both = driver.add(needs={"gpu": 1, "net": 1}, priority=1)
    assert 100 <= passed_over(driver, both, dict(zip(("one", "two"), nodes[:2], strict=True))) <= 103


def starving_behind_a_goal(driver: Driver) -> str:
    """One of two units is held by a goal that waits for a node which needs the other, kept for a third; that node."""
    driver.apply(wire.SetCapacity(resource="gpu", units=2))
    goal = driver.goal(needs={"gpu": 1})
    opener = driver.add(under=goal)
    driver.claim(opener)
    driver.add(needs={"gpu": 2}, priority=5)
    passer = driver.add(needs={"gpu": 1})
    driver.claim(passer)
    wanted = driver.add(needs={"gpu": 1})
    driver.add(wanted, under=goal)
    driver.complete(passer)
    assert driver.refused(wire.Claim(id=wanted, actor="bob")).code == Code.RESOURCES_BUSY
    driver.complete(opener)
    return wanted


def test_units_are_not_kept_when_nobody_could_bring_back_the_rest() -> None:
    """Or what is kept would be what the holder of the rest waits for, and all would stand still for good (law 6.6)."""
    driver = Driver(starvation=1)
    wanted = starving_behind_a_goal(driver)
    assert driver.next() == wanted


def test_units_are_not_kept_while_only_others_are_at_work() -> None:
    """Nor does a claim help that has nothing to do with them (law 6.6)."""
    driver = Driver(starvation=1)
    driver.claim(driver.add())
    wanted = starving_behind_a_goal(driver)
    assert driver.next() == wanted


def test_work_in_a_group_that_holds_units_goes_on_while_units_are_kept() -> None:
    """What must run for units to come back is not held up by those that are kept."""
    driver = Driver(starvation=1)
    goal = driver.goal(needs={"gpu": 1})
    one, two = driver.add(under=goal), driver.add(under=goal, needs={"net": 1})
    driver.claim(one)
    driver.add(needs={"gpu": 1, "net": 1}, priority=5)
    passer = driver.add(needs={"net": 1})
    driver.claim(passer)
    driver.complete(passer)
    assert driver.refused(wire.Claim(id=driver.add(needs={"net": 1}), actor="bob")).code == Code.RESOURCES_BUSY
    driver.claim(two)


def test_goals_that_wait_for_one_resource_are_not_looked_at_one_by_one(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many goals with children of their own wait, a claim and a claim in vain look at a few of them.

    Law 5.10.
    """
    looks = 0
    missing = Reservations.missing

    def counted(reservations: Reservations, scheduling: SchedulingClass) -> object:
        nonlocal looks
        looks += 1
        return missing(reservations, scheduling)

    monkeypatch.setattr(Reservations, "missing", counted)
    for _ in range(200):
        driver.add(under=driver.goal(needs={"gpu": 1}))
    for _ in range(50):
        node = driver.next()
        driver.refused_only(wire.ClaimNext(actor="in-vain"))
        driver.complete(node)
    assert looks <= 50 * 8


def test_resources_view_names_holders_and_waiting(driver: Driver) -> None:
    """Who has the units, and who waits for them."""
    holder, waiter = driver.add(needs={"gpu": 1}), driver.add(needs={"gpu": 1})
    driver.claim(holder)
    (view,) = (r for r in driver.apply(wire.Resources())["resources"] if r["name"] == "gpu")
    assert (view["capacity"], view["used"]) == (1, 1)
    assert [user["id"] for user in view["holders"]] == [holder]
    assert list(view["waiting"]) == [waiter]


def test_needs_of_a_held_node_do_not_change(driver: Driver) -> None:
    """Cost, priority and summary may; what the claim stands on may not (law 5.8)."""
    node = driver.add(needs={"gpu": 1})
    driver.claim(node)
    assert driver.refused(wire.Upsert(id=node, needs={})).code == Code.BAD_STATUS
    driver.apply(wire.Upsert(id=node, needs={"gpu": 1}, cost=3.0, priority=2, summary="longer"))
    assert driver.view(node)["cost"] == 3.0


def test_kind_of_a_node_that_has_units_does_not_change(driver: Driver) -> None:
    """A group that has started stays a group."""
    goal = driver.goal(needs={"gpu": 1})
    driver.claim(driver.add(under=goal))
    assert driver.refused(wire.Upsert(id=goal, kind=Kind.TASK)).code == Code.BAD_STATUS
