"""The verbs of a claim's life: claim, claim_next, renew, running, release, complete, reclaim and the lease's end.

A generation is the fencing token: each verb checks the one it is given before it looks at anything else of a claim.
"""

from __future__ import annotations

from heapq import heappop, heapreplace

from claimdagd.core.graph import Graph, replace
from claimdagd.core.operations.lifecycle import check_error, end_own
from claimdagd.core.operations.upsert import check_summary, find
from claimdagd.core.queries.deadlock import deadlock_possible, find_deadlocks
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Lease, Vertex
from claimdagd.model import TERMINAL, Outcome, Status
from claimdagd.wire import Claim, ClaimNext, Code, Complete, Next, Release, Renew, Running

_COMPLETIONS_KEPT = 4096
#: On the path of every claim, where an enum's own attribute costs as much as a call.
_CLAIMED = Status.CLAIMED


def check_gen(verb: str, v: Vertex, gen: int | None) -> None:
    """The fence: a request at another generation than the node's is refused."""
    if gen is not None and gen != v.record.gen:
        raise Refusal(Code.GEN_MISMATCH, f"{verb}: gen mismatch", id=v.record.id, gen=v.record.gen)


def check_holder(verb: str, v: Vertex, actor: str | None) -> None:
    """Only the holder may speak for a held node; no actor is the shell's escape."""
    if actor is not None and v.record.assignee is not None and v.record.assignee != actor:
        raise Refusal(
            Code.NOT_ASSIGNEE,
            f"{verb}: {v.record.id} is held by {v.record.assignee}",
            id=v.record.id,
            assignee=v.record.assignee,
        )


def check_free(graph: Graph, verb: str, actor: str) -> None:
    """One live node per assignee."""
    held = graph.by_assignee.get(actor)
    if held is not None:
        raise Refusal(
            Code.ASSIGNEE_BUSY,
            f"{verb}: {actor} holds {held.record.id} already",
            id=held.record.id,
            gen=held.record.gen,
        )


def lease_of(graph: Graph, lease_s: float | None, bound: bool, conn: int | None) -> Lease:
    """A lease from now on; a bound one belongs to connection `conn`."""
    if lease_s is None:
        lease_s = graph.default_lease_s
    now = graph.now
    return Lease(now + lease_s, lease_s, now, bound, conn if bound else None)


# --------------------------------------------------------------------------------------------------------------- claims


def claim(graph: Graph, r: Claim, conn: int | None = None) -> Vertex:
    """Claim the node that is named."""
    verb = "claim"
    v = find(graph, verb, r.id)
    record = v.record
    if v.group:
        raise Refusal(
            Code.NOT_CLAIMABLE,
            f"{verb}: {record.id} is a {record.kind}; its children are claimed, not it",
            id=record.id,
        )
    if record.status in TERMINAL:
        raise Refusal(
            Code.TERMINAL,
            f"{verb}: {record.id} is {record.status}; reopen it first",
            id=record.id,
            status=record.status,
        )
    check_gen(verb, v, r.gen)
    if record.assignee == r.actor:
        check_free(graph, verb, r.actor)
    if record.assignee is not None:
        raise Refusal(
            Code.NOT_CLAIMABLE,
            f"{verb}: {record.id} is held by {record.assignee}",
            id=record.id,
            assignee=record.assignee,
        )
    if record.status is Status.COMPLETING or record.status is Status.BLOCKED:
        raise Refusal(Code.NOT_CLAIMABLE, f"{verb}: {record.id} is {record.status}", id=record.id, status=record.status)
    if record.status is not Status.READY:
        raise Refusal(
            Code.DEPS_UNSATISFIED, f"{verb}: deps of {record.id} are not met", id=record.id, waiting_on=unmet_ids(v)
        )
    check_free(graph, verb, r.actor)
    graph.ready_queue.refresh()
    missing = graph.resources.missing(v)
    if missing:
        what = ", ".join(f"{g.units} of {g.resource} ({free} free)" for g, free in missing)
        raise Refusal(
            Code.RESOURCES_BUSY,
            f"{verb}: {record.id} lacks {what}",
            id=record.id,
            resources=[
                {"resource": g.resource, "units": g.units, "free": free, "lender": g.lender} for g, free in missing
            ],
        )
    take(graph, v, r.actor, lease_of(graph, r.lease, r.bound, conn))
    return v


