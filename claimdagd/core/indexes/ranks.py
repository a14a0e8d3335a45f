"""The rank of a node: the critical path after it, and the priority that it inherits from what waits on it.

Depth is the bottom level (Hu 1961; HEFT's upward rank without communication) over the wait graph (law 5.3): a node's
own cost plus the largest sum of cost along any chain of unfinished work that waits on it. Effective priority is the
highest among the node and all unfinished nodes of which any milestone waits on it.

Both are kept for the start and for the end of each node (`blevel_*`, `priority_*`) and updated on demand: changes are
collected as dirty vertices and followed from the newest node to the oldest. That is against the edges in any graph
whose nodes name older ones, so each node is met once. Decides nothing about readiness.
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
    """Keeps depth and effective priority of unfinished nodes, and updates them on demand."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, Vertex]] = []
        #: Vertices whose rank may have changed, each with how; if this is empty, all ranks are up to date.
        self.dirty: dict[Vertex, int] = {}
        #: Ready vertices whose place in the order of claims may have changed; the ready queue takes them out.
        self.requeue: dict[Vertex, None] = {}

    def invalidate(self, v: Vertex) -> None:
        """Note that something which the rank of `v` is made of has changed."""
        self._enqueue(v, _FULL)

    def invalidate_moved(self, v: Vertex) -> None:
        """Note that `v` has a new parent.

        The rank of the group that gates it may have risen, though its own did not.
        """
        self._enqueue(v, _FULL | _UP if v.gating_group is not None else _FULL)

    def invalidate_new_dep(self, target: Vertex, waiter: Vertex) -> None:
        """Note that `waiter` waits on `target` now: the rank of `target` may rise."""
        if target.record.status not in TERMINAL:
            self._enqueue(waiter, _UP)

    def invalidate_ended(self, v: Vertex) -> None:
        """Note that `v` or its own part has ended or come back: the ranks of all that it waits on may have changed."""
        if v.record.status not in TERMINAL:
            self._enqueue(v, _FULL)
        for t in v.dep_on:
            if t is not None and t.record.status not in TERMINAL:
                self._enqueue(t, _FULL)
        if v.gating_group is not None and v.gating_group.gated:
            self._enqueue(v.gating_group, _FULL)

    def forget(self, v: Vertex) -> None:
        """Forget `v`, which was dropped."""
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
        """Update the ranks; at most `budget` nodes, if given."""
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
            # By falling number each node is met once. Only if a node is newer than the one before it can any come
            # back, and if the same nodes keep coming back, all ranks are computed once, in order.
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
        """Compute the ranks of a graph whose `vertices` have none yet.

        Each node raises what it waits on, the newest first: if nodes name older ones, all that raises a node comes
        before it. A parent has two turns: before its children, who wait for its end, and after them, who raise its
        start. A rank that is raised after its node's turn is followed as any change is.
        """
        self._heap = []
        self.dirty = dirty = {v: _UP for v in vertices if v.record.status not in TERMINAL}
        stack = [v for v in dirty if v.parent not in dirty]
        opened: set[Vertex] = set()
        while stack:
            v = stack.pop()
            alone = _own_cost(v)
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
        """Requeue each neighbour whose rank lies between the old and the new rank of `v`: it may derive from `v`.

        Those below the old rank count too: `v` may have risen since, and have fallen again before that was followed.
        """
        now, now_p = v.blevel_end, v.priority_end
        for c in v.children or ():
            if c.record.status not in TERMINAL and (now < c.blevel_end <= end or now_p < c.priority_end <= end_p):
                self._enqueue(c, _FULL)
        now, now_p = v.blevel_start, v.priority_start
        for t in v.dep_on:
            if t is not None and t.record.status not in TERMINAL:
                on_result = v.outcome_deps is not None and t in v.outcome_deps
                if on_result or now < t.blevel_end <= start or now_p < t.priority_end <= start_p:
                    self._enqueue(t, _FULL)
        g = v.gating_group
        if g is not None and g.gated and (now < g.blevel_start <= start or now_p < g.priority_start <= start_p):
            self._enqueue(g, _FULL)

    def _propagate_increase(self, v: Vertex) -> None:
        """Raise the ranks of all that `v` waits on to its own at least, and requeue `v` if it is ready."""
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
                if waits and (start + _own_cost(t) > t.blevel_start or start_p > t.priority_start):
                    self._enqueue(t, _FULL)
            elif start > t.blevel_end or start_p > t.priority_end:
                self._increase_end(t, start, start_p)
        if v.gating_group is not None and v.gating_group.gated:
            self._increase_start(v.gating_group, start, start_p)

    def _increase_start(self, g: Vertex, tail: float, prio: int) -> None:
        if tail > g.blevel_start or prio > g.priority_start:
            g.blevel_start = max(g.blevel_start, tail)
            g.priority_start = max(g.priority_start, prio)
            self._enqueue(g, _UP)

    def _increase_end(self, t: Vertex, tail: float, prio: int) -> None:
        if tail > t.blevel_end:
            t.blevel_end = tail
            lifted = tail + _own_cost(t)
            if lifted > t.blevel_start:
                t.blevel_start = lifted
        if prio > t.priority_end:
            t.priority_end = prio
            if prio > t.priority_start:
                t.priority_start = prio
        self._enqueue(t, _UP)

    def compute(self, v: Vertex) -> tuple[float, int, float, int]:
        """Return bottom level and priority of the end of `v`, then those of its start, all from its neighbours.

        Law 5.3.
        """
        record = v.record
        end = 0.0
        end_p = record.priority
        p = v.parent
        if p is not None and p.record.status not in TERMINAL:
            end = p.blevel_end
            if p.priority_end > end_p:
                end_p = p.priority_end
        own, own_p = 0.0, end_p
        result_over = record.status in _OWN_OVER
        if v.dependents:
            for x, edge in v.dependents.items():
                if x.record.status in _OWN_OVER:
                    continue
                if edge & ON_OUTCOME:
                    # Once the result of `v` is known, no node waits for it any more.
                    if not result_over:
                        own = max(own, x.blevel_start)
                        own_p = max(own_p, x.priority_start)
                else:
                    if x.blevel_start > end:
                        end = x.blevel_start
                    if x.priority_start > end_p:
                        end_p = x.priority_start
        start = max(own, end) + _own_cost(v)
        start_p = max(own_p, end_p)
        if v.gated and v.group:
            waiting = [x for x in members(v) if x.record.status not in _OWN_OVER]
            start = max([start, *[x.blevel_start for x in waiting]])
            start_p = max([start_p, *[x.priority_start for x in waiting]])
        return end, end_p, start, start_p

    def _all(self) -> None:
        """Compute every rank that derives from a dirty vertex, each after those of the milestones that wait on it."""
        dirty, self.dirty, self._heap = self.dirty, {}, []
        order = _upstream(list(dirty))
        for v in order:
            if v.record.status in TERMINAL:
                continue
            v.blevel_end, v.priority_end, v.blevel_start, v.priority_start = self.compute(v)
            if v.record.status is Status.READY and not v.group:
                self.requeue[v] = None


def _own_cost(v: Vertex) -> float:
    return 0.0 if v.group or v.record.status in _OWN_OVER else v.record.cost


def members(g: Vertex) -> list[Vertex]:
    """Return what group `g` keeps from starting while it is gated: all below it, to the next groups and with them."""
    found = list(g.children or ())
    for x in found:
        if not x.group and x.children:
            found.extend(x.children)
    return found


def _upstream(seeds: list[Vertex]) -> list[Vertex]:
    """Return all whose ranks derive from those of `seeds`, in an order in which they can be computed.

    A node that a descendant waits on for its result occurs twice: for its end before its children, for its start after.
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
