"""Deadlocks between subtrees: each holds what the other's work needs (DESIGN 6). Found and named, never silent.

The rule is an optimistic fixpoint, as the banker's algorithm has it: assume that every live claim ends and that all
work that can run is run and ends well; units held for a subtree come back when all of it has ended. Work that can then
still not run for want of units that unfinished subtrees hold is deadlocked. Blocked work does not count as held up by
units.
Read only.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from claimdagd.core.levels import members
from claimdagd.core.vertex import EDGE_OWN, Vertex
from claimdagd.model import LIVE, TERMINAL, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from claimdagd.core.graph import Graph
    from claimdagd.core.vertex import Units


def suspicious(graph: Graph) -> bool:
    """Whether a deadlock is possible at all: ready work lacks units, and some are held for more than a live claim."""
    graph.lines.refresh()
    if not any(map(graph.lines.lacks_something, graph.lines.demands.values())):
        return False
    holders = [v for pool in graph.pools.pools.values() for v in pool.holders]
    return any(not graph.is_live(v) or v.open_children for v in holders)


def find_deadlocks(graph: Graph) -> list[dict[str, Any]]:
    """Every deadlock: {subtrees: ids of holders, resources: names, nodes: ids of work that waits for ever, text}."""
    found_at, found = graph.deadlocks
    if found_at != graph.changes:
        optimist = _Optimist(graph)
        optimist.run()
        waiting = optimist.lost()
        found = _name(optimist, waiting) if waiting else []
        graph.deadlocks = (graph.changes, found)
    return found


class _Optimist:
    """Follows on paper which ends come, and which units come back; each step of it once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.own_over: set[Vertex] = set()
        self.over: set[Vertex] = set()
        #: How much still keeps each node from starting: deps that are not met, and a gate above that is closed.
        self._closed_by: dict[Vertex, int] = {}
        self._open_children: dict[Vertex, int] = {}
        self._given_back: dict[str, int] = {}
        self._loans_over: set[tuple[str, str]] = set()
        #: Work that could start but for units, and what it takes; and by the first thing that it lacks.
        self._short: dict[Vertex, Units] = {}
        self._short_of: dict[Hashable, list[tuple[int, int, Vertex]]] = {}
        self._todo: list[tuple[Callable[[Vertex], None], Vertex]] = []

    def run(self) -> None:
        cone = self._cone()
        for v in cone:
            self._closed_by[v] = v.unmet + (v.gate is not None and v.gate.closed)
            self._open_children[v] = v.open_children
        for v in cone:
            if v.children if v.group else v.rec.status in LIVE or v.rec.status is Status.COMPLETING:
                # The children of a group decide it, also where it holds back those that have not begun.
                self._todo.append((self._own_ends, v))
            if v.rec.status is not Status.BLOCKED and not self._closed_by[v]:
                self._todo.append((self._opens, v))
        while self._todo:
            step, v = self._todo.pop()
            step(v)

    def _cone(self) -> list[Vertex]:
        """Whatever the end of a holder of units hangs on, however far: nothing else can be part of a deadlock."""
        pools = self.graph.pools
        holders = [h for pool in pools.pools.values() for h in pool.holders]
        # Whose end matters; where only the start or the own result does, the children do not.
        ends = dict.fromkeys([*holders, *pools.loans.values()])
        starts: dict[Vertex, None] = {}
        todo = list(ends)
        while todo:
            v = todo.pop()
            ended: list[Vertex] = list(v.children or ()) if v in ends else []
            begun = [v.gate] if v.gate is not None and v.gate.closed else []
            for t in v.dep_on if v.unmet else ():
                if t is not None:
                    (begun if v.own_deps is not None and t in v.own_deps else ended).append(t)
            for kind, found in ((ends, ended), (starts, begun)):
                for x in found:
                    if x not in kind and x not in ends and x.rec.status not in TERMINAL:
                        kind[x] = None
                        todo.append(x)
        return list(ends | starts)

    def _less(self, v: Vertex) -> None:
        """One thing less keeps `v` from starting."""
        self._closed_by[v] -= 1
        if not self._closed_by[v] and v.rec.status is not Status.BLOCKED:
            self._todo.append((self._opens, v))

    def _opens(self, v: Vertex) -> None:
        """`v` may start, as far as deps and holds go."""
        if v.group:
            if v.closed:
                for x in members(v):
                    if x in self._closed_by:
                        self._less(x)
            self._own_ends(v)
        elif v.rec.status is Status.READY or v.rec.status is Status.TODO:
            self._short[v], _ = self.graph.pools.demand(v.rec.needs, v.needy)
            self._try(v)

    def _try(self, v: Vertex) -> None:
        """Run `v` if the units are there by now, else note the first thing that it lacks."""
        pools = self.graph.pools
        for resource, count, lender in self._short[v]:
            key: Hashable = resource
            if lender is not None:
                key = (lender, resource)
                if key not in pools.loans or key in self._loans_over:
                    continue
                count = 0
            elif self._free(resource) >= count:
                continue
            heappush(self._short_of.setdefault(key, []), (count, v.num, v))
            return
        del self._short[v]
        self._own_ends(v)

    def _free(self, resource: str) -> int:
        return self.graph.pools.free(resource) + self._given_back.get(resource, 0)

    def _try_again(self, key: Hashable, free: int) -> None:
        waiting = self._short_of.get(key)
        while waiting and waiting[0][0] <= free:
            self._todo.append((self._try, heappop(waiting)[2]))

    def _own_ends(self, v: Vertex) -> None:
        if v in self.own_over:
            return
        self.own_over.add(v)
        for x, edge in (v.dependents or {}).items():
            if edge & EDGE_OWN and v.rec.outcome is None and x in self._closed_by:
                self._less(x)
        self._may_end(v)

    def _may_end(self, v: Vertex) -> None:
        if v in self.own_over and not self._open_children[v] and v not in self.over:
            self.over.add(v)
            self._ends(v)

    def _ends(self, v: Vertex) -> None:
        for x, edge in (v.dependents or {}).items():
            if not edge & EDGE_OWN and x in self._closed_by:
                self._less(x)
        if v.parent in self._open_children:
            self._open_children[v.parent] -= 1
            self._may_end(v.parent)
        for g in v.rec.grants:
            if g.lender is None:
                self._given_back[g.resource] = self._given_back.get(g.resource, 0) + g.units
                self._try_again(g.resource, self._free(g.resource))
            else:
                self._loans_over.add((g.lender, g.resource))
                self._try_again((g.lender, g.resource), 0)

    def lost(self) -> dict[Vertex, dict[str, list[Vertex]]]:
        """Work that nothing but units keeps back for ever: which, and who holds them."""
        pools = self.graph.pools
        found: dict[Vertex, dict[str, list[Vertex]]] = {}
        for v in sorted(self._short):
            lacking = found[v] = {}
            for resource, count, lender in self._short[v]:
                if lender is not None:
                    key = (lender, resource)
                    if key in pools.loans and key not in self._loans_over:
                        lacking[resource] = [pools.loans[key]]
                elif self._free(resource) < count:
                    pool = pools.pools.get(resource)
                    lacking[resource] = [h for h in pool.holders if h not in self.over] if pool is not None else []
        return found

    def stuck_on(self, h: Vertex, waiting: dict[Vertex, dict[str, list[Vertex]]]) -> list[Vertex]:
        """The waiting work that keeps `h` from ever ending: below it, and where that leads by its deps."""
        # Whether its end is waited for, or its own result alone.
        seen = {(h, True): None}
        stack = [(h, True)]
        while stack:
            v, end = stack.pop()
            after = [(c, True) for c in v.children or ()] if end else []
            if v not in waiting and v not in self.own_over:
                x: Vertex | None = v
                while x is not None:
                    after.extend((t, x.own_deps is None or t not in x.own_deps) for t in x.dep_on if t is not None)
                    x = x.gate
            for n in after:
                ended = n[0] in (self.over if n[1] else self.own_over)
                if n not in seen and not ended and n[0].rec.status not in TERMINAL:
                    seen[n] = None
                    stack.append(n)
        return list(dict.fromkeys(v for v, _ in seen if v in waiting))


