"""All ready work in the order of claims, for people and programs that look on. Read only, and linear in that work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from claimdagd.core.indexes.affinity import in_affinity_order
from claimdagd.core.indexes.links import is_ancestor
from claimdagd.model import Role

if TYPE_CHECKING:
    from claimdagd.core.graph import Graph
    from claimdagd.core.state import Vertex


def claim_order(
    graph: Graph, role: Role | None = None, slack: float = 0.0, strict: bool = False, under: Vertex | None = None
) -> list[tuple[Vertex, bool]]:
    """Return ready work in the order in which claim_next would take it, each with whether it can run now."""
    queue = graph.ready_queue
    queue.refresh()
    short = {scheduling for scheduling in queue.classes.values() if queue.is_short(scheduling)}
    if under is None:
        queues = [*queue.free.values(), *(q for bucket in queue.buckets.values() for q in bucket.queues.values())]
        ready = sorted(entry for q in queues for entry in q if entry[3].queue_entry is entry)
    else:
        ready = sorted(v.queue_entry for v in queue.scope(under).ready() if v.queue_entry is not None)
    if queue.pauses.held_back:
        paused = [v for v in queue.pauses.held_back if under is None or v is under or is_ancestor(under, v)]
        ready = sorted([*ready, *((-v.priority_start, -v.blevel_start, v.number, v) for v in paused)])
    order = ready if role is None else in_affinity_order(ready, role, slack, strict)
    return [
        (v, not queue.pauses.holds(v) and (v.bucket is None or v.bucket.scheduling not in short)) for *_, v in order
    ]
