"""Resources as counting semaphores: what a claim takes, what it borrows, what returns (law 6.1, 6.2, 6.3, 6.4).

A grant is on its holder's record; the pools here are an index of them. Must not change a record itself: it says what a
claim would take (`plan`) and what stays where a claim is handed back (`handed_back`), and the verbs put that.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from claimdagd.core.state import Demand, Entry, Units, Vertex
from claimdagd.model import TERMINAL, Grant

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from claimdagd.core.graph import Graph

#: A node, how often it had been passed over, and its place among the starving (0: none).
Passed: TypeAlias = tuple[Vertex, int, int]
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
        self.starving: dict[Vertex, int] = {}
        self._starved = 0
        #: What the mutation under way changed of that: node, how often it had been passed over, and its place in
        #: `starving` (0: none).
        self.passed: list[Passed] = []
        #: What is kept for those of them for whom anything is: the node's number, and the units.
        self.kept: list[tuple[int, Units]] = []

    def capacity(self, resource: str) -> int:
        """Units that there are: 1 where nobody configured it."""
        return self.configured.get(resource, 1)

    def set_capacity(self, resource: str, units: int | None) -> None:
        """Configure `resource`; None takes the configuration back."""
        if units is None:
            self.configured.pop(resource, None)
        else:
            self.configured[resource] = units
        self._graph.changes += 1
        self._graph.ready_queue.reopen(resource, self.free(resource))

    def free(self, resource: str) -> int:
        """Units that nobody holds; never negative, also where the capacity was lowered below what is held."""
        pool = self.pools.get(resource)
        return max(0, self.capacity(resource) - (pool.used if pool is not None else 0))

    # ------------------------------------------------------------------------------------------------- the index

    def move_grants(self, v: Vertex, old: tuple[Grant, ...], new: tuple[Grant, ...]) -> None:
        """`v` holds `new` from now on, and no longer `old`."""
        lines = self._graph.ready_queue
        for g in old:
            if g in new:
                continue
            if g.lender is None:
                pool = self.pools[g.resource]
                pool.used -= g.units
                del pool.holders[v]
                if not pool.used:
                    del self.pools[g.resource]
                lines.reopen(g.resource, self.free(g.resource))
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
            for line in tuple(v.buckets or ()):
                lines.reconsider(line)

    @staticmethod
    def holds(v: Vertex, resource: str) -> bool:
        """Whether `v` has a grant of `resource`, its own or borrowed."""
        return any(g.resource == resource for g in v.record.grants)

    # ----------------------------------------------------------------------------------------------- taking units

    def plan(self, v: Vertex) -> Plan:
        """What a claim of `v` takes, whether or not it is there: its needs and those of groups above without theirs.

        A need that an ancestor holds is borrowed from the nearest such ancestor, else taken fresh.
        """
        takers = [v] if v.record.needs else []
        a = v.resource_ancestor
        while a is not None:
            if a.group and not a.record.grants:
                takers.append(a)
            a = a.resource_ancestor
        if not takers:
            return []
        taken: dict[Vertex, tuple[Grant, ...]] = {}
        for taker in reversed(takers):
            grants = []
            for resource, units in sorted(taker.record.needs.items()):
                lender = taker.resource_ancestor
                while lender is not None and not (
                    self.holds(lender, resource) or any(g.resource == resource for g in taken.get(lender, ()))
                ):
                    lender = lender.resource_ancestor
                grants.append(Grant(resource, units, lender.record.id if lender is not None else None))
            taken[taker] = tuple(grants)
        return list(taken.items())

    def demand(self, needs: dict[str, int], under: Vertex | None) -> tuple[Units, bool]:
        """What a claim of a node with `needs`, whose nearest needy ancestor is `under`, takes from outside itself.

        That is without what it would borrow from groups that take theirs in the same step. And whether an ancestor
        holds units: work below held units must go on, or those would never come back, so nothing is kept from it.
        """
        takers: list[tuple[Vertex | None, dict[str, int]]] = [(None, needs)]
        exempt = False
        a = under
        while a is not None:
            if a.record.grants:
                exempt = True
            elif a.group:
                takers.append((a, a.record.needs))
            a = a.resource_ancestor
        units: list[tuple[str, int, str | None]] = []
        taken: set[tuple[Vertex | None, str]] = set()
        for taker, wanted in reversed(takers):
            for resource, count in sorted(wanted.items()):
                lender = under if taker is None else taker.resource_ancestor
                while lender is not None and (lender, resource) not in taken and not self.holds(lender, resource):
                    lender = lender.resource_ancestor
                if lender is None:
                    units.append((resource, count, None))
                elif (lender, resource) not in taken:
                    units.append((resource, count, lender.record.id))
                taken.add((taker, resource))
        return tuple(units), exempt

    def lacks(self, demand: Demand) -> tuple[Hashable, int] | None:
        """The first thing that claims of `demand` lack now, a resource's name or (lender's id, resource), and how many
        units of it they need (0: whatever comes back); None where they lack nothing.
        """
        for resource, count, lender in demand.units:
            if lender is not None:
                if (lender, resource) in self.loans:
                    return (lender, resource), 0
            elif self._free_for(demand, resource) < count:
                return resource, count
        return None

    def missing(self, v: Vertex) -> list[tuple[Grant, int]]:
        """All that a claim of the ready node `v` lacks now: the grant that cannot be had, and the units free for it."""
        self._graph.ready_queue.refresh()
        demand = v.bucket.demand if v.bucket is not None else None
        found: list[tuple[Grant, int]] = []
        for resource, count, lender in demand.units if demand is not None else ():
            if lender is not None:
                if (lender, resource) in self.loans:
                    found.append((Grant(resource, count, lender), 0))
            else:
                assert demand is not None
                free = self._free_for(demand, resource)
                if free < count:
                    found.append((Grant(resource, count), free))
        return found

    # -------------------------------------------------------------------------------------------------- starvation

    def _free_for(self, demand: Demand, resource: str) -> int:
        free = self.free(resource)
        if self.kept and not demand.exempt:
            for number, units in self.kept:
                if number == demand.starving:
                    break
                free -= sum(count for r, count, lender in units if r == resource and lender is None)
        return max(0, free)

    def review(self) -> None:
        """Decide for whom units are kept, the longest starving first.

        Nothing idles for a node that could not run even with all units back; nor while no claim is live that could
        bring back what it lacks, for then nobody knows when, and what is free may be what the others wait for.
        """
        kept = []
        moving: set[Vertex] | None = None
        for s in self.starving:
            if s.bucket is None or not self._graph.live:
                continue
            units = s.bucket.demand.units
            if any(lender is None and count > self.capacity(resource) for resource, count, lender in units):
                continue
            holders: list[Vertex] = []
            for resource, count, lender in units:
                if lender is not None:
                    if (lender, resource) in self.loans:
                        holders.append(self.loans[(lender, resource)])
                elif self.free(resource) < count:
                    holders += self.pools[resource].holders
            if holders:
                if moving is None:
                    moving = self._moving()
                if not any(h in moving for h in holders):
                    continue
            kept.append((s.number, units))
        if kept != self.kept:
            self.kept = kept
            # Other units than before are kept now: whoever lacks any is looked at again.
            for key in tuple(self._graph.ready_queue.aside):
                if isinstance(key, str):
                    self._graph.ready_queue.reopen(key)

    def _moving(self) -> set[Vertex]:
        """Everything that is held under a lease or has something below it that is."""
        moving: set[Vertex] = set()
        for held in self._graph.by_assignee.values():
            v: Vertex | None = held
            while v is not None and v not in moving:
                moving.add(v)
                v = v.parent
        return moving

    def pass_over(self, v: Vertex, plan: Plan) -> None:
        """A claim of `v` takes units: the fronts of demands ahead of it that wait for any of them are passed over."""
        lines = self._graph.ready_queue
        entry, line = v.queue_entry, v.bucket
        assert entry is not None
        assert line is not None
        passed: dict[Entry, None] = {}
        for _, grants in plan:
            for g in grants:
                if g.lender is None and len(lines.wanting.get(g.resource, ())) > 1:
                    for demand in lines.wanting[g.resource]:
                        if demand is not line.demand and not demand.starving:
                            front = lines.front(demand)
                            if front is not None and front < entry and lines.lacks_something(demand):
                                passed[front] = None
        for front in sorted(passed):
            s = front[3]
            self.passed.append((s, s.bypass_count, 0))
            s.bypass_count += 1
            if s.bypass_count >= self.starvation:
                self._starved += 1
                self.starving[s] = self._starved
                lines.refile(s)

    def forgive(self, v: Vertex) -> None:
        """`v` waits no more: nothing is kept for it."""
        self.passed.append((v, v.bypass_count, self.starving.pop(v, 0)))
        v.bypass_count = 0

    def restore(self, passed: Sequence[Passed]) -> None:
        """Take back what a mutation changed of who was passed over."""
        for v, passes, place in reversed(passed):
            v.bypass_count = passes
            if (v in self.starving) is not (place > 0):
                if place:
                    self.starving[v] = place
                else:
                    del self.starving[v]
                if v.queue_entry is not None:
                    self._graph.ready_queue.move(v, v.record.role)
        self.starving = dict(sorted(self.starving.items(), key=itemgetter(1)))

    # ------------------------------------------------------------------------------------------- giving units back

    def handed_back(self, v: Vertex) -> list[tuple[Vertex, tuple[Grant, ...]]]:
        """Who holds what once the claim of `v` is handed back: `v` nothing; what a live descendant uses goes to it."""
        changes: list[tuple[Vertex, tuple[Grant, ...]]] = []
        passed: dict[Vertex, list[Grant]] = {}
        for g in v.record.grants:
            borrower = self.loans.get((v.record.id, g.resource))
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
                        if b.lender == v.record.id and b.resource in lender_of
                        else b
                        for b in borrower.record.grants
                    ),
                )
            )
        return changes

    def idle_groups(self, v: Vertex) -> list[Vertex]:
        """Groups above `v` that hold units under which nobody is claimed, running or completing, nearest first."""
        idle = []
        a = v.resource_ancestor
        while a is not None:
            if a.group and a.record.grants and not a.active and a.record.status not in TERMINAL:
                idle.append(a)
            a = a.resource_ancestor
        return idle
