"""A queue of entries in claim order. Must not know what makes an order, nor of an entry more than whose it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

from claimdagd.core.state import Entry


class Queue:
    """Entries, the smallest first. One that is not its vertex's own any more is dropped when it comes up.

    Work mostly becomes ready in the order in which it will be claimed. So what comes after all others joins the end of
    a sorted run, and only what comes before some of them goes on a heap: taking the first of a million that became
    ready together costs no more than taking the first of ten.
    """

    __slots__ = ("_heap", "_run")

    def __init__(self) -> None:
        self._run: deque[Entry] = deque()
        self._heap: list[Entry] = []

    def push(self, entry: Entry) -> None:
        """Put an entry where it belongs."""
        run = self._run
        if run and entry < run[-1]:
            heappush(self._heap, entry)
        else:
            run.append(entry)

    def first(self) -> Entry | None:
        """The first entry that stands."""
        run, heap = self._run, self._heap
        while run:
            entry = run[0]
            if entry[3].queue_entry is entry:
                break
            run.popleft()
        while heap:
            entry = heap[0]
            if entry[3].queue_entry is entry:
                return run[0] if run and run[0] < entry else entry
            heappop(heap)
        return run[0] if run else None

    def __iter__(self) -> Iterator[Entry]:
        """All that it holds, those that no longer stand among them; first the run, in order."""
        yield from self._run
        yield from self._heap
