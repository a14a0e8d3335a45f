"""The links between vertices: parents and deps in both directions, and the counts along the ancestors.

Follows a change of a record's parent, deps, kind or needs, and the counts that a change of status moves. Never replaces
a record: that is for the choke point in `core.graph`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from claimdagd.core.state import Vertex
from claimdagd.model import STARTED, TERMINAL, Dep, Node, Outcome, Role, Status, When
from claimdagd.waitgraph import ON_ANY, ON_OUTCOME

ACTIVE: Final = frozenset({Status.CLAIMED, Status.RUNNING, Status.COMPLETING})
DONE = Status.DONE
_AFTER_ANY = When.AFTER_ANY


class RankInvalidation(Protocol):
    """What the links tell the ranks."""

    def invalidate(self, v: Vertex, /) -> None: ...
    def invalidate_moved(self, v: Vertex, /) -> None: ...
    def invalidate_new_dep(self, target: Vertex, waiter: Vertex, /) -> None: ...


class Requeue(Protocol):
    """What the links tell the ready queue."""

    def move(self, v: Vertex, role: Role, /) -> None: ...


def subtree(v: Vertex) -> list[Vertex]:
    """Return `v` and all below it, parents first."""
    found = [v]
    for x in found:
        if x.children:
            found.extend(x.children)
    return found


def is_ancestor(a: Vertex, v: Vertex) -> bool:
    """Return whether `a` is above `v`."""
    x = v.parent
    while x is not None:
        if x is a:
            return True
        x = x.parent
    return False


def is_met(target: Node, edge: int) -> bool:
    """Return whether `target` as it is meets an edge onto it (law 3.4)."""
    if edge & ON_OUTCOME:
        outcome = target.outcome
        if outcome is None:
            return target.status in TERMINAL and (edge & ON_ANY != 0 or target.status is DONE)
        return edge & ON_ANY != 0 or outcome is Outcome.DONE
    if edge & ON_ANY:
        return target.status in TERMINAL
    return target.status is DONE


def unmet_deps(v: Vertex) -> Iterator[tuple[Dep, Vertex]]:
    """Yield the deps of `v` that are not met, each with its target."""
    if v.unmet:
        for dep, target in zip(v.record.deps, v.dep_on, strict=True):
            if target is None or target.dependents is None:
                continue
            if not is_met(target.record, target.dependents[v]):
                yield dep, target


def gated_by(v: Vertex) -> Iterator[Vertex]:
    """Yield `v` and the groups above it, whose deps it waits for too."""
    x: Vertex | None = v
    while x is not None:
        yield x
        x = x.gating_group


def has_started(v: Vertex) -> bool:
    """Return whether work on `v`, or on anything below it, has begun."""
    return v.started_children > 0 or (not v.group and v.record.status in STARTED)


class Links:
    """All vertices by id, and the links between them."""

    def __init__(self, ranks: RankInvalidation, ready_queue: Requeue) -> None:
        self._ranks = ranks
        self._ready_queue = ready_queue
        self.vertices: dict[str, Vertex] = {}
        #: Vertices whose derived status may have changed; the graph takes them out.
        self.touched: deque[Vertex] = deque()

    # ------------------------------------------------------------------------------------------------ the parent

    def attach(self, v: Vertex, parent: Vertex) -> None:
        """Make `v` a child of `parent`. The counts are not moved."""
        v.parent = parent
        if parent.children is None:
            parent.children = {}
        parent.children[v] = None
        self._set_ancestors(v, parent)

    @staticmethod
    def detach(v: Vertex) -> None:
        """Take `v` from its parent. The counts are not moved."""
        parent = v.parent
        assert parent is not None
        assert parent.children is not None
        del parent.children[v]
        if not parent.children:
            parent.children = None
        v.parent = v.gating_group = v.resource_ancestor = None

    @staticmethod
    def _set_ancestors(v: Vertex, parent: Vertex) -> None:
        v.gating_group = parent if parent.group else parent.gating_group
        v.resource_ancestor = parent if parent.record.needs else parent.resource_ancestor

    def move(self, v: Vertex, parent: str | None) -> None:
        """Give `v` another parent, or none."""
        is_open = v.record.status not in TERMINAL
        started = has_started(v)
        active = _active_below(v)
        old_group = v.gating_group
        if v.parent is not None:
            self._count_child(v, v.parent, -1, is_open, started, active)
            self.detach(v)
        if parent is not None:
            self.attach(v, self.vertices[parent])
            self._count_child(v, self.vertices[parent], 1, is_open, started, active)
        self._reindex_subtree(v)
        self._ranks.invalidate(v)
        if old_group is not None:
            self._ranks.invalidate(old_group)

    def _count_child(self, v: Vertex, parent: Vertex, by: int, is_open: bool, started: bool, active: int) -> None:
        if is_open:
            parent.open_children += by
        if started:
            self.count_started(parent, by)
        self.count_active(v.resource_ancestor, by * active)

    def _reindex_subtree(self, v: Vertex) -> None:
        """Recompute what depends on the ancestors, for `v` and all below it: groups, needs, outcome deps, buckets."""
        for x in subtree(v):
            if x.parent is not None:
                self._set_ancestors(x, x.parent)
            self._ranks.invalidate_moved(x)
            if x.record.deps and self._outcome_targets(x) != x.outcome_deps:
                self.unlink_deps(x)
                self.link_deps(x)
            if x.queue_entry is not None or (x.record.status is Status.READY and not x.group):
                # Held back for a pause, it is in no queue, and another place may let it go.
                self._ready_queue.move(x, x.record.role)
            self.touched.append(x)

    # -------------------------------------------------------------------------------------------------- the deps

    def link_deps(self, v: Vertex) -> None:
        """Link `v` with the targets of its deps; its status and the ranks follow."""
        before = v.unmet
        self.set_deps(v)
        for t in v.dep_on:
            if t is not None:
                self._ranks.invalidate_new_dep(t, v)
        if v.unmet != before:
            self.touched.append(v)

    def set_deps(self, v: Vertex) -> None:
        """Link `v` with the targets of its deps, and nothing else: for a graph that is being loaded."""
        deps = v.record.deps
        if not deps:
            v.dep_on = ()
            v.outcome_deps = None
            return
        vertices = self.vertices
        v.dep_on = targets = tuple([vertices.get(d.on) for d in deps])
        v.outcome_deps = on_outcome = self._outcome_targets(v) if v.parent is not None else None
        unmet = 0
        for d, t in zip(deps, targets, strict=True):
            if t is None:
                continue
            edge = ON_ANY if d.when is _AFTER_ANY else 0
            if on_outcome is not None and t in on_outcome:
                edge |= ON_OUTCOME
            if t.dependents is None:
                t.dependents = {}
            t.dependents[v] = edge
            if not is_met(t.record, edge):
                unmet += 1
        v.unmet = unmet

    def unlink_deps(self, v: Vertex) -> None:
        """Unlink `v` from the targets of its deps."""
        for t in v.dep_on:
            if t is not None and t.dependents is not None:
                t.dependents.pop(v, None)
                if not t.dependents:
                    t.dependents = None
                self._ranks.invalidate(t)
        v.dep_on = ()
        v.outcome_deps = None
        if v.unmet:
            v.unmet = 0
            self.touched.append(v)

    @staticmethod
    def _outcome_targets(v: Vertex) -> frozenset[Vertex] | None:
        """Return those targets of `v` that are ancestors of it but not groups, or None if there are none."""
        if v.parent is None or not v.dep_on:
            return None
        targets = {t for t in v.dep_on if t is not None and t.children}
        if not targets:
            return None
        found = set()
        a: Vertex | None = v.parent
        while a is not None and targets:
            if a in targets and not a.group:
                found.add(a)
            a = a.parent
        return frozenset(found) or None

    def restore_dependents(self, v: Vertex) -> None:
        """Link the dependents of `v`, which was dropped and has come back by an undo, with it again."""
        for x, edge in (v.dependents or {}).items():
            x.dep_on = tuple([self.vertices.get(d.on) for d in x.record.deps])
            x.unmet += not is_met(v.record, edge)

    @staticmethod
    def forget_target(v: Vertex) -> None:
        """Let the deps of others on `v`, which is dropped, count as met. `v` keeps its dependents for an undo."""
        for x, edge in (v.dependents or {}).items():
            x.dep_on = tuple([None if t is v else t for t in x.dep_on])
            x.unmet -= not is_met(v.record, edge)

    # --------------------------------------------------------------------------------------------- kind and needs

    def change_kind(self, v: Vertex) -> None:
        """Follow `v`, which was work and is a group now, or the reverse."""
        for child in v.children or ():
            self._reindex_subtree(child)
        v.gated = False
        self.touched.append(v)
        self._ranks.invalidate(v)
        for t in v.dep_on:
            if t is not None:
                self._ranks.invalidate(t)

    def change_needs(self, v: Vertex) -> None:
        """Follow `v`, which needs other units than before."""
        v.active = 0
        v.buckets = {} if v.record.needs else None
        for child in tuple(v.children or ()):
            self._reindex_subtree(child)
        if v.record.needs:
            v.active = _active_below(v) - (not v.group and v.record.status in ACTIVE)
        if v.record.status is Status.READY and not v.group:
            self._ready_queue.move(v, v.record.role)

    # ------------------------------------------------------------------------------------ counts along the ancestors

    def count_started(self, p: Vertex | None, by: int) -> None:
        """Count that a child of `p` has started, or (-1) no longer has; groups above become running, or ready."""
        while p is not None:
            before = has_started(p)
            p.started_children += by
            if p.group:
                self.touched.append(p)
            if has_started(p) is before:
                return
            p = p.parent

    @staticmethod
    def count_active(a: Vertex | None, by: int) -> None:
        """Add `by` to the active nodes below `a` and below each ancestor of it that has needs."""
        if by:
            while a is not None:
                a.active += by
                a = a.resource_ancestor


def _active_below(v: Vertex) -> int:
    return sum(not x.group and x.record.status in ACTIVE for x in subtree(v))
