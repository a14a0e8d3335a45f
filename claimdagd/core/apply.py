"""One entry for every request that may change the graph: perform it whole, or refuse it and change nothing.

This is how the service, the tests and a REPL drive the core. It must not know of connections, files or clocks.
"""

from __future__ import annotations

from typing import Any

import msgspec

from claimdagd.core.graph import Graph
from claimdagd.core.mutation import Mutation
from claimdagd.core.operations import claim as claims
from claimdagd.core.operations import lifecycle as endings
from claimdagd.core.operations import upsert as edit
from claimdagd.core.operations.submit import submit
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.wire import (
    Archive,
    Cancel,
    Claim,
    ClaimNext,
    Code,
    Complete,
    Link,
    Reclaim,
    Release,
    Renew,
    Reopen,
    Request,
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
    #: A complete that was only said again.
    repeated: bool = False


def apply_request(
    graph: Graph, r: Request, now: float, wall: float, conn: int | None = None
) -> tuple[Result, Mutation]:
    """Do `r` at monotonic `now` and Unix time `wall` for connection `conn`.

    Raises Refusal, and then nothing has changed; any other exception is a bug, and is undone too.
    """
    graph.begin(now, wall)
    try:
        result = _VERBS[type(r)](graph, r, conn)
        mutation = graph.finish()
        if type(r) is Submit and r.dry_run:
            graph.undo(mutation)
            graph.begin(now, wall)
            mutation = graph.finish()
    except BaseException:
        graph.rollback()
        raise
    if type(r) is Complete and not result.repeated:
        ready = tuple(mutation.made_ready)
        if result.next is not None and len(mutation.undo_log) > len(mutation.nodes):
            ready += _taken_again(mutation, result.next)
        claims.remember_completion(graph, r.id, result.v.record.gen if result.v is not None else 0, ready)
        result.ready = ready
    return result, mutation


def _taken_again(mutation: Mutation, v: Vertex) -> tuple[str, ...]:
    """The node that `next` claimed, where this very completion had made it ready: it then changed twice."""
    before = next((old for x, old, *_ in mutation.undo_log if x is v), None)
    return (v.record.id,) if before is not None and not isinstance(before, str) and before.status == "todo" else ()


def expire(graph: Graph, now: float, wall: float) -> tuple[Vertex, Mutation] | None:
    """Hand back the longest overdue node, or None where no lease is over."""
    v = claims.overdue(graph, now)
    if v is None:
        return None
    graph.begin(now, wall)
    claims.expire(graph, v)
    return v, graph.finish()


def _upsert(graph: Graph, r: Upsert, _conn: int | None) -> Result:
    return Result(edit.upsert(graph, r))


def _submit(graph: Graph, r: Submit, _conn: int | None) -> Result:
    ids = submit(graph, r)
    # The depths of what was submitted are its own cost, not that of the claim that comes after. What it moves further
    # up may be as much as the whole graph, and waits.
    graph.ranks.update(budget=2 * len(r.nodes))
    return Result(ids=ids)


def _claim(graph: Graph, r: Claim, conn: int | None) -> Result:
    return Result(claims.claim(graph, r, conn))


def _claim_next(graph: Graph, r: ClaimNext, conn: int | None) -> Result:
    v = claims.claim_next(graph, r, r.actor, conn)
    if v is None:
        raise claims.nothing(graph)
    return Result(v)


def _renew(graph: Graph, r: Renew, conn: int | None) -> Result:
    return Result(claims.renew(graph, r, conn))


def _running(graph: Graph, r: Running, conn: int | None) -> Result:
    return Result(claims.running(graph, r, conn))


def _release(graph: Graph, r: Release, _conn: int | None) -> Result:
    return Result(claims.release(graph, r))


def _complete(graph: Graph, r: Complete, conn: int | None) -> Result:
    v, said = claims.complete(graph, r)
    result = Result(v) if said is None else Result(v, ready=said, repeated=True)
    if r.next is not None:
        actor = r.next.actor or r.actor
        if actor is None:
            raise Refusal(Code.BAD_REQUEST, "complete: next wants an actor, its own or complete's", field="next")
        try:
            result.next = claims.claim_next(graph, r.next, actor, conn, "complete")
            if result.next is None:
                result.next_refusal = claims.nothing(graph)
        except Refusal as refusal:
            result.next_refusal = refusal
    return result


def _cancel(graph: Graph, r: Cancel, _conn: int | None) -> Result:
    v = edit.find(graph, "cancel", r.id)
    return Result(v, endings.cancel(graph, v, r.error))


def _reopen(graph: Graph, r: Reopen, _conn: int | None) -> Result:
    v = edit.find(graph, "reopen", r.id)
    claims.check_gen("reopen", v, r.gen)
    endings.reopen(graph, v)
    return Result(v)


def _archive(graph: Graph, r: Archive | Unarchive, _conn: int | None) -> Result:
    archived = isinstance(r, Archive)
    verb = "archive" if archived else "unarchive"
    v = edit.find(graph, verb, r.id)
    claims.check_gen(verb, v, r.gen)
    endings.set_archived(graph, verb, v, archived)
    return Result(v)


def _reclaim(graph: Graph, r: Reclaim, _conn: int | None) -> Result:
    ids = []
    if r.lease is not None:
        overdue = claims.quiet_for(graph, r.lease)
    else:
        overdue = [v for v in claims.quiet_for(graph, 0.0) if v.lease is not None and v.lease.deadline <= graph.now]
    for v in overdue:
        claims.expire(graph, v)
        ids.append(v.record.id)
    return Result(ids=ids)


def _link(graph: Graph, r: Link, _conn: int | None) -> Result:
    return Result(edit.link(graph, r))


def _unlink(graph: Graph, r: Unlink, _conn: int | None) -> Result:
    return Result(edit.unlink(graph, r))


def _capacity(graph: Graph, r: SetCapacity, _conn: int | None) -> Result:
    return Result(name=edit.set_capacity(graph, r))


_VERBS: dict[type[Request], Any] = {
    Upsert: _upsert,
    Submit: _submit,
    Claim: _claim,
    ClaimNext: _claim_next,
    Renew: _renew,
    Running: _running,
    Release: _release,
    Complete: _complete,
    Cancel: _cancel,
    Reopen: _reopen,
    Archive: _archive,
    Unarchive: _archive,
    Reclaim: _reclaim,
    Link: _link,
    Unlink: _unlink,
    SetCapacity: _capacity,
}
