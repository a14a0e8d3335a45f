"""The graph: records, the one choke point through which they change, and the indexes derived from them.

A record changes only by `put`, or by `add`, `reshape` and `drop`; `Indexes.apply` updates every index, forward and
backward, so that an undo is the same step in reverse. Whether a change is allowed is for the operations to decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush
from typing import Any, Final

import msgspec

from claimdagd.core.indexes.reservations import Bypass
from claimdagd.core.indexing import BLOCKED, OWN_OVER, READY, TODO, Indexes
from claimdagd.core.mutation import Mutation, Step, summarize
from claimdagd.core.state import Lease, Vertex
from claimdagd.model import LIVE, TERMINAL, Node, Process, Status, number_of

RUNNING = Status.RUNNING
OPEN: Final = frozenset({TODO, READY, BLOCKED})
_same_lease: Final = Lease(0.0, 0.0, 0.0)
#: How many ranks an operation may bring up to date beside its own work.
_SMALL: Final = 256

#: The fields that say what a node is and where it belongs; the others say how far it is.
SHAPE: Final = ("parent", "deps", "needs", "kind", "role", "cost", "priority")

replace = msgspec.structs.replace


class Graph:
    """All nodes of one session and everything derived from them.

    Args:
        tag: the tag of the ids.
        max_nodes: the cap on nodes, over which finished work is pruned.
        default_lease_s: the lease of a claim that names none.
        starvation: how often a node is bypassed before units are reserved for it.
    """

    def __init__(
        self, tag: str, *, max_nodes: int = 4096, default_lease_s: float = 900.0, starvation: int = 100
    ) -> None:
        self.tag = tag
        self.max_nodes = max_nodes
        self.default_lease_s = default_lease_s
        self.next_number = 1
        self.indexes = indexes = Indexes(starvation)
        self._apply = indexes.apply
        self.vertices = indexes.vertices
        self.by_assignee = indexes.by_assignee
        self.caused = indexes.caused
        self.work, self.groups = indexes.work, indexes.groups
        self.leases, self.ranks, self.links = indexes.leases, indexes.ranks, indexes.links
        self.resources, self.ready_queue = indexes.resources, indexes.ready_queue
        self.pauses = indexes.ready_queue.pauses
        self.start_times = indexes.start_times
        self._waiting_for_time = indexes.start_times.waiting
        self.finished = indexes.finished
        self._touched = indexes.links.touched
        self._reservations = indexes.ready_queue.reservations
        self._capacity_of = indexes.resources.capacity
        #: The last completes by id, each with its generation and what it made ready, so that a repeated one is answered
        #: as the first was.
        self.completions: dict[str, tuple[int, tuple[str, ...]]] = {}
        #: The deadlocks as last found, with the count of changes then.
        self.deadlocks: tuple[int, list[dict[str, Any]]] = (-1, [])
        #: The time of the present mutation: monotonic, and Unix seconds.
        self.now = 0.0
        self.wall = 0.0
        #: The process that stands for the holder of a claim that the present mutation makes or renews.
        self.process: Process | None = None
        self._undo_log: list[Step] = []
        self._number_before = 1

    # ------------------------------------------------------------------------------------------------ mutations

    def begin(self, now: float, wall: float) -> None:
        """Start a mutation at monotonic `now` and Unix time `wall`."""
        self.now = now
        self.wall = wall
        self._number_before = self.next_number

    def finish(self) -> Mutation:
        """End the mutation: update the derived statuses and return what changed."""
        if self._touched:
            self.derive_statuses()
        undo_log = self._undo_log
        self._undo_log = []
        mutation = summarize(undo_log, self._number_before, self._capacity_of)
        reservations = self._reservations
        if reservations.bypasses:
            mutation.bypasses, reservations.bypasses = reservations.bypasses, []
        return mutation

    def mark(self) -> int:
        """Return the present position in the mutation, for `changed_since`."""
        return len(self._undo_log)

    def changed_since(self, mark: int) -> list[Vertex]:
        """Return the vertices whose records changed after `mark`, in order, with repeats."""
        return [v for v, *_ in self._undo_log[mark:] if v is not None]

    def rollback(self) -> None:
        """Undo what the present mutation did so far."""
        undo_log, self._undo_log = self._undo_log, []
        self._unwind(undo_log, self._number_before, self.ready_queue.reservations.bypasses)

    def undo(self, mutation: Mutation) -> None:
        """Undo a finished mutation. The latest is undone first."""
        self._unwind(mutation.undo_log, mutation.number_before, mutation.bypasses)

    def _unwind(self, undo_log: list[Step], number: int, bypasses: Sequence[Bypass]) -> None:
        reservations = self.ready_queue.reservations
        reservations.bypasses = []
        for v, old, lease, _ in reversed(undo_log):
            if isinstance(old, tuple):
                self.indexes.set_paused(old)
            elif v is None:
                assert isinstance(old, str)
                self.indexes.set_capacity(old, lease)  # type: ignore[arg-type]
            else:
                self._apply(v, v.record if v.present else None, old, lease)  # type: ignore[arg-type]
        self.next_number = number
        self.derive_statuses()
        self._undo_log.clear()
        reservations.bypasses.clear()
        if bypasses:
            self.ready_queue.restore_bypasses(bypasses)

    # ---------------------------------------------------------------------------------------------- choke point

    def add(self, record: Node) -> Vertex:
        """Add a node. Its parent must be in the graph already."""
        if record.id in self.vertices:
            raise ValueError(f"{record.id} is in the graph already")
        v = Vertex(record, number_of(record.id))
        self._undo_log.append((v, None, None, False))
        self._apply(v, None, record, None)
        return v

    def put(self, v: Vertex, record: Node, lease: Lease | None = _same_lease) -> None:
        """Replace the record of `v`, and its lease if given, and update every index: the state-transition choke point.

        Raises ValueError if the shape of the record differs, which the indexes follow in `reshape` alone. `replace`
        shares the fields that it is not given, so identity tells, at a price that a claim does not feel.
        """
        old = v.record
        if (
            record.parent is not old.parent
            or record.deps is not old.deps
            or record.needs is not old.needs
            or record.kind is not old.kind
            or record.role is not old.role
            or record.cost is not old.cost
            or record.priority is not old.priority
            or record.id is not old.id
            or not v.present
        ):
            _refuse_shape(v, record)
        held = v.lease
        self._undo_log.append((v, old, held, False))
        self._apply(v, old, record, held if lease is _same_lease else lease, False)

    def _put_derived(self, v: Vertex, status: Status) -> None:
        """Like `put`, of a record that differs in its derived status alone."""
        old, lease = v.record, v.lease
        self._undo_log.append((v, old, lease, True))
        self._apply(v, old, replace(old, status=status), lease, False)

    def reshape(self, v: Vertex, record: Node) -> None:
        """Like `put`, for a record whose parent, deps, kind, role, needs, cost or priority may differ."""
        if record.id != v.record.id or not v.present:
            _refuse_shape(v, record)
        self._undo_log.append((v, v.record, v.lease, False))
        self._apply(v, v.record, record, v.lease)

    def drop(self, v: Vertex) -> None:
        """Remove a node that was pruned. Its children must be gone already."""
        if v.children or not v.present:
            raise ValueError(f"{v.record.id} has children or is not in the graph: it cannot be dropped")
        if v in self.pauses.roots:
            self.set_paused(tuple(x for x in self.pauses.scopes if x is not v))
        self._undo_log.append((v, v.record, v.lease, False))
        self._apply(v, v.record, None, None)

    def configure(self, resource: str, units: int) -> None:
        """Set the capacity of a resource."""
        self._undo_log.append((None, resource, self.resources.configured.get(resource), False))
        self.indexes.set_capacity(resource, units)

    def set_paused(self, scopes: tuple[Vertex | None, ...]) -> None:
        """Pause exactly `scopes`; None among them is the whole graph."""
        self._undo_log.append((None, self.pauses.scopes, scopes, False))
        self.indexes.set_paused(scopes)

    def set_lease(self, v: Vertex, lease: Lease) -> None:
        """Move a live claim's lease. Not a mutation: a renewal is not journaled."""
        self.leases.set(v, lease)

    # ------------------------------------------------------------------------------------------- derived statuses

    def judge_time(self) -> None:
        """Let the nodes begin whose time has come by the time of the present mutation."""
        self._touched.extend(self.start_times.due(self.wall))

    def derive_statuses(self) -> None:
        """Update derived statuses: ready is never asserted, the dependencies decide (law 3.2)."""
        touched, waiting = self._touched, self._waiting_for_time
        while touched:
            v = touched.popleft()
            record = v.record
            if not v.present:
                continue
            if v.group:
                self._derive_group(v)
            elif record.status is READY or record.status is TODO:
                gated = v.unmet or (v.gating_group is not None and v.gating_group.gated) or (waiting and v in waiting)
                want = TODO if gated else READY
                if record.status is not want:
                    self._put_derived(v, want)

    def _derive_group(self, g: Vertex) -> None:
        record = g.record
        if record.status in TERMINAL:
            return
        above = g.gating_group is not None and g.gating_group.gated
        gated = g.unmet > 0 or above or record.status is BLOCKED or g in self._waiting_for_time
        if gated is not g.gated:
            g.gated = gated
            if gated:
                self.ranks.invalidate(g)
            self._touch_members(g)
        if record.status is not BLOCKED:
            want = TODO if gated else RUNNING if g.started_children else READY
            if record.status is not want:
                self._put_derived(g, want)

    def _touch_members(self, g: Vertex) -> None:
        stack = [g]
        while stack:
            for child in stack.pop().children or ():
                self._touched.append(child)
                if not child.group:
                    stack.append(child)

    # ---------------------------------------------------------------------------------------------------- loading

    def load(
        self,
        nodes: dict[str, Node],
        capacities: dict[str, int],
        next_number: int,
        now: float,
        paused: Sequence[str | None] = (),
    ) -> None:
        """Fill an empty graph with a recovered state. Every held node gets a fresh lease from `now` on.

        Raises ValueError if a record names a parent that is not among `nodes`.
        """
        indexes = self.indexes
        for name, units in capacities.items():
            indexes.set_capacity(name, units)
        # It was at least so late when the state was written: a node that was ready then is ready now.
        begun = [record.not_before or 0.0 for record in nodes.values() if record.status is READY]
        self.start_times.judged = max([self.start_times.judged, *begun])
        for record in nodes.values():
            if record.parent is None or record.parent in self.vertices:
                if record.id not in self.vertices:
                    indexes.index_record(Vertex(record, number_of(record.id)), record)
            else:
                for r in _parents_first(record, nodes, self.vertices):
                    indexes.index_record(Vertex(r, number_of(r.id)), r)
        for v in self.vertices.values():
            self._index_loaded(v, now)
        self.next_number = max(next_number, max((v.number for v in self.vertices.values()), default=0) + 1)
        self.derive_statuses()
        self._undo_log.clear()
        if paused:
            known = [scope for scope in paused if scope is None or scope in self.vertices]
            self.indexes.set_paused(tuple(None if scope is None else self.vertices[scope] for scope in known))
        # Now, and not with the first claim: no request waits for an answer yet.
        self.ranks.build(self.vertices.values())
        self.ready_queue.refresh()

    def _index_loaded(self, v: Vertex, now: float) -> None:
        record = v.record
        if record.deps:
            self.links.set_deps(v)
            if v.unmet and record.status in OWN_OVER:
                self.indexes.finished_waits = True
        if record.status in TERMINAL:
            if v.parent is None:
                heappush(self.finished, (not record.archived, record.finished_at or 0.0, v.number, v))
        elif self.is_live(v):
            lease_s = record.lease or self.default_lease_s
            process = Process(record.pid, record.pid_start or 0) if record.pid else None
            self.leases.set(v, Lease(now + lease_s, lease_s, now, record.bound, None, process))
        else:
            self._touched.append(v)

    # -------------------------------------------------------------------------------------------------- questions

    def ranks_reliable(self) -> bool:
        """Return whether a search for a cycle can rely on the ranks; update them first if that is little work."""
        if self.ranks.dirty:
            self.ranks.update(budget=_SMALL)
        return not (self.indexes.finished_waits or self.ranks.dirty)

    @property
    def changes(self) -> int:
        """How many changes there were: as long as it stays, so does all that is derived."""
        return self.indexes.changes

    @property
    def live(self) -> int:
        """How many nodes are held under a lease."""
        return self.work[Status.CLAIMED] + self.work[RUNNING]

    @property
    def counts(self) -> dict[Status, int]:
        """How many nodes there are by status."""
        return {status: n + self.groups[status] for status, n in self.work.items()}

    def is_live(self, v: Vertex) -> bool:
        """Return whether `v` is held under a lease; a running group has no holder."""
        return not v.group and v.record.status in LIVE


def _refuse_shape(v: Vertex, record: Node) -> None:
    """Raise ValueError, naming the field, unless `record` has the shape of `v` in other objects."""
    if not v.present or record.id != v.record.id:
        raise ValueError(f"{record.id} is put in the place of {v.record!r}")
    for name in SHAPE:
        if getattr(record, name) != getattr(v.record, name):
            raise ValueError(f"put: the {name} of {record.id} differs; the indexes follow that in reshape alone")


def _parents_first(record: Node, nodes: dict[str, Node], present: dict[str, Vertex]) -> list[Node]:
    """Return `record`, and before it those of its ancestors that are not `present` yet."""
    chain: list[Node] = []
    todo: Node | None = record
    while todo is not None and todo.id not in present:
        chain.append(todo)
        if todo.parent is None:
            break
        parent = nodes.get(todo.parent)
        if parent is None:
            raise ValueError(f"node {todo.id} names parent {todo.parent}, which is not there")
        if len(chain) > len(nodes):
            raise ValueError(f"node {todo.id} is its own ancestor")
        todo = parent
    return chain[::-1]
