"""Why a node has its status, in typed reasons and in words a person acts on. Read only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from claimdagd.core.indexes.links import gated_by, unmet_deps
from claimdagd.core.queries.deadlock import deadlock_possible, find_deadlocks
from claimdagd.core.queries.order import claim_order
from claimdagd.model import TERMINAL, Status, When

if TYPE_CHECKING:
    from claimdagd.core.graph import Graph
    from claimdagd.core.state import Vertex


def why(graph: Graph, v: Vertex) -> dict[str, Any]:
    """Return {id, status, reasons, text}; a reason's type is dep, resource, blocked, group, holder, time,
    paused or deadlock."""
    record = v.record
    status = record.status
    reasons: list[dict[str, Any]] = []
    if status in TERMINAL:
        reasons += _ending(v)
    elif status is Status.COMPLETING or (v.group and status is Status.RUNNING):
        reasons += [
            {"type": "group", "id": c.record.id, "text": f"child {c.record.id} is {c.record.status}"}
            for c in v.children or ()
            if c.record.status not in TERMINAL
        ]
    elif graph.is_live(v):
        assert v.lease is not None
        process = ""
        if record.pid is not UNSET:
            process = f" for process {record.pid}" + (", which has ended," if v.lease.process is None else "")
        text = (
            f"held by {record.assignee}{process} at generation {record.gen}, "
            f"quiet for {graph.now - v.lease.spoke:.0f} s, lease ends in {v.lease.deadline - graph.now:.0f} s"
        )
        holder = {"type": "holder", "id": record.id, "assignee": record.assignee, "gen": record.gen, "text": text}
        if record.pid is not UNSET:
            holder |= {"pid": record.pid, "alive": v.lease.process is not None}
        reasons.append(holder)
    else:
        reasons += _held_back(graph, v)
    text = "; ".join(r["text"] for r in reasons) or _plain(graph, v)
    return {"id": record.id, "status": status, "reasons": reasons, "text": f"{record.id} is {status}: {text}"}


def _ending(v: Vertex) -> list[dict[str, Any]]:
    record = v.record
    if record.cause is not None:
        return [
            {
                "type": "dep",
                "id": record.cause,
                "text": f"ended because of {record.cause}; reopening that brings it back",
            }
        ]
    if record.error is not None:
        return [{"type": "holder", "id": record.id, "text": record.error}]
    return [
        {"type": "group", "id": c.record.id, "text": f"child {c.record.id} failed"}
        for c in v.children or ()
        if c.record.status is Status.FAILED and record.status is Status.FAILED
    ]


def _held_back(graph: Graph, v: Vertex) -> list[dict[str, Any]]:
    reasons: list[dict[str, Any]] = []
    for x in gated_by(v):
        of_group = "" if x is v else f" (of group {x.record.id} above it)"
        if x.record.status is Status.BLOCKED:
            hint = f"upsert --id {x.record.id} --status todo lets it go"
            reasons.append(
                {
                    "type": "blocked" if x is v else "group",
                    "id": x.record.id,
                    "text": f"{x.record.id} is blocked {_by_what(x.record.summary)}; {hint}",
                }
            )
        begins = graph.start_times.waiting.get(x)
        if begins is not None:
            reasons.append(_later(graph, x, begins, of_group))
        for d, t in unmet_deps(x):
            want = "done" if d.when is When.AFTER_OK else "finished"
            who = f", held by {t.record.assignee}" if t.record.assignee is not None else ""
            reasons.append(
                {
                    "type": "dep",
                    "id": t.record.id,
                    "when": d.when,
                    "status": t.record.status,
                    "text": f"waits until {t.record.id} is {want}: it is {t.record.status}{who}{of_group}",
                }
            )
    if graph.pauses.holds(v):
        scope, text = graph.pauses.reason(v)
        reasons.append({"type": "paused", "id": scope, "text": text})
    if v.record.status is Status.READY and not v.group:
        reasons += _missing_units(graph, v)
    return reasons


def _later(graph: Graph, v: Vertex, begins: float, of_group: str) -> dict[str, Any]:
    """Return the reason of a node that is not to begin yet: when that is, and what its last try ended with."""
    record = v.record
    text = f"is to begin in {begins - graph.wall:.0f} s{of_group}"
    if record.failures:
        error = f": {record.last_error}" if record.last_error else ""
        text += f", after failure {record.failures} of at most {(record.retries or 0) + 1}{error}"
    return {"type": "time", "id": record.id, "not_before": begins, "text": text}


def _by_what(summary: str) -> str:
    """Return who blocked a node, in words: an import leaves its reason at the end of the summary."""
    _, mark, reason = summary.rpartition(" [held: ")
    return f"by its import: {reason[:-1]}" if mark and reason.endswith("]") else "by hand"


def _missing_units(graph: Graph, v: Vertex) -> list[dict[str, Any]]:
    reasons: list[dict[str, Any]] = []
    for g, free in graph.ready_queue.missing(v):
        if g.lender is not None:
            user = graph.resources.loans[(g.lender, g.resource)].record.id
            text = f"needs {g.units} of {g.resource}, which {g.lender} above it lends and {user} uses"
            holders = [user]
        else:
            holders = [h.record.id for h in graph.resources.holders(g.resource)]
            by = f"; held by {', '.join(holders)}" if holders else ""
            text = f"needs {g.units} of {g.resource}, {free} of {graph.resources.capacity(g.resource)} free{by}"
        reasons.append(
            {
                "type": "resource",
                "resource": g.resource,
                "units": g.units,
                "free": free,
                "holders": holders,
                "text": text,
            }
        )
    if reasons and deadlock_possible(graph):
        reasons += [
            {"type": "deadlock", **d}
            for d in find_deadlocks(graph)
            if v.record.id in d["nodes"] or set(d["resources"]) & {r.get("resource") for r in reasons}
        ]
    return reasons


def _plain(graph: Graph, v: Vertex) -> str:
    if v.record.status is Status.READY and not v.group:
        order = claim_order(graph)
        place = next(i for i, (x, _) in enumerate(order) if x is v)
        return "can be claimed now; " + ("first in line" if place == 0 else f"{place} ready before it in line")
    if v.group and v.record.status is Status.READY:
        return "nothing under it has started" if v.children else "it has no children; complete ends it"
    return "nothing holds it back" if v.record.status not in TERMINAL else "it is finished"
