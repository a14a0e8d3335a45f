"""What must always hold: every index equal to one rebuilt from the records alone, and the rules between records.

Run after every step of the tests, and by the daemon with `--check`. Reads only; slow on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from claimdagd.core.graph import OWN_OVER
from claimdagd.core.indexes.links import ACTIVE
from claimdagd.model import LIVE, TERMINAL, Status

if TYPE_CHECKING:
    from claimdagd.core.graph import Graph
    from claimdagd.core.state import Vertex


def check(graph: Graph) -> None:
    """Raise AssertionError, naming the node, where an index or a rule does not hold."""
    graph.ready_queue.refresh()
    for node_id, v in graph.vertices.items():
        assert v.record.id == node_id
        _check_place(graph, v)
        _check_counts(graph, v)
        _check_status(graph, v)
    _check_names(graph)
    _check_units(graph)
    _check_levels(graph)
    _check_queue(graph)


def _check_place(graph: Graph, v: Vertex) -> None:
    record = v.record
    assert (v.parent.record.id if v.parent is not None else None) == record.parent, v
    assert all(c.parent is v for c in v.children or ()), v
    for d, t in zip(record.deps, v.dep_on, strict=True):
        assert t is graph.vertices.get(d.on), v
        if t is not None:
            assert t.dependents is not None
            own = graph.is_ancestor(t, v) and not t.group
            assert t.dependents[v] == (d.when == "after_any") + 2 * own, v
    gate = needy = None
    a = v.parent
    while a is not None:
        gate = gate or (a if a.group else None)
        needy = needy or (a if a.record.needs else None)
        a = a.parent
    assert v.gating_group is gate, v
    assert v.resource_ancestor is needy, v


def _check_counts(graph: Graph, v: Vertex) -> None:
    children = list(v.children or ())
    assert v.open_children == sum(c.record.status not in TERMINAL for c in children), v
    assert v.started_children == sum(graph.has_started(c) for c in children), v
    unmet = sum(
        t is not None and t.dependents is not None and not graph.meets(t.record, t.dependents[v]) for t in v.dep_on
    )
    assert v.unmet == unmet, v
    if v.record.needs:
        below = graph.subtree(v)[1:]
        assert v.active == sum(not x.group and x.record.status in ACTIVE for x in below), v


def _check_status(graph: Graph, v: Vertex) -> None:
    record = v.record
    status = record.status
    held = not v.group and status in LIVE
    assert (record.assignee is not None) is held, v
    assert (v.lease is not None) is held, v
    assert (record.finished_at is not None) is (status in TERMINAL), v
    if status in TERMINAL:
        assert not v.open_children, v
        assert not record.grants, v
    above = v.gating_group is not None and v.gating_group.gated
    if v.group and status not in TERMINAL:
        assert v.gated is (v.unmet > 0 or above or status is Status.BLOCKED), v
    if v.group and status not in TERMINAL and status is not Status.BLOCKED:
        want = Status.TODO if v.gated else Status.RUNNING if v.started_children else Status.READY
        assert status is want, v
    if not v.group and status in (Status.TODO, Status.READY):
        assert (status is Status.READY) is not (v.unmet > 0 or above), v


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
                assert graph.is_ancestor(lender, v), v
                assert graph.resources.holds(lender, g.resource), v
                assert (g.lender, g.resource) not in loans, v
                loans[(g.lender, g.resource)] = v
    assert used == {name: pool.used for name, pool in graph.resources.pools.items()}
    assert loans == graph.resources.loans


def _check_levels(graph: Graph) -> None:
    for v in graph.vertices.values():
        if v.record.status in TERMINAL:
            continue
        end, end_p, start, start_p = graph.ranks.compute(v)
        assert (v.blevel_end, v.priority_end) == (end, end_p), v
        if (not v.group or v.gated) and not (v.record.status in OWN_OVER and v.group):
            assert (v.blevel_start, v.priority_start) == (start, start_p), v


def _check_queue(graph: Graph) -> None:
    lines = graph.ready_queue
    ready = graph.ready_work()
    assert lines.free_count == sum(v.bucket is None for v in ready)
    for v in ready:
        place = v.queue_entry
        assert place is not None, v
        assert place[:3] == (-v.priority_start, -v.blevel_start, v.number), v
        queue = lines.free[v.record.role] if v.bucket is None else v.bucket.queues[v.record.role]
        assert sum(e is place for e in queue) == 1, v
        needless = not v.record.needs and v.resource_ancestor is None
        assert (v.bucket is None) is needless, v
    for v in graph.vertices.values():
        if v not in ready:
            assert v.queue_entry is None, v
    for queue in (*lines.free.values(), *(q for line in lines.buckets.values() for q in line.queues.values())):
        standing = [e for e in queue if e[3].queue_entry is e]
        assert queue.first() == min(standing, default=None), "what is first is not"
    for line in lines.buckets.values():
        assert line.count == sum(v.bucket is line for v in ready), line.key
        units, exempt = graph.resources.demand(line.needs, line.under)
        assert line.demand.key == (units, exempt, line.starving), line.key
        assert line in line.demand.buckets, line.key
        a = line.under
        while a is not None:
            assert a.buckets is not None, a
            assert line in a.buckets, (a, line.key)
            a = a.resource_ancestor
    for v in graph.vertices.values():
        for line in v.buckets or ():
            assert lines.buckets.get(line.key) is line, (v, "knows of a line that is gone")
    for key, demand in lines.demands.items():
        waiting = [v for v in ready if v.bucket is not None and v.bucket.demand is demand]
        assert waiting, (key, "nobody has this demand")
        assert demand.key == key
        assert demand.count == len(waiting), key
        if demand.lacking is not None:
            assert graph.resources.lacks(demand) is not None, (key, "set aside, but can run")
        for role in {v.record.role for v in waiting}:
            first = min(v.queue_entry for v in waiting if v.record.role is role and v.queue_entry is not None)
            assert any(e is first for e in demand.fronts[role]), (key, "its first node is not among its fronts")
            assert demand.lacking is not None or any(e is first for e in lines.fronts[role]), (key, "out of sight")
    for resource, wanting in lines.wanting.items():
        want = [d for d in lines.demands.values() if any(u[0] == resource and u[2] is None for u in d.units)]
        assert set(wanting) == set(want), resource
    for s in graph.resources.starving:
        assert s.record.status is Status.READY, s
        assert s.bypass_count >= graph.resources.starvation, s
