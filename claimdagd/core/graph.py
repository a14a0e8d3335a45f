"""The graph: records, the one choke point through which they change, and the indexes derived from them.

`put` (and `add`, `drop` beside it) is the only way a record changes; `_apply` keeps every index true to it, forward and
backward, so `undo` is the same step taken in reverse. Which change is allowed is decided by the verbs, never here.
"""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING, Any, Final

import msgspec

from claimdagd.core.indexes.links import ACTIVE, Structure
from claimdagd.core.indexes.ready_queue import Lines
from claimdagd.core.indexes.resources import Passed, Pools
from claimdagd.core.mutation import Mutation, Step
from claimdagd.core.state import Lease, Vertex
from claimdagd.model import (
    GROUPS,
    LIVE,
    STARTED,
    TERMINAL,
    Node,
    Status,
    number_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

TODO, READY, BLOCKED = Status.TODO, Status.READY, Status.BLOCKED
RUNNING, COMPLETING, DONE = Status.RUNNING, Status.COMPLETING, Status.DONE
OPEN: Final = frozenset({TODO, READY, BLOCKED})
#: A node whose own part is over: it waits on none of its deps any more.
OWN_OVER: Final = frozenset({COMPLETING, *TERMINAL})
_same_lease: Final = Lease(0.0, 0.0, 0.0)

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
#: Flags of a node that is not there: over, in that nobody counts it.
_ABSENT: Final = _F_OVER
#: Ranks that may be brought up to date by the way.
_SMALL: Final = 256

#: The fields that say what a node is and where it belongs; the others say how far it is.
SHAPE: Final = ("parent", "deps", "needs", "kind", "role", "cost", "priority")

replace = msgspec.structs.replace


class Graph(Structure):
    """All nodes of one session and everything derived from them.

    `default_lease_s` is the lease of a claim that names none; `starvation` is how often a node is passed over before
    units are kept for it. Times: `now` is monotonic seconds, `wall` Unix seconds, both set by `begin`.
    """

    def __init__(
        self, tag: str, *, max_nodes: int = 4096, default_lease_s: float = 900.0, starvation: int = 100
    ) -> None:
        super().__init__()
        self.tag = tag
        self.max_nodes = max_nodes
        self.default_lease_s = default_lease_s
        self.next_number = 1
        self.by_assignee: dict[str, Vertex] = {}
        self.caused: dict[str, dict[Vertex, None]] = {}
        #: (when, number, vertex): each lease has one at its deadline or before; an early one is put back when met.
        self.deadlines: list[tuple[float, int, Vertex]] = []
        #: Candidates for pruning: (not archived, finished_at, number, vertex), checked when met.
        self.finished: list[tuple[bool, float, int, Vertex]] = []
        #: The last completes by id, each with its generation and what it made ready, so that a repeated one is answered
        #: as the first was.
        self.completions: dict[str, tuple[int, tuple[str, ...]]] = {}
        #: Whether something finished may wait on something unfinished: completed by hand, or its dep was reopened.
        self.untidy = False
        self.resources = Pools(self, starvation)
        self.ready_queue = Lines(self)
        #: Counts changes, so that what is costly to find is found once; the deadlocks as last found, with the count.
        self.changes = 0
        self.deadlocks: tuple[int, list[dict[str, Any]]] = (-1, [])
        self.now = 0.0
        self.wall = 0.0
        self._log: list[Step] = []
        self._number_before = 1

    # ------------------------------------------------------------------------------------------------ mutations

    def begin(self, now: float, wall: float) -> None:
        """Start a mutation at monotonic `now` and Unix time `wall`."""
        self.now = now
        self.wall = wall
        self._number_before = self.next_number

    def finish(self) -> Mutation:
        """End the mutation: derived statuses follow, and what changed is told."""
        if self._touched:
            self.settle()
        log = self._log
        self._log = []
        mutation = self._sum_up(log)
        if self.resources.passed:
            mutation.bypasses, self.resources.passed = self.resources.passed, []
        return mutation

    def _sum_up(self, log: list[Step]) -> Mutation:
        steps = log if len(log) == 1 or len({step[0] for step in log}) == len(log) else _one_step_each(log)
        nodes, ended, made_ready, gone = [], [], [], []
        flips: dict[str, list[str]] = {}
        capacity: dict[str, int] | None = None
        unseated = False
        for v, old, lease, derived in steps:
            if v is None:
                assert isinstance(old, str)
                capacity = {**(capacity or {}), old: self.resources.capacity(old)}
                continue
            if lease is not None and lease.conn is not None:  # type: ignore[union-attr]
                unseated = True
            record = v.record
            if not v.present:
                if old is not None:
                    gone.append(record.id)
                continue
            status = record.status
            was = old.status if old is not None else None  # type: ignore[union-attr]
            if not derived:
                nodes.append(v)
            if status is was:
                continue
            if derived:
                flips.setdefault(status, []).append(record.id)
            elif status in TERMINAL and was not in TERMINAL:
                ended.append(v)
            if status is READY and not v.group:
                made_ready.append(record.id)
        return Mutation(log, self._number_before, nodes, flips, gone, capacity, made_ready, ended, (), unseated)

    def mark(self) -> int:
        """A place in the mutation under way, for `changed_since`."""
        return len(self._log)

    def changed_since(self, mark: int) -> list[Vertex]:
        """The vertices whose records changed after `mark`, in order, repeats and all."""
        return [v for v, *_ in self._log[mark:] if v is not None]

    def rollback(self) -> None:
        """Take back what the mutation under way did so far."""
        log, self._log = self._log, []
        self._unwind(log, self._number_before, self.resources.passed)

    def undo(self, mutation: Mutation) -> None:
        """Take back a finished mutation; the latest is undone first."""
        self._unwind(mutation.undo_log, mutation.number_before, mutation.bypasses)

    def _unwind(self, log: list[Step], number: int, passed: Sequence[Passed]) -> None:
        self.resources.passed = []
        for v, old, lease, _ in reversed(log):
            if v is None:
                assert isinstance(old, str)
                self.resources.set_capacity(old, lease)  # type: ignore[arg-type]
            else:
                self._apply(v, v.record if v.present else None, old, lease)  # type: ignore[arg-type]
        self.next_number = number
        self.settle()
        self._log.clear()
        self.resources.passed.clear()
        if passed:
            self.resources.restore(passed)

    # ---------------------------------------------------------------------------------------------- choke point

    def add(self, record: Node) -> Vertex:
        """Add a node. Its parent must be in the graph already."""
        if record.id in self.vertices:
            raise ValueError(f"{record.id} is in the graph already")
        v = Vertex(record, number_of(record.id))
        self._log.append((v, None, None, False))
        self._apply(v, None, record, None)
        return v

    def put(self, v: Vertex, record: Node, lease: Lease | None = _same_lease, derived: bool = False) -> None:
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
        self._log.append((v, old, held, derived))
        self._apply(v, old, record, held if lease is _same_lease else lease, False)

    def reshape(self, v: Vertex, record: Node) -> None:
        """Like `put`, for a record whose parent, deps, kind, role, needs, cost or priority may differ."""
        if record.id != v.record.id or not v.present:
            _refuse_shape(v, record)
        self._log.append((v, v.record, v.lease, False))
        self._apply(v, v.record, record, v.lease)

    def drop(self, v: Vertex) -> None:
        """Remove a node that was pruned. Its children must be gone already."""
        if v.children or not v.present:
            raise ValueError(f"{v.record.id} has children or is not in the graph: it cannot be dropped")
        self._log.append((v, v.record, v.lease, False))
        self._apply(v, v.record, None, None)

    def configure(self, resource: str, units: int) -> None:
        """Set the capacity of a resource."""
        self._log.append((None, resource, self.resources.configured.get(resource), False))
        self.resources.set_capacity(resource, units)

    def set_lease(self, v: Vertex, lease: Lease) -> None:
        """Move a live claim's lease; not a mutation: a renew is not journaled."""
        v.lease = lease
        if v.heap_deadline is None or lease.deadline < v.heap_deadline:
            v.heap_deadline = lease.deadline
            heappush(self.deadlines, (lease.deadline, v.number, v))

    def ranks_reliable(self) -> bool:
        """Whether depths can be relied on in a search for a cycle; brings them up to date where that is little work."""
        if self.ranks.dirty:
            self.ranks.update(budget=_SMALL)
        return not (self.untidy or self.ranks.dirty)

    def touch(self, v: Vertex) -> None:
        """The derived status of `v` may have changed."""
        self._touched.append(v)

    def _apply(self, v: Vertex, old: Node | None, new: Node | None, lease: Lease | None, reshaped: bool = True) -> None:
        self.changes += 1
        if old is None:
            assert new is not None
            self._enter(v, new)
        elif new is None:
            self._leave(v, old)
        else:
            v.record = new
            if reshaped:
                self._follow_shape(v, old, new)
            if old.grants is not new.grants:
                self.resources.move_grants(v, old.grants, new.grants)
            if old.cause is not new.cause:
                self._file_cause(v, old.cause, new.cause)
            if old.assignee is not new.assignee:
                self._seat(v, old.assignee, new.assignee)
            self._follow_status(v, old, new)
        if lease is None:
            v.lease = None
        elif lease is not v.lease:
            self.set_lease(v, lease)

    def _enter(self, v: Vertex, record: Node) -> None:
        self._stand(v, record)
        self._link_deps(v, record)
        for x, edge in (v.dependents or {}).items():
            x.dep_on = tuple([self.vertices.get(d.on) for d in x.record.deps])
            x.unmet += not self.meets(record, edge)
        self.ranks.invalidate_moved(v)
        self._touched.append(v)

    def _stand(self, v: Vertex, record: Node) -> None:
        """`v` is there, as `record` says but for its deps."""
        v.record = record
        v.present = True
        self.vertices[record.id] = v
        v.group = record.kind in GROUPS
        if record.parent is not None:
            self._attach(v, self.vertices[record.parent])
        if record.needs:
            v.buckets = {}
        if record.grants:
            self.resources.move_grants(v, (), record.grants)
        if record.cause is not None:
            self._file_cause(v, None, record.cause)
        if record.assignee is not None:
            self._seat(v, None, record.assignee)
        self._count(v, record.status, 1)
        self._on_status(v, _ABSENT, _FLAGS[record.status], record)
        if v.group and v.started_children:
            self._count_started(v.parent, 1)

    def _leave(self, v: Vertex, record: Node) -> None:
        if v.group and v.started_children:
            self._count_started(v.parent, -1)
        self._on_status(v, _FLAGS[record.status], _ABSENT, record)
        self.ranks.invalidate_ended(v)
        self._count(v, record.status, -1)
        self._unlink_deps(v, record)
        v.unmet = 0
        if record.grants:
            self.resources.move_grants(v, record.grants, ())
        if record.cause is not None:
            self._file_cause(v, record.cause, None)
        # The vertex keeps its dependents, so that undoing this finds them again.
        for x, edge in (v.dependents or {}).items():
            x.dep_on = tuple([None if t is v else t for t in x.dep_on])
            x.unmet -= not self.meets(record, edge)
        if v.parent is not None:
            self._detach(v)
        v.present = False
        del self.vertices[record.id]
        self.ranks.forget(v)

    def _count(self, v: Vertex, status: Status, by: int) -> None:
        tally = self.groups if v.group else self.work
        tally[status] += by

    def _seat(self, v: Vertex, old: str | None, new: str | None) -> None:
        if old is not None:
            del self.by_assignee[old]
        if new is not None:
            self.by_assignee[new] = v

    def _file_cause(self, v: Vertex, old: str | None, new: str | None) -> None:
        if old is not None:
            filed = self.caused[old]
            del filed[v]
            if not filed:
                del self.caused[old]
        if new is not None:
            self.caused.setdefault(new, {})[v] = None

    # ------------------------------------------------------------------------------------------------------ status

    def _follow_status(self, v: Vertex, old: Node, new: Node) -> None:
        was, status = old.status, new.status
        if was is not status:
            tally = self.groups if v.group else self.work
            tally[was] -= 1
            tally[status] += 1
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
                self.untidy = True
        elif old.outcome is new.outcome and old.archived is new.archived:
            return
        if v.dependents:
            meets = self.meets
            for x, edge in v.dependents.items():
                met = meets(new, edge)
                if met is not meets(old, edge):
                    x.unmet += -1 if met else 1
                    self._touched.append(x)
        if v.parent is None and status in TERMINAL:
            heappush(self.finished, (not new.archived, new.finished_at or 0.0, v.number, v))

    def _on_status(self, v: Vertex, was: int, now: int, record: Node) -> None:
        """Indexes by status, from flags to flags."""
        changed = was ^ now
        p = v.parent
        if not v.group:
            if changed & _F_READY:
                if now & _F_READY:
                    self.ready_queue.add(v)
                else:
                    self.ready_queue.remove(v, record.role)
            if changed & _F_ACTIVE and v.resource_ancestor is not None:
                self._count_active(v.resource_ancestor, 1 if now & _F_ACTIVE else -1)
            if changed & _F_STARTED and p is not None and not v.started_children:
                self._count_started(p, 1 if now & _F_STARTED else -1)
        if changed & _F_OVER and p is not None:
            p.open_children += -1 if now & _F_OVER else 1

    # ------------------------------------------------------------------------------------------- derived statuses

    def settle(self) -> None:
        """Let derived statuses follow: ready is never asserted, the dependencies decide."""
        touched = self._touched
        while touched:
            v = touched.popleft()
            record = v.record
            if not v.present:
                continue
            if v.group:
                self._settle_group(v)
            elif record.status is READY or record.status is TODO:
                want = TODO if v.unmet or (v.gating_group is not None and v.gating_group.gated) else READY
                if record.status is not want:
                    self.put(v, replace(record, status=want), derived=True)

    def _settle_group(self, g: Vertex) -> None:
        record = g.record
        if record.status in TERMINAL:
            return
        above = g.gating_group is not None and g.gating_group.gated
        closed = g.unmet > 0 or above or record.status is BLOCKED
        if closed is not g.gated:
            g.gated = closed
            if closed:
                self.ranks.invalidate(g)
            self._touch_members(g)
        if record.status is not BLOCKED:
            want = TODO if closed else RUNNING if g.started_children else READY
            if record.status is not want:
                self.put(g, replace(record, status=want), derived=True)

    def _touch_members(self, g: Vertex) -> None:
        stack = [g]
        while stack:
            for child in stack.pop().children or ():
                self._touched.append(child)
                if not child.group:
                    stack.append(child)

    # ---------------------------------------------------------------------------------------------------- loading

    def load(self, nodes: dict[str, Node], capacities: dict[str, int], next_number: int, now: float) -> None:
        """Put back a recovered state. Every held node gets a fresh lease from `now` on.

        Raises ValueError where a record names a parent that is not there.
        """
        for name, units in capacities.items():
            self.resources.set_capacity(name, units)
        for record in nodes.values():
            if record.parent is None or record.parent in self.vertices:
                if record.id not in self.vertices:
                    self._stand(Vertex(record, number_of(record.id)), record)
            else:
                for r in _parents_first(record, nodes, self.vertices):
                    self._stand(Vertex(r, number_of(r.id)), r)
        for v in self.vertices.values():
            record = v.record
            if record.deps:
                self._link(v, record)
                if v.unmet and record.status in OWN_OVER:
                    self.untidy = True
            if record.status in TERMINAL:
                if v.parent is None:
                    heappush(self.finished, (not record.archived, record.finished_at or 0.0, v.number, v))
            elif self.is_live(v):
                lease_s = record.lease or self.default_lease_s
                self.set_lease(v, Lease(now + lease_s, lease_s, now, record.bound))
            else:
                self._touched.append(v)
        self.next_number = max(next_number, max((v.number for v in self.vertices.values()), default=0) + 1)
        self.settle()
        self._log.clear()
        # Now, and not with the first claim: nobody waits for a single answer yet.
        self.ranks.build(self.vertices.values())
        self.ready_queue.refresh()

    # -------------------------------------------------------------------------------------------------- questions

    @property
    def live(self) -> int:
        """How many nodes are held under a lease."""
        return self.work[Status.CLAIMED] + self.work[RUNNING]

    @property
    def counts(self) -> dict[Status, int]:
        """How many nodes there are by status."""
        return {status: n + self.groups[status] for status, n in self.work.items()}

    def ready_work(self) -> list[Vertex]:
        """All work that is ready, in no order."""
        return [v for v in self.vertices.values() if v.record.status is READY and not v.group]

    def is_live(self, v: Vertex) -> bool:
        """Whether somebody holds `v` under a lease; a running group is nobody's claim."""
        return not v.group and v.record.status in LIVE


def _refuse_shape(v: Vertex, record: Node) -> None:
    """Raise ValueError, naming the field, unless `record` has the shape of `v` in other objects."""
    if not v.present or record.id != v.record.id:
        raise ValueError(f"{record.id} is put in the place of {v.record!r}")
    for name in SHAPE:
        if getattr(record, name) != getattr(v.record, name):
            raise ValueError(f"put: the {name} of {record.id} differs; the indexes follow that in reshape alone")


def _one_step_each(log: list[Step]) -> list[Step]:
    """The steps of a mutation that changed some node more than once, put together: from the first record to the last.

    Such a step is derived where all of them were, and its lease is one that belongs to a connection, if any does.
    """
    steps: dict[Vertex | Node | str | None, Step] = {}
    for step in log:
        v, was, lease, derived = step
        key = was if v is None else v
        known = steps.get(key)
        if known is not None:
            _, old, before, all_derived = known
            belongs = before is not None and before.conn is not None  # type: ignore[union-attr]
            step = (v, old, before if belongs else lease, all_derived and derived)
        steps[key] = step
    return list(steps.values())


def _parents_first(record: Node, nodes: dict[str, Node], there: dict[str, Vertex]) -> list[Node]:
    """`record`, and before it those of its ancestors that are not `there` yet."""
    chain: list[Node] = []
    todo: Node | None = record
    while todo is not None and todo.id not in there:
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
