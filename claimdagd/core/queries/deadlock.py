"""Deadlocks between subtrees: each holds what the other's work needs (law 6.8). Found and named, never silent.

The rule is an optimistic fixpoint, as in the banker's algorithm: assume that every live claim ends and that all work
that can run is run and is done; units held for a subtree come back when all of it has ended. Work that still cannot run
then, because unfinished subtrees hold the units that it lacks, is deadlocked. Blocked work does not count as held up by
units. Read only.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias

from claimdagd.core.indexes.ranks import members
from claimdagd.core.state import Vertex
from claimdagd.model import LIVE, TERMINAL, Status, number_of
from claimdagd.waitgraph import END, ON_OUTCOME, awaited_milestone, components

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from claimdagd.core.graph import Graph
    from claimdagd.core.state import Units

#: The end of a node (True) or its own result alone (False); or units, by resource, or by (lender's id, resource).
Awaited: TypeAlias = "tuple[Vertex, bool] | tuple[str, str] | str"


def deadlock_possible(graph: Graph) -> bool:
    """Return whether ready work lacks units of which some are held for more than a live claim; else there is none."""
    graph.ready_queue.refresh()
    if not any(map(graph.ready_queue.is_short, graph.ready_queue.classes.values())):
        return False
    holders = [v for semaphore in graph.resources.semaphores.values() for v in semaphore.holders]
    return any(not graph.is_live(v) or v.open_children for v in holders)


def find_deadlocks(graph: Graph) -> list[dict[str, Any]]:
    """Return every deadlock: {subtrees: ids of holders, resources: names, nodes: ids of the stuck work, text}.

    Law 6.8.
    """
    found_at, found = graph.deadlocks
    if found_at != graph.changes:
        simulation = _CompletionSimulation(graph)
        simulation.run()
        described = map(simulation.describe, simulation.components())
        found = sorted(described, key=lambda deadlock: number_of(deadlock["subtrees"][0]))
        graph.deadlocks = (graph.changes, found)
    return found


class _CompletionSimulation:
    """Simulates which nodes can end and which units can come back; each step once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.own_over: set[Vertex] = set()
        self.over: set[Vertex] = set()
        #: How much still keeps each node from starting: unmet deps, and a group above that is gated.
        self._obstacles: dict[Vertex, int] = {}
        self._open_children: dict[Vertex, int] = {}
        self._given_back: dict[str, int] = {}
        self._loans_over: set[tuple[str, str]] = set()
        #: Work that could start but for units, and what it takes; and by the first thing that it lacks.
        self._short: dict[Vertex, Units] = {}
        self._short_of: dict[Hashable, list[tuple[int, int, Vertex]]] = {}
        self._todo: list[tuple[Callable[[Vertex], None], Vertex]] = []

    def run(self) -> None:
        """Simulate to the end."""
        cone = self._cone()
        for v in cone:
            self._obstacles[v] = v.unmet + (v.gating_group is not None and v.gating_group.gated)
            self._open_children[v] = v.open_children
        for v in cone:
            if v.children if v.group else v.record.status in LIVE or v.record.status is Status.COMPLETING:
                # The children of a group decide it, even if it keeps those from starting that have not begun.
                self._todo.append((self._end_own_part, v))
            if v.record.status is not Status.BLOCKED and not self._obstacles[v]:
                self._todo.append((self._start, v))
        while self._todo:
            step, v = self._todo.pop()
            step(v)

    def _cone(self) -> list[Vertex]:
        """Return all that the end of a holder of units waits for, however far: nothing else can be in a deadlock."""
        resources = self.graph.resources
        holders = [h for semaphore in resources.semaphores.values() for h in semaphore.holders]
        # Whose end matters. The children of the others do not, because only the start or the own result matters.
        ends = dict.fromkeys([*holders, *resources.loans.values()])
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

    def _remove_obstacle(self, v: Vertex) -> None:
        """Count that one obstacle to the start of `v` is gone."""
        self._obstacles[v] -= 1
        if not self._obstacles[v] and v.record.status is not Status.BLOCKED:
            self._todo.append((self._start, v))

    def _start(self, v: Vertex) -> None:
        """Start `v`, whose deps are met and which no group keeps back."""
        if v.group:
            if v.gated:
                for x in members(v):
                    if x in self._obstacles:
                        self._remove_obstacle(x)
            self._end_own_part(v)
        elif v.record.status is Status.READY or v.record.status is Status.TODO:
            self._short[v], _ = self.graph.resources.external_units(v.record.needs, v.resource_ancestor)
            self._try(v)

    def _try(self, v: Vertex) -> None:
        """Run `v` if its units are free by now, else note the first one that it lacks."""
        resources = self.graph.resources
        for resource, count, lender in self._short[v]:
            key: Hashable = resource
            if lender is not None:
                key = (lender, resource)
                if key not in resources.loans or key in self._loans_over:
                    continue
                count = 0
            elif self._free(resource) >= count:
                continue
            heappush(self._short_of.setdefault(key, []), (count, v.number, v))
            return
        del self._short[v]
        self._end_own_part(v)

    def _free(self, resource: str) -> int:
        return self.graph.resources.free(resource) + self._given_back.get(resource, 0)

    def _try_again(self, key: Hashable, free: int) -> None:
        waiting = self._short_of.get(key)
        while waiting and waiting[0][0] <= free:
            self._todo.append((self._try, heappop(waiting)[2]))

    def _end_own_part(self, v: Vertex) -> None:
        if v in self.own_over:
            return
        self.own_over.add(v)
        for x, edge in (v.dependents or {}).items():
            if edge & ON_OUTCOME and v.record.outcome is None and x in self._obstacles:
                self._remove_obstacle(x)
        self._end_if_children_have(v)

    def _end_if_children_have(self, v: Vertex) -> None:
        if v in self.own_over and not self._open_children[v] and v not in self.over:
            self.over.add(v)
            self._end(v)

    def _end(self, v: Vertex) -> None:
        for x, edge in (v.dependents or {}).items():
            if not edge & ON_OUTCOME and x in self._obstacles:
                self._remove_obstacle(x)
        if v.parent in self._open_children:
            self._open_children[v.parent] -= 1
            self._end_if_children_have(v.parent)
        for g in v.record.grants:
            if g.lender is None:
                self._given_back[g.resource] = self._given_back.get(g.resource, 0) + g.units
                self._try_again(g.resource, self._free(g.resource))
            else:
                self._loans_over.add((g.lender, g.resource))
                self._try_again((g.lender, g.resource), 0)

    def waits_for(self, n: Awaited) -> list[Awaited]:
        """Return what `n` waits for that can never happen."""
        resources = self.graph.resources
        if isinstance(n, str):
            return [(h, True) for h in resources.holders(n) if h not in self.over]
        if isinstance(n[0], str):
            return [(resources.loans[n], True)]
        v, end = n
        ends: list[tuple[Vertex, bool]] = [(c, True) for c in v.children or ()] if end else []
        units: list[Awaited] = []
        if v in self._short:
            for resource, count, lender in self._short[v]:
                if lender is not None:
                    key = (lender, resource)
                    if key in resources.loans and key not in self._loans_over:
                        units.append(key)
                elif self._free(resource) < count:
                    units.append(resource)
        elif v not in self.own_over:
            x: Vertex | None = v
            while x is not None:
                ends.extend((t, awaited_milestone(x, t) is END) for t in x.dep_on if t is not None)
                x = x.gating_group
        found = [
            m for m in ends if m[0].record.status not in TERMINAL and m[0] not in (self.over if m[1] else self.own_over)
        ]
        return [*found, *units]

    def components(self) -> list[list[Awaited]]:
        """Return the strongly connected components, by way of units, of all that lacks units."""
        roots: list[Awaited] = [(v, False) for v in sorted(self._short)]
        # No node waits for itself alone.
        return [found for found in components(roots, self.waits_for) if len(found) > 1]

    def describe(self, component: list[Awaited]) -> dict[str, Any]:
        """Return a deadlock in words and ids: who holds what, and who waits for it."""
        inside = set(component)
        keys = [n for n in component if not isinstance(n, tuple) or isinstance(n[0], str)]
        names = {n if isinstance(n, str) else str(n[1]) for n in keys}
        party = sorted({h[0] for key in keys for h in self.waits_for(key) if h in inside and isinstance(h[0], Vertex)})
        lacks: dict[Vertex, list[str]] = {}
        for v in sorted({n[0] for n in component if isinstance(n[0], Vertex) and n[0] in self._short}):
            wanted = [key for key in self.waits_for((v, False)) if key in inside]
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
