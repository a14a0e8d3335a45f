"""One entry for every request that may change the graph: done as a whole, or refused, with nothing changed.

The service, the tests and a REPL drive the core by this. It knows nothing of connections, files or clocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from claimdagd.core.graph import Graph
from claimdagd.core.mutation import Mutation
from claimdagd.core.operations import capacity, claim, complete, edges, leases, lifecycle, many, pause, submit, upsert
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import Node, Process, Status
from claimdagd.wire import (
    Archive,
    Cancel,
    Claim,
    ClaimNext,
    Code,
    Complete,
    Link,
    Pause,
    Reclaim,
    Release,
    Renew,
    Reopen,
    Request,
    Resume,
    Running,
    SetCapacity,
    Submit,
    Unarchive,
    Unlink,
    Upsert,
)


class Result(msgspec.Struct, gc=False):
    """What a request did: the node it is about, ids, and what `complete` adds."""

    v: Vertex | None = None
    ids: list[str] | None = None
    ready: tuple[str, ...] = ()
    next: Vertex | None = None
    next_refusal: Refusal | None = None
    name: str | None = None
    #: The scopes paused after a pause or a resume; None among them is the whole graph.
    paused: list[str | None] | None = None
    #: Whether this was a complete that had been done before.
    repeated: bool = False
    #: What it did with each node, where the request may name several.
    many: list[Result] | None = None


def apply_request(
    graph: Graph, r: Request, now: float, wall: float, conn: int | None = None, process: Process | None = None
) -> tuple[Result, Mutation]:
    """Do `r` at monotonic `now` and Unix time `wall` for connection `conn`; `process` stands for who claims.

    Raises Refusal, and then nothing has changed. Any other exception is a bug, and what it did is undone too.
    """
    graph.begin(now, wall)
    graph.process = process
    try:
        result = _OPERATIONS[type(r)](graph, r, conn)
        mutation = graph.finish()
        if type(r) is Submit and r.dry_run:
            graph.undo(mutation)
            graph.begin(now, wall)
            mutation = graph.finish()
    except BaseException:
        graph.rollback()
        raise
    if result.many is not None:
        if type(r) is Complete:
            _remember_completions(graph, result.many, mutation)
    elif type(r) is Complete and not result.repeated:
        ready = tuple(mutation.made_ready)
        if result.next is not None and len(mutation.undo_log) > len(mutation.nodes):
            ready += _claimed_again(mutation, result.next)
        complete.remember_completion(graph, r.id, result.v.record.gen if result.v is not None else 0, ready)
        result.ready = ready
    return result, mutation


def _remember_completions(graph: Graph, results: list[Result], mutation: Mutation) -> None:
    """Leave to each completion what it made ready and is so at the end, and keep that."""
    made_ready = set(mutation.made_ready)
    for each in results:
        if not each.repeated and each.v is not None:
            each.ready = tuple(node_id for node_id in each.ready if node_id in made_ready)
            complete.remember_completion(graph, each.v.record.id, each.v.record.gen, each.ready)


def _claimed_again(mutation: Mutation, v: Vertex) -> tuple[str, ...]:
    """Return the id of the node that `next` claimed if this very completion had made it ready."""
    before = next((old for x, old, *_ in mutation.undo_log if x is v), None)
    return (v.record.id,) if isinstance(before, Node) and before.status == "todo" else ()


def expire(graph: Graph, now: float, wall: float) -> tuple[Vertex, Mutation] | None:
    """Hand back the node that is longest overdue, or return None if no lease is over."""
    v = graph.leases.overdue(now)
    if v is None:
        return None
    graph.begin(now, wall)
    leases.expire(graph, v)
    return v, graph.finish()


def begin_due(graph: Graph, now: float, wall: float) -> Mutation | None:
    """Let the nodes begin whose `not_before` has come, or None if there are none."""
    due = graph.start_times.next_due()
    if (due is None or due > wall) and wall >= graph.start_times.judged:
        graph.start_times.judged = wall
        return None
    graph.begin(now, wall)
    graph.judge_time()
    mutation = graph.finish()
    return mutation if mutation else None


def _submit(graph: Graph, r: Submit, _conn: int | None) -> Result:
    ids = submit.submit(graph, r)
    # The ranks of the new nodes are this request's cost, not that of the claim that comes after. What they change
    # further up may be as much as the whole graph, and waits.
    graph.ranks.update(budget=2 * len(r.nodes))
    return Result(ids=ids)


def _claim_next(graph: Graph, r: ClaimNext, conn: int | None) -> Result:
    v = claim.claim_next(graph, r, r.actor, conn)
    if v is None:
        raise claim.nothing_to_claim(graph, r.under)
    return Result(v)


def _complete(graph: Graph, r: Complete, conn: int | None) -> Result:
    v, earlier = complete.complete(graph, r)
    result = Result(v) if earlier is None else Result(v, ready=earlier, repeated=True)
    if r.next is not None:
        actor = r.next.actor or r.actor
        if actor is None:
            raise Refusal(Code.BAD_REQUEST, "complete: next wants an actor, its own or complete's", field="next")
        try:
            result.next = claim.claim_next(graph, r.next, actor, conn, "complete")
            if result.next is None:
                result.next_refusal = claim.nothing_to_claim(graph, r.next.under)
        except Refusal as refusal:
            result.next_refusal = refusal
    return result


def _cancel(graph: Graph, r: Cancel, _conn: int | None) -> Result:
    v, ids = lifecycle.cancel(graph, r)
    return Result(v, ids)


def _several(graph: Graph, r: Any, conn: int | None) -> Result:
    """Do `r` with each node that it names, or refuse it with every fault (law 10.6)."""
    one = _BY_ID[type(r)]
    ids = many.nodes_named(graph, r)
    return Result(many=many.run(graph, r, ids, lambda request: one(graph, request, conn), _as_it_is))


def _as_it_is(v: Vertex) -> Result:
    """Return the result for a node that another one of the same request has brought to where this one would."""
    return Result(v, ids=[], repeated=True)


def _complete_each(graph: Graph, r: Complete, conn: int | None) -> Result:
    """Complete one of several; its result says what this one made ready."""
    mark = graph.mark()
    result = _complete(graph, r, conn)
    if not result.repeated:
        changed = dict.fromkeys(graph.changed_since(mark))
        result.ready = tuple(x.record.id for x in changed if x.record.status is Status.READY and not x.group)
    return result


def _by_id(operation: Callable[[Graph, Any, int | None], Result]) -> Callable[[Graph, Any, int | None], Result]:
    """Return `operation` for a request that may name one node, or several."""

    def run(graph: Graph, r: Any, conn: int | None) -> Result:
        return operation(graph, r, conn) if many.names_one(r) else _several(graph, r, conn)

    return run


#: Each operation that takes `ids` in place of `id`, on one node.
_BY_ID: dict[type[Request], Callable[[Graph, Any, int | None], Result]] = {
    Renew: lambda graph, r, conn: Result(leases.renew(graph, r, conn)),
    Running: lambda graph, r, conn: Result(leases.running(graph, r, conn)),
    Release: lambda graph, r, _: Result(leases.release(graph, r)),
    Complete: _complete_each,
    Cancel: _cancel,
    Reopen: lambda graph, r, _: Result(lifecycle.reopen(graph, r)),
    Archive: lambda graph, r, _: Result(lifecycle.archive(graph, r)),
    Unarchive: lambda graph, r, _: Result(lifecycle.archive(graph, r)),
}

_OPERATIONS: dict[type[Request], Callable[[Graph, Any, int | None], Result]] = {
    Upsert: lambda graph, r, _: Result(upsert.upsert(graph, r)),
    Submit: _submit,
    Claim: lambda graph, r, conn: Result(claim.claim(graph, r, conn)),
    ClaimNext: _claim_next,
    **{request: _by_id(operation) for request, operation in _BY_ID.items()},
    Complete: _by_id(_complete),
    Reclaim: lambda graph, r, _: Result(ids=leases.reclaim(graph, r)),
    Link: lambda graph, r, _: Result(edges.link(graph, r)),
    Unlink: lambda graph, r, _: Result(edges.unlink(graph, r)),
    Pause: lambda graph, r, _: Result(paused=pause.pause(graph, r)),
    Resume: lambda graph, r, _: Result(paused=pause.resume(graph, r)),
    SetCapacity: lambda graph, r, _: Result(name=capacity.set_capacity(graph, r)),
}
