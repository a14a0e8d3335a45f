"""Views: a node with what is derived, lists, resources."""

from __future__ import annotations

from typing import Any

from claimdagd.core.queries.views import listed
from claimdagd.model import Dep, Status
from claimdagd.wire import Archive, Cancel, List, Resources, SetCapacity
from tests.support.driver import Driver


def ids(driver: Driver, **fields: Any) -> list[str]:
    return [v.record.id for v in listed(driver.graph, List(**fields))]


def test_waiting_node_shows_its_unmet_deps(driver: Driver) -> None:
    """Those of groups above it too."""
    own, of_group = driver.add(), driver.add()
    node = driver.add(own, under=driver.goal(of_group))
    assert [dep["on"] for dep in driver.view(node)["waiting_on"]["deps"]] == [own, of_group]


def test_met_dep_is_not_waited_on(driver: Driver) -> None:
    """Though it stays in the record."""
    done, open_ = driver.add(), driver.add()
    node = driver.add(done, open_)
    driver.complete(done)
    view = driver.view(node)
    assert len(view["deps"]) == 2
    assert [dep["on"] for dep in view["waiting_on"]["deps"]] == [open_]


def test_held_node_shows_how_quiet_it_is(driver: Driver) -> None:
    """And when its lease ends."""
    node = driver.add()
    driver.claim(node)
    driver.now += 100
    view = driver.view(node)
    assert (view["quiet"], view["expires_in"]) == (100.0, 800.0)


def test_finished_node_has_no_depth(driver: Driver) -> None:
    """It is on no critical path."""
    node = driver.add(cost=3.0)
    driver.complete(node)
    assert driver.view(node)["depth"] == 0.0


def test_list_is_live_work_newest_first(driver: Driver) -> None:
    """By default."""
    first, second, done = driver.add(), driver.add(), driver.add()
    driver.complete(done)
    assert ids(driver) == [second, first]
    assert ids(driver, terminal=True) == [done, second, first]


def test_archived_nodes_are_listed_if_asked_for(driver: Driver) -> None:
    """`all` has everything."""
    node = driver.add()
    driver.complete(node)
    driver.apply(Archive(id=node))
    assert ids(driver, terminal=True) == []
    assert ids(driver, archived=True) == [node]
    assert ids(driver, all=True) == [node]


def test_list_is_narrowed_by_status_parent_and_assignee(driver: Driver) -> None:
    """Each by itself."""
    goal = driver.goal()
    child, other = driver.add(under=goal), driver.add()
    driver.claim(other, "ann")
    driver.apply(Cancel(id=driver.add()))
    assert ids(driver, under=goal) == [child]
    assert ids(driver, assignee="ann") == [other]
    assert len(ids(driver, status=Status.CANCELLED)) == 1


def test_resource_shows_holders_and_who_waits(driver: Driver) -> None:
    """Of configured, held and needed ones."""
    driver.apply(SetCapacity(resource="net", units=3))
    holder, waiting = driver.add(needs={"gpu": 1}), driver.add(needs={"gpu": 1})
    driver.claim(holder)
    gpu, net = driver.apply(Resources())["resources"]
    assert (gpu["used"], [h["id"] for h in gpu["holders"]], list(gpu["waiting"])) == (1, [holder], [waiting])
    assert (net["name"], net["capacity"], net["used"]) == ("net", 3, 0)


def test_ready_node_shows_what_it_lacks(driver: Driver) -> None:
    """Units, and how many are free."""
    driver.claim(driver.add(needs={"gpu": 1}))
    node = driver.add(needs={"gpu": 1})
    (missing,) = driver.view(node)["waiting_on"]["resources"]
    assert (missing["resource"], missing["free"]) == ("gpu", 0)
    assert driver.nodes()[node].deps == tuple[Dep]()
