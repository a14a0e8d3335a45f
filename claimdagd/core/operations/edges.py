"""The operations link and unlink: one dep more, or less."""

from __future__ import annotations

from claimdagd.core.cycles import cycle_through
from claimdagd.core.graph import Graph, replace
from claimdagd.core.lookup import find
from claimdagd.core.operations.cascade import cancel_if_dep_failed, existing_edges
from claimdagd.core.operations.checks import check_not_terminal, check_still, refuse_cycle, refuse_waiting_on_itself
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import Dep
from claimdagd.waitgraph import START, awaited_milestone
from claimdagd.wire import Code, Link, Unlink


def link(graph: Graph, r: Link) -> Vertex:
    """Let `after` wait on `before`. An edge that is there already takes the new `when` (law 3.5, 3.8)."""
    op = "link"
    before, after = find(graph, op, r.before), find(graph, op, r.after)
    check_not_terminal(op, after)
    if before is after:
        refuse_waiting_on_itself(op, after.record.id)
    deps = after.record.deps
    known = next((d for d in deps if d.on == r.before), None)
    if known is not None and known.when is r.when:
        return after
    check_still(op, after, "deps")
    by_rank = graph.ranks_reliable()
    existing = existing_edges([after])
    new = Dep(before.record.id, r.when)
    deps = tuple(new if d is known else d for d in deps) if known is not None else (*deps, new)
    graph.reshape(after, replace(after.record, deps=deps, updated_at=graph.wall))
    if known is None:
        edge = ((before, awaited_milestone(after, before)), (after, START))
        nodes = cycle_through(edge, by_rank=by_rank)
        if nodes is not None:
            refuse_cycle(op, nodes)
    cancel_if_dep_failed(graph, [after], existing)
    return after


def unlink(graph: Graph, r: Unlink) -> Vertex:
    """Let `after` no longer wait on `before`."""
    op = "unlink"
    after = find(graph, op, r.after)
    check_not_terminal(op, after)
    deps = after.record.deps
    kept = tuple(d for d in deps if d.on != r.before or (r.when is not None and d.when is not r.when))
    if len(kept) == len(deps):
        if r.before not in graph.vertices:
            find(graph, op, r.before)
        kind = f" {r.when}" if r.when is not None else ""
        raise Refusal(Code.NOT_FOUND, f"{op}: {r.after} has no dep{kind} on {r.before}", id=r.before)
    check_still(op, after, "deps")
    graph.reshape(after, replace(after.record, deps=kept, updated_at=graph.wall))
    return after
