"""Checks that several operations share. Each refuses, or lets the operation go on; none changes anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from claimdagd.core.graph import OPEN, Graph
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.limits import ERROR_MAX_BYTES, SUMMARY_MAX_BYTES
from claimdagd.model import TERMINAL, Dep, Outcome, Status
from claimdagd.wire import Code

# ------------------------------------------------------------------------------------------------------ plain values


def check_summary(op: str, summary: str) -> None:
    """Refuse a summary of more than 4,096 bytes of UTF-8 (law 2.4)."""
    size = len(summary) if summary.isascii() else len(summary.encode())
    if size > SUMMARY_MAX_BYTES:
        raise Refusal(
            Code.BAD_REQUEST, f"{op}: summary is {size} bytes, at most {SUMMARY_MAX_BYTES} are taken", field="summary"
        )


def check_error(op: str, error: str | None) -> None:
    """Refuse an error of more than 1,024 bytes of UTF-8 (law 2.4)."""
    if error is not None:
        size = len(error.encode())
        if size > ERROR_MAX_BYTES:
            raise Refusal(
                Code.BAD_REQUEST, f"{op}: error is {size} bytes, at most {ERROR_MAX_BYTES} are taken", field="error"
            )


def plain_deps(op: str, deps: Iterable[Dep]) -> tuple[Dep, ...]:
    """Return the deps without repeats. Refuses the same target named both ways."""
    seen: dict[str, Dep] = {}
    for d in deps:
        known = seen.setdefault(d.on, d)
        if known.when is not d.when:
            raise Refusal(
                Code.BAD_REQUEST,
                f"{op}: dep on {d.on} is named as after_ok and as after_any; name it once",
                field="deps",
            )
    return tuple(seen.values())


# ------------------------------------------------------------------------------------------------------------ claims


def check_gen(op: str, v: Vertex, gen: int | None) -> None:
    """Refuse a request at another generation than the node's: the fence (law 4.4)."""
    if gen is not None and gen != v.record.gen:
        raise Refusal(Code.GEN_MISMATCH, f"{op}: gen mismatch", id=v.record.id, gen=v.record.gen)


def check_holder(op: str, v: Vertex, actor: str | None) -> None:
    """Refuse an actor that does not hold the held node `v`. No actor is the shell's escape (law 4.11)."""
    record = v.record
    if actor is not None and record.assignee is not None and record.assignee != actor:
        raise Refusal(
            Code.NOT_ASSIGNEE, f"{op}: {record.id} is held by {record.assignee}", id=record.id, assignee=record.assignee
        )


def check_free(graph: Graph, op: str, actor: str) -> None:
    """Refuse an actor that holds a node already: one live node per assignee (law 4.5)."""
    held = graph.by_assignee.get(actor)
    if held is not None:
        raise Refusal(
            Code.ASSIGNEE_BUSY,
            f"{op}: {actor} holds {held.record.id} already",
            id=held.record.id,
            gen=held.record.gen,
        )


# ------------------------------------------------------------------------------------------------------------- status


def check_not_terminal(op: str, v: Vertex) -> None:
    """Refuse a terminal node: only reopen leaves that (law 3.9)."""
    record = v.record
    if record.status in TERMINAL:
        raise Refusal(
            Code.TERMINAL, f"{op}: {record.id} is {record.status}; reopen it first", id=record.id, status=record.status
        )


def check_terminal(op: str, v: Vertex) -> None:
    """Refuse a node that is not terminal (law 2.14, 3.17)."""
    record = v.record
    if record.status not in TERMINAL:
        raise Refusal(Code.NOT_TERMINAL, f"{op}: {record.id} is {record.status}, not finished", id=record.id)


def is_still(v: Vertex) -> bool:
    """Return whether what `v` stands on may move: it is not held, and its own result is not known."""
    return (v.group or v.record.status in OPEN) and v.record.outcome is None


def check_still(op: str, v: Vertex, what: str) -> None:
    """Refuse to move `what` a claim stands on (law 5.8)."""
    if not is_still(v):
        raise Refusal(
            Code.BAD_STATUS,
            f"{op}: {v.record.id} is {v.record.status}; {what} of a claim do not move under it",
            id=v.record.id,
        )


_INSTEAD = {
    Status.CLAIMED: "claim",
    Status.RUNNING: "running",
    Status.COMPLETING: "complete",
    Status.DONE: "complete",
    Status.FAILED: "complete --status failed",
    Status.CANCELLED: "cancel",
}


def check_askable(op: str, status: Status) -> None:
    """Refuse a status that no request may ask for by name (law 3.2)."""
    if status in _INSTEAD:
        raise Refusal(
            Code.BAD_STATUS,
            f"{op}: status {status} is not asked for here (todo, ready or blocked are); use {_INSTEAD[status]}",
        )


# -------------------------------------------------------------------------------------------------------------- shape


def check_parent(op: str, p: Vertex) -> None:
    """Refuse to put a node below `p` if `p` takes no new children."""
    record = p.record
    if record.status in TERMINAL:
        raise Refusal(Code.TERMINAL, f"{op}: parent {record.id} is {record.status}; reopen it first", id=record.id)
    if record.outcome is not None and record.outcome is not Outcome.DONE:
        raise Refusal(
            Code.BAD_STATUS, f"{op}: parent {record.id} has {record.outcome} and takes no new children", id=record.id
        )


def check_needs(graph: Graph, op: str, v: Vertex) -> None:
    """Refuse needs that can never be met: above the capacity, or above what the ancestor has that lends them.

    Law 6.4, 6.5.
    """
    node_id = v.record.id
    for resource, units in v.record.needs.items():
        a = v.resource_ancestor
        while a is not None and resource not in a.record.needs:
            a = a.resource_ancestor
        if a is not None:
            has = a.record.needs[resource]
            if units > has:
                raise Refusal(
                    Code.WOULD_NOT_RUN,
                    f"{op}: {node_id} needs {units} of {resource}, but {a.record.id} above it lends only {has}",
                    id=node_id,
                    resource=resource,
                )
            continue
        capacity = graph.resources.capacity(resource)
        if units > capacity:
            hint = "" if resource in graph.resources.configured else "; unconfigured is 1, set another with capacity"
            raise Refusal(
                Code.WOULD_NOT_RUN,
                f"{op}: {node_id} needs {units} of {resource}, whose capacity is {capacity}{hint}",
                id=node_id,
                resource=resource,
            )


def refuse_cycle(op: str, nodes: list[Vertex]) -> NoReturn:
    """Refuse with the path of the cycle in the message (law 3.5, 3.7)."""
    ids = [v.record.id for v in nodes]
    raise Refusal(Code.CYCLE, f"{op}: cycle {' -> '.join(ids)} (each waits on the one before it)", path=ids)


def refuse_waiting_on_itself(op: str, node_id: str) -> NoReturn:
    """Refuse a dep of a node on itself."""
    raise Refusal(Code.CYCLE, f"{op}: {node_id} cannot wait on itself", path=[node_id, node_id])
