"""How deep a node lies: the critical path below it and the priority that it inherits from what waits on it.

Depth is the bottom level (Hu 1961; HEFT's upward rank without communication) over the wait graph of DESIGN 3: a node's
own cost plus the largest sum of cost along any chain of unfinished work that waits on it. Effective priority is the
highest among the node and all unfinished nodes any of whose moments waits on it.

Values are kept per moment (`*_start`, `*_end`) and brought up to date on demand: changes are collected as seeds and
followed from the newest node to the oldest, which is against the edges in any graph whose nodes name older ones, so
each node is met once. Must not decide readiness.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from claimdagd.core.state import EDGE_OWN, Vertex
from claimdagd.model import TERMINAL, Status

if TYPE_CHECKING:
    from collections.abc import Iterable

_OWN_OVER = frozenset({Status.COMPLETING, *TERMINAL})
_READY = Status.READY
_FULL = 1
_UP = 2


class Levels:
    """Keeps depth and effective priority of unfinished nodes; `settle` brings them up to date."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, Vertex]] = []
        #: What is to be brought up to date; nothing is where this is empty.
        self.due: dict[Vertex, int] = {}
        #: Ready nodes whose place in the order may have changed.
        self.moved: dict[Vertex, None] = {}

    def seed(self, v: Vertex) -> None:
        """Something that `v`'s level is made of has changed."""
        self._enqueue(v, _FULL)

    def place(self, v: Vertex) -> None:
        """`v` has come to stand where it does: the gate above it may lie deeper for that, though `v` is as it was."""
        self._enqueue(v, _FULL | _UP if v.gate is not None else _FULL)

    def offer(self, target: Vertex, waiter: Vertex) -> None:
        """`waiter` waits on `target` from now on; its level follows when it is known."""
        if target.rec.status not in TERMINAL:
            self._enqueue(waiter, _UP)

    def turn(self, v: Vertex) -> None:
        """The own part or the end of `v` is over, or is to come again: who it waits on hears of it."""
        if v.rec.status not in TERMINAL:
            self._enqueue(v, _FULL)
        for t in v.dep_on:
            if t is not None and t.rec.status not in TERMINAL:
                self._enqueue(t, _FULL)
        if v.gate is not None and v.gate.closed:
            self._enqueue(v.gate, _FULL)

    def forget(self, v: Vertex) -> None:
        """`v` is gone."""
        self.due.pop(v, None)
        self.moved.pop(v, None)

    def _enqueue(self, v: Vertex, how: int) -> None:
        due = self.due
        known = due.get(v)
        if known is None:
            due[v] = how
            heappush(self._heap, (-v.num, v))
        else:
            due[v] = known | how

    def settle(self, budget: int | None = None) -> None:
        """Bring the levels up to date, or a part of them where `budget` (nodes) runs out first."""
        heap, due = self._heap, self.due
        met = again = before = 0
        seen: set[Vertex] = set()
        while heap:
            if met == budget:
                return
            number, v = heappop(heap)
            how = due.pop(v, None)
            if how is None:
                continue
            met += 1
            # Against the numbers each node is met once. It takes one newer than the node before to bring any back, and
            # where the same keep coming back, the whole is computed once, in order.
            if again or number < before:
                if v in seen:
                    again += 1
                    if again > 1000 + len(seen):
                        due[v] = how
                        self._all()
                        return
                seen.add(v)
            before = number
            if v.rec.status not in TERMINAL:
                self._follow(v, how)

    def build(self, vertices: Iterable[Vertex]) -> None:
        """The levels of a graph whose `vertices` have none yet.

        Each node lifts what it waits on, the newest first: so where nodes name older ones, all that a node is lifted by
        comes before its turn. A parent has two: before its children, who wait for its end, and after them, who lift its
        start. What is lifted after its turn is followed as any change is.
        """
        self._heap = []
        self.due = due = {v: _UP for v in vertices if v.rec.status not in TERMINAL}
        stack = [v for v in due if v.parent not in due]
        opened: set[Vertex] = set()
        while stack:
            v = stack.pop()
            alone = self._own_cost(v)
            if alone > v.tail_start:
                v.tail_start = alone
            if v.children and v not in opened:
                opened.add(v)
                self._raise(v)
                stack.append(v)
                stack.extend([c for c in v.children if c in due])
            else:
                self._follow(v, due.pop(v))
        self.settle()

    def _follow(self, v: Vertex, how: int) -> None:
        if how & _FULL:
            end, end_p, start, start_p = self.compute(v)
            fell_end = end < v.tail_end or end_p < v.prio_end
            fell_start = start < v.tail_start or start_p < v.prio_start
            if not (
                fell_end
                or fell_start
                or how & _UP
                or end > v.tail_end
                or end_p > v.prio_end
                or start > v.tail_start
                or start_p > v.prio_start
            ):
                return
            was = (v.tail_end, v.prio_end, v.tail_start, v.prio_start)
            v.tail_end, v.prio_end, v.tail_start, v.prio_start = end, end_p, start, start_p
            if fell_end or fell_start:
                self._fall(v, *was)
        self._raise(v)

    def _fall(self, v: Vertex, end: float, end_p: float, start: float, start_p: float) -> None:
        """What stood no higher than `v` did, but higher than it does now, may have stood on it.

        Not only what stood as high: `v` may have been lifted since, and have fallen again before that was followed.
        """
        now, now_p = v.tail_end, v.prio_end
        for c in v.children or ():
            if c.rec.status not in TERMINAL and (now < c.tail_end <= end or now_p < c.prio_end <= end_p):
                self._enqueue(c, _FULL)
        now, now_p = v.tail_start, v.prio_start
        for t in v.dep_on:
            if t is not None and t.rec.status not in TERMINAL:
                own = v.own_deps is not None and t in v.own_deps
                if own or now < t.tail_end <= start or now_p < t.prio_end <= start_p:
                    self._enqueue(t, _FULL)
        g = v.gate
        if g is not None and g.closed and (now < g.tail_start <= start or now_p < g.prio_start <= start_p):
            self._enqueue(g, _FULL)

    def _raise(self, v: Vertex) -> None:
        """What waits for something as deep as `v` is now lies at least as deep; and `v` has its place by its level."""
        status = v.rec.status
        if status is _READY and not v.group:
            self.moved[v] = None
        if v.children:
            end, end_p = v.tail_end, v.prio_end
            for c in v.children:
                if (end > c.tail_end or end_p > c.prio_end) and c.rec.status not in TERMINAL:
                    self._lift_end(c, end, end_p)
        if status in _OWN_OVER:
            return
        start, start_p = v.tail_start, v.prio_start
        own = v.own_deps
        for t in v.dep_on:
            if t is None or t.rec.status in TERMINAL:
                continue
            if own is not None and t in own:
                waits = t.rec.status not in _OWN_OVER
                if waits and (start + self._own_cost(t) > t.tail_start or start_p > t.prio_start):
                    self._enqueue(t, _FULL)
            elif start > t.tail_end or start_p > t.prio_end:
                self._lift_end(t, start, start_p)
        g = v.gate
        if g is not None and g.closed and (start > g.tail_start or start_p > g.prio_start):
            if start > g.tail_start:
                g.tail_start = start
            if start_p > g.prio_start:
                g.prio_start = start_p
            self._enqueue(g, _UP)

    def _lift_end(self, t: Vertex, tail: float, prio: int) -> None:
        if tail > t.tail_end:
            t.tail_end = tail
            lifted = tail + self._own_cost(t)
            if lifted > t.tail_start:
                t.tail_start = lifted
        if prio > t.prio_end:
            t.prio_end = prio
            if prio > t.prio_start:
                t.prio_start = prio
        self._enqueue(t, _UP)

    @staticmethod
    def _own_cost(v: Vertex) -> float:
        return 0.0 if v.group or v.rec.status in _OWN_OVER else v.rec.cost

    def compute(self, v: Vertex) -> tuple[float, int, float, int]:
        """Tail and priority after the end, tail and priority from the start: all from the neighbours."""
        rec = v.rec
        end = 0.0
        end_p = rec.priority
        p = v.parent
        if p is not None and p.rec.status not in TERMINAL:
            end = p.tail_end
            if p.prio_end > end_p:
                end_p = p.prio_end
        own, own_p = 0.0, end_p
        own_over = rec.status in _OWN_OVER
        if v.dependents:
            for x, edge in v.dependents.items():
                if x.rec.status in _OWN_OVER:
                    continue
                if edge & EDGE_OWN:
                    # Once the own result is there nothing waits for it any more.
                    if not own_over:
                        own = max(own, x.tail_start)
                        own_p = max(own_p, x.prio_start)
                else:
                    if x.tail_start > end:
                        end = x.tail_start
                    if x.prio_start > end_p:
                        end_p = x.prio_start
        start = max(own, end) + self._own_cost(v)
        start_p = max(own_p, end_p)
        if v.group and v.closed:
            for x in members(v):
                if x.rec.status not in _OWN_OVER:
                    start = max(start, x.tail_start)
                    start_p = max(start_p, x.prio_start)
        return end, end_p, start, start_p

    def _all(self) -> None:
        """Compute every level that hangs on what is due, each moment after those that wait on it."""
        due, self.due, self._heap = self.due, {}, []
        order = _upstream(list(due))
        for v in order:
            if v.rec.status in TERMINAL:
                continue
            v.tail_end, v.prio_end, v.tail_start, v.prio_start = self.compute(v)
            if v.rec.status is Status.READY and not v.group:
                self.moved[v] = None


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
                if t is not None and t.rec.status not in TERMINAL:
                    own = v.own_deps is not None and t in v.own_deps
                    stack.append((t, own, False))
            if v.gate is not None and v.gate.closed:
                stack.append((v.gate, True, False))
        else:
            stack.append((v, True, False))
            stack.extend((c, False, False) for c in v.children or () if c.rec.status not in TERMINAL)
    order.reverse()
    return order
