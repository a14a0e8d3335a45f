"""The operations claim and claim_next. A generation is the fencing token: a claim moves it."""

from __future__ import annotations

from claimdagd.core.graph import Graph, replace
from claimdagd.core.indexes.links import gated_by, is_ancestor, unmet_deps
from claimdagd.core.lookup import find, scope_root
from claimdagd.core.operations.checks import check_free, check_gen, check_not_terminal
from claimdagd.core.operations.leases import lease_of, with_process
from claimdagd.core.operations.pause import check_not_paused
from claimdagd.core.queries.deadlock import deadlock_possible, find_deadlocks
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Lease, Vertex
from claimdagd.model import Status
from claimdagd.wire import Claim, ClaimNext, Code, Next

#: On the path of every claim, where an enum's own attribute costs as much as a call.
_CLAIMED = Status.CLAIMED


def claim(graph: Graph, r: Claim, conn: int | None = None) -> Vertex:
    """Claim the node that is named."""
    op = "claim"
    v = find(graph, op, r.id)
    record = v.record
    if v.group:
        raise Refusal(
            Code.NOT_CLAIMABLE, f"{op}: {record.id} is a {record.kind}; its children are claimed, not it", id=record.id
        )
    check_not_terminal(op, v)
    check_gen(op, v, r.gen)
    if record.assignee == r.actor:
        check_free(graph, op, r.actor)
    if record.assignee is not None:
        raise Refusal(
            Code.NOT_CLAIMABLE,
            f"{op}: {record.id} is held by {record.assignee}",
            id=record.id,
            assignee=record.assignee,
        )
    if record.status is Status.COMPLETING or record.status is Status.BLOCKED:
        raise Refusal(Code.NOT_CLAIMABLE, f"{op}: {record.id} is {record.status}", id=record.id, status=record.status)
    begins = graph.start_times.waiting.get(v)
    if begins is not None:
        raise Refusal(
            Code.NOT_CLAIMABLE,
            f"{op}: {record.id} is not to begin for {begins - graph.wall:.0f} s",
            id=record.id,
            not_before=begins,
        )
    if graph.pauses.scopes:
        check_not_paused(graph, op, v)
    if record.status is not Status.READY:
        raise Refusal(
            Code.DEPS_UNSATISFIED,
            f"{op}: deps of {record.id} are not met",
            id=record.id,
            waiting_on=[target.record.id for x in gated_by(v) for _, target in unmet_deps(x)],
        )
    check_free(graph, op, r.actor)
    _check_units(graph, op, v)
    take(graph, v, r.actor, lease_of(graph, r.lease, r.bound, conn))
    return v


def _check_units(graph: Graph, op: str, v: Vertex) -> None:
    missing = graph.ready_queue.missing(v)
    if missing:
        what = ", ".join(f"{g.units} of {g.resource} ({free} free)" for g, free in missing)
        raise Refusal(
            Code.RESOURCES_BUSY,
            f"{op}: {v.record.id} lacks {what}",
            id=v.record.id,
            resources=[
                {"resource": g.resource, "units": g.units, "free": free, "lender": g.lender} for g, free in missing
            ],
        )


def claim_next(
    graph: Graph, r: ClaimNext | Next, actor: str, conn: int | None = None, op: str = "claim_next"
) -> Vertex | None:
    """Pick and claim the next node in one step; return None if no node that this claimer may take can run (law 5.1)."""
    if actor in graph.by_assignee:
        check_free(graph, op, actor)
    under = None if r.under is None else scope_root(graph, op, r.under)
    v = graph.ready_queue.pick(r.role, r.slack, r.strict, under)
    if v is not None:
        take(graph, v, actor, lease_of(graph, r.lease, r.bound, conn))
    return v


