"""Deadlocks between subtrees: each holds what the other's work needs (DESIGN 6). Found and named, never silent.

The rule is an optimistic fixpoint, as the banker's algorithm has it: assume that every live claim ends and that all
work that can run is run and ends well; units held for a subtree come back when all of it has ended. Work that can then
still not run for want of units that unfinished subtrees hold is deadlocked. Blocked work does not count as held up by
units.
Read only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from claimdagd.core.vertex import EDGE_ANY, EDGE_OWN, Vertex
from claimdagd.model import LIVE, TERMINAL, Status

if TYPE_CHECKING:
    from claimdagd.core.graph import Graph


def suspicious(graph: Graph) -> bool:
    """Whether a deadlock is possible at all: ready work lacks units, and some are held for more than a live claim."""
    graph.lines.refresh()
    if not any(map(graph.lines.lacks_something, graph.lines.lines.values())):
        return False
    holders = [v for pool in graph.pools.pools.values() for v in pool.holders]
    return any(not graph.is_live(v) or v.open_children for v in holders)


def find_deadlocks(graph: Graph) -> list[dict[str, Any]]:
    """Every deadlock: {subtrees: ids of holders, resources: names, nodes: ids of work that waits for ever, text}."""
    graph.lines.refresh()
    optimist = _Optimist(graph)
    optimist.run()
    waiting = optimist.waiting()
    return _name(optimist, waiting) if waiting else []


class _Optimist:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.own_over: set[Vertex] = set()
        self.over: set[Vertex] = set()
        self.given_back: dict[str, int] = {}
        self.loans_over: set[tuple[str, str]] = set()
        self.unfinished = [v for v in graph.vertices.values() if v.rec.status not in TERMINAL]

    def run(self) -> None:
        for v in self.unfinished:
            if (not v.group and v.rec.status in LIVE) or v.rec.status is Status.COMPLETING:
                self.own_over.add(v)
        moved = True
        while moved:
            moved = False
            for v in self.unfinished:
                if v not in self.own_over and self._own_ends(v):
                    self.own_over.add(v)
                    moved = True
                if v not in self.over and self._ends(v):
                    self.over.add(v)
                    moved = True
                    for g in v.rec.grants:
                        if g.lender is None:
                            self.given_back[g.resource] = self.given_back.get(g.resource, 0) + g.units
                        else:
                            self.loans_over.add((g.lender, g.resource))

    def met(self, v: Vertex) -> bool:
        """Whether the deps of `v`, of the groups above it, and no hold, keep it back for ever."""
        x: Vertex | None = v
        while x is not None:
            if x.rec.status is Status.BLOCKED:
                return False
            for t in x.dep_on:
                if t is None or t.dependents is None:
                    continue
                edge = t.dependents[x]
                if self.graph.meets(t.rec, edge):
                    continue
                if edge & EDGE_OWN:
                    if t not in self.own_over or (t.rec.outcome is not None and not edge & EDGE_ANY):
                        return False
                elif t not in self.over:
                    return False
            x = x.gate
        return True

    def lacking(self, v: Vertex) -> dict[str, list[Vertex]]:
        """Resources that `v` lacks even so, each with those that hold units of it and never end."""
        pools = self.graph.pools
        found: dict[str, list[Vertex]] = {}
        for _, grants in pools.plan(v):
            for g in grants:
                if g.lender is not None:
                    key = (g.lender, g.resource)
                    if key in pools.loans and key not in self.loans_over:
                        found[g.resource] = [pools.loans[key]]
                elif pools.free(g.resource) + self.given_back.get(g.resource, 0) < g.units:
                    pool = pools.pools.get(g.resource)
                    found[g.resource] = [h for h in pool.holders if h not in self.over] if pool is not None else []
        return found

    def _own_ends(self, v: Vertex) -> bool:
        if v.group and v.children:
            return True  # its children decide it, also where it holds back those that have not begun
        return self.met(v) and (v.group or not self.lacking(v))

    def _ends(self, v: Vertex) -> bool:
        if v not in self.own_over:
            return False
        if v.group and not v.children:
            return True
        return all(c.rec.status in TERMINAL or c in self.over for c in v.children or ())

    def waiting(self) -> dict[Vertex, dict[str, list[Vertex]]]:
        """Work that nothing but units keeps back: which, and who holds them."""
        found = {}
        for v in self.unfinished:
            if not v.group and v not in self.own_over and self.met(v):
                lacking = self.lacking(v)
                if lacking:
                    found[v] = lacking
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
