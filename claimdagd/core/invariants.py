"""What must always hold: every index equal to one rebuilt from the records alone, and the rules between records.

Run after every step of the tests, and by the daemon with `--check`. Reads only; slow on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from claimdagd.core.indexes.links import ACTIVE, has_started, is_ancestor, is_met, subtree
from claimdagd.core.indexing import OWN_OVER
from claimdagd.model import LIVE, TERMINAL, Status

if TYPE_CHECKING:
    from claimdagd.core.graph import Graph
    from claimdagd.core.state import Vertex


def check(graph: Graph) -> None:
    """Raise AssertionError, naming the node, where an index or a rule does not hold."""
    graph.ready_queue.refresh()
    for node_id, v in graph.vertices.items():
        assert v.record.id == node_id
        _check_links(graph, v)
        _check_counts(graph, v)
        _check_status(graph, v)
    _check_names(graph)
    _check_units(graph)
    _check_ranks(graph)
    _check_queue(graph)
    _check_scopes(graph)


def _check_links(graph: Graph, v: Vertex) -> None:
    record = v.record
    assert (v.parent.record.id if v.parent is not None else None) == record.parent, v
    assert all(c.parent is v for c in v.children or ()), v
    for d, t in zip(record.deps, v.dep_on, strict=True):
        assert t is graph.vertices.get(d.on), v
        if t is not None:
            assert t.dependents is not None
            own = is_ancestor(t, v) and not t.group
            assert t.dependents[v] == (d.when == "after_any") + 2 * own, v
    gate = ancestor = None
    a = v.parent
    while a is not None:
        gate = gate or (a if a.group else None)
        ancestor = ancestor or (a if a.record.needs else None)
        a = a.parent
    assert v.gating_group is gate, v
    assert v.resource_ancestor is ancestor, v


def _check_counts(graph: Graph, v: Vertex) -> None:
    children = list(v.children or ())
    assert v.open_children == sum(c.record.status not in TERMINAL for c in children), v
    assert v.started_children == sum(has_started(c) for c in children), v
    unmet = sum(t is not None and t.dependents is not None and not is_met(t.record, t.dependents[v]) for t in v.dep_on)
    assert v.unmet == unmet, v
    if v.record.needs:
        below = subtree(v)[1:]
        assert v.active == sum(not x.group and x.record.status in ACTIVE for x in below), v


def _check_status(graph: Graph, v: Vertex) -> None:
    record = v.record
    status = record.status
    held = not v.group and status in LIVE
    assert (record.assignee is not None) is held, v
    assert (v.lease is not None) is held, v
    assert held or record.pid is record.pid_start is UNSET, v
    assert (record.finished_at is not None) is (status in TERMINAL), v
    if status in TERMINAL:
        assert not v.open_children, v
        assert not record.grants, v
    above = v.gating_group is not None and v.gating_group.gated
    early = (record.not_before or 0.0) > graph.start_times.judged
    if v.group and status not in TERMINAL:
        assert v.gated is (v.unmet > 0 or above or status is Status.BLOCKED or early), v
    if v.group and status not in TERMINAL and status is not Status.BLOCKED:
        want = Status.TODO if v.gated else Status.RUNNING if v.started_children else Status.READY
        assert status is want, v
    if not v.group and status in (Status.TODO, Status.READY):
        assert (status is Status.READY) is not (v.unmet > 0 or above or early), v
        assert (v in graph.start_times.waiting) is early, v
        assert (v in graph.start_times.later) is (early and status is Status.TODO), v


def _check_names(graph: Graph) -> None:
    held = {v.record.assignee: v for v in graph.vertices.values() if v.record.assignee is not None}
    assert held == graph.by_assignee
    assert len(held) == graph.live
    for status in Status:
        assert graph.counts[status] == sum(v.record.status is status for v in graph.vertices.values()), status
        assert graph.work[status] == sum(v.record.status is status and not v.group for v in graph.vertices.values()), (
            status
        )
    for cause, filed in graph.caused.items():
        assert filed, cause
    assert sum(map(len, graph.caused.values())) == sum(v.record.cause is not None for v in graph.vertices.values())


def _check_units(graph: Graph) -> None:
    used: dict[str, int] = {}
    loans: dict[tuple[str, str], Vertex] = {}
    for v in graph.vertices.values():
        for g in v.record.grants:
            assert v.record.needs.get(g.resource) == g.units, v
            if g.lender is None:
                used[g.resource] = used.get(g.resource, 0) + g.units
            else:
                lender = graph.vertices[g.lender]
                assert is_ancestor(lender, v), v
                assert graph.resources.holds(lender, g.resource), v
                assert (g.lender, g.resource) not in loans, v
                loans[(g.lender, g.resource)] = v
    assert used == {name: pool.used for name, pool in graph.resources.semaphores.items()}
    assert loans == graph.resources.loans


def _check_ranks(graph: Graph) -> None:
    for v in graph.vertices.values():
        if v.record.status in TERMINAL:
            continue
        end, end_p, start, start_p = graph.ranks.compute(v)
        assert (v.blevel_end, v.priority_end) == (end, end_p), v
        if (not v.group or v.gated) and not (v.record.status in OWN_OVER and v.group):
            assert (v.blevel_start, v.priority_start) == (start, start_p), v


def _check_queue(graph: Graph) -> None:
    ready = [v for v in graph.vertices.values() if v.record.status is Status.READY and not v.group]
    queue, pauses = graph.ready_queue, graph.pauses
    assert pauses.roots.keys() == {v for v in pauses.scopes if v is not None}
    assert pauses.everything is (None in pauses.scopes)
    assert all(root.present for root in pauses.roots)
    paused = {x for root in pauses.roots for x in subtree(root)}
    assert pauses.held_back.keys() == paused & set(ready), "what is held back is not what is paused"
    ready = [v for v in ready if v not in paused]
    assert queue.free_count == sum(v.bucket is None for v in ready)
    for v in ready:
        entry = v.queue_entry
        assert entry is not None, v
        assert entry[:3] == (-v.priority_start, -v.blevel_start, v.number), v
        own = queue.free[v.record.role] if v.bucket is None else v.bucket.queues[v.record.role]
        assert sum(e is entry for e in own) == 1, v
        assert (v.bucket is None) is (not v.record.needs and v.resource_ancestor is None), v
    for v in graph.vertices.values():
        if v not in ready:
            assert v.queue_entry is None, v
    for q in (*queue.free.values(), *(q for bucket in queue.buckets.values() for q in bucket.queues.values())):
        current = [e for e in q if e[3].queue_entry is e]
        assert q.first() == min(current, default=None), "what is first is not"
    _check_buckets(graph, ready)
    _check_classes(graph, ready)
    for s in queue.reservations.starved:
        assert s.record.status is Status.READY, s
        assert s.bypass_count >= queue.reservations.limit, s


def _check_buckets(graph: Graph, ready: list[Vertex]) -> None:
    buckets = graph.ready_queue.buckets
    for bucket in buckets.values():
        assert bucket.count == sum(v.bucket is bucket for v in ready), bucket.key
        units, exempt = graph.resources.external_units(bucket.needs, bucket.under)
        assert bucket.scheduling.key == (units, exempt, bucket.starved), bucket.key
        assert bucket in bucket.scheduling.buckets, bucket.key
        a = bucket.under
        while a is not None:
            assert a.buckets is not None, a
            assert bucket in a.buckets, (a, bucket.key)
            a = a.resource_ancestor
    for v in graph.vertices.values():
        for bucket in v.buckets or ():
            assert buckets.get(bucket.key) is bucket, (v, "lists a bucket that was dropped")


def _check_classes(graph: Graph, ready: list[Vertex]) -> None:
    queue = graph.ready_queue
    for key, scheduling in queue.classes.items():
        waiting = [v for v in ready if v.bucket is not None and v.bucket.scheduling is scheduling]
        assert waiting, (key, "no node is of this class")
        assert scheduling.key == key
        assert scheduling.count == len(waiting), key
        deferred = scheduling.missing_key is not None
        if deferred:
            assert queue.reservations.missing(scheduling) is not None, (key, "deferred, but can run")
        for role in {v.record.role for v in waiting}:
            first = min(v.queue_entry for v in waiting if v.record.role is role and v.queue_entry is not None)
            assert any(e is first for e in scheduling.heads[role]), (key, "its first node is not among its heads")
            assert deferred or any(e is first for e in queue.heads[role]), (key, "its first node is not found")
    for resource, wanting in queue.wanting.items():
        want = [c for c in queue.classes.values() if any(u[0] == resource and u[2] is None for u in c.units)]
        assert set(wanting) == set(want), resource


def _check_scopes(graph: Graph) -> None:
    """Compare each kept scope with one built anew from the records."""
    for scope in graph.ready_queue.scopes:
        below = [v for v in subtree(scope.root) if not v.group]
        assert set(scope.ready()) == {v for v in below if v.queue_entry is not None}, scope.root
        if scope.work is not None:
            counted = dict.fromkeys(Status, 0)
            for v in below:
                counted[v.record.status] += 1
            assert scope.work == counted, scope.root
        for bucket, by_role in scope.queues.items():
            for queue in by_role.values():
                assert all(e[3].bucket is bucket for e in queue if e[3].queue_entry is e), scope.root
