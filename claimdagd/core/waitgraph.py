"""The wait graph (law 3.6, 3.7): which moment of which node waits on which, and whether an edge would close a cycle.

Each node has three moments: its start, its own result, its end. start(n) waits on end(d) of each dep d (on own(d) where
d is an ancestor of n) and on the deps of every group above n; own(n) waits on start(n); end(n) waits on own(n) and on
the end of each child. GATE is no moment of the design but a shorthand for "the starts of the groups above": one edge a
node instead of one for each group above it. Read only: it looks at a graph in which the new edges already stand.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from claimdagd.core.state import ON_OUTCOME, Vertex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

START, OWN, END, GATE = range(4)

Moment: TypeAlias = "tuple[Vertex, int]"


class Edge(NamedTuple):
    """`after` waits on `before`."""

    before: Moment
    after: Moment


def waiters(m: Moment) -> Iterable[Moment]:
    """The moments that wait on `m` directly."""
    v, kind = m
    if kind == END:
        if v.parent is not None:
            yield (v.parent, END)
        for x, edge in (v.dependents or {}).items():
            if not edge & ON_OUTCOME:
                yield (x, START)
    elif kind == START:
        yield (v, OWN)
        if v.group:
            yield (v, GATE)
    elif kind == OWN:
        yield (v, END)
        for x, edge in (v.dependents or {}).items():
            if edge & ON_OUTCOME:
                yield (x, START)
    else:
        for c in v.children or ():
            yield (c, START)
            if not c.group:
                yield (c, GATE)


def waits_on(m: Moment) -> Iterable[Moment]:
    """The moments that `m` waits on directly."""
    v, kind = m
    if kind == END:
        yield (v, OWN)
        for c in v.children or ():
            yield (c, END)
    elif kind == OWN or (kind == GATE and v.group):
        yield (v, START)
    else:
        if kind == START:
            for t in v.dep_on:
                if t is not None:
                    yield (t, OWN if v.outcome_deps is not None and t in v.outcome_deps else END)
        if v.parent is not None:
            yield (v.parent, GATE)


def edges_onto(v: Vertex) -> list[Edge]:
    """The edges by which `v` waits on its deps."""
    return [
        Edge((t, OWN if v.outcome_deps is not None and t in v.outcome_deps else END), (v, START))
        for t in v.dep_on
        if t is not None
    ]


def edges_of_place(v: Vertex) -> list[Edge]:
    """The edges that `v` has by standing under its parent."""
    p = v.parent
    if p is None:
        return []
    edges = [Edge((v, END), (p, END)), Edge((p, GATE), (v, START))]
    if not v.group:
        edges.append(Edge((p, GATE), (v, GATE)))
    return edges


def _highest(m: Moment) -> float:
    """No less than how much unfinished work lies from `m` on."""
    v, kind = m
    if kind == END:
        return v.blevel_end
    return math.inf if v.group or kind == GATE else v.blevel_start


def path(sources: Iterable[Moment], targets: Iterable[Moment], *, by_depth: bool = False) -> list[Moment] | None:
    """Moments from one of `sources` to one of `targets`, each waiting on the one before it; None if there is no way.

    Searches from both ends and ends when the smaller side is exhausted, so an edge at the rim of the graph is cheap.
    `by_depth`: the levels are settled, but for the new edges, and nothing finished waits on anything unfinished. Then
    depth never grows along a way, and what lies less deep than every target is no part of one.
    """
    sources, targets = list(sources), list(targets)
    least = min((m[0].blevel_end for m in targets), default=0.0) if by_depth else 0.0
    most = max(map(_highest, sources), default=math.inf) if by_depth else math.inf
    if least > most:
        return None
    ahead: dict[Moment, Moment | None] = dict.fromkeys(sources)
    behind: dict[Moment, Moment | None] = dict.fromkeys(targets)
    for m in ahead:
        if m in behind:
            return [m]
    front, back = list(ahead), list(behind)
    while front and back:
        if len(front) <= len(back):
            front, met = _widen(front, waiters, ahead, behind)
            if least:
                front = [m for m in front if _highest(m) >= least]
        else:
            back, met = _widen(back, waits_on, behind, ahead)
            if most < math.inf:
                back = [m for m in back if m[0].blevel_end <= most]
        if met is not None:
            return [*reversed(_trail(met, ahead)), *_trail(met, behind)[1:]]
    return None


def _widen(
    frontier: list[Moment],
    step: Callable[[Moment], Iterable[Moment]],
    mine: dict[Moment, Moment | None],
    theirs: dict[Moment, Moment | None],
) -> tuple[list[Moment], Moment | None]:
    found: list[Moment] = []
    for m in frontier:
        for n in step(m):
            if n not in mine:
                mine[n] = m
                if n in theirs:
                    return found, n
                found.append(n)
    return found, None


def _trail(m: Moment | None, came_from: dict[Moment, Moment | None]) -> list[Moment]:
    trail = []
    while m is not None:
        trail.append(m)
        m = came_from[m]
    return trail


def cycle_through(edge: Edge, *, by_depth: bool = False) -> list[Vertex] | None:
    """The nodes of a cycle that `edge`, which stands in the graph already, closes; None if it closes none."""
    way = path([edge.after], [edge.before], by_depth=by_depth)
    return _nodes(way) if way is not None else None


def _nodes(way: list[Moment]) -> list[Vertex]:
    nodes: list[Vertex] = []
    for v, _ in way:
        if not nodes or nodes[-1] is not v:
            nodes.append(v)
    if nodes[0] is not nodes[-1] or len(nodes) == 1:
        nodes.append(nodes[0])
    return nodes


def _by_number(new: list[Vertex], fresh: set[Vertex]) -> bool:
    """Whether every new node waits on nodes of lower number only, and none stands under another new one."""
    return all(v.parent not in fresh and all(t is None or t.number < v.number for t in v.dep_on) for v in new)


def _may_wait(m: Moment) -> bool:
    """Whether `m` waits on anything old at all; a gate does where a group above has deps."""
    v, kind = m
    if kind != GATE:
        return True
    g: Vertex | None = v if v.group else v.gating_group
    while g is not None:
        if g.record.deps:
            return True
        g = g.gating_group
    return False


def cycle_among(new: list[Vertex]) -> list[Vertex] | None:
    """The nodes of a cycle through any of the vertices just added, or None.

    Old nodes wait on new ones only by way of a parent's end; where no such way leads back to what a new node waits on,
    the search keeps to the new nodes.
    """
    fresh = set(new)
    out: dict[Moment, None] = {}
    into: dict[Moment, None] = {}
    for v in new:
        p = v.parent
        if p is not None and p not in fresh:
            out[(p, END)] = None
            into[(p, GATE)] = None
        for t in v.dep_on:
            if t is not None and t not in fresh:
                into[(t, OWN if v.outcome_deps is not None and t in v.outcome_deps else END)] = None
    if not out and _by_number(new, fresh):
        return None
    leaves = bool(out) and any(map(_may_wait, into)) and path(out, into) is not None
    done: set[Moment] = set()
    trail: list[Moment] = []
    on_trail: set[Moment] = set()
    for v in new:
        root = (v, START)
        if root in done:
            continue
        walks = [(root, iter(waiters(root)))]
        trail.append(root)
        on_trail.add(root)
        while walks:
            m, walk = walks[-1]
            for n in walk:
                if n in on_trail:
                    return _nodes(trail[trail.index(n) :])
                if n not in done and (leaves or n[0] in fresh):
                    trail.append(n)
                    on_trail.add(n)
                    walks.append((n, iter(waiters(n))))
                    break
            else:
                walks.pop()
                trail.pop()
                on_trail.discard(m)
                done.add(m)
    return None
