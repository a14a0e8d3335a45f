"""What one accepted request changed: for the journal, for those who wait, to take it back. Must not decide anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from claimdagd.core.state import Lease, Vertex
from claimdagd.model import Node

#: One step: the vertex, its record and lease before, and whether the change is derived. No vertex: the capacity of the
#: resource named, with the units configured before.
Step: TypeAlias = "tuple[Vertex | None, Node | str | None, Lease | int | None, bool]"


class Mutation(msgspec.Struct):
    """The steps in `undo_log` are taken back in reverse; `number_before` is the id number that was next before them."""

    undo_log: list[Step]
    number_before: int
    #: Vertices whose record changed in itself, in the order of first change.
    nodes: Sequence[Vertex]
    #: Derived changes of status of other nodes: status to ids.
    status_changes: dict[str, list[str]]
    #: Ids of nodes that were pruned.
    pruned: Sequence[str]
    capacity: dict[str, int] | None
    #: Ids of work that was not ready before and is now.
    made_ready: Sequence[str]
    #: Nodes that this made terminal.
    ended: Sequence[Vertex]
    #: Who was bypasses over by it, or is no longer: node, how often before, and the place among the starving before.
    bypasses: Sequence[tuple[Vertex, int, int]]
    #: Whether it moved a lease that belongs to a connection.
    ends_bound_claim: bool

    def __bool__(self) -> bool:
        return bool(self.nodes or self.status_changes or self.pruned or self.capacity is not None)
