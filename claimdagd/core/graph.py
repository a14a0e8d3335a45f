"""The graph: records, the one choke point through which they change, and the indexes derived from them.

`put` (and `add`, `drop` beside it) is the only way a record changes; `_apply` keeps every index true to it, forward and
backward, so `undo` is the same step taken in reverse. Which change is allowed is decided by the verbs, never here.
"""

from __future__ import annotations

from collections import deque
from heapq import heappush
from typing import TYPE_CHECKING, Any, Final

import msgspec

from claimdagd.core.grants import Passed, Pools
from claimdagd.core.levels import Levels
from claimdagd.core.lines import Lines
from claimdagd.core.mutation import Mutation, Step
from claimdagd.core.vertex import EDGE_ANY, EDGE_OWN, Lease, Vertex
from claimdagd.model import (
    GROUPS,
    LIVE,
    STARTED,
    TERMINAL,
    Node,
    Outcome,
    Status,
    When,
    number_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

TODO, READY, BLOCKED = Status.TODO, Status.READY, Status.BLOCKED
RUNNING, COMPLETING, DONE = Status.RUNNING, Status.COMPLETING, Status.DONE
OPEN: Final = frozenset({TODO, READY, BLOCKED})
ACTIVE: Final = frozenset({Status.CLAIMED, RUNNING, COMPLETING})
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
#: Levels that may be brought up to date by the way.
_SMALL: Final = 256

replace = msgspec.structs.replace


class Graph:
    """All nodes of one session and everything derived from them.

    `default_lease_s` is the lease of a claim that names none; `starvation` is how often a node is passed over before
    units are kept for it. Times: `now` is monotonic seconds, `wall` Unix seconds, both set by `begin`.
    """

    def __init__(
        self, tag: str, *, max_nodes: int = 4096, default_lease_s: float = 900.0, starvation: int = 100
    ) -> None:
        self.tag = tag
        self.max_nodes = max_nodes
        self.default_lease_s = default_lease_s
        self.vertices: dict[str, Vertex] = {}
        self.next_number = 1
        #: How much work, and how many groups, there are by status.
        self.work: dict[Status, int] = dict.fromkeys(Status, 0)
        self.groups: dict[Status, int] = dict.fromkeys(Status, 0)
        self.by_assignee: dict[str, Vertex] = {}
        self.caused: dict[str, dict[Vertex, None]] = {}
        #: (when, num, vertex): each lease has one at its deadline or before; an early one is put back when it is met.
        self.deadlines: list[tuple[float, int, Vertex]] = []
        #: Candidates for pruning: (not archived, finished_at, num, vertex), checked when met.
        self.finished: list[tuple[bool, float, int, Vertex]] = []
        #: The last completes by id, each with its generation and what it made ready, so that a repeated one is answered
        #: as the first was.
        self.completions: dict[str, tuple[int, tuple[str, ...]]] = {}
        #: Whether something finished may wait on something unfinished: completed by hand, or its dep was reopened.
        self.untidy = False
        self.levels = Levels()
        self.pools = Pools(self, starvation)
        self.lines = Lines(self)
        #: Counts changes, so that what is costly to find is found once; the deadlocks as last found, with the count.
        self.changes = 0
        self.deadlocks: tuple[int, list[dict[str, Any]]] = (-1, [])
        self.now = 0.0
        self.wall = 0.0
        self._log: list[Step] = []
        self._touched: deque[Vertex] = deque()
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
        if self.pools.passed:
            mutation.passed, self.pools.passed = self.pools.passed, []
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
                capacity = {old: self.pools.capacity(old)}
                continue
            if lease is not None and lease.conn is not None:  # type: ignore[union-attr]
                unseated = True
            rec = v.rec
            if not v.present:
                if old is not None:
                    gone.append(rec.id)
                continue
            status = rec.status
            was = old.status if old is not None else None  # type: ignore[union-attr]
            if not derived:
                nodes.append(v)
            if status is was:
                continue
            if derived:
                flips.setdefault(status, []).append(rec.id)
            elif status in TERMINAL and was not in TERMINAL:
                ended.append(v)
            if status is READY and not v.group:
                made_ready.append(rec.id)
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
        self._unwind(log, self._number_before, self.pools.passed)

    def undo(self, mutation: Mutation) -> None:
        """Take back a finished mutation; the latest is undone first."""
        self._unwind(mutation.log, mutation.number_before, mutation.passed)

    def _unwind(self, log: list[Step], number: int, passed: Sequence[Passed]) -> None:
        self.pools.passed = []
        for v, old, lease, _ in reversed(log):
            if v is None:
                assert isinstance(old, str)
                self.pools.set_capacity(old, lease)  # type: ignore[arg-type]
            else:
                self._apply(v, v.rec if v.present else None, old, lease)  # type: ignore[arg-type]
        self.next_number = number
        self.settle()
        self._log.clear()
        self.pools.passed.clear()
        if passed:
            self.pools.restore(passed)

    # ---------------------------------------------------------------------------------------------- choke point

    def add(self, rec: Node) -> Vertex:
        """A new node. Its deps and parent must be present or stand before it."""
        v = Vertex(rec, number_of(rec.id))
        self._log.append((v, None, None, False))
        self._apply(v, None, rec, None)
        return v

    def put(self, v: Vertex, rec: Node, lease: Lease | None = _same_lease, derived: bool = False) -> None:
        """The state-transition choke point: `v` is from now on as `rec` says (and held under `lease`, if given).

        What `rec` asks for and where it stands is as before; else see `reshape`.
        """
        old = v.rec
        held = v.lease
        self._log.append((v, old, held, derived))
        self._apply(v, old, rec, held if lease is _same_lease else lease, False)

    def reshape(self, v: Vertex, rec: Node) -> None:
        """As `put`, of a record of which anything may be new: parent, deps, kind, role, needs, cost, priority."""
        self._log.append((v, v.rec, v.lease, False))
        self._apply(v, v.rec, rec, v.lease)

    def drop(self, v: Vertex) -> None:
        """Forget a node that was pruned."""
        self._log.append((v, v.rec, v.lease, False))
        self._apply(v, v.rec, None, None)

    def configure(self, resource: str, units: int) -> None:
        """Set the capacity of a resource."""
        self._log.append((None, resource, self.pools.configured.get(resource), False))
        self.pools.set_capacity(resource, units)

    def set_lease(self, v: Vertex, lease: Lease) -> None:
        """Move a live claim's lease; not a mutation: a renew is not journaled."""
        v.lease = lease
        if v.queued is None or lease.deadline < v.queued:
            v.queued = lease.deadline
            heappush(self.deadlines, (lease.deadline, v.num, v))

    def settle_depth(self) -> bool:
        """Whether depths can be relied on in a search for a cycle; brings them up to date where that is little work."""
        if self.levels.due:
            self.levels.settle(budget=_SMALL)
        return not (self.untidy or self.levels.due)

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
            v.rec = new
            if reshaped:
                self._follow_shape(v, old, new)
            if old.grants is not new.grants:
                self.pools.move_grants(v, old.grants, new.grants)
            if old.cause is not new.cause:
                self._file_cause(v, old.cause, new.cause)
            if old.assignee is not new.assignee:
                self._seat(v, old.assignee, new.assignee)
            self._follow_status(v, old, new)
        if lease is None:
            v.lease = None
        elif lease is not v.lease:
            self.set_lease(v, lease)

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

    def _enter(self, v: Vertex, rec: Node) -> None:
        v.rec = rec
        v.present = True
        self.vertices[rec.id] = v
        v.group = rec.kind in GROUPS
        parent = self.vertices[rec.parent] if rec.parent is not None else None
        if parent is not None:
            self._attach(v, parent)
        self._link_deps(v, rec)
        for x, edge in (v.dependents or {}).items():
            x.dep_on = tuple([self.vertices.get(d.on) for d in x.rec.deps])
            x.unmet += not self.meets(rec, edge)
        if rec.needs:
            v.lines = {}
        if rec.grants:
            self.pools.move_grants(v, (), rec.grants)
        if rec.cause is not None:
            self._file_cause(v, None, rec.cause)
        if rec.assignee is not None:
            self._seat(v, None, rec.assignee)
        self._count(v, rec.status, 1)
        self._on_status(v, _ABSENT, _FLAGS[rec.status], rec)
        if v.group and v.started_children:
            self._count_started(v.parent, 1)
        self.levels.place(v)
        self._touched.append(v)

    def _leave(self, v: Vertex, rec: Node) -> None:
        if v.group and v.started_children:
            self._count_started(v.parent, -1)
        self._on_status(v, _FLAGS[rec.status], _ABSENT, rec)
        self.levels.turn(v)
        self._count(v, rec.status, -1)
        self._unlink_deps(v, rec)
        v.unmet = 0
        if rec.grants:
            self.pools.move_grants(v, rec.grants, ())
        if rec.cause is not None:
            self._file_cause(v, rec.cause, None)
        # The vertex keeps its dependents, so that undoing this finds them again.
        for x, edge in (v.dependents or {}).items():
            x.dep_on = tuple([None if t is v else t for t in x.dep_on])
            x.unmet -= not self.meets(rec, edge)
        if v.parent is not None:
            self._detach(v)
        v.present = False
        del self.vertices[rec.id]
        self.levels.forget(v)

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

    # -------------------------------------------------------------------------------------------------- structure

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
        if not rec.deps:
            v.dep_on = ()
            v.own_deps = None
            return
        vertices = self.vertices
        v.dep_on = targets = tuple([vertices.get(d.on) for d in rec.deps])
        v.own_deps = own = self._own_targets(v)
        unmet = 0
        for d, t in zip(rec.deps, targets, strict=True):
            if t is None:
                continue
            edge = EDGE_ANY if d.when is When.AFTER_ANY else 0
            if own is not None and t in own:
                edge |= EDGE_OWN
            if t.dependents is None:
                t.dependents = {}
            t.dependents[v] = edge
            if not self.meets(t.rec, edge):
                unmet += 1
            self.levels.offer(t, v)
        if unmet != v.unmet:
            v.unmet = unmet
            self._touched.append(v)

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

    # ------------------------------------------------------------------------------------------------------ status

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
            self.levels.turn(v)
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
            heappush(self.finished, (not new.archived, new.finished_at or 0.0, v.num, v))

    def _on_status(self, v: Vertex, was: int, now: int, rec: Node) -> None:
        """Indexes by status, from flags to flags."""
        changed = was ^ now
        p = v.parent
        if not v.group:
            if changed & _F_READY:
                if now & _F_READY:
                    self.lines.add(v)
                else:
                    self.lines.remove(v, rec.role)
            if changed & _F_ACTIVE and v.needy is not None:
                self._count_active(v.needy, 1 if now & _F_ACTIVE else -1)
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
            rec = v.rec
            if not v.present:
                continue
            if v.group:
                self._settle_group(v)
            elif rec.status is READY or rec.status is TODO:
                want = TODO if v.unmet or (v.gate is not None and v.gate.closed) else READY
                if rec.status is not want:
                    self.put(v, replace(rec, status=want), derived=True)

    def _settle_group(self, g: Vertex) -> None:
        rec = g.rec
        if rec.status in TERMINAL:
            return
        above = g.gate is not None and g.gate.closed
        closed = g.unmet > 0 or above or rec.status is BLOCKED
        if closed is not g.closed:
            g.closed = closed
            if closed:
                self.levels.seed(g)
            self._touch_members(g)
        if rec.status is not BLOCKED:
            want = TODO if closed else RUNNING if g.started_children else READY
            if rec.status is not want:
                self.put(g, replace(rec, status=want), derived=True)

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
            self.pools.set_capacity(name, units)
        for rec in nodes.values():
            chain = []
            todo: Node | None = rec
            while todo is not None and todo.id not in self.vertices:
                chain.append(todo)
                if todo.parent is None:
                    break
                parent = nodes.get(todo.parent)
                if parent is None:
                    raise ValueError(f"node {todo.id} names parent {todo.parent}, which is not there")
                if len(chain) > len(nodes):
                    raise ValueError(f"node {todo.id} is its own ancestor")
                todo = parent
            for r in reversed(chain):
                self._enter(Vertex(r, number_of(r.id)), replace(r, deps=()) if r.deps else r)
        for rec in nodes.values():
            v = self.vertices[rec.id]
            if rec.deps:
                v.rec = rec
                self._link_deps(v, rec)
            if rec.status in TERMINAL and v.parent is None:
                heappush(self.finished, (not rec.archived, rec.finished_at or 0.0, v.num, v))
            if v.unmet and rec.status in OWN_OVER:
                self.untidy = True
            if self.is_live(v):
                lease_s = rec.lease or self.default_lease_s
                self.set_lease(v, Lease(now + lease_s, lease_s, now, rec.bound))
            if v.group and rec.status not in TERMINAL:
                self._touched.append(v)
        self.next_number = max(next_number, max((v.num for v in self.vertices.values()), default=0) + 1)
        self.settle()
        self._log.clear()

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
        return [v for v in self.vertices.values() if v.rec.status is READY and not v.group]

    def is_live(self, v: Vertex) -> bool:
        """Whether somebody holds `v` under a lease; a running group is nobody's claim."""
        return not v.group and v.rec.status in LIVE


def _one_step_each(log: list[Step]) -> list[Step]:
    """The steps of a mutation that changed some node more than once, put together: from the first record to the last.

    Such a step is derived where all of them were, and its lease is one that belongs to a connection, if any does.
    """
    steps: dict[Vertex | None, Step] = {}
    for step in log:
        v, _, lease, derived = step
        known = steps.get(v)
        if known is not None:
            _, old, before, all_derived = known
            belongs = before is not None and before.conn is not None  # type: ignore[union-attr]
            step = (v, old, before if belongs else lease, all_derived and derived)
        steps[v] = step
    return list(steps.values())
