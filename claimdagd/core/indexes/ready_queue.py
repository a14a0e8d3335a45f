"""The ready queue: which ready node is next, for whom, without looking at those that cannot run.

Ready work stands in lines. Nodes that need nothing, under nothing that does, stand in the free line. The others stand
in one line per (needs, nearest needy ancestor), and lines whose nodes would take the same units from the same places
form one demand: what one node of it lacks, all lack. So a demand is set aside whole when its front cannot run, and put
back when what it lacked came back. Entries in heaps are never searched for: one that is not its vertex's own any more
is dropped when it comes up.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from claimdagd.core.indexes.queue import Queue
from claimdagd.core.state import Demand, Entry, Line, Vertex
from claimdagd.model import Role

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from claimdagd.core.graph import Graph

_BROAD = (Role.UNSET, Role.GENERAL)


class Lines:
    """All ready work, in claim order: effective priority, then depth, then number."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._levels = graph.ranks
        self._moved = graph.ranks.requeue
        #: Entries of the free line, and fronts of the demands that are not set aside, by role.
        self.free: dict[Role, Queue] = {}
        self.fronts: dict[Role, list[Entry]] = {}
        self.buckets: dict[Hashable, Line] = {}
        self.demands: dict[Hashable, Demand] = {}
        #: Demands by each resource of which they would take units afresh.
        self.wanting: dict[str, dict[Demand, None]] = {}
        #: Demands set aside, by what they lack (a resource's name, or (lender's id, resource)), fewest units first:
        #: (units, turn, demand).
        self.aside: dict[Hashable, list[tuple[int, int, Demand]]] = {}
        self._turns = 0
        self.free_count = 0

    def add(self, v: Vertex) -> None:
        """`v` is ready; it finds its place when the levels are known."""
        self._moved[v] = None

    def remove(self, v: Vertex, role: Role) -> None:
        """`v` is no longer ready, or must find another place."""
        self._moved.pop(v, None)
        if v.queue_entry is not None:
            self._take_out(v, v.queue_entry, role)
        if v.bypass_count:
            self._graph.resources.forgive(v)

    def move(self, v: Vertex, role: Role) -> None:
        """`v` stays ready and must find another place; how often it was passed over stays with it."""
        if v.queue_entry is not None:
            self._take_out(v, v.queue_entry, role)
        self.add(v)

    def _take_out(self, v: Vertex, entry: Entry, role: Role) -> None:
        line = v.bucket
        if line is None:
            v.queue_entry = None
            self.free_count -= 1
            return
        was_front = line.queues[role].first() is entry
        v.queue_entry = None
        v.bucket = None
        line.count -= 1
        line.demand.count -= 1
        if not line.count:
            self._drop(line)
            return
        if was_front:
            self._show_front(line, role)

    def refresh(self) -> None:
        """Put every ready node whose level or place may have changed where it belongs now."""
        levels = self._levels
        if levels.dirty:
            levels.update()
        if self._moved:
            moved: list[Entry] = [(-v.priority_start, -v.blevel_start, v.number, v) for v in self._moved]
            self._moved.clear()
            # In claim order, so that those who come together stand in one run of their queue.
            moved.sort()
            for key in moved:
                v = key[3]
                entry = v.queue_entry
                role = v.record.role
                if entry is not None:
                    if entry == key:
                        continue
                    self._take_out(v, entry, role)
                self._insert(v, key, role)
        pools = self._graph.resources
        if pools.starving or pools.kept:
            pools.review()

    def refile(self, v: Vertex) -> None:
        """`v` stands alone from now on: it has starved, and what others of its line lack it may have."""
        entry = v.queue_entry
        assert entry is not None
        self._take_out(v, entry, v.record.role)
        # An entry of its own, for by the old one it would stand in two queues.
        self._insert(v, (*entry[:3], v), v.record.role)

    def _insert(self, v: Vertex, entry: Entry, role: Role) -> None:
        v.queue_entry = entry
        needs = v.record.needs
        if not needs and v.resource_ancestor is None:
            self.free_count += 1
            queue = self.free.get(role)
            if queue is None:
                queue = self.free[role] = Queue()
            queue.push(entry)
            return
        line = v.bucket = self._line_of(v)
        line.count += 1
        line.demand.count += 1
        queue = line.queues.get(role)
        if queue is None:
            queue = line.queues[role] = Queue()
        queue.push(entry)
        if queue.first() is entry:
            self._show(line.demand, role, entry)

    def _line_of(self, v: Vertex) -> Line:
        needs = v.record.needs
        starving = v.number if v in self._graph.resources.starving else 0
        key = (
            tuple(sorted(needs.items())),
            v.resource_ancestor.number if v.resource_ancestor is not None else 0,
            starving,
        )
        line = self.buckets.get(key)
        if line is None:
            line = self.buckets[key] = Line(key, needs, v.resource_ancestor, starving)
            self._join(line)
            a = v.resource_ancestor
            while a is not None:
                if a.buckets is not None:
                    a.buckets[line] = None
                    line.above.append(a)
                a = a.resource_ancestor
        return line

    def _drop(self, line: Line) -> None:
        del self.buckets[line.key]
        self._part(line)
        self._offer_next(line.demand, line)
        for a in line.above:
            if a.buckets is not None:
                a.buckets.pop(line, None)

    # -------------------------------------------------------------------------------------------------- demands

    def _join(self, line: Line) -> None:
        units, exempt = self._graph.resources.demand(line.needs, line.under)
        key = (units, exempt, line.starving)
        demand = self.demands.get(key)
        if demand is None:
            demand = self.demands[key] = Demand(key, units, exempt, line.starving)
            for resource, _, lender in units:
                if lender is None:
                    self.wanting.setdefault(resource, {})[demand] = None
        demand.buckets[line] = None
        demand.count += line.count
        line.demand = demand

    def _part(self, line: Line) -> None:
        demand = line.demand
        del demand.buckets[line]
        demand.count -= line.count
        if not demand.buckets:
            demand.turn = 0
            del self.demands[demand.key]
            for resource, _, lender in demand.units:
                if lender is None:
                    wanting = self.wanting[resource]
                    del wanting[demand]
                    if not wanting:
                        del self.wanting[resource]

    def reconsider(self, line: Line) -> None:
        """The nodes of `line` would take other units now, or from elsewhere."""
        before = line.demand
        self._part(line)
        self._join(line)
        self._offer_next(before, line)
        for role in line.queues:
            self._show_front(line, role)

    def _offer_next(self, demand: Demand, line: Line) -> None:
        """`line` is no longer of `demand`: where it had the front, another has it now."""
        if demand.buckets and demand.lacking is None:
            for role in line.queues:
                self._offer(demand, role)

    def _show(self, demand: Demand, role: Role, entry: Entry) -> None:
        """`entry` is the front of a line of `demand`."""
        heappush(demand.fronts.setdefault(role, []), entry)
        if demand.lacking is None:
            heappush(self.fronts.setdefault(role, []), entry)

    def _show_front(self, line: Line, role: Role) -> None:
        """The front of `line` is another now, and so may be that of its demand."""
        demand = line.demand
        entry = line.queues[role].first()
        if entry is not None:
            heappush(demand.fronts.setdefault(role, []), entry)
        if demand.lacking is None:
            self._offer(demand, role)

    def _offer(self, demand: Demand, role: Role) -> None:
        front = self._front(demand, role)
        if front is not None:
            heappush(self.fronts.setdefault(role, []), front)

    @staticmethod
    def _front(demand: Demand, role: Role) -> Entry | None:
        heap = demand.fronts.get(role)
        while heap:
            entry = heap[0]
            v = entry[3]
            if v.queue_entry is entry and v.bucket is not None and v.bucket.demand is demand:
                return entry
            heappop(heap)
        return None

    def front(self, demand: Demand) -> Entry | None:
        """The first node of `demand`, of whatever role."""
        return self._first(self._front(demand, role) for role in demand.fronts)

    def lacks_something(self, demand: Demand) -> bool:
        """Whether the nodes of `demand` cannot run now."""
        return demand.lacking is not None or self._graph.resources.lacks(demand) is not None

    def lacking_count(self) -> int:
        """How many ready nodes cannot run now."""
        self.refresh()
        return sum(demand.count for demand in self.demands.values() if self.lacks_something(demand))

    def _set_aside(self, demand: Demand, key: Hashable, units: int) -> None:
        self._turns += 1
        demand.lacking = key
        demand.turn = self._turns
        heap = self.aside.setdefault(key, [])
        if len(heap) > 2 * len(self.demands) + 8:
            heap[:] = [note for note in heap if note[2].turn == note[1]]
            heapify(heap)
        heappush(heap, (units, demand.turn, demand))

    def reopen(self, key: Hashable, free: int | None = None) -> None:
        """Something of what demands set aside on `key` lack came back: those whom `free` units may help are looked at.

        Without `free` all of them are.
        """
        heap = self.aside.get(key)
        while heap and (free is None or heap[0][0] <= free):
            _, turn, demand = heappop(heap)
            if demand.turn == turn:
                demand.lacking = None
                demand.turn = 0
                for role in demand.fronts:
                    self._offer(demand, role)
        if heap is not None and not heap:
            del self.aside[key]

    # ---------------------------------------------------------------------------------------------------- order

    def _top(self, role: Role) -> Entry | None:
        """The first node of `role` that can run now."""
        queue = self.free.get(role)
        best = queue.first() if queue is not None else None
        heap = self.fronts.get(role)
        if heap:
            pools = self._graph.resources
            while heap:
                entry = heap[0]
                v = entry[3]
                line = v.bucket
                if v.queue_entry is not entry or line is None or line.demand.lacking is not None:
                    heappop(heap)
                    continue
                if best is not None and best < entry:
                    break
                lacks = pools.lacks(line.demand)
                if lacks is None:
                    return entry
                heappop(heap)
                self._set_aside(line.demand, *lacks)
        return best

    def pick(self, role: Role | None, slack: float, strict: bool) -> Vertex | None:
        """The node that claim_next takes (law 5.2, 5.4), or None where nothing that may be taken can run."""
        self.refresh()
        top = self._top
        if role is None:
            best: Entry | None = None
            for r in self.free.keys() | self.fronts.keys() if self.fronts else self.free:
                entry = top(r)
                if entry is not None and (best is None or entry < best):
                    best = entry
            return best[3] if best is not None else None
        exact = top(role)
        broad = self._first(top(r) for r in _BROAD if r is not role)
        other = None if strict else self._first(top(r) for r in Role if r is not role and r not in _BROAD)
        best = self._first((exact, broad, other))
        if best is None:
            return None
        return self._affine(best, slack, (exact, broad, other))

    @staticmethod
    def _first(entries: Iterable[Entry | None]) -> Entry | None:
        return min((e for e in entries if e is not None), default=None)

    @staticmethod
    def _affine(best: Entry, slack: float, by_affinity: tuple[Entry | None, ...]) -> Vertex:
        """Of the fronts by affinity, the first that is of the highest priority and within slack of the deepest."""
        for entry in by_affinity:
            if entry is not None and entry[0] == best[0] and -entry[1] >= -best[1] - slack:
                return entry[3]
        raise AssertionError("the best is within slack of itself")

    def in_order(self, role: Role | None, slack: float, strict: bool) -> list[tuple[Vertex, bool]]:
        """All ready work in the order in which claim_next would take it, each with whether it can run now."""
        self.refresh()
        lacking = {demand for demand in self.demands.values() if self.lacks_something(demand)}

        def runnable(v: Vertex) -> bool:
            return v.bucket is None or v.bucket.demand not in lacking

        ready = sorted(v.queue_entry for v in self._graph.ready_work() if v.queue_entry is not None)
        if role is None:
            return [(e[3], runnable(e[3])) for e in ready]
        classes: tuple[list[Entry], list[Entry], list[Entry]] = ([], [], [])
        for e in reversed(ready):
            r = e[3].record.role
            if r is role:
                classes[0].append(e)
            elif r in _BROAD:
                classes[1].append(e)
            elif not strict:
                classes[2].append(e)
        order = []
        while any(classes):
            fronts = tuple(c[-1] if c else None for c in classes)
            best = self._first(fronts)
            assert best is not None
            v = self._affine(best, slack, fronts)
            next(c for c in classes if c and c[-1][3] is v).pop()
            order.append((v, runnable(v)))
        return order