def take(graph: Graph, v: Vertex, actor: str, lease: Lease) -> None:
    """Hand `v` to `actor`: every unit it needs and those of groups above it, the lease, the next generation.

    Law 4.3, 6.2.
    """
    grants = v.record.grants
    if v.bucket is not None:
        claimed = graph.resources.claim_grants(v)
        graph.ready_queue.record_bypasses(v, claimed)
        for holder, taken in claimed:
            if holder is v:
                grants = taken
            else:
                graph.put(holder, replace(holder.record, grants=taken, updated_at=graph.wall))
    record = v.record
    if lease.process is not None:
        record = with_process(record, lease.process)
    wall = graph.wall
    graph.put(
        v,
        replace(
            record,
            status=_CLAIMED,
            assignee=actor,
            gen=record.gen + 1,
            attempts=record.attempts + 1,
            started_at=wall if record.started_at is None else record.started_at,
            updated_at=wall,
            lease=lease.lease_s,
            bound=lease.bound,
            grants=grants,
        ),
        lease,
    )


def nothing_to_claim(graph: Graph, under: str | None) -> Refusal:
    """Return why claim_next has nothing in the graph or a scope: work is held up, or there is none (law 5.5, 5.6)."""
    root = None if under is None else graph.vertices.get(under)
    if under is not None and root is None:
        return Refusal(Code.NOTHING_PENDING, f"claim_next: nothing pending: {under} was pruned")
    work = graph.work if root is None else graph.ready_queue.scope(root).count()
    todo, ready, blocked = work[Status.TODO], work[Status.READY], work[Status.BLOCKED]
    live = work[Status.CLAIMED] + work[Status.RUNNING]
    if not (todo or ready or blocked or live):
        return Refusal(Code.NOTHING_PENDING, "claim_next: nothing pending")
    expiry = graph.leases.next_deadline() if root is None else _next_deadline_under(graph, root)
    short = graph.ready_queue.short_count(root) if ready and not graph.pauses.everything else 0
    paused = _paused(graph, root, ready)
    later, begins = _start_times(graph, root)
    counts = {
        "wait on deps": todo - later,
        "begin later": later,
        "blocked": blocked,
        "held": live,
        "lack resources": short,
        "paused": paused,
        "for other roles": ready - short - paused,
    }
    parts = [f"{n} {what}" for what, n in counts.items() if n]
    deadlocks = find_deadlocks(graph) if short and deadlock_possible(graph) else []
    parts += [d["text"] for d in deadlocks]
    # A claim, a time or a resume, anywhere, may free what the scope waits for.
    stuck = (
        graph.live == 0 and graph.start_times.next_due() is None and not _paused(graph, None, graph.work[Status.READY])
    )
    if stuck:
        parts.append("stuck: no claim is live whose end could free anything")
    return Refusal(
        Code.NOTHING_RUNNABLE,
        f"claim_next: nothing runnable: {', '.join(parts)}",
        deps=todo - later,
        blocked=blocked,
        leases=live,
        resources=short,
        next_expiry=max(0.0, expiry - graph.now) if expiry is not None else None,
        stuck=stuck,
        **({"later": later, "next_begin": max(0.0, begins - graph.wall)} if begins is not None else {}),
        **({"paused": paused} if graph.pauses.scopes else {}),
        deadlocks=deadlocks,
    )


def _paused(graph: Graph, under: Vertex | None, ready: int) -> int:
    """Return how many of the `ready` nodes of the graph or a scope a pause holds back."""
    if graph.pauses.everything:
        return ready
    graph.ready_queue.refresh()
    return graph.pauses.held_back_count(under)


def _start_times(graph: Graph, under: Vertex | None) -> tuple[int, float | None]:
    """Return how much work waits for its time to begin, in the graph or a scope, and the next such time."""
    times = graph.start_times
    if under is None:
        return len(times.later), times.next_due()
    inside = [(v, when) for v, when in times.waiting.items() if v is under or is_ancestor(under, v)]
    return sum(v in times.later for v, _ in inside), min((when for _, when in inside), default=None)


def _next_deadline_under(graph: Graph, under: Vertex) -> float | None:
    """Return when the next lease in a scope runs out. There is at most one for each worker, so all are looked at."""
    held = (v for v in graph.by_assignee.values() if v is under or is_ancestor(under, v))
    return min((v.lease.deadline for v in held if v.lease is not None), default=None)
