"""The ready queue: which ready node is next, for whom, without looking at those that cannot run.

Ready work stands in lines. Nodes that need nothing, under nothing that does, stand in the free line. The others stand
in one line per (needs, nearest needy ancestor): what one of such a line lacks, all lack, so a line is set aside whole
when its front cannot run and put back when what it lacked comes back. Entries in heaps are never searched for: an entry
that is not its vertex's own any more is dropped when it comes up.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from claimdagd.core.vertex import Entry, Line, Vertex
from claimdagd.model import Role

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from claimdagd.core.graph import Graph

_BROAD = (Role.UNSET, Role.GENERAL)


class Lines:
    """All ready work, in claim order: effective priority, then depth, then number."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._levels = graph.levels
        self._moved = graph.levels.moved
        #: Entries of the free line, and fronts of the lines with needs that are not set aside, by role.
        self.free: dict[Role, list[Entry]] = {}
        self.fronts: dict[Role, list[Entry]] = {}
        self.lines: dict[Hashable, Line] = {}
        #: Lines set aside, by what they lack: a resource's name, or (lender's id, resource).
        self.aside: dict[Hashable, dict[Line, None]] = {}
        self.free_count = 0

    def add(self, v: Vertex) -> None:
        """`v` is ready; it finds its place when the levels are known."""
        self._moved[v] = None

    def remove(self, v: Vertex, role: Role) -> None:
        """`v` is no longer ready, or must find another place."""
        self._moved.pop(v, None)
        entry = v.entry
        if entry is None:
            return
        v.entry = None
        line = v.line
        if line is None:
            self.free_count -= 1
        else:
            v.line = None
            line.count -= 1
            heap = line.heaps[role]
            if heap[0] is entry:
                heappop(heap)
                if line.blocked_on is None:
                    self._show_front(line, role)
            if not line.count:
                self._drop(line)
        if v.passes:
            self._graph.pools.forgive(v)

    def move(self, v: Vertex, role: Role) -> None:
        """`v` stays ready and must find another place; how often it was passed over stays with it."""
        passes, v.passes = v.passes, 0
        self.remove(v, role)
        v.passes = passes
        self.add(v)
        if v in self._graph.pools.starving:
            self._graph.pools.release_kept()

    def refresh(self) -> None:
        """Put every ready node whose level or place may have changed where it belongs now."""
        levels = self._levels
        if levels.due:
            levels.settle()
        moved = self._moved
        while moved:
            v = moved.popitem()[0]
            key: Entry = (-v.prio_start, -v.tail_start, v.num, v)
            entry = v.entry
            role = v.rec.role
            if entry is not None:
                if entry == key:
                    continue
                passes, v.passes = v.passes, 0
                self.remove(v, role)
                v.passes = passes
            self._insert(v, key, role)

    def refile(self, v: Vertex) -> None:
        """`v` stands alone from now on: it has starved, and what others of its line lack it may have."""
        entry = v.entry
        assert entry is not None
        passes, v.passes = v.passes, 0
        self.remove(v, v.rec.role)
        v.passes = passes
        self._insert(v, entry, v.rec.role)

    def _insert(self, v: Vertex, entry: Entry, role: Role) -> None:
        v.entry = entry
        needs = v.rec.needs
        if not needs and v.needy is None:
            self.free_count += 1
            heap = self.free.get(role)
            if heap is None:
                heap = self.free[role] = []
            heappush(heap, entry)
            return
        line = v.line = self._line_of(v)
        line.count += 1
        heap = line.heaps.setdefault(role, [])
        heappush(heap, entry)
        if heap[0] is entry and line.blocked_on is None:
            heappush(self.fronts.setdefault(role, []), entry)

    def _line_of(self, v: Vertex) -> Line:
        needs = v.rec.needs
        starving = self._graph.pools.starving
        key = (
            tuple(sorted(needs.items())),
            v.needy.num if v.needy is not None else 0,
            v.num if v in starving else 0,
        )
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = Line(key, v.needy)
            a = v.needy
            while a is not None:
                if a.lines is not None:
                    a.lines[line] = None
                a = a.needy
        return line

    def _drop(self, line: Line) -> None:
        del self.lines[line.key]
        if line.blocked_on is not None:
            self._leave_aside(line)
        a = line.under
        while a is not None:
            if a.lines is not None:
                a.lines.pop(line, None)
            a = a.needy

    def _leave_aside(self, line: Line) -> None:
        key = line.blocked_on
        aside = self.aside[key]
        del aside[line]
        if not aside:
            del self.aside[key]
        line.blocked_on = None

    @staticmethod
    def front(line: Line, role: Role) -> Entry | None:
        """The first of `line` for `role`."""
        heap = line.heaps[role]
        while heap:
            entry = heap[0]
            if entry[3].entry is entry:
                return entry
            heappop(heap)
        return None

    def _show_front(self, line: Line, role: Role) -> None:
        entry = self.front(line, role)
        if entry is not None:
            heappush(self.fronts.setdefault(role, []), entry)

    def lacks_something(self, line: Line) -> bool:
        """Whether the nodes of `line` cannot run now."""
        if line.blocked_on is not None:
            return True
        fronts = (self.front(line, role) for role in line.heaps)
        return any(f is not None and self._graph.pools.lacks(f[3]) is not None for f in fronts)

    def lacking_count(self) -> int:
        """How many ready nodes cannot run now."""
        self.refresh()
        return sum(line.count for line in self.lines.values() if self.lacks_something(line))

    def reopen(self, key: Hashable) -> None:
        """Something of what lines set aside on `key` lack came back: they are looked at again."""
        lines = self.aside.pop(key, None)
        if lines:
            for line in lines:
                line.blocked_on = None
                for role in line.heaps:
                    self._show_front(line, role)

    def reconsider(self, line: Line) -> None:
        """What `line` lacks may be another thing now."""
        if line.blocked_on is not None:
            self._leave_aside(line)
            for role in line.heaps:
                self._show_front(line, role)

    def _top(self, role: Role) -> Entry | None:
        """The first node of `role` that can run now."""
        best = None
        heap = self.free.get(role)
        if heap:
            while heap:
                entry = heap[0]
                if entry[3].entry is entry:
                    best = entry
                    break
                heappop(heap)
        heap = self.fronts.get(role)
        if heap:
            pools = self._graph.pools
            while heap:
                entry = heap[0]
                v = entry[3]
                line = v.line
                if v.entry is not entry or line is None or line.blocked_on is not None:
                    heappop(heap)
                    continue
                if best is not None and best < entry:
                    break
                lacks = pools.lacks(v)
                if lacks is None:
                    return entry
                heappop(heap)
                line.blocked_on = lacks
                self.aside.setdefault(lacks, {})[line] = None
        return best

    def pick(self, role: Role | None, slack: float, strict: bool) -> Vertex | None:
        """The node that claim_next takes (DESIGN 5), or None where nothing that may be taken can run."""
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
        graph = self._graph
        lacks = graph.pools.lacks
        ready = sorted(v.entry for v in graph.ready_work() if v.entry is not None)
        if role is None:
            return [(e[3], e[3].line is None or lacks(e[3]) is None) for e in ready]
        classes: tuple[list[Entry], list[Entry], list[Entry]] = ([], [], [])
        for e in reversed(ready):
            r = e[3].rec.role
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
            order.append((v, v.line is None or lacks(v) is None))
        return order
