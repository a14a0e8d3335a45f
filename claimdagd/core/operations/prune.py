"""The cap on nodes: finished work gives way, archived first, oldest first, whole finished subtrees (law 7.8)."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from claimdagd.core.indexes.links import subtree
from claimdagd.core.refusal import Refusal
from claimdagd.model import TERMINAL
from claimdagd.wire import Code

if TYPE_CHECKING:
    from claimdagd.core.graph import Graph
    from claimdagd.core.state import Vertex


def make_room(graph: Graph, verb: str) -> None:
    """Prune until the graph is within its cap; refused with `full` where nothing more may go (law 7.8).

    The nodes that need the room are live work still, and so are those above them: they stay.
    """
    heap = graph.finished
    kept: list[tuple[bool, float, int, Vertex]] = []
    try:
        while len(graph.vertices) > graph.max_nodes:
            if not heap:
                raise Refusal(
                    Code.FULL,
                    f"{verb}: full: {graph.max_nodes} nodes is the cap and no finished work can be pruned; "
                    "finish or cancel work, or start the daemon with a larger --max-nodes",
                    max_nodes=graph.max_nodes,
                )
            entry = heappop(heap)
            v = entry[3]
            if not _is_current(graph, entry):
                continue
            tree = subtree(v)
            if any(map(_is_hung_on, tree)):
                kept.append(entry)
                continue
            kept.append(entry)  # for the case that this mutation is undone; dropped when met again
            for x in reversed(tree):
                graph.drop(x)
    finally:
        for entry in kept:
            heappush(heap, entry)


def _is_current(graph: Graph, entry: tuple[bool, float, int, Vertex]) -> bool:
    not_archived, finished_at, _, v = entry
    record = v.record
    return (
        graph.vertices.get(record.id) is v
        and record.status in TERMINAL
        and v.parent is None
        and not_archived is not record.archived
        and finished_at == (record.finished_at or 0.0)
    )


def _is_hung_on(x: Vertex) -> bool:
    """Whether live work still has a dep on `x`."""
    return any(d.record.status not in TERMINAL for d in x.dependents or ())
