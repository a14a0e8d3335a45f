"""Deadlocks between subtrees: each holds what the other's work needs (DESIGN 6). Found and named, never silent.

The rule is an optimistic fixpoint, as the banker's algorithm has it: assume that every live claim ends and that all work
that can run is run and ends well; units held for a subtree come back when all of it has ended. Work that can then still
not run for want of units that unfinished subtrees hold is deadlocked. Blocked work does not count as held up by units.
Read only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from claimdagd.core.vertex import EDGE_ANY, EDGE_OWN, Vertex
from claimdagd.model import LIVE, TERMINAL, Status

if TYPE_CHECKING:
    from claimdagd.core.graph import Graph


def suspicious(graph: Graph) -> bool:
    """Whether a deadlock is possible at all: ready work below held units is set aside for want of others."""
    for lines in graph.lines.aside.values():
        for line in lines:
            a = line.under
            while a is not None:
                if a.rec.grants:
                    return True
                a = a.needy
    return False


def find_deadlocks(graph: Graph) -> list[dict[str, Any]]:
    """Every deadlock: {subtrees: ids of holders, resources: names, nodes: ids of work that waits for ever, text}."""
    graph.lines.refresh()
    # Everything is followed on paper: which ends come, and which units are free by then.
    optimist = _Optimist(graph)
    optimist.run()
    waiting = optimist.waiting()
    return _name(graph, optimist, waiting) if waiting else []


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

    def lacking(self, v: Vertex) -> list[str]:
        """Resources that `v` lacks even so."""
        pools = self.graph.pools
        found = []
        for _, grants in pools.plan(v):
            for g in grants:
                if g.lender is not None:
                    if (g.lender, g.resource) in pools.loans and (g.lender, g.resource) not in self.loans_over:
                        found.append(g.resource)
                elif pools.free(g.resource) + self.given_back.get(g.resource, 0) < g.units:
                    found.append(g.resource)
        return found

    def _own_ends(self, v: Vertex) -> bool:
        if not self.met(v):
            return False
        return v.group or not self.lacking(v)

    def _ends(self, v: Vertex) -> bool:
        if v not in self.own_over:
            return False
        if v.group and not v.children:
            return True
        return all(c.rec.status in TERMINAL or c in self.over for c in v.children or ())

    def waiting(self) -> list[tuple[Vertex, list[str]]]:
        """Work that nothing but units keeps back, and which."""
        found = []
        for v in self.unfinished:
            if not v.group and v not in self.own_over and self.met(v):
                lacking = self.lacking(v)
                if lacking:
                    found.append((v, lacking))
        return found


def _holders(optimist: _Optimist, resource: str) -> list[Vertex]:
    return [
        v for v in optimist.unfinished if v not in optimist.over and any(g.resource == resource for g in v.rec.grants)
    ]


def _name(graph: Graph, optimist: _Optimist, waiting: list[tuple[Vertex, list[str]]]) -> list[dict[str, Any]]:
    """Gather what waits for each other into one deadlock; leave out what waits behind one without being part of it."""
    holders_of = {r: _holders(optimist, r) for _, lacking in waiting for r in lacking}
    # holder -> holders that work below it waits for
    after: dict[Vertex, dict[Vertex, None]] = {}
    for v, lacking in waiting:
        above = [h for hs in holders_of.values() for h in hs if h is v or graph.is_ancestor(h, v)]
        for h in above:
            for r in lacking:
                after.setdefault(h, {}).update(dict.fromkeys(k for k in holders_of[r] if k is not h))
    reach: dict[Vertex, set[Vertex]] = {}
    for h in after:
        seen: set[Vertex] = set()
        stack = list(after[h])
        while stack:
            k = stack.pop()
            if k not in seen:
                seen.add(k)
                stack.extend(after.get(k, ()))
        reach[h] = seen
    found = []
    told: set[Vertex] = set()
    for h in after:
        if h in told or h not in reach[h]:
            continue
        party = sorted(k for k in reach[h] if h in reach.get(k, ()))
        told.update(party)
        held = {g.resource for k in party for g in k.rec.grants}
        nodes = [
            (v, [r for r in lacking if r in held])
            for v, lacking in waiting
            if any(k is v or graph.is_ancestor(k, v) for k in party)
        ]
        nodes = [(v, rs) for v, rs in nodes if rs]
        resources = sorted({r for _, rs in nodes for r in rs})
        text = "deadlock: " + "; ".join(
            [
                f"{k.rec.id} holds {', '.join(sorted({g.resource for g in k.rec.grants} & set(resources)))}"
                for k in party
            ]
            + [f"{v.rec.id} waits for {', '.join(rs)}" for v, rs in nodes]
        )
        found.append(
            {
                "subtrees": [k.rec.id for k in party],
                "resources": resources,
                "nodes": [v.rec.id for v, _ in nodes],
                "text": text,
            }
        )
    return found
