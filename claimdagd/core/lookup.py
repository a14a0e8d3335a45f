"""Finding the node that a request names."""

from __future__ import annotations

from claimdagd.core.graph import Graph
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import is_id
from claimdagd.wire import Code


def find(graph: Graph, op: str, node_id: str) -> Vertex:
    """Return the vertex with this id. Refuses with not_found, in words that say what is wrong with the id."""
    v = graph.vertices.get(node_id)
    if v is not None:
        return v
    if not is_id(node_id):
        what = f"{node_id!r} is not an id; an id reads {graph.tag}-N"
    elif not node_id.startswith(graph.tag + "-"):
        what = f"{node_id} is of another session's graph; this one's ids read {graph.tag}-N"
    else:
        what = f"no node {node_id}"
    raise Refusal(Code.NOT_FOUND, f"{op}: {what}", id=node_id)


def scope_root(graph: Graph, op: str, under: str | None) -> Vertex | None:
    """Return the root of the scope that is named (law 5.11), or None for the whole graph. Raises Refusal not_found."""
    return None if under is None else find(graph, op, under)