def unmet_ids(v: Vertex) -> list[str]:
    """The deps that hold `v` back, its own and those of the groups above it."""
    found: list[str] = []
    x: Vertex | None = v
    while x is not None:
        found += [
            t.record.id
            for t in x.dep_on
            if t is not None and t.dependents is not None and not Graph.meets(t.record, t.dependents[x])
        ]
        x = x.gating_group
    return found


def claim_next(
    graph: Graph, r: ClaimNext | Next, actor: str, conn: int | None = None, verb: str = "claim_next"
) -> Vertex | None:
    """Pick and claim the next node in one step; None where nothing that this claimer may take can run."""
    if actor in graph.by_assignee:
        check_free(graph, verb, actor)
    v = graph.ready_queue.pick(r.role, r.slack, r.strict)
    if v is not None:
        take(graph, v, actor, lease_of(graph, r.lease, r.bound, conn))
    return v


def take(graph: Graph, v: Vertex, actor: str, lease: Lease) -> None:
    """Hand `v` to `actor`: every unit it needs and those of groups above it, the lease, the next generation."""
    grants = v.record.grants
    if v.bucket is not None:
        plan = graph.resources.plan(v)
        graph.resources.pass_over(v, plan)
        for holder, taken in plan:
            if holder is v:
                grants = taken
            else:
                graph.put(holder, replace(holder.record, grants=taken, updated_at=graph.wall))
    record = v.record
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


def nothing(graph: Graph) -> Refusal:
    """Why claim_next has nothing: work is pending but held up, or there is none."""
    work = graph.work
    todo, ready, blocked = work[Status.TODO], work[Status.READY], work[Status.BLOCKED]
    live = graph.live
    if not (todo or ready or blocked or live):
        return Refusal(Code.NOTHING_PENDING, "claim_next: nothing pending")
    expiry = next_deadline(graph)
    lacking = graph.ready_queue.lacking_count() if ready else 0
    counts = {
        "wait on deps": todo,
        "blocked": blocked,
        "held": live,
        "lack resources": lacking,
        "for other roles": ready - lacking,
    }
    parts = [f"{n} {what}" for what, n in counts.items() if n]
    deadlocks = find_deadlocks(graph) if lacking and deadlock_possible(graph) else []
    parts += [d["text"] for d in deadlocks]
    stuck = live == 0
    if stuck:
        parts.append("stuck: no claim is live whose end could free anything")
    return Refusal(
        Code.NOTHING_RUNNABLE,
        f"claim_next: nothing runnable: {', '.join(parts)}",
        deps=todo,
        blocked=blocked,
        leases=live,
        resources=lacking,
        next_expiry=max(0.0, expiry - graph.now) if expiry is not None else None,
        stuck=stuck,
        deadlocks=deadlocks,
    )


# -------------------------------------------------------------------------------------------------------------- leases


def _held(graph: Graph, verb: str, node_id: str, gen: int | None, actor: str | None) -> Vertex:
    v = find(graph, verb, node_id)
    check_gen(verb, v, gen)
    if not graph.is_live(v):
        code = Code.TERMINAL if v.record.status in TERMINAL else Code.BAD_STATUS
        raise Refusal(
            code, f"{verb}: {v.record.id} is {v.record.status}, not held", id=v.record.id, status=v.record.status
        )
    check_holder(verb, v, actor)
    return v


def renew(graph: Graph, r: Renew | Running, conn: int | None = None) -> Vertex:
    """Move the deadline; the generation stays. A bound renew from a new connection rebinds the claim to it."""
    v, lease = _renewed(graph, r, conn)
    graph.set_lease(v, lease)
    return v


def _renewed(graph: Graph, r: Renew | Running, conn: int | None) -> tuple[Vertex, Lease]:
    """The held node and the lease that it has from now on."""
    v = _held(graph, "renew" if isinstance(r, Renew) else "running", r.id, r.gen, r.actor)
    old = v.lease
    assert old is not None
    lease_s = old.lease_s if r.lease is None else r.lease
    # A renew with the right generation from a new connection rebinds a bound claim, asked for or not.
    bound = r.bound or (old.bound and r.gen is not None)
    conn = conn if bound else old.conn
    return v, Lease(graph.now + lease_s, lease_s, graph.now, bound or old.bound, conn)


