"""How deep a node lies: the critical path below it and the priority that it inherits from what waits on it.

Depth is the bottom level (Hu 1961; HEFT's upward rank without communication) over the wait graph (law 5.3): a node's
own cost plus the largest sum of cost along any chain of unfinished work that waits on it. Effective priority is the
highest among the node and all unfinished nodes any of whose moments waits on it.

Values are kept per moment (`*_start`, `*_end`) and brought up to date on demand: changes are collected as seeds and
followed from the newest node to the oldest, which is against the edges in any graph whose nodes name older ones, so
each node is met once. Must not decide readiness.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from claimdagd.core.state import Vertex
from claimdagd.model import TERMINAL, Status
from claimdagd.waitgraph import ON_OUTCOME

if TYPE_CHECKING:
    from collections.abc import Iterable

_OWN_OVER = frozenset({Status.COMPLETING, *TERMINAL})
_READY = Status.READY
_FULL = 1
_UP = 2


class Ranks:
    """Keeps depth and effective priority of unfinished nodes; `settle` brings them up to date."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, Vertex]] = []
        #: What is to be brought up to date; nothing is where this is empty.
        self.dirty: dict[Vertex, int] = {}
        #: Ready nodes whose place in the order may have changed.
        self.requeue: dict[Vertex, None] = {}

    def invalidate(self, v: Vertex) -> None:
        """Something that `v`'s level is made of has changed."""
        self._enqueue(v, _FULL)

    def invalidate_moved(self, v: Vertex) -> None:
        """`v` has come to stand where it does: the gate above it may lie deeper for that, though `v` is as it was."""
        self._enqueue(v, _FULL | _UP if v.gating_group is not None else _FULL)

    def invalidate_new_dep(self, target: Vertex, waiter: Vertex) -> None:
        """`waiter` waits on `target` from now on; its level follows when it is known."""
        if target.record.status not in TERMINAL:
            self._enqueue(waiter, _UP)

    def invalidate_ended(self, v: Vertex) -> None:
        """The own part or the end of `v` is over, or is to come again: who it waits on hears of it."""
        if v.record.status not in TERMINAL:
            self._enqueue(v, _FULL)
        for t in v.dep_on:
            if t is not None and t.record.status not in TERMINAL:
                self._enqueue(t, _FULL)
        if v.gating_group is not None and v.gating_group.gated:
            self._enqueue(v.gating_group, _FULL)

    def forget(self, v: Vertex) -> None:
        """`v` is gone."""
        self.dirty.pop(v, None)
        self.requeue.pop(v, None)

    def _enqueue(self, v: Vertex, how: int) -> None:
        dirty = self.dirty
        known = dirty.get(v)
        if known is None:
            dirty[v] = how
            heappush(self._heap, (-v.number, v))
        else:
            dirty[v] = known | how

    def update(self, budget: int | None = None) -> None:
        """Bring the levels up to date, or a part of them where `budget` (nodes) runs out first."""
        heap, dirty = self._heap, self.dirty
        met = again = before = 0
        seen: set[Vertex] = set()
        while heap:
            if met == budget:
                return
            number, v = heappop(heap)
            how = dirty.pop(v, None)
            if how is None:
                continue
            met += 1
            # Against the numbers each node is met once. It takes one newer than the node before to bring any back, and
            # where the same keep coming back, the whole is computed once, in order.
            if again or number < before:
                if v in seen:
                    again += 1
                    if again > 1000 + len(seen):
                        dirty[v] = how
                        self._all()
                        return
                seen.add(v)
            before = number
            if v.record.status not in TERMINAL:
                self._follow(v, how)

    def build(self, vertices: Iterable[Vertex]) -> None:
        """The levels of a graph whose `vertices` have none yet.

        Each node lifts what it waits on, the newest first: so where nodes name older ones, all that a node is lifted by
        comes before its turn. A parent has two: before its children, who wait for its end, and after them, who lift its
        start. What is lifted after its turn is followed as any change is.
        """
        self._heap = []
        self.dirty = dirty = {v: _UP for v in vertices if v.record.status not in TERMINAL}
        stack = [v for v in dirty if v.parent not in dirty]
        opened: set[Vertex] = set()
        while stack:
            v = stack.pop()
            alone = self._own_cost(v)
            if alone > v.blevel_start:
                v.blevel_start = alone
            if v.children and v not in opened:
                opened.add(v)
                self._propagate_increase(v)
                stack.append(v)
                stack.extend([c for c in v.children if c in dirty])
            else:
                self._follow(v, dirty.pop(v))
        self.update()

    def _follow(self, v: Vertex, how: int) -> None:
        if how & _FULL:
            end, end_p, start, start_p = self.compute(v)
            fell_end = end < v.blevel_end or end_p < v.priority_end
            fell_start = start < v.blevel_start or start_p < v.priority_start
            if not (
                fell_end
                or fell_start
                or how & _UP
                or end > v.blevel_end
                or end_p > v.priority_end
                or start > v.blevel_start
                or start_p > v.priority_start
            ):
                return
            was = (v.blevel_end, v.priority_end, v.blevel_start, v.priority_start)
            v.blevel_end, v.priority_end, v.blevel_start, v.priority_start = end, end_p, start, start_p
            if fell_end or fell_start:
                self._propagate_decrease(v, *was)
        self._propagate_increase(v)

    def _propagate_decrease(self, v: Vertex, end: float, end_p: float, start: float, start_p: float) -> None:
        """What stood no higher than `v` did, but higher than it does now, may have stood on it.

        Not only what stood as high: `v` may have been lifted since, and have fallen again before that was followed.
        """
        now, now_p = v.blevel_end, v.priority_end
        for c in v.children or ():
            if c.record.status not in TERMINAL and (now < c.blevel_end <= end or now_p < c.priority_end <= end_p):
                self._enqueue(c, _FULL)
        now, now_p = v.blevel_start, v.priority_start
        for t in v.dep_on:
            if t is not None and t.record.status not in TERMINAL:
                own = v.outcome_deps is not None and t in v.outcome_deps
                if own or now < t.blevel_end <= start or now_p < t.priority_end <= start_p:
                    self._enqueue(t, _FULL)
        g = v.gating_group
        if g is not None and g.gated and (now < g.blevel_start <= start or now_p < g.priority_start <= start_p):
            self._enqueue(g, _FULL)

    def _propagate_increase(self, v: Vertex) -> None:
        """What waits for something as deep as `v` is now lies at least as deep; and `v` has its place by its level."""
        status = v.record.status
        if status is _READY and not v.group:
            self.requeue[v] = None
        if v.children:
            end, end_p = v.blevel_end, v.priority_end
            for c in v.children:
                if (end > c.blevel_end or end_p > c.priority_end) and c.record.status not in TERMINAL:
                    self._increase_end(c, end, end_p)
        if status in _OWN_OVER:
            return
        start, start_p = v.blevel_start, v.priority_start
        own = v.outcome_deps
        for t in v.dep_on:
            if t is None or t.record.status in TERMINAL:
                continue
            if own is not None and t in own:
                waits = t.record.status not in _OWN_OVER
                if waits and (start + self._own_cost(t) > t.blevel_start or start_p > t.priority_start):
                    self._enqueue(t, _FULL)
            elif start > t.blevel_end or start_p > t.priority_end:
                self._increase_end(t, start, start_p)
        g = v.gating_group
        if g is not None and g.gated and (start > g.blevel_start or start_p > g.priority_start):
            if start > g.blevel_start:
                g.blevel_start = start
            if start_p > g.priority_start:
                g.priority_start = start_p
            self._enqueue(g, _UP)

    def _increase_end(self, t: Vertex, tail: float, prio: int) -> None:
        if tail > t.blevel_end:
            t.blevel_end = tail
            lifted = tail + self._own_cost(t)
            if lifted > t.blevel_start:
                t.blevel_start = lifted
        if prio > t.priority_end:
            t.priority_end = prio
            if prio > t.priority_start:
                t.priority_start = prio
        self._enqueue(t, _UP)

    @staticmethod
    def _own_cost(v: Vertex) -> float:
        return 0.0 if v.group or v.record.status in _OWN_OVER else v.record.cost

    def compute(self, v: Vertex) -> tuple[float, int, float, int]:
        """Tail and priority after the end, tail and priority from the start: all from the neighbours."""
        record = v.record
        end = 0.0
        end_p = record.priority
        p = v.parent
        if p is not None and p.record.status not in TERMINAL:
            end = p.blevel_end
            if p.priority_end > end_p:
                end_p = p.priority_end
        own, own_p = 0.0, end_p
        own_over = record.status in _OWN_OVER
        if v.dependents:
            for x, edge in v.dependents.items():
                if x.record.status in _OWN_OVER:
                    continue
                if edge & ON_OUTCOME:
                    # Once the own result is there nothing waits for it any more.
                    if not own_over:
                        own = max(own, x.blevel_start)
                        own_p = max(own_p, x.priority_start)
                else:
                    if x.blevel_start > end:
                        end = x.blevel_start
                    if x.priority_start > end_p:
                        end_p = x.priority_start
        start = max(own, end) + self._own_cost(v)
        start_p = max(own_p, end_p)
        if v.group and v.gated:
            for x in members(v):
                if x.record.status not in _OWN_OVER:
                    start = max(start, x.blevel_start)
                    start_p = max(start_p, x.priority_start)
        return end, end_p, start, start_p

    def _all(self) -> None:
        """Compute every level that hangs on what is dirty, each moment after those that wait on it."""
        dirty, self.dirty, self._heap = self.dirty, {}, []
        order = _upstream(list(dirty))
        for v in order:
            if v.record.status in TERMINAL:
                continue
            v.blevel_end, v.priority_end, v.blevel_start, v.priority_start = self.compute(v)
            if v.record.status is Status.READY and not v.group:
                self.requeue[v] = None


