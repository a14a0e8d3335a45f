"""What a caller is shown of a node: its record with what is derived from the graph. Read only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from claimdagd.core.indexes.links import gated_by, is_ancestor, subtree, unmet_deps
from claimdagd.core.lookup import find
from claimdagd.core.queries.order import claim_order
from claimdagd.model import TERMINAL, Dep, Status
from claimdagd.wire import Holder, List, ResourceView

if TYPE_CHECKING:
    from claimdagd.core.graph import Graph
    from claimdagd.core.state import Vertex

_encode = msgspec.json.Encoder().encode
_NOT_HELD = b'null,"expires_in":null'
_NOTHING_WAITED_ON = b'{"deps":[],"resources":[]}'
READY = Status.READY
_OVER = b',"depth":0.0,"quiet":%b,"waiting_on":%b}' % (_NOT_HELD, _NOTHING_WAITED_ON)


def waiting_on(graph: Graph, v: Vertex) -> dict[str, Any]:
    """Return what keeps open work back: unmet deps, its own and those of groups above it, and missing resources.

    Law 2.16.
    """
    deps: list[Dep] = []
    resources: list[dict[str, Any]] = []
    status = v.record.status
    if status is READY and not v.group:
        if v.record.needs or v.resource_ancestor is not None:
            resources = [
                {"resource": g.resource, "units": g.units, "free": free, "lender": g.lender}
                for g, free in graph.ready_queue.missing(v)
            ]
    elif status is Status.TODO or status is Status.BLOCKED:
        for x in gated_by(v):
            deps += x.record.deps if x.unmet == len(x.record.deps) else [dep for dep, _ in unmet_deps(x)]
    shown: dict[str, Any] = {"deps": deps, "resources": resources}
    if graph.start_times.waiting:
        begins = max(graph.start_times.waiting.get(x, 0.0) for x in gated_by(v))
        if begins:
            shown["time"] = begins
    return shown


def encode_view(graph: Graph, v: Vertex, runnable: bool | None = None) -> bytes:
    """Return the node's view as JSON."""
    return view_from(graph, v, _encode(v.record), runnable)


def view_from(graph: Graph, v: Vertex, encoded: bytes, runnable: bool | None = None) -> bytes:
    """Return the node's view, made from its record's JSON (law 2.16).

    The depth is the node's own cost plus the longest chain of unfinished work that waits on it. A group costs nothing:
    its depth is the longest chain after its end. That of a terminal node is 0.
    """
    status = v.record.status
    if status in TERMINAL:
        return encoded[:-1] + _OVER
    if graph.ranks.dirty:
        graph.ranks.update()
    lease = v.lease
    if lease is not None:
        now = graph.now
        held = b'%.3f,"expires_in":%.3f' % (now - lease.spoke, lease.deadline - now)
        waits = _NOTHING_WAITED_ON
    else:
        held = _NOT_HELD
        may_wait = status is not READY or v.record.needs or v.resource_ancestor is not None
        waits = _encode(waiting_on(graph, v)) if may_wait else _NOTHING_WAITED_ON
    run = b"" if runnable is None else b',"runnable":true' if runnable else b',"runnable":false'
    return b'%b,"depth":%b,"quiet":%b,"waiting_on":%b%b}' % (
        encoded[:-1],
        _encode(v.blevel_end if v.group else v.blevel_start),
        held,
        waits,
        run,
    )


def listed(graph: Graph, r: List) -> list[Vertex]:
    """Return the nodes that a list asks for, newest first; live work by default.

    `terminal` adds finished nodes, `archived` the archived ones, `all` both; `status`, `under` and `assignee` narrow.
    """
    under = find(graph, "list", r.under) if r.under is not None else None
    pool = list(graph.vertices.values()) if under is None else subtree(under)[1:]
    if r.status is not None:
        chosen = [v for v in pool if v.record.status is r.status and (not v.record.archived or r.archived or r.all)]
    else:
        chosen = [v for v in pool if _is_shown(v, r)]
    if r.assignee is not None:
        chosen = [v for v in chosen if v.record.assignee == r.assignee]
    chosen.sort(key=lambda v: -v.number)
    return chosen


def _is_shown(v: Vertex, r: List) -> bool:
    if r.all or v.record.status not in TERMINAL:
        return True
    return r.archived if v.record.archived else r.terminal


def resource_view(graph: Graph, name: str) -> ResourceView:
    """Return one resource: its capacity, who holds units of it and which ready nodes wait for some."""
    table = graph.resources
    held = table.holders(name)
    holders = [Holder(id=v.record.id, units=units) for v, units in held.items()]
    holders += [
        Holder(id=v.record.id, units=g.units, lender=lender)
        for (lender, resource), v in table.loans.items()
        if resource == name
        for g in v.record.grants
        if g.resource == name and g.lender == lender
    ]
    waiting = [
        v.record.id
        for v, runnable in claim_order(graph)
        if not runnable and any(g.resource == name for g, _ in graph.ready_queue.missing(v))
    ]
    return ResourceView(
        name=name,
        capacity=table.capacity(name),
        used=sum(held.values()),
        holders=tuple(holders),
        waiting=tuple(waiting),
    )


def resources(graph: Graph) -> list[ResourceView]:
    """Return every resource that is configured, held, or needed by unfinished work, by name."""
    names = set(graph.resources.configured) | set(graph.resources.semaphores)
    for v in graph.vertices.values():
        if v.record.needs and v.record.status not in TERMINAL:
            names |= v.record.needs.keys()
    return [resource_view(graph, name) for name in sorted(names)]


def counts_under(root: Vertex) -> dict[Status, int]:
    """Return how many nodes there are by status in a subtree, groups too."""
    counts = dict.fromkeys(Status, 0)
    for v in subtree(root):
        counts[v.record.status] += 1
    return counts


def live_under(graph: Graph, root: Vertex) -> int:
    """Return how many nodes of a subtree are held under a lease."""
    return sum(graph.is_live(v) for v in subtree(root))


def in_scope(graph: Graph, node_id: str, under: str) -> bool:
    """Return whether a node is in the subtree of another; one that is not in the graph is in none."""
    v, root = graph.vertices.get(node_id), graph.vertices.get(under)
    return v is not None and root is not None and (v is root or is_ancestor(root, v))


def unfinished_roots(graph: Graph) -> tuple[str, ...]:
    """Return the ids of all unfinished nodes without a parent: with them ends all work that there is now."""
    return tuple(v.record.id for v in graph.vertices.values() if v.parent is None and v.record.status not in TERMINAL)
