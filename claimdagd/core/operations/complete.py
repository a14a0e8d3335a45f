"""The operation complete, and what is remembered of it for a caller that lost the answer."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from claimdagd.core.graph import Graph, replace
from claimdagd.core.lookup import find
from claimdagd.core.operations.cascade import set_outcome
from claimdagd.core.operations.checks import check_error, check_gen, check_holder, check_summary
from claimdagd.core.operations.leases import hand_back
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import RETRY_DELAY_MAX_S, RETRY_DELAY_S, TERMINAL, Outcome
from claimdagd.wire import Code, Complete

_COMPLETIONS_KEPT = 4096


def complete(graph: Graph, r: Complete) -> tuple[Vertex, tuple[str, ...] | None]:
    """Set the outcome of any unfinished node, held or not (law 3.10, 3.11).

    Returns the node and None; or, for a repeated request, what the first one made ready.
    """
    op = "complete"
    v = find(graph, op, r.id)
    record = v.record
    if r.gen is not None:
        check_gen(op, v, r.gen)
    status = r.status
    if r.final and status is not Outcome.FAILED:
        raise Refusal(Code.BAD_REQUEST, f"{op}: final goes with status failed", field="final")
    if r.error is not None:
        if status is Outcome.DONE:
            raise Refusal(
                Code.BAD_REQUEST, f"{op}: error goes with status failed or cancelled, not done", field="error"
            )
        check_error(op, r.error)
    if r.summary is not None:
        check_summary(op, r.summary)
    if record.status in TERMINAL or record.outcome is not None:
        return v, _repeated(graph, v, status)
    check_holder(op, v, r.actor)
    if v.group and v.open_children:
        raise Refusal(
            Code.BAD_STATUS,
            f"{op}: {record.id} is a {record.kind} with {v.open_children} open children; they decide it",
            id=record.id,
        )
    if status is Outcome.FAILED and record.retries and not r.final and not v.group and _tries_left(v):
        _try_again(graph, v, r)
        return v, None
    set_outcome(graph, v, status, error=r.error, summary=r.summary)
    graph.derive_statuses()
    return v, None


def _tries_left(v: Vertex) -> bool:
    return (v.record.failures or 0) < (v.record.retries or 0)


def _try_again(graph: Graph, v: Vertex, r: Complete) -> None:
    """Hand `v` back after a failure that leaves it tries, to begin after a delay that doubles (law 10.1, 10.2)."""
    record = v.record
    failures = record.failures or 0
    first = RETRY_DELAY_S if isinstance(record.retry_delay, UnsetType) else record.retry_delay
    again = replace(
        record,
        failures=failures + 1,
        last_error=UNSET if r.error is None else r.error,
        summary=record.summary if r.summary is None else r.summary,
        not_before=graph.wall + min(RETRY_DELAY_MAX_S, first * 2.0**failures),
    )
    hand_back(graph, v, again)


def _repeated(graph: Graph, v: Vertex, status: Outcome) -> tuple[str, ...]:
    """Return what the completion of `v` made ready, if it had this status; else refuse (law 4.12)."""
    record = v.record
    earlier = record.outcome.value if record.outcome is not None else record.status.value
    if earlier != status.value:
        raise Refusal(
            Code.TERMINAL,
            f"complete: {record.id} is {earlier} already; reopen it first",
            id=record.id,
            status=record.status,
        )
    gen, ready = graph.completions.get(record.id, (0, ()))
    return ready if gen == record.gen else ()


def remember_completion(graph: Graph, node_id: str, gen: int, ready: tuple[str, ...]) -> None:
    """Keep what the first answer said, for a caller that lost it."""
    completions = graph.completions
    if completions:
        completions.pop(node_id, None)
    if ready:
        completions[node_id] = (gen, ready)
        if len(completions) > _COMPLETIONS_KEPT:
            del completions[next(iter(completions))]
