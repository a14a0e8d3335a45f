"""Where nodes stand: parents and deps in both directions, and what hangs on them, kept true as a record is reshaped.

The part of the graph that follows a change of a node's parent, deps, kind, role, needs, cost or priority; and the
counts along its ancestors, which a change of status moves too. Must not put a record: that is the choke point's.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from claimdagd.core.indexes.ranks import Ranks
from claimdagd.core.state import ON_ANY, ON_OUTCOME, Vertex
from claimdagd.model import GROUPS, STARTED, TERMINAL, Node, Outcome, Status, When

if TYPE_CHECKING:
    from claimdagd.core.indexes.ready_queue import Lines

ACTIVE: Final = frozenset({Status.CLAIMED, Status.RUNNING, Status.COMPLETING})
READY, DONE = Status.READY, Status.DONE
_AFTER_ANY = When.AFTER_ANY


class Structure:
    """The vertices and how they hang together. A part of `Graph`, which makes the lines."""

    ready_queue: Lines

    def __init__(self) -> None:
        self.vertices: dict[str, Vertex] = {}
        #: How much work, and how many groups, there are by status.
        self.work: dict[Status, int] = dict.fromkeys(Status, 0)
        self.groups: dict[Status, int] = dict.fromkeys(Status, 0)
        self.ranks = Ranks()
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
        """Whether `target` as it is meets an edge onto it (law 3.4)."""
        if edge & ON_OUTCOME:
            outcome = target.outcome
            if outcome is None:
                return target.status in TERMINAL and (edge & ON_ANY != 0 or target.status is DONE)
            return edge & ON_ANY != 0 or outcome is Outcome.DONE
        if edge & ON_ANY:
            return target.status in TERMINAL
        return target.status is DONE

    # ------------------------------------------------------------------------------------------------- a new shape

    def _follow_shape(self, v: Vertex, old: Node, new: Node) -> None:
        if old.role is not new.role and v.queue_entry is not None:
            # Before all else that may move it: from here on it is looked for under its new role.
            self.ready_queue.move(v, old.role)
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
            self.ranks.invalidate(v)

    def _attach(self, v: Vertex, parent: Vertex) -> None:
        v.parent = parent
        if parent.children is None:
            parent.children = {}
        parent.children[v] = None
        v.gating_group = parent if parent.group else parent.gating_group
        v.resource_ancestor = parent if parent.record.needs else parent.resource_ancestor

    def _detach(self, v: Vertex) -> None:
        parent = v.parent
        assert parent is not None
        assert parent.children is not None
        del parent.children[v]
        if not parent.children:
            parent.children = None
        v.parent = v.gating_group = v.resource_ancestor = None

    def _move(self, v: Vertex, record: Node) -> None:
        terminal = v.record.status in TERMINAL
        started = self.has_started(v)
        active = self._active_below(v)
        old_gate = v.gating_group
        if v.parent is not None:
            p = v.parent
            if not terminal:
                p.open_children -= 1
            if started:
                self._count_started(p, -1)
            self._count_active(v.resource_ancestor, -active)
            self._detach(v)
        if record.parent is not None:
            p = self.vertices[record.parent]
            self._attach(v, p)
            if not terminal:
                p.open_children += 1
            if started:
                self._count_started(p, 1)
            self._count_active(v.resource_ancestor, active)
        self._refile_below(v)
        self.ranks.invalidate(v)
        if old_gate is not None:
            self.ranks.invalidate(old_gate)

    def _refile_below(self, v: Vertex) -> None:
        """Recompute what hangs on the ancestors, for `v` and all below it: gate, needy, own edges, lines."""
        for x in self.subtree(v):
            p = x.parent
            if p is not None:
                x.gating_group = p if p.group else p.gating_group
                x.resource_ancestor = p if p.record.needs else p.resource_ancestor
            self.ranks.invalidate_moved(x)
            if x.record.deps:
                self._relink_own(x)
            if x.queue_entry is not None:
                self.ready_queue.move(x, x.record.role)
            self._touched.append(x)

    def _relink_own(self, x: Vertex) -> None:
        own = self._own_targets(x)
        if own != x.outcome_deps:
            self._unlink_deps(x, x.record)
            self._link_deps(x, x.record)

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

    def _link_deps(self, v: Vertex, record: Node) -> None:
        """`v` waits on what `record` names; its status and the levels follow."""
        before = v.unmet
        self._link(v, record)
        for t in v.dep_on:
            if t is not None:
                self.ranks.invalidate_new_dep(t, v)
        if v.unmet != before:
            self._touched.append(v)

    def _link(self, v: Vertex, record: Node) -> None:
        if not record.deps:
            v.dep_on = ()
            v.outcome_deps = None
            return
        vertices = self.vertices
        v.dep_on = targets = tuple([vertices.get(d.on) for d in record.deps])
        v.outcome_deps = own = self._own_targets(v) if v.parent is not None else None
        unmet = 0
        for d, t in zip(record.deps, targets, strict=True):
            if t is None:
                continue
            edge = ON_ANY if d.when is _AFTER_ANY else 0
            if own is not None and t in own:
                edge |= ON_OUTCOME
            if t.dependents is None:
                t.dependents = {}
            t.dependents[v] = edge
            if not self.meets(t.record, edge):
                unmet += 1
        v.unmet = unmet

    def _unlink_deps(self, v: Vertex, _old: Node) -> None:
        for t in v.dep_on:
            if t is not None and t.dependents is not None:
                t.dependents.pop(v, None)
                if not t.dependents:
                    t.dependents = None
                self.ranks.invalidate(t)
        v.dep_on = ()
        v.outcome_deps = None
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
                self.ready_queue.remove(v, old.role)
            else:
                self.ready_queue.add(v)
        if v.children:
            for child in v.children:
                self._refile_below(child)
        v.gated = False
        self._touched.append(v)
        self.ranks.invalidate(v)
        for t in v.dep_on:
            if t is not None:
                self.ranks.invalidate(t)

    def _renew_needs(self, v: Vertex) -> None:
        v.active = 0
        v.buckets = {} if v.record.needs else None
        for child in tuple(v.children or ()):
            self._refile_below(child)
        if v.record.needs:
            v.active = self._active_below(v) - (not v.group and v.record.status in ACTIVE)
        if v.record.status is READY and not v.group:
            self.ready_queue.move(v, v.record.role)

    # ------------------------------------------------------------------------------------- counts along the ancestors

    def has_started(self, v: Vertex) -> bool:
        """Whether work on `v`, or on anything under it, has begun."""
        return v.started_children > 0 or (not v.group and v.record.status in STARTED)

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
                a = a.resource_ancestor

    def _active_below(self, v: Vertex) -> int:
        return sum(not x.group and x.record.status in ACTIVE for x in self.subtree(v))
