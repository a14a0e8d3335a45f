"""Which dependencies of a file close a cycle. Pure.

The wait graph tells it, but is large: three milestones a node. So first all is taken away that waits on nothing, again
and again, in a smaller graph of starts and ends; only what is left can be in a cycle, and in most files nothing is.
"""

from __future__ import annotations

from claimdag_client.wait_graph import WaitGraph

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    Edge = tuple[str, str]


def closing_cycles(
    parents: Mapping[str, str | None],
    groups: Collection[str],
    edges: Sequence[Edge],
    tick: Callable[[], None] = lambda: None,
) -> dict[int, list[str]]:
    """Return the positions of the edges (who waits, on whom) that close a cycle, each with its cycle."""
    left = _left(parents, groups, edges)
    if not left:
        return {}
    graph = WaitGraph({name: parents[name] for name in parents if name in left}, groups)
    positions = [n for n, (waiting, on) in enumerate(edges) if waiting in left and on in left]
    found = graph.closing_cycles([edges[n] for n in positions], tick)
    return {positions[n]: cycle for n, cycle in found}


def above(parents: Mapping[str, str | None], name: str) -> Iterator[str]:
    """Yield the ancestors of a node, nearest first."""
    parent = parents.get(name)
    while parent is not None:
        yield parent
        parent = parents.get(parent)


def _left(parents: Mapping[str, str | None], groups: Collection[str], edges: Sequence[Edge]) -> set[str]:
    """Return the nodes whose start or end waits on a cycle and is waited for by one, those of cycles among them."""
    names = list(parents)
    waiters = _waiters(parents, groups, edges)
    counts = [0] * len(waiters)
    for after in waiters:
        for waiter in after or ():
            counts[waiter] += 1
    _take_away(counts, waiters)
    targets: list[list[int] | None] = [None] * len(waiters)
    back = [0] * len(waiters)
    for point, after in enumerate(waiters):
        for waiter in after or () if counts[point] else ():
            if counts[waiter]:
                back[point] += 1
                known = targets[waiter] = targets[waiter] or []
                known.append(point)
    if any(counts):
        _take_away(back, targets)
    return {names[point // 2] for point, count in enumerate(back) if count}


def _waiters(
    parents: Mapping[str, str | None], groups: Collection[str], edges: Sequence[Edge]
) -> list[list[int] | None]:
    """Return for each start and end what waits on it. The start of node n is number 2n, its end 2n + 1.

    An end waits on the start and on the ends of the children; a start on the start of the group above and on the ends
    of dependencies, or on the start of one that is an ancestor, whose end waits for this very node.
    """
    index = {name: 2 * n for n, name in enumerate(parents)}
    found: list[list[int] | None] = [None] * (2 * len(index))
    for start in index.values():
        found[start] = [start + 1]
    for name, start in index.items():
        parent = parents[name]
        if parent is not None:
            _wait(found, index[parent] + 1, start + 1)
            gate = next((group for group in above(parents, name) if group in groups), None)
            if gate is not None:
                _wait(found, start, index[gate])
    for waiting, on in edges:
        is_own_work = on not in groups and on in above(parents, waiting)
        _wait(found, index[waiting], index[on] + (not is_own_work))
    return found


def _wait(found: list[list[int] | None], waiter: int, on: int) -> None:
    known = found[on]
    if known is None:
        found[on] = [waiter]
    else:
        known.append(waiter)


def _take_away(counts: list[int], following: Sequence[list[int] | None]) -> None:
    """Take away every point whose count is 0, and so on with what follows it."""
    due = [point for point, count in enumerate(counts) if not count]
    while due:
        for point in following[due.pop()] or ():
            counts[point] -= 1
            if not counts[point]:
                due.append(point)
