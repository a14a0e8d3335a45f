"""The deadlines of live leases, soonest first. A lease may move often: its heap entry moves only when it is met."""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace

from claimdagd.core.state import Lease, Vertex


class Leases:
    """The heap of deadlines. Each live lease has one entry, at its deadline or before."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Vertex]] = []

    def set(self, v: Vertex, lease: Lease) -> None:
        """Give `v` this lease. Not a mutation: a renewal is not journaled."""
        v.lease = lease
        if v.heap_deadline is None or lease.deadline < v.heap_deadline:
            v.heap_deadline = lease.deadline
            heappush(self.heap, (lease.deadline, v.number, v))

    def next_deadline(self) -> float | None:
        """Return when the next lease runs out (monotonic), or None."""
        heap = self.heap
        while heap:
            when, number, v = heap[0]
            lease = v.lease
            if v.heap_deadline != when:
                heappop(heap)
            elif lease is None:
                heappop(heap)
                v.heap_deadline = None
            elif lease.deadline > when:
                v.heap_deadline = lease.deadline
                heapreplace(heap, (lease.deadline, number, v))
            else:
                return when
        return None

    def overdue(self, now: float) -> Vertex | None:
        """Return the held vertex whose lease has been over longest at `now`, or None."""
        when = self.next_deadline()
        return self.heap[0][2] if when is not None and when <= now else None