def _name(optimist: _Optimist, waiting: dict[Vertex, dict[str, list[Vertex]]]) -> list[dict[str, Any]]:
    """Gather what waits for each other into one deadlock; leave out what waits behind one without being part of it."""
    holders = dict.fromkeys(h for lacking in waiting.values() for hs in lacking.values() for h in hs)
    stuck_on = {h: optimist.stuck_on(h, waiting) for h in holders}
    after = {h: {k for v in stuck_on[h] for hs in waiting[v].values() for k in hs} for h in holders}
    reach: dict[Vertex, set[Vertex]] = {}
    for h in holders:
        seen: set[Vertex] = set()
        stack = list(after[h])
        while stack:
            k = stack.pop()
            if k not in seen:
                seen.add(k)
                stack.extend(after[k])
        reach[h] = seen
    found = []
    told: set[Vertex] = set()
    for h in holders:
        if h in told or h not in reach[h]:
            continue
        party = sorted(k for k in reach[h] if h in reach[k])
        told.update(party)
        found.append(_describe(party, waiting, stuck_on))
    return found


def _describe(
    party: list[Vertex], waiting: dict[Vertex, dict[str, list[Vertex]]], stuck_on: dict[Vertex, list[Vertex]]
) -> dict[str, Any]:
    lacks: dict[Vertex, list[str]] = {}
    for h in party:
        for v in stuck_on[h]:
            wanted = [r for r, hs in waiting[v].items() if any(k in party for k in hs)]
            if wanted:
                lacks[v] = sorted(wanted)
    resources = sorted({r for rs in lacks.values() for r in rs})
    parts = [
        f"{k.rec.id} holds {', '.join(sorted({g.resource for g in k.rec.grants} & set(resources)))}" for k in party
    ]
    parts += [f"{v.rec.id} waits for {', '.join(rs)}" for v, rs in sorted(lacks.items(), key=lambda item: item[0].num)]
    return {
        "subtrees": [k.rec.id for k in party],
        "resources": resources,
        "nodes": [v.rec.id for v in sorted(lacks)],
        "text": f"deadlock: {'; '.join(parts)}",
    }
