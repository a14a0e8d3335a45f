"""Resources as counting semaphores: what a claim takes, what it borrows, what returns (law 6.1, 6.2, 6.3, 6.4).

The grants themselves are in the records of their holders; this table is an index of them. It computes grants and never
changes a record: the operations do that.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

from claimdagd.core.state import ClaimGrants, Units, Vertex
from claimdagd.model import TERMINAL, Grant

#: Called when units of a key come back, with how many units of it are free, or None for a loan. The key is a
#: resource's name, or (lender's id, resource).
OnFreed: TypeAlias = Callable[[Hashable, int | None], None]


class Semaphore:
    """The use of one resource: how many units are used, and by which vertices."""

    __slots__ = ("holders", "used")

    def __init__(self) -> None:
        self.used = 0
        self.holders: dict[Vertex, int] = {}


class ResourceTable:
    """Every resource that is held or configured, and every loan of one."""

    def __init__(self, on_freed: OnFreed) -> None:
        self._on_freed = on_freed
        self.configured: dict[str, int] = {}
        self.semaphores: dict[str, Semaphore] = {}
        #: (lender's id, resource) to the one vertex that borrows directly from it.
        self.loans: dict[tuple[str, str], Vertex] = {}

    def capacity(self, resource: str) -> int:
        """Return how many units there are: 1 unless configured."""
        return self.configured.get(resource, 1)

    def set_capacity(self, resource: str, units: int | None) -> None:
        """Configure `resource`; None removes the configuration."""
        if units is None:
            self.configured.pop(resource, None)
        else:
            self.configured[resource] = units
        self._on_freed(resource, self.free(resource))

    def free(self, resource: str) -> int:
        """Return how many units are free: 0 if the capacity was lowered below what is held."""
        semaphore = self.semaphores.get(resource)
        return max(0, self.capacity(resource) - (semaphore.used if semaphore is not None else 0))

    def holders(self, resource: str) -> dict[Vertex, int]:
        """Return who holds units of `resource`, and how many."""
        semaphore = self.semaphores.get(resource)
        return semaphore.holders if semaphore is not None else {}

    def index_grants(self, v: Vertex, old: tuple[Grant, ...], new: tuple[Grant, ...]) -> None:
        """Update the index for `v`, which held `old` and holds `new`."""
        for g in old:
            if g in new:
                continue
            if g.lender is None:
                semaphore = self.semaphores[g.resource]
                semaphore.used -= g.units
                del semaphore.holders[v]
                if not semaphore.used:
                    del self.semaphores[g.resource]
                self._on_freed(g.resource, self.free(g.resource))
            else:
                del self.loans[(g.lender, g.resource)]
                self._on_freed((g.lender, g.resource), None)
        for g in new:
            if g in old:
                continue
            if g.lender is None:
                semaphore = self.semaphores.setdefault(g.resource, Semaphore())
                semaphore.used += g.units
                semaphore.holders[v] = g.units
            else:
                self.loans[(g.lender, g.resource)] = v

    @staticmethod
    def holds(v: Vertex, resource: str) -> bool:
        """Return whether `v` has a grant of `resource`, its own or borrowed."""
        return any(g.resource == resource for g in v.record.grants)

    # ----------------------------------------------------------------------------------------------- taking units

    def claim_grants(self, v: Vertex) -> ClaimGrants:
        """Return what a claim of `v` takes, free or not: its needs, and those of groups above that hold none yet.

        A need is borrowed from the nearest ancestor that holds the resource; if none does, it is taken afresh.
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

    def external_units(self, needs: dict[str, int], under: Vertex | None) -> tuple[Units, bool]:
        """Return the units that a claim takes from outside itself, and whether an ancestor holds units.

        What the claim would borrow from groups that take theirs in the same step is left out. Work below held units
        must go on, or those units would never come back: so it is exempt from reservations.

        Args:
            needs: the needs of the node to be claimed.
            under: its nearest ancestor that has needs.
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

    # ------------------------------------------------------------------------------------------- giving units back

    def grants_after_release(self, v: Vertex) -> ClaimGrants:
        """Return who holds what once the claim of `v` is given up: `v` nothing, its borrowers what they use of it.

        Law 6.3.
        """
        changes: ClaimGrants = [(v, ())]
        passed: dict[Vertex, dict[str, str | None]] = {}
        for g in v.record.grants:
            borrower = self.loans.get((v.record.id, g.resource))
            if borrower is not None:
                passed.setdefault(borrower, {})[g.resource] = g.lender
        for borrower, lender_of in passed.items():
            grants = [
                Grant(b.resource, b.units, lender_of[b.resource])
                if b.lender == v.record.id and b.resource in lender_of
                else b
                for b in borrower.record.grants
            ]
            changes.append((borrower, tuple(grants)))
        return changes

    def idle_groups(self, v: Vertex) -> list[Vertex]:
        """Return the groups above `v`, nearest first, that hold units and have no active node below them."""
        idle = []
        a = v.resource_ancestor
        while a is not None:
            if a.group and a.record.grants and not a.active and a.record.status not in TERMINAL:
                idle.append(a)
            a = a.resource_ancestor
        return idle
