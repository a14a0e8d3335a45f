"""Resources as counting semaphores: what a claim takes, what it borrows, and how units come back (DESIGN 6).

A grant is on its holder's record; the pools here are an index of them. Must not change a record itself: it says what a
claim would take (`plan`) and what stays where a claim is handed back (`handed_back`), and the verbs put that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from claimdagd.core.vertex import Vertex
from claimdagd.model import TERMINAL, Grant

if TYPE_CHECKING:
    from collections.abc import Hashable

    from claimdagd.core.graph import Graph

#: What a claim takes: each holder-to-be with its grants, highest ancestor first.
Plan: TypeAlias = list[tuple[Vertex, tuple[Grant, ...]]]


class Pool:
    """One resource: units used, and by whom."""

    __slots__ = ("holders", "used")

    def __init__(self) -> None:
        self.used = 0
        self.holders: dict[Vertex, int] = {}


class Pools:
    """Every resource that was ever needed or configured, and every loan of one."""

    def __init__(self, graph: Graph, starvation: int) -> None:
        self._graph = graph
        self.starvation = starvation
        self.configured: dict[str, int] = {}
        self.pools: dict[str, Pool] = {}
        #: (lender's id, resource) to its one direct borrower.
        self.loans: dict[tuple[str, str], Vertex] = {}
        #: Ready nodes passed over too often, the longest starving first: units are kept for them.
        self.starving: dict[Vertex, None] = {}

    def capacity(self, resource: str) -> int:
        """Units that there are: 1 where nobody configured it."""
        return self.configured.get(resource, 1)

    def set_capacity(self, resource: str, units: int | None) -> None:
        """Configure `resource`; None takes the configuration back."""
        if units is None:
            self.configured.pop(resource, None)
        else:
            self.configured[resource] = units
        self._graph.lines.reopen(resource)

    def free(self, resource: str) -> int:
        """Units that nobody holds; never negative, also where the capacity was lowered below what is held."""
        pool = self.pools.get(resource)
        return max(0, self.capacity(resource) - (pool.used if pool is not None else 0))

    # ------------------------------------------------------------------------------------------------- the index

    def move_grants(self, v: Vertex, old: tuple[Grant, ...], new: tuple[Grant, ...]) -> None:
        """`v` holds `new` from now on, and no longer `old`."""
        lines = self._graph.lines
        for g in old:
            if g in new:
                continue
            if g.lender is None:
                pool = self.pools[g.resource]
                pool.used -= g.units
                del pool.holders[v]
                if not pool.used:
                    del self.pools[g.resource]
                lines.reopen(g.resource)
            else:
                del self.loans[(g.lender, g.resource)]
                lines.reopen((g.lender, g.resource))
        for g in new:
            if g in old:
                continue
            if g.lender is None:
                pool = self.pools.setdefault(g.resource, Pool())
                pool.used += g.units
                pool.holders[v] = g.units
            else:
                self.loans[(g.lender, g.resource)] = v
        if bool(old) is not bool(new) or old != new:
            for line in tuple(v.lines or ()):
                lines.reconsider(line)

    @staticmethod
    def holds(v: Vertex, resource: str) -> bool:
        """Whether `v` has a grant of `resource`, its own or borrowed."""
        return any(g.resource == resource for g in v.rec.grants)

    # ----------------------------------------------------------------------------------------------- taking units

    def plan(self, v: Vertex) -> Plan:
        """What a claim of `v` takes, whether or not it is there: its needs and those of groups above without theirs.

        A need that an ancestor holds is borrowed from the nearest such ancestor, else taken fresh.
        """
        takers = [v] if v.rec.needs else []
        a = v.needy
        while a is not None:
            if a.group and not a.rec.grants:
                takers.append(a)
            a = a.needy
        if not takers:
            return []
        taken: dict[Vertex, tuple[Grant, ...]] = {}
        for taker in reversed(takers):
            grants = []
            for resource, units in sorted(taker.rec.needs.items()):
                lender = taker.needy
                while lender is not None and not (
                    self.holds(lender, resource) or any(g.resource == resource for g in taken.get(lender, ()))
                ):
                    lender = lender.needy
                grants.append(Grant(resource, units, lender.rec.id if lender is not None else None))
            taken[taker] = tuple(grants)
        return list(taken.items())

    def lacks(self, v: Vertex) -> Hashable | None:
        """The first thing that a claim of `v` lacks now: a resource's name, or (lender's id, resource); or None."""
        for key, _, _ in self.missing(v, first=True):
            return key
        return None

    def missing(self, v: Vertex, first: bool = False) -> list[tuple[Hashable, Grant, int]]:
        """All that a claim of `v` lacks now: (what, the grant that cannot be had, units free)."""
        found: list[tuple[Hashable, Grant, int]] = []
        for _, grants in self.plan(v):
            for g in grants:
                if g.lender is not None:
                    if (g.lender, g.resource) in self.loans:
                        found.append(((g.lender, g.resource), g, 0))
                else:
                    free = self._free_for(v, g.resource)
                    if free < g.units:
                        found.append((g.resource, g, free))
                if found and first:
                    return found
        return found

    def _free_for(self, v: Vertex, resource: str) -> int:
        free = self.free(resource)
        if self.starving and not self._within_a_holder(v):
            for s in self.starving:
                if s is v:
                    break
                free -= self._kept_for(s, resource)
        return max(0, free)

    @staticmethod
    def _within_a_holder(v: Vertex) -> bool:
        """Work below held units must go on, or those would never come back: nothing is kept from it."""
        a = v.needy
        while a is not None:
            if a.rec.grants:
                return True
            a = a.needy
        return False

    def _kept_for(self, s: Vertex, resource: str) -> int:
        for _, grants in self.plan(s):
            for g in grants:
                if g.resource == resource and g.lender is None:
                    # Nothing idles for a node that could not run even with all units back.
                    return g.units if g.units <= self.capacity(resource) else 0
        return 0

    def pass_over(self, v: Vertex, plan: Plan) -> None:
        """A claim of `v` takes units: the fronts of lines ahead of it that wait for them are passed over."""
        lines = self._graph.lines
        aside = lines.aside
        if not aside or v.entry is None:
            return
        hungry = []
        for _, grants in plan:
            for g in grants:
                if g.lender is None:
                    for line in aside.get(g.resource, ()):
                        fronts = [lines.front(line, role) for role in line.heaps]
                        front = min((f for f in fronts if f is not None), default=None)
                        if front is not None and front < v.entry and front[3] not in self.starving:
                            front[3].passes += 1
                            if front[3].passes >= self.starvation:
                                hungry.append(front[3])
        for s in hungry:
            self.starving[s] = None
            lines.refile(s)

    def forgive(self, v: Vertex) -> None:
        """`v` waits no more: nothing is kept for it."""
        v.passes = 0
        if v in self.starving:
            del self.starving[v]
            self.release_kept()

    def release_kept(self) -> None:
        """Other units than before are kept now: whoever lacks any is looked at again."""
        # All of them: what the starving node needed before may be something else by now.
        for key in tuple(self._graph.lines.aside):
            if isinstance(key, str):
                self._graph.lines.reopen(key)

    # ------------------------------------------------------------------------------------------- giving units back

    def handed_back(self, v: Vertex) -> list[tuple[Vertex, tuple[Grant, ...]]]:
        """Who holds what once the claim of `v` is handed back: `v` nothing; what a live descendant uses goes to it."""
        changes: list[tuple[Vertex, tuple[Grant, ...]]] = []
        passed: dict[Vertex, list[Grant]] = {}
        for g in v.rec.grants:
            borrower = self.loans.get((v.rec.id, g.resource))
            if borrower is not None:
                passed.setdefault(borrower, []).append(g)
        changes.append((v, ()))
        for borrower, grants in passed.items():
            lender_of = {g.resource: g.lender for g in grants}
            changes.append(
                (
                    borrower,
                    tuple(
                        Grant(b.resource, b.units, lender_of[b.resource])
                        if b.lender == v.rec.id and b.resource in lender_of
                        else b
                        for b in borrower.rec.grants
                    ),
                )
            )
        return changes

    def idle_groups(self, v: Vertex) -> list[Vertex]:
        """Groups above `v` that hold units under which nobody is claimed, running or completing, nearest first."""
        idle = []
        a = v.needy
        while a is not None:
            if a.group and a.rec.grants and not a.active and a.rec.status not in TERMINAL:
                idle.append(a)
            a = a.needy
        return idle
