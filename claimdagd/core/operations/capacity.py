"""The operation capacity."""

from __future__ import annotations

from claimdagd.core.graph import Graph
from claimdagd.wire import SetCapacity


def set_capacity(graph: Graph, r: SetCapacity) -> str:
    """Set a resource's capacity and return its name. Lowering it takes nothing from holders (law 6.1)."""
    if graph.resources.configured.get(r.resource) != r.units:
        graph.configure(r.resource, r.units)
    return r.resource