def running(graph: Graph, r: Running, conn: int | None = None) -> Vertex:
    """The holder has begun; as renew besides."""
    v, lease = _renewed(graph, r, conn)
    if v.record.status is Status.CLAIMED:
        record = replace(v.record, status=Status.RUNNING, updated_at=graph.wall, lease=lease.lease_s, bound=lease.bound)
        graph.put(v, record, lease)
    else:
        graph.set_lease(v, lease)
    return v


def release(graph: Graph, r: Release) -> Vertex:
    """The holder gives the node back: ready, nobody's, the generation moved, units returned."""
    v = _held(graph, "release", r.id, r.gen, r.actor)
    hand_back(graph, v)
    return v


def hand_back(graph: Graph, v: Vertex) -> None:
    """A claim ends without a result; units that a live descendant uses pass to it."""
    record = v.record
    changes = graph.resources.handed_back(v) if record.grants else []
    graph.put(
        v,
        replace(
            record,
            status=Status.TODO,
            assignee=None,
            gen=record.gen + 1,
            lease=None,
            bound=False,
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
    """The lease of `v` is over: it is handed back, or fails where this was the last attempt allowed."""
    record = v.record
    if record.max_attempts is not None and record.attempts >= record.max_attempts:
        end_own(
            graph,
            v,
            Outcome.FAILED,
            error=f"lease expired on attempt {record.attempts} of {record.max_attempts}",
            moved=1,
        )
    else:
        hand_back(graph, v)


def next_deadline(graph: Graph) -> float | None:
    """When the next lease runs out (monotonic), or None."""
    heap = graph.deadlines
    while heap:
        when, number, v = heap[0]
        lease = v.lease
        if v.heap_deadline != when:
            heappop(heap)
        elif lease is None:
            heappop(heap)
            v.heap_deadline = None
        elif lease.deadline > when:
            v.heap_deadline = lease.deadline
            heapreplace(heap, (lease.deadline, number, v))
        else:
            return when
    return None


def overdue(graph: Graph, now: float) -> Vertex | None:
    """A held node whose lease is over at `now`, the longest overdue first."""
    when = next_deadline(graph)
    return graph.deadlines[0][2] if when is not None and when <= now else None


def quiet_for(graph: Graph, seconds: float) -> list[Vertex]:
    """Held nodes whose holder has not spoken for `seconds` or more, in order of number."""
    return sorted(v for v in graph.by_assignee.values() if v.lease is not None and graph.now - v.lease.spoke >= seconds)


# ------------------------------------------------------------------------------------------------------------ complete


def complete(graph: Graph, r: Complete) -> tuple[Vertex, tuple[str, ...] | None]:
    """Set the outcome of any unfinished node, held or not. Where it is only said again: what the first made ready."""
    verb = "complete"
    v = find(graph, verb, r.id)
    record = v.record
    if r.gen is not None:
        check_gen(verb, v, r.gen)
    status = r.status
    if r.error is not None:
        if status is Outcome.DONE:
            raise Refusal(
                Code.BAD_REQUEST, f"{verb}: error goes with status failed or cancelled, not done", field="error"
            )
        check_error(verb, r.error)
    if r.summary is not None:
        check_summary(verb, r.summary)
    if record.status in TERMINAL or record.outcome is not None:
        said = record.outcome.value if record.outcome is not None else record.status.value
        if said != status.value:
            raise Refusal(
                Code.TERMINAL,
                f"{verb}: {record.id} is {said} already; reopen it first",
                id=record.id,
                status=record.status,
            )
        gen, ready = graph.completions.get(record.id, (0, ()))
        return v, ready if gen == record.gen else ()
    check_holder(verb, v, r.actor)
    if v.group and v.open_children:
        raise Refusal(
            Code.BAD_STATUS,
            f"{verb}: {record.id} is a {record.kind} with {v.open_children} open children; they decide it",
            id=record.id,
        )
    end_own(graph, v, status, error=r.error, summary=r.summary)
    graph.settle()
    return v, None


def remember_completion(graph: Graph, node_id: str, gen: int, ready: tuple[str, ...]) -> None:
    """Keep what the first answer said, for a caller that lost it."""
    completions = graph.completions
    if completions:
        completions.pop(node_id, None)
    if ready:
        completions[node_id] = (gen, ready)
        if len(completions) > _COMPLETIONS_KEPT:
            del completions[next(iter(completions))]
