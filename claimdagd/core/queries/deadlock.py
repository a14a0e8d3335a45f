"""Deadlocks between subtrees: each holds what the other's work needs (law 6.8). Found and named, never silent.

The rule is an optimistic fixpoint, as the banker's algorithm has it: assume that every live claim ends and that all
work that can run is run and ends well; units held for a subtree come back when all of it has ended. Work that can then
still not run for want of units that unfinished subtrees hold is deadlocked. Blocked work does not count as held up by
units.
Read only.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias

from claimdagd.core.indexes.ranks import members
from claimdagd.core.state import ON_OUTCOME, Vertex
from claimdagd.model import LIVE, TERMINAL, Status, number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from claimdagd.core.graph import Graph
    from claimdagd.core.state import Units

#: The end of a node (True) or its own result alone (False); or units, by resource, or by (lender's id, resource).
Awaited: TypeAlias = "tuple[Vertex, bool] | tuple[str, str] | str"


def deadlock_possible(graph: Graph) -> bool:
    """Whether a deadlock is possible at all: ready work lacks units, and some are held for more than a live claim."""
    graph.ready_queue.refresh()
    if not any(map(graph.ready_queue.lacks_something, graph.ready_queue.demands.values())):
        return False
    holders = [v for pool in graph.resources.pools.values() for v in pool.holders]
    return any(not graph.is_live(v) or v.open_children for v in holders)


def find_deadlocks(graph: Graph) -> list[dict[str, Any]]:
    """Every deadlock: {subtrees: ids of holders, resources: names, nodes: ids of work that waits for ever, text}."""
    found_at, found = graph.deadlocks
    if found_at != graph.changes:
        optimist = _Optimist(graph)
        optimist.run()
        found = sorted(map(optimist.describe, optimist.knots()), key=lambda knot: number_of(knot["subtrees"][0]))
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
            self._closed_by[v] = v.unmet + (v.gating_group is not None and v.gating_group.gated)
            self._open_children[v] = v.open_children
        for v in cone:
            if v.children if v.group else v.record.status in LIVE or v.record.status is Status.COMPLETING:
                # The children of a group decide it, also where it holds back those that have not begun.
                self._todo.append((self._own_ends, v))
            if v.record.status is not Status.BLOCKED and not self._closed_by[v]:
                self._todo.append((self._opens, v))
        while self._todo:
            step, v = self._todo.pop()
            step(v)

    def _cone(self) -> list[Vertex]:
        """Whatever the end of a holder of units hangs on, however far: nothing else can be part of a deadlock."""
        pools = self.graph.resources
        holders = [h for pool in pools.pools.values() for h in pool.holders]
        # Whose end matters; where only the start or the own result does, the children do not.
        ends = dict.fromkeys([*holders, *pools.loans.values()])
        starts: dict[Vertex, None] = {}
        todo = list(ends)
        while todo:
            v = todo.pop()
            ended: list[Vertex] = list(v.children or ()) if v in ends else []
            begun = [v.gating_group] if v.gating_group is not None and v.gating_group.gated else []
            for t in v.dep_on if v.unmet else ():
                if t is not None:
                    (begun if v.outcome_deps is not None and t in v.outcome_deps else ended).append(t)
            for kind, found in ((ends, ended), (starts, begun)):
                for x in found:
                    if x not in kind and x not in ends and x.record.status not in TERMINAL:
                        kind[x] = None
                        todo.append(x)
        return list(ends | starts)

    def _less(self, v: Vertex) -> None:
        """One thing less keeps `v` from starting."""
        self._closed_by[v] -= 1
        if not self._closed_by[v] and v.record.status is not Status.BLOCKED:
            self._todo.append((self._opens, v))

    def _opens(self, v: Vertex) -> None:
        """`v` may start, as far as deps and holds go."""
        if v.group:
            if v.gated:
                for x in members(v):
                    if x in self._closed_by:
                        self._less(x)
            self._own_ends(v)
        elif v.record.status is Status.READY or v.record.status is Status.TODO:
            self._short[v], _ = self.graph.resources.demand(v.record.needs, v.resource_ancestor)
            self._try(v)

    def _try(self, v: Vertex) -> None:
        """Run `v` if the units are there by now, else note the first thing that it lacks."""
        pools = self.graph.resources
        for resource, count, lender in self._short[v]:
            key: Hashable = resource
            if lender is not None:
                key = (lender, resource)
                if key not in pools.loans or key in self._loans_over:
                    continue
                count = 0
            elif self._free(resource) >= count:
                continue
            heappush(self._short_of.setdefault(key, []), (count, v.number, v))
            return
        del self._short[v]
        self._own_ends(v)

    def _free(self, resource: str) -> int:
        return self.graph.resources.free(resource) + self._given_back.get(resource, 0)

    def _try_again(self, key: Hashable, free: int) -> None:
        waiting = self._short_of.get(key)
        while waiting and waiting[0][0] <= free:
            self._todo.append((self._try, heappop(waiting)[2]))

    def _own_ends(self, v: Vertex) -> None:
        if v in self.own_over:
            return
        self.own_over.add(v)
        for x, edge in (v.dependents or {}).items():
            if edge & ON_OUTCOME and v.record.outcome is None and x in self._closed_by:
                self._less(x)
        self._may_end(v)

    def _may_end(self, v: Vertex) -> None:
        if v in self.own_over and not self._open_children[v] and v not in self.over:
            self.over.add(v)
            self._ends(v)

    def _ends(self, v: Vertex) -> None:
        for x, edge in (v.dependents or {}).items():
            if not edge & ON_OUTCOME and x in self._closed_by:
                self._less(x)
        if v.parent in self._open_children:
            self._open_children[v.parent] -= 1
            self._may_end(v.parent)
        for g in v.record.grants:
            if g.lender is None:
                self._given_back[g.resource] = self._given_back.get(g.resource, 0) + g.units
                self._try_again(g.resource, self._free(g.resource))
            else:
                self._loans_over.add((g.lender, g.resource))
                self._try_again((g.lender, g.resource), 0)

    def awaited(self, n: Awaited) -> list[Awaited]:
        """What `n` waits for, of all that never comes: a moment for moments and units, units for their holders."""
        pools = self.graph.resources
        if isinstance(n, str):
            return [(h, True) for h in pools.pools[n].holders if h not in self.over] if n in pools.pools else []
        if isinstance(n[0], str):
            return [(pools.loans[n], True)]
        v, end = n
        moments: list[tuple[Vertex, bool]] = [(c, True) for c in v.children or ()] if end else []
        units: list[Awaited] = []
        if v in self._short:
            for resource, count, lender in self._short[v]:
                if lender is not None:
                    key = (lender, resource)
                    if key in pools.loans and key not in self._loans_over:
                        units.append(key)
                elif self._free(resource) < count:
                    units.append(resource)
        elif v not in self.own_over:
            x: Vertex | None = v
            while x is not None:
                moments.extend(
                    (t, x.outcome_deps is None or t not in x.outcome_deps) for t in x.dep_on if t is not None
                )
                x = x.gating_group
        found = [
            m
            for m in moments
            if m[0].record.status not in TERMINAL and m[0] not in (self.over if m[1] else self.own_over)
        ]
        return [*found, *units]

    def knots(self) -> list[list[Awaited]]:
        """What waits for itself by way of units: the strongly connected parts (Tarjan), from whatever lacks units."""
        number: dict[Awaited, int] = {}
        low: dict[Awaited, int] = {}
        trail: dict[Awaited, None] = {}
        found: list[list[Awaited]] = []
        for root in [(v, False) for v in sorted(self._short)]:
            if root in number:
                continue
            number[root] = low[root] = len(number)
            trail[root] = None
            walks: list[tuple[Awaited, Iterator[Awaited]]] = [(root, iter(self.awaited(root)))]
            while walks:
                n, walk = walks[-1]
                for m in walk:
                    if m not in number:
                        number[m] = low[m] = len(number)
                        trail[m] = None
                        walks.append((m, iter(self.awaited(m))))
                        break
                    if m in trail:
                        low[n] = min(low[n], number[m])
                else:
                    walks.pop()
                    if walks:
                        low[walks[-1][0]] = min(low[walks[-1][0]], low[n])
                    if low[n] == number[n]:
                        knot = []
                        while n in trail:
                            knot.append(trail.popitem()[0])
                        if len(knot) > 1:  # no moment waits for itself alone
                            found.append(knot)
        return found

    def describe(self, knot: list[Awaited]) -> dict[str, Any]:
        """Who holds what, and who waits for it."""
        inside = set(knot)
        keys = [n for n in knot if not isinstance(n, tuple) or isinstance(n[0], str)]
        names = {n if isinstance(n, str) else str(n[1]) for n in keys}
        party = sorted({h[0] for key in keys for h in self.awaited(key) if h in inside and isinstance(h[0], Vertex)})
        lacks: dict[Vertex, list[str]] = {}
        for v in sorted({n[0] for n in knot if isinstance(n[0], Vertex) and n[0] in self._short}):
            wanted = [key for key in self.awaited((v, False)) if key in inside]
            if wanted:
                lacks[v] = sorted(key if isinstance(key, str) else str(key[1]) for key in wanted)
        held = {h: sorted({g.resource for g in h.record.grants} & names) for h in party}
        parts = [f"{h.record.id} holds {', '.join(resources)}" for h, resources in held.items()]
        parts += [f"{v.record.id} waits for {', '.join(resources)}" for v, resources in lacks.items()]
        return {
            "subtrees": [h.record.id for h in party],
            "resources": sorted(names),
            "nodes": [v.record.id for v in lacks],
            "text": f"deadlock: {'; '.join(parts)}",
        }
