"""Adding one node, for upsert and for submit."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from claimdagd.core.graph import Graph
from claimdagd.core.lookup import find
from claimdagd.core.operations.checks import check_askable, check_parent, check_summary
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import Dep, Kind, Node, Role, Status
from claimdagd.wire import Code, NodeFields, Upsert


def parent_of(r: NodeFields | Upsert) -> str | None:
    """Return the parent that a request names, or None."""
    return None if isinstance(r.parent, UnsetType) else r.parent


def insert(graph: Graph, op: str, r: NodeFields | Upsert, parent: str | None, deps: tuple[Dep, ...]) -> Vertex:
    """Add a node with the fields of `r`, todo or blocked. The caller looks for cycles and failed deps.

    Args:
        graph: the graph.
        op: the operation, for messages.
        r: the fields, without parent and deps.
        parent: the id of a node in the graph, or None.
        deps: deps on nodes in the graph.
    """
    p = find(graph, op, parent) if parent is not None else None
    if p is not None:
        check_parent(op, p)
    vertices = graph.vertices
    node_id = f"{graph.tag}-{graph.next_number}"
    own: list[Dep] = []
    for d in deps:
        if d.on == node_id:
            raise Refusal(Code.CYCLE, f"{op}: a node cannot wait on itself", path=[d.on, d.on])
        t = vertices.get(d.on)
        if t is None:
            find(graph, op, d.on)
        else:
            own.append(d if d.on is t.record.id else Dep(t.record.id, d.when))
    summary = r.summary or ""
    check_summary(op, summary)
    status = Status.TODO if isinstance(r.status, UnsetType) else r.status
    check_askable(op, status)
    graph.next_number += 1
    return graph.add(
        Node(
            id=node_id,
            kind=r.kind or Kind.TASK,
            role=r.role or Role.UNSET,
            status=Status.BLOCKED if status is Status.BLOCKED else Status.TODO,
            summary=summary,
            parent=p.record.id if p is not None else None,
            deps=tuple(own),
            needs=r.needs or {},
            cost=r.cost or 1.0,
            priority=r.priority or 0,
            max_attempts=r.max_attempts or None,
            retries=r.retries,
            retry_delay=r.retry_delay,
            not_before=r.not_before or UNSET,
            created_at=graph.wall,
            updated_at=graph.wall,
        )
    )
