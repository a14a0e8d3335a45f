"""All indexes of the graph in one place, kept true to every change of a record, forward and backward.

The indexes know neither the graph nor each other; this module connects them. It decides nothing: a change that arrives
here has been accepted.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappush
from typing import Final

from claimdagd.core.indexes.leases import Leases
from claimdagd.core.indexes.links import ACTIVE, Links, is_met
from claimdagd.core.indexes.ranks import Ranks
from claimdagd.core.indexes.ready_queue import ReadyQueue
from claimdagd.core.indexes.resources import ResourceTable
from claimdagd.core.indexes.start_times import StartTimes
from claimdagd.core.state import Lease, Vertex
from claimdagd.model import GROUPS, STARTED, TERMINAL, Grant, Node, Status

TODO, READY, BLOCKED = Status.TODO, Status.READY, Status.BLOCKED
#: A node whose own part is over: it waits on none of its deps any more.
OWN_OVER: Final = frozenset({Status.COMPLETING, *TERMINAL})

# What a status means to the indexes, as bits, so that a transition is one exclusive or.
_F_READY, _F_ACTIVE, _F_STARTED, _F_OVER, _F_OWN_OVER, _F_ASKING = 1, 2, 4, 8, 16, 32
_FLAGS: Final = {
    status: _F_READY * (status is READY)
    | _F_ACTIVE * (status in ACTIVE)
    | _F_STARTED * (status in STARTED)
    | _F_OVER * (status in TERMINAL)
    | _F_OWN_OVER * (status in OWN_OVER)
    | _F_ASKING * (status in (TODO, READY))
    for status in Status
}
_F_ENDS: Final = _F_OVER | _F_OWN_OVER
#: Flags of a node that is not in the graph: over, in that it is not counted.
_ABSENT: Final = _F_OVER


class Indexes:
    """What is derived from the records.

    Args:
        starvation: how often a node is bypassed before units are reserved for it.
    """

    def __init__(self, starvation: int) -> None:
        #: Every held vertex, by who holds it.
        self.by_assignee: dict[str, Vertex] = {}
        #: What was cancelled because of a node, by that node's id.
        self.caused: dict[str, dict[Vertex, None]] = {}
        #: How much work, and how many groups, there are by status.
        self.work: dict[Status, int] = dict.fromkeys(Status, 0)
        self.groups: dict[Status, int] = dict.fromkeys(Status, 0)
        self.leases = Leases()
        self.start_times = StartTimes()
        self.ranks = Ranks()
        self.resources = ResourceTable(on_freed=self._on_freed)
        self.ready_queue = ReadyQueue(self.ranks, self.resources, self.by_assignee, starvation)
        self._scopes = self.ready_queue.scopes
        self._scope_roots = self._scopes.by_root
        self.links = Links(self.ranks, self.ready_queue)
        self.vertices = self.links.vertices
        self._touched = self.links.touched
        #: Candidates for pruning: (not archived, finished_at, number, vertex), checked when met.
        self.finished: list[tuple[bool, float, int, Vertex]] = []
        #: Whether a finished node may wait on an unfinished one: it was completed by hand, or its dep was reopened.
        self.finished_waits = False
        #: Counts changes, so that what is costly to find is found once.
        self.changes = 0

    def set_capacity(self, resource: str, units: int | None) -> None:
        """Set the capacity of a resource; None removes the configuration."""
        self.changes += 1
        self.resources.set_capacity(resource, units)

    def set_paused(self, scopes: tuple[Vertex | None, ...]) -> None:
        """Pause exactly `scopes`; None among them is the whole graph."""
        self.changes += 1
        self.ready_queue.pauses.set(scopes)

    def apply(self, v: Vertex, old: Node | None, new: Node | None, lease: Lease | None, reshaped: bool = True) -> None:
        """Follow a change of `v` from record `old` to `new`; None for `old`: it is new, for `new`: it is dropped."""
        self.changes += 1
        if old is None:
            assert new is not None
            self._insert(v, new)
        elif new is None:
            self._remove(v, old)
        else:
            v.record = new
            if reshaped:
                self._follow_shape(v, old, new)
            if old.grants is not new.grants:
                self._index_grants(v, old.grants, new.grants)
            if old.cause is not new.cause:
                self._index_cause(v, old.cause, new.cause)
            if old.assignee is not new.assignee:
                self._index_assignee(v, old.assignee, new.assignee)
            self._follow_status(v, old, new)
            if new.not_before or old.not_before:
                self._follow_time(v)
        if lease is None:
            v.lease = None
        elif lease is not v.lease:
            self.leases.set(v, lease)

    # ------------------------------------------------------------------------------------- records come and go

    def _insert(self, v: Vertex, record: Node) -> None:
        self.index_record(v, record)
        self.links.link_deps(v)
        self.links.restore_dependents(v)
        self.ranks.invalidate_moved(v)
        self._touched.append(v)

    def index_record(self, v: Vertex, record: Node) -> None:
        """Enter `v` with its record in every index, except that its deps are not linked yet."""
        v.record = record
        v.present = True
        self.vertices[record.id] = v
        v.group = record.kind in GROUPS
        if record.parent is not None:
            self.links.attach(v, self.vertices[record.parent])
        if record.needs:
            v.buckets = {}
        if record.grants:
            self._index_grants(v, (), record.grants)
        if record.cause is not None:
            self._index_cause(v, None, record.cause)
        if record.assignee is not None:
            self._index_assignee(v, None, record.assignee)
        self._count(v, record.status, 1)
        if record.not_before:
            self._follow_time(v)
        self._on_status(v, _ABSENT, _FLAGS[record.status], record)
        if v.group and v.started_children:
            self.links.count_started(v.parent, 1)

    def _remove(self, v: Vertex, record: Node) -> None:
        if v.group and v.started_children:
            self.links.count_started(v.parent, -1)
        self._on_status(v, _FLAGS[record.status], _ABSENT, record)
        self.ranks.invalidate_ended(v)
        self._count(v, record.status, -1)
        self.links.unlink_deps(v)
        if record.grants:
            self._index_grants(v, record.grants, ())
        if record.cause is not None:
            self._index_cause(v, record.cause, None)
        self.links.forget_target(v)
        if v.parent is not None:
            self.links.detach(v)
        v.present = False
        self._scopes.forget(v)
        if record.not_before:
            self.start_times.update(v)
        del self.vertices[record.id]
        self.ranks.forget(v)

    def _count(self, v: Vertex, status: Status, by: int) -> None:
        counts = self.groups if v.group else self.work
        counts[status] += by
        if self._scope_roots and not v.group:
            self._scopes.count(v, status, by)

    def _index_assignee(self, v: Vertex, old: str | None, new: str | None) -> None:
        if old is not None:
            del self.by_assignee[old]
        if new is not None:
            self.by_assignee[new] = v

    def _index_cause(self, v: Vertex, old: str | None, new: str | None) -> None:
        if old is not None:
            caused = self.caused[old]
            del caused[v]
            if not caused:
                del self.caused[old]
        if new is not None:
            self.caused.setdefault(new, {})[v] = None

    def _follow_time(self, v: Vertex) -> None:
        self.start_times.update(v)
        self._touched.append(v)

    def _index_grants(self, v: Vertex, old: tuple[Grant, ...], new: tuple[Grant, ...]) -> None:
        self.resources.index_grants(v, old, new)
        if v.buckets and old != new:
            self.ready_queue.reclassify(v.buckets)

    def _on_freed(self, key: Hashable, free: int | None) -> None:
        self.ready_queue.wake(key, free)

    def _follow_shape(self, v: Vertex, old: Node, new: Node) -> None:
        links = self.links
        if old.role is not new.role and v.queue_entry is not None:
            # Before anything else may move it: from here on it is looked for under its new role.
            self.ready_queue.move(v, old.role)
        # A replaced record shares what did not change, so identity rules most of it out.
        if old.parent is not new.parent and old.parent != new.parent:
            links.move(v, new.parent)
            self._scopes.recount()
        if old.deps is not new.deps and old.deps != new.deps:
            links.unlink_deps(v)
            links.link_deps(v)
        if (new.kind in GROUPS) is not v.group:
            self._change_kind(v, old)
        if old.needs is not new.needs and old.needs != new.needs:
            links.change_needs(v)
        if old.cost is not new.cost or old.priority is not new.priority:
            self.ranks.invalidate(v)

    def _change_kind(self, v: Vertex, old: Node) -> None:
        """Follow work that became a group, or the reverse."""
        self._count(v, old.status, -1)
        v.group = not v.group
        self._count(v, old.status, 1)
        if old.status is READY:
            if v.group:
                self.ready_queue.remove(v, old.role)
            else:
                self.ready_queue.add(v)
        self.links.change_kind(v)

    # ------------------------------------------------------------------------------------------------------ status

    def _follow_status(self, v: Vertex, old: Node, new: Node) -> None:
        was, status = old.status, new.status
        if was is not status:
            counts = self.groups if v.group else self.work
            counts[was] -= 1
            counts[status] += 1
            if self._scope_roots and not v.group:
                self._scopes.count(v, was, -1)
                self._scopes.count(v, status, 1)
            before, flags = _FLAGS[was], _FLAGS[status]
            changed = before ^ flags
            if changed:
                self._on_status(v, before, flags, new)
            if changed & flags & _F_ASKING or status is BLOCKED or was is BLOCKED:
                self._touched.append(v)
            if not changed & _F_ENDS:
                return
            self.ranks.invalidate_ended(v)
            if changed & _F_OWN_OVER and (v.unmet if flags & _F_OWN_OVER else v.dependents):
                self.finished_waits = True
        elif old.outcome is new.outcome and old.archived is new.archived:
            return
        if v.dependents:
            for x, edge in v.dependents.items():
                met = is_met(new, edge)
                if met is not is_met(old, edge):
                    x.unmet += -1 if met else 1
                    self._touched.append(x)
        if v.parent is None and status in TERMINAL:
            heappush(self.finished, (not new.archived, new.finished_at or 0.0, v.number, v))

    def _on_status(self, v: Vertex, was: int, now: int, record: Node) -> None:
        """Update the indexes by status, from flags to flags."""
        changed = was ^ now
        p = v.parent
        if not v.group:
            if changed & _F_READY:
                if now & _F_READY:
                    self.ready_queue.add(v)
                else:
                    self.ready_queue.remove(v, record.role)
            if changed & _F_ACTIVE and v.resource_ancestor is not None:
                self.links.count_active(v.resource_ancestor, 1 if now & _F_ACTIVE else -1)
            if changed & _F_STARTED and p is not None and not v.started_children:
                self.links.count_started(p, 1 if now & _F_STARTED else -1)
        if changed & _F_OVER and p is not None:
            p.open_children += -1 if now & _F_OVER else 1
