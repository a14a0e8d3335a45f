"""What a loaded graph is: the same as the one its records were taken from, levels and places in the queue included."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from claimdagd import wire
from claimdagd.core.levels import Levels
from claimdagd.model import Status
from tests.core.driver import Driver

COUNT = 300


@pytest.fixture
def driver() -> Driver:
    return Driver()


def along(driver: Driver) -> list[str]:
    """A chain in which each node waits on the next newer one."""
    nodes = [driver.add(priority=n % 5) for n in range(COUNT)]
    for waiter, target in pairwise(nodes):
        driver.apply(wire.Link(before=target, after=waiter))
    return nodes


def against(driver: Driver) -> list[str]:
    """A chain in which each node waits on the next older one."""
    nodes = [driver.add()]
    for n in range(COUNT):
        nodes.append(driver.add(nodes[-1], priority=n % 5))
    return nodes


def one_along(driver: Driver) -> list[str]:
    """Against the numbers, but for one edge."""
    nodes = against(driver)
    late = driver.add(driver.add(cost=7.0))
    driver.apply(wire.Link(before=late, after=nodes[COUNT // 2]))
    return [*nodes, late]


def goals(driver: Driver) -> list[str]:
    """Closed goals one after the other, nested, of different priorities, with work in them that hangs together."""
    nodes: list[str] = []
    before: list[str] = []
    for n in range(COUNT // 6):
        goal = driver.goal(*before, priority=n % 3)
        inner = driver.goal(under=goal)
        first = driver.add(under=inner, cost=2.0)
        nodes += [goal, inner, first, driver.add(first, under=goal), driver.add(under=first, cost=3.0)]
        before = [goal]
    return nodes


def own_results(driver: Driver) -> list[str]:
    """Children that wait for the result of their parent, and a chain that waits for the parents' ends."""
    nodes: list[str] = []
    before: list[str] = []
    for n in range(COUNT // 4):
        parent = driver.add(*before)
        child = driver.add(parent, under=parent, cost=4.0, priority=n % 2)
        nodes += [parent, child, driver.add(child, under=parent)]
        before = [parent]
    return nodes


@pytest.mark.parametrize("shape", [along, against, one_along, goals, own_results])
def test_loaded_graph_is_as_the_one_that_was_built(driver: Driver, shape: Callable[[Driver], list[str]]) -> None:
    """Levels, statuses and the queue are those that the requests had led to, in whichever order the numbers run."""
    shape(driver)
    for _ in range(3):
        driver.complete(driver.next())
    driver.next()
    again = driver.reloaded()
    again.check()
    assert again.nodes() == driver.nodes()
    for node_id in driver.nodes():
        assert again.view(node_id) == driver.view(node_id)
    assert again.apply(wire.Ready()) == driver.apply(wire.Ready())


@pytest.mark.parametrize("shape", [along, against, one_along, goals, own_results])
def test_load_leaves_nothing_to_the_first_claim(driver: Driver, shape: Callable[[Driver], list[str]]) -> None:
    """All levels are known, and whatever is ready stands in the queue."""
    shape(driver)
    graph = driver.reloaded().graph
    assert not graph.levels.due
    assert not graph.levels.moved
    assert all(v.entry is not None for v in graph.vertices.values() if v.rec.status is Status.READY and not v.group)


@pytest.mark.parametrize("shape", [along, against, goals])
def test_load_takes_each_node_up_few_times(
    driver: Driver, shape: Callable[[Driver], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where every edge runs along the numbers, the work is in proportion to the nodes."""
    nodes = shape(driver)
    driver.shown(driver.graph.vertices[nodes[0]])
    met = 0
    follow, compute = Levels._follow, Levels.compute

    def counted_follow(self: Levels, *args: object) -> None:
        nonlocal met
        met += 1
        follow(self, *args)  # type: ignore[arg-type]

    def counted_compute(self: Levels, *args: object) -> tuple[float, int, float, int]:
        nonlocal met
        met += 1
        return compute(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Levels, "_follow", counted_follow)
    monkeypatch.setattr(Levels, "compute", counted_compute)
    driver.reloaded()
    assert met <= 4 * len(nodes)
