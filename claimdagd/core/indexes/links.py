"""Where nodes stand: parents and deps in both directions, and what hangs on them, kept true as a record is reshaped.

The part of the graph that follows a change of a node's parent, deps, kind, role, needs, cost or priority; and the
counts along its ancestors, which a change of status moves too. Must not put a record: that is the choke point's.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from claimdagd.core.indexes.ranks import Levels
from claimdagd.core.state import EDGE_ANY, EDGE_OWN, Vertex
from claimdagd.model import GROUPS, STARTED, TERMINAL, Node, Outcome, Status, When

if TYPE_CHECKING:
    from claimdagd.core.indexes.ready_queue import Lines

ACTIVE: Final = frozenset({Status.CLAIMED, Status.RUNNING, Status.COMPLETING})
READY, DONE = Status.READY, Status.DONE
_AFTER_ANY = When.AFTER_ANY


class Structure:
    """The vertices and how they hang together. A part of `Graph`, which makes the lines."""

    lines: Lines

    def __init__(self) -> None:
        self.vertices: dict[str, Vertex] = {}
        #: How much work, and how many groups, there are by status.
        self.work: dict[Status, int] = dict.fromkeys(Status, 0)
        self.groups: dict[Status, int] = dict.fromkeys(Status, 0)
        self.levels = Levels()
        #: Vertices whose derived status may have changed.
        self._touched: deque[Vertex] = deque()

    # ---------------------------------------------------------------------------------------------------- questions

    def subtree(self, v: Vertex) -> list[Vertex]:
        """`v` and all below it, parents first."""
        found = [v]
        for x in found:
            if x.children:
                found.extend(x.children)
        return found

    def is_ancestor(self, a: Vertex, v: Vertex) -> bool:
        """Whether `a` is above `v`."""
        x = v.parent
        while x is not None:
            if x is a:
                return True
            x = x.parent
        return False

    @staticmethod
    def meets(target: Node, edge: int) -> bool:
        """Whether `target` as it is meets an edge onto it (DESIGN 3: after_ok, after_any, own outcome)."""
        if edge & EDGE_OWN:
            outcome = target.outcome
            if outcome is None:
                return target.status in TERMINAL and (edge & EDGE_ANY != 0 or target.status is DONE)
            return edge & EDGE_ANY != 0 or outcome is Outcome.DONE
        if edge & EDGE_ANY:
            return target.status in TERMINAL
        return target.status is DONE

    # ------------------------------------------------------------------------------------------------- a new shape

    def _follow_shape(self, v: Vertex, old: Node, new: Node) -> None:
        if old.role is not new.role and v.entry is not None:
            # Before all else that may move it: from here on it is looked for under its new role.
            self.lines.move(v, old.role)
        # A replaced record shares what did not change, so identity rules most of it out.
        if old.parent is not new.parent and old.parent != new.parent:
            self._move(v, new)
        if old.deps is not new.deps and old.deps != new.deps:
            self._unlink_deps(v, old)
            self._link_deps(v, new)
        if old.kind is not new.kind:
            self._turn(v, old, new)
        if old.needs is not new.needs and old.needs != new.needs:
            self._renew_needs(v)
        if old.cost is not new.cost or old.priority is not new.priority:
            self.levels.seed(v)

    def _attach(self, v: Vertex, parent: Vertex) -> None:
        v.parent = parent
        if parent.children is None:
            parent.children = {}
        parent.children[v] = None
        v.gate = parent if parent.group else parent.gate
        v.needy = parent if parent.rec.needs else parent.needy

    def _detach(self, v: Vertex) -> None:
        parent = v.parent
        assert parent is not None
        assert parent.children is not None
        del parent.children[v]
        if not parent.children:
            parent.children = None
        v.parent = v.gate = v.needy = None

    def _move(self, v: Vertex, rec: Node) -> None:
        terminal = v.rec.status in TERMINAL
        started = self.has_started(v)
        active = self._active_below(v)
        old_gate = v.gate
        if v.parent is not None:
            p = v.parent
            if not terminal:
                p.open_children -= 1
            if started:
                self._count_started(p, -1)
            self._count_active(v.needy, -active)
            self._detach(v)
        if rec.parent is not None:
            p = self.vertices[rec.parent]
            self._attach(v, p)
            if not terminal:
                p.open_children += 1
            if started:
                self._count_started(p, 1)
            self._count_active(v.needy, active)
        self._refile_below(v)
        self.levels.seed(v)
        if old_gate is not None:
            self.levels.seed(old_gate)

    def _refile_below(self, v: Vertex) -> None:
        """Recompute what hangs on the ancestors, for `v` and all below it: gate, needy, own edges, lines."""
        for x in self.subtree(v):
            p = x.parent
            if p is not None:
                x.gate = p if p.group else p.gate
                x.needy = p if p.rec.needs else p.needy
            self.levels.place(x)
            if x.rec.deps:
                self._relink_own(x)
            if x.entry is not None:
                self.lines.move(x, x.rec.role)
            self._touched.append(x)

    def _relink_own(self, x: Vertex) -> None:
        own = self._own_targets(x)
        if own != x.own_deps:
            self._unlink_deps(x, x.rec)
            self._link_deps(x, x.rec)

    def _own_targets(self, x: Vertex) -> frozenset[Vertex] | None:
        if x.parent is None or not x.dep_on:
            return None
        targets = {t for t in x.dep_on if t is not None and t.children}
        if not targets:
            return None
        own = set()
        a: Vertex | None = x.parent
        while a is not None and targets:
            if a in targets and not a.group:
                own.add(a)
            a = a.parent
        return frozenset(own) or None

    def _link_deps(self, v: Vertex, rec: Node) -> None:
        """`v` waits on what `rec` names; its status and the levels follow."""
        before = v.unmet
        self._link(v, rec)
        for t in v.dep_on:
            if t is not None:
                self.levels.offer(t, v)
        if v.unmet != before:
            self._touched.append(v)

    def _link(self, v: Vertex, rec: Node) -> None:
        if not rec.deps:
            v.dep_on = ()
            v.own_deps = None
            return
        vertices = self.vertices
        v.dep_on = targets = tuple([vertices.get(d.on) for d in rec.deps])
        v.own_deps = own = self._own_targets(v) if v.parent is not None else None
        unmet = 0
        for d, t in zip(rec.deps, targets, strict=True):
            if t is None:
                continue
            edge = EDGE_ANY if d.when is _AFTER_ANY else 0
            if own is not None and t in own:
                edge |= EDGE_OWN
            if t.dependents is None:
                t.dependents = {}
            t.dependents[v] = edge
            if not self.meets(t.rec, edge):
                unmet += 1
        v.unmet = unmet

    def _unlink_deps(self, v: Vertex, _old: Node) -> None:
        for t in v.dep_on:
            if t is not None and t.dependents is not None:
                t.dependents.pop(v, None)
                if not t.dependents:
                    t.dependents = None
                self.levels.seed(t)
        v.dep_on = ()
        v.own_deps = None
        if v.unmet:
            v.unmet = 0
            self._touched.append(v)

    def _turn(self, v: Vertex, old: Node, new: Node) -> None:
        """Work becomes a group or the reverse."""
        was, v.group = v.group, new.kind in GROUPS
        if was is v.group:
            return
        self.work[old.status] += 1 if was else -1
        self.groups[old.status] -= 1 if was else -1
        if old.status is READY:
            if v.group:
                self.lines.remove(v, old.role)
            else:
                self.lines.add(v)
        if v.children:
            for child in v.children:
                self._refile_below(child)
        v.closed = False
        self._touched.append(v)
        self.levels.seed(v)
        for t in v.dep_on:
            if t is not None:
                self.levels.seed(t)

    def _renew_needs(self, v: Vertex) -> None:
        v.active = 0
        v.lines = {} if v.rec.needs else None
        for child in tuple(v.children or ()):
            self._refile_below(child)
        if v.rec.needs:
            v.active = self._active_below(v) - (not v.group and v.rec.status in ACTIVE)
        if v.rec.status is READY and not v.group:
            self.lines.move(v, v.rec.role)

    # ------------------------------------------------------------------------------------- counts along the ancestors

    def has_started(self, v: Vertex) -> bool:
        """Whether work on `v`, or on anything under it, has begun."""
        return v.started_children > 0 or (not v.group and v.rec.status in STARTED)

    def _count_started(self, p: Vertex | None, by: int) -> None:
        """A child of `p` has started, or is as if it never had; groups above turn running, or back."""
        while p is not None:
            before = self.has_started(p)
            p.started_children += by
            if p.group:
                self._touched.append(p)
            if self.has_started(p) is before:
                return
            p = p.parent

    def _count_active(self, a: Vertex | None, by: int) -> None:
        if by:
            while a is not None:
                a.active += by
                a = a.needy

    def _active_below(self, v: Vertex) -> int:
        return sum(not x.group and x.rec.status in ACTIVE for x in self.subtree(v))
