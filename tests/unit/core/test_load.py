"""What a loaded graph is: as the one its records were taken from, levels and queue included; and levels follow soon."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from claimdagd import wire
from claimdagd.core import apply as verbs
from claimdagd.core import invariants
from claimdagd.core.graph import Graph
from claimdagd.core.indexes.ranks import Ranks
from claimdagd.core.queries.order import claim_order
from claimdagd.core.state import Vertex
from claimdagd.model import Dep, Node, Status
from tests.support.driver import TAG, Driver

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
    """Ranks, statuses and the queue are those that the requests had led to, in whichever order the numbers run."""
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
    assert not graph.ranks.dirty
    assert not graph.ranks.requeue
    assert all(
        v.queue_entry is not None for v in graph.vertices.values() if v.record.status is Status.READY and not v.group
    )


def waits(count: int, on: Callable[[int], int | None]) -> dict[str, Node]:
    """Records of work of which node n waits on node on(n)."""
    nodes = {}
    for n in range(1, count + 1):
        target = on(n)
        deps = (Dep(f"{TAG}-{target}"),) if target is not None else ()
        status = Status.TODO if deps else Status.READY
        nodes[f"{TAG}-{n}"] = Node(id=f"{TAG}-{n}", deps=deps, status=status, cost=float(count + 1 - n))
    return nodes


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> list[Vertex]:
    """Each node whose level was taken up, as often as it was."""
    found: list[Vertex] = []
    follow, compute = Ranks._follow, Ranks.compute

    def noted_follow(self: Ranks, v: Vertex, how: int) -> None:
        found.append(v)
        follow(self, v, how)

    def noted_compute(self: Ranks, v: Vertex) -> tuple[float, int, float, int]:
        found.append(v)
        return compute(self, v)

    monkeypatch.setattr(Ranks, "_follow", noted_follow)
    monkeypatch.setattr(Ranks, "compute", noted_compute)
    return found


@pytest.mark.parametrize("step", [1, -1])
def test_load_takes_each_node_up_few_times(step: int, met: list[Vertex]) -> None:
    """The work is in proportion to the nodes, whichever way the numbers run along the edges."""
    graph = Graph(TAG, max_nodes=5000)
    graph.load(waits(5000, lambda n: n - step if 1 <= n - step <= 5000 else None), {}, 5001, 0.0)
    assert len(met) <= 4 * 5000
    invariants.check(graph)


def test_levels_that_go_back_and_forth_are_computed_in_order(met: list[Vertex]) -> None:
    """Each of the oldest lifts the newest, and with it the whole chain that the newest waits on: not 500 times."""
    graph = Graph(TAG, max_nodes=5000)
    graph.load(waits(5000, lambda n: 5000 if n <= 500 else n - 1 if n > 501 else None), {}, 5001, 0.0)
    for n in range(1, 501):
        verbs.apply_request(graph, wire.Upsert(id=f"{TAG}-{n}", cost=20_000.0 - n), 0.0, 0.0)
    met.clear()
    verbs.apply_request(graph, wire.ClaimNext(actor="worker"), 0.0, 0.0)
    assert len(met) <= 5 * 5000
    invariants.check(graph)


def test_load_of_nodes_that_wait_in_a_circle_ends(met: list[Vertex]) -> None:
    """No request makes one, but a file written by hand may: then nothing of it is ready, and the daemon answers."""
    graph = Graph(TAG, max_nodes=5000)
    graph.load(waits(5000, lambda n: n - 1 or 5000), {}, 5001, 0.0)
    assert len(met) <= 8 * 5000
    assert not graph.ranks.dirty
    assert not claim_order(graph)
