"""Units reserved for starved nodes: no node that waits for units is bypassed indefinitely (law 6.7).

The part of the ready queue that decides whether the free units of a resource are free for a given class of nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Protocol, TypeAlias

from claimdagd.core.state import SchedulingClass, Units, Vertex
from claimdagd.model import Grant

#: A vertex, its bypass count before, and its place among the starved before (0: none).
Bypass: TypeAlias = tuple[Vertex, int, int]


class Semaphores(Protocol):
    """What the ready queue needs to know of the resources."""

    loans: dict[tuple[str, str], Vertex]

    def capacity(self, resource: str, /) -> int: ...
    def free(self, resource: str, /) -> int: ...
    def holders(self, resource: str, /) -> Mapping[Vertex, int]: ...
    def external_units(self, needs: dict[str, int], under: Vertex | None, /) -> tuple[Units, bool]: ...


class Reservations:
    """Counts how often ready nodes are bypassed, and reserves units for those bypassed `limit` times."""

    def __init__(self, resources: Semaphores, live: Mapping[str, Vertex], limit: int) -> None:
        self._resources = resources
        #: Every vertex that is held under a lease.
        self._live = live
        self.limit = limit
        #: Starved ready nodes, the longest starved first, each with its place.
        self.starved: dict[Vertex, int] = {}
        self._places = 0
        #: What the present mutation changed, so that it can be undone.
        self.bypasses: list[Bypass] = []
        #: The node's number and the units reserved for it, in order of precedence.
        self.reserved: list[tuple[int, Units]] = []

    def free_for(self, scheduling: SchedulingClass, resource: str) -> int:
        """Return how many units of `resource` are free for nodes of this class."""
        free = self._resources.free(resource)
        if self.reserved and not scheduling.exempt:
            for number, units in self.reserved:
                if number == scheduling.starved:
                    break
                free -= sum(count for r, count, lender in units if r == resource and lender is None)
        return max(0, free)

    def missing(self, scheduling: SchedulingClass) -> tuple[Hashable, int] | None:
        """Return the first missing unit as (key, count), or None. A count of 0 means any returned loan may help."""
        for resource, count, lender in scheduling.units:
            if lender is not None:
                if (lender, resource) in self._resources.loans:
                    return (lender, resource), 0
            elif self.free_for(scheduling, resource) < count:
                return resource, count
        return None

    def missing_grants(self, scheduling: SchedulingClass) -> list[tuple[Grant, int]]:
        """Return each grant that nodes of this class cannot have now, with the units free for it."""
        found: list[tuple[Grant, int]] = []
        for resource, count, lender in scheduling.units:
            if lender is not None:
                if (lender, resource) in self._resources.loans:
                    found.append((Grant(resource, count, lender), 0))
            else:
                free = self.free_for(scheduling, resource)
                if free < count:
                    found.append((Grant(resource, count), free))
        return found

    def update_reservations(self) -> bool:
        """Decide for whom units are reserved; return whether that has changed (law 6.6, 6.7).

        Nothing is reserved for a node that could not run even with all units back. Nor is anything reserved unless a
        live claim could bring back what the node lacks: otherwise the time of that is unknown, and the others may be
        waiting for what is free.
        """
        reserved = []
        moving: set[Vertex] | None = None
        for v in self.starved:
            if v.bucket is None or not self._live:
                continue
            units = v.bucket.scheduling.units
            if any(lender is None and count > self._resources.capacity(resource) for resource, count, lender in units):
                continue
            holders = self._holders_of_missing(units)
            if holders:
                if moving is None:
                    moving = self._moving()
                if not any(h in moving for h in holders):
                    continue
            reserved.append((v.number, units))
        if reserved == self.reserved:
            return False
        self.reserved = reserved
        return True

    def _holders_of_missing(self, units: Units) -> list[Vertex]:
        resources = self._resources
        holders: list[Vertex] = []
        for resource, count, lender in units:
            if lender is not None:
                if (lender, resource) in resources.loans:
                    holders.append(resources.loans[(lender, resource)])
            elif resources.free(resource) < count:
                holders += resources.holders(resource)
        return holders

    def _moving(self) -> set[Vertex]:
        """Return every vertex that is held under a lease or has a vertex below it that is."""
        moving: set[Vertex] = set()
        for held in self._live.values():
            v: Vertex | None = held
            while v is not None and v not in moving:
                moving.add(v)
                v = v.parent
        return moving

    def record_bypass(self, v: Vertex) -> bool:
        """Count that `v` was bypassed once more; return whether it has starved by now (law 6.7)."""
        self.bypasses.append((v, v.bypass_count, 0))
        v.bypass_count += 1
        if v.bypass_count < self.limit:
            return False
        self._places += 1
        self.starved[v] = self._places
        return True

    def reset_bypass(self, v: Vertex) -> None:
        """Forget how often `v` was bypassed, because it no longer waits."""
        self.bypasses.append((v, v.bypass_count, self.starved.pop(v, 0)))
        v.bypass_count = 0

    def restore(self, bypasses: Sequence[Bypass]) -> list[Vertex]:
        """Undo the changes of a mutation; return the vertices that have starved, or no longer have, because of it."""
        changed = []
        for v, count, place in reversed(bypasses):
            v.bypass_count = count
            if (v in self.starved) is not (place > 0):
                if place:
                    self.starved[v] = place
                else:
                    del self.starved[v]
                changed.append(v)
        self.starved = dict(sorted(self.starved.items(), key=itemgetter(1)))
        return changed