def members(g: Vertex) -> list[Vertex]:
    """What the gate of group `g` holds back: all below it up to and including the next groups."""
    found = list(g.children or ())
    for x in found:
        if not x.group and x.children:
            found.extend(x.children)
    return found


def _upstream(seeds: list[Vertex]) -> list[Vertex]:
    """All that the seeds' levels reach, listed so that computing in this order is right.

    A node with an own edge stands twice: its end comes before the children that wait for its outcome, its start after.
    """
    done: set[tuple[Vertex, bool]] = set()
    order: list[Vertex] = []
    stack: list[tuple[Vertex, bool, bool]] = [(v, False, False) for v in seeds]
    while stack:
        v, start, leaving = stack.pop()
        if leaving:
            order.append(v)
            continue
        if (v, start) in done:
            continue
        done.add((v, start))
        stack.append((v, start, True))
        if start:
            for t in v.dep_on:
                if t is not None and t.record.status not in TERMINAL:
                    own = v.outcome_deps is not None and t in v.outcome_deps
                    stack.append((t, own, False))
            if v.gating_group is not None and v.gating_group.gated:
                stack.append((v.gating_group, True, False))
        else:
            stack.append((v, True, False))
            stack.extend((c, False, False) for c in v.children or () if c.record.status not in TERMINAL)
    order.reverse()
    return order
