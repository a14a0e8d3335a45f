"""The operations on a live claim: renew, running, release, reclaim; and what happens when its lease runs out."""

from __future__ import annotations

from msgspec import UNSET

from claimdagd.core.graph import Graph, replace
from claimdagd.core.lookup import find
from claimdagd.core.operations.cascade import set_outcome
from claimdagd.core.operations.checks import check_gen, check_holder
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Lease, Vertex
from claimdagd.model import PROCESS_LEASE_S, TERMINAL, Node, Outcome, Process, Status
from claimdagd.wire import Code, Reclaim, Release, Renew, Running


def lease_of(graph: Graph, lease_s: float | None, bound: bool, conn: int | None) -> Lease:
    """Return a lease from now on. A bound one belongs to connection `conn` (law 4.1).

    It is long by default where a process stands for the holder: the end of that is seen (law 4.14).
    """
    process = graph.process
    if lease_s is None:
        lease_s = graph.default_lease_s
        if process is not None:
            lease_s = max(lease_s, PROCESS_LEASE_S)
    now = graph.now
    return Lease(now + lease_s, lease_s, now, bound, conn if bound else None, process)


def with_process(record: Node, process: Process | None) -> Node:
    """Return the record with the process that stands for its holder."""
    if process is None:
        return replace(record, pid=UNSET, pid_start=UNSET)
    return replace(record, pid=process.pid, pid_start=process.start)


def _held(graph: Graph, op: str, node_id: str, gen: int | None, actor: str | None) -> Vertex:
    """Return the node if it is held, at this generation and by this actor; else refuse."""
    v = find(graph, op, node_id)
    check_gen(op, v, gen)
    if not graph.is_live(v):
        code = Code.TERMINAL if v.record.status in TERMINAL else Code.BAD_STATUS
        raise Refusal(
            code, f"{op}: {v.record.id} is {v.record.status}, not held", id=v.record.id, status=v.record.status
        )
    check_holder(op, v, actor)
    return v


def renew(graph: Graph, r: Renew | Running, conn: int | None = None) -> Vertex:
    """Move the deadline; the generation stays. A bound renew from a new connection rebinds the claim to it.

    Law 4.1.
    """
    v, lease = _renewed(graph, r, conn)
    record = _record_under(v.record, lease)
    if record is v.record:
        graph.set_lease(v, lease)
    else:
        graph.put(v, replace(record, updated_at=graph.wall, lease=lease.lease_s, bound=lease.bound), lease)
    return v


def _record_under(record: Node, lease: Lease) -> Node:
    """Return the record as it is under a renewed lease: another one if another process stands for the holder, or none.

    That one has ended is not in the record until the holder speaks again: a daemon that comes back sees it for itself.
    """
    process = lease.process
    if record.pid is UNSET and process is None:
        return record
    if process is not None and record.pid == process.pid and record.pid_start == process.start:
        return record
    return with_process(record, process)


def _renewed(graph: Graph, r: Renew | Running, conn: int | None) -> tuple[Vertex, Lease]:
    """Return the held node and the lease that it has from now on (law 4.6)."""
    v = _held(graph, "renew" if isinstance(r, Renew) else "running", r.id, r.gen, r.actor)
    old = v.lease
    assert old is not None
    lease_s = old.lease_s if r.lease is None else r.lease
    if r.lease is None and graph.process is not None and v.record.pid is UNSET:
        lease_s = max(lease_s, PROCESS_LEASE_S)
    # A renew with the right generation from a new connection rebinds a bound claim, asked for or not.
    bound = r.bound or (old.bound and r.gen is not None)
    conn = conn if bound else old.conn
    return v, Lease(graph.now + lease_s, lease_s, graph.now, bound or old.bound, conn, graph.process or old.process)


def running(graph: Graph, r: Running, conn: int | None = None) -> Vertex:
    """Note that the holder has begun, and renew the lease."""
    v, lease = _renewed(graph, r, conn)
    if v.record.status is Status.CLAIMED:
        record = _record_under(v.record, lease)
        record = replace(record, status=Status.RUNNING, updated_at=graph.wall, lease=lease.lease_s, bound=lease.bound)
        graph.put(v, record, lease)
    else:
        graph.set_lease(v, lease)
    return v


def release(graph: Graph, r: Release) -> Vertex:
    """Hand the node back: ready, without an assignee, at the next generation, its units returned."""
    v = _held(graph, "release", r.id, r.gen, r.actor)
    hand_back(graph, v)
    return v


def hand_back(graph: Graph, v: Vertex, changed: Node | None = None) -> None:
    """End a claim without a result. Units that a live descendant uses pass to that descendant (law 4.2, 6.3).

    Args:
        graph: the graph.
        v: the node.
        changed: its record, with the other fields that change.
    """
    record = changed or v.record
    changes = graph.resources.grants_after_release(v) if record.grants else []
    graph.put(
        v,
        replace(
            record,
            status=Status.BLOCKED if record.status is Status.BLOCKED else Status.TODO,
            assignee=None,
            gen=record.gen + 1,
            lease=None,
            bound=False,
            pid=UNSET,
            pid_start=UNSET,
            grants=(),
            updated_at=graph.wall,
        ),
        None,
    )
    for heir, grants in changes[1:]:
        graph.put(heir, replace(heir.record, grants=grants, updated_at=graph.wall))
    for g in graph.resources.idle_groups(v):
        graph.put(g, replace(g.record, grants=(), updated_at=graph.wall))


def expire(graph: Graph, v: Vertex) -> None:
    """Hand back `v`, whose lease is over; or fail it if that was the last attempt allowed (law 2.11, 4.2)."""
    record = v.record
    if record.max_attempts is not None and record.attempts >= record.max_attempts:
        error = f"lease expired on attempt {record.attempts} of {record.max_attempts}"
        set_outcome(graph, v, Outcome.FAILED, error=error, bump_gen=1)
    else:
        hand_back(graph, v)


def quiet_for(graph: Graph, seconds: float) -> list[Vertex]:
    """Return the held nodes whose holder has not spoken for `seconds` or more, in order of number."""
    return sorted(v for v in graph.by_assignee.values() if v.lease is not None and graph.now - v.lease.spoke >= seconds)


def reclaim(graph: Graph, r: Reclaim) -> list[str]:
    """Hand back every node that was quiet for `lease` seconds or, without that, past its own lease; return the ids."""
    if r.lease is not None:
        overdue = quiet_for(graph, r.lease)
    else:
        overdue = [v for v in quiet_for(graph, 0.0) if v.lease is not None and v.lease.deadline <= graph.now]
    for v in overdue:
        expire(graph, v)
    return [v.record.id for v in overdue]
