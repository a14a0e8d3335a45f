"""The nodes that must not begin before a time, soonest first (law 10.3). Wall clock: it may step back."""

from __future__ import annotations

from heapq import heappop, heappush

from claimdagd.core.state import Vertex
from claimdagd.model import TERMINAL, Status

_WAITING_WORK = frozenset({Status.TODO, Status.READY})
_OPEN_GROUP = frozenset(Status) - TERMINAL - {Status.BLOCKED}


class StartTimes:
    """Which open nodes have a `not_before`, and which of them still wait for it; those held by hand do neither.

    A time is judged when `due` is called, and not in between: so all statuses agree on what time it is.
    """

    def __init__(self) -> None:
        #: The Unix time up to which nodes may begin.
        self.judged = 0.0
        #: Todo and ready work, and open groups, that have a `not_before`, passed or not.
        self.timed: dict[Vertex, None] = {}
        #: Those that wait for it. Each has an entry in the heap: (when, number, vertex).
        self.waiting: dict[Vertex, float] = {}
        #: Those of them that are work, and todo.
        self.later: dict[Vertex, None] = {}
        self._heap: list[tuple[float, int, Vertex]] = []

    def update(self, v: Vertex) -> bool:
        """Follow a change of the record of `v`; return whether `v` has begun to wait, or no longer waits."""
        record = v.record
        when = record.not_before or None
        waited = v in self.waiting
        if when is None or not v.present or record.status not in (_OPEN_GROUP if v.group else _WAITING_WORK):
            self.timed.pop(v, None)
            when = None
        else:
            self.timed[v] = None
        if when is None or when <= self.judged:
            self.waiting.pop(v, None)
            self.later.pop(v, None)
            return waited
        if self.waiting.get(v) != when:
            self.waiting[v] = when
            heappush(self._heap, (when, v.number, v))
        if not v.group and record.status is Status.TODO:
            self.later[v] = None
        else:
            self.later.pop(v, None)
        return not waited

    def next_due(self) -> float | None:
        """Return the Unix time at which the next node may begin, or None."""
        heap = self._heap
        while heap:
            when, _, v = heap[0]
            if self.waiting.get(v) == when:
                return when
            heappop(heap)
        return None

    def due(self, wall: float) -> list[Vertex]:
        """Judge the time; return the nodes that may begin now, or that may not any more after a step back."""
        stepped_back = wall < self.judged
        self.judged = wall
        changed = []
        while (when := self.next_due()) is not None and when <= wall:
            changed.append(self._heap[0][2])
            self.update(changed[-1])
        if stepped_back:
            changed += [v for v in list(self.timed) if self.update(v)]
        return changed
