"""A node with its derived state: the vertex of the graph, its lease, and the line that it waits in.

Plain data. The record (`record`) is the only thing that is ever written down; all else here can be rebuilt from the
records alone. Must not decide anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from claimdagd.model import GROUPS, Node, Role

if TYPE_CHECKING:
    from collections.abc import Hashable

    from claimdagd.core.indexes.queue import Queue

#: Place in the order of claims: minus effective priority, minus depth, number; the smallest is first.
Entry: TypeAlias = "tuple[float, float, int, Vertex]"

#: What a claim takes from outside itself: resource, units, and the id of the ancestor that lends them, or null.
Units: TypeAlias = "tuple[tuple[str, int, str | None], ...]"

#: Bits of an ordering edge as its target keeps it.
ON_ANY = 1
ON_OUTCOME = 2


class Lease(msgspec.Struct, frozen=True):
    """A live claim's lease. Times are seconds of the monotonic clock.

    `conn` is the connection that a bound claim belongs to, as an opaque number, or null.
    """

    deadline: float
    lease_s: float
    spoke: float
    bound: bool = False
    conn: int | None = None


class Line:
    """Ready nodes with the same needs under the same needy ancestor."""

    __slots__ = ("above", "count", "demand", "key", "needs", "queues", "starving", "under")

    def __init__(self, key: Hashable, needs: dict[str, int], under: Vertex | None, starving: int) -> None:
        self.key = key
        self.needs = needs
        self.under = under
        #: The number of the one node of this line, if it has starved; else 0.
        self.starving = starving
        self.queues: dict[Role, Queue] = {}
        self.count = 0
        self.demand: Demand
        #: The needy ancestors that know of it.
        self.above: list[Vertex] = []


class Demand:
    """Lines of nodes that would take the same units from the same places: what one of them lacks, all of them lack."""

    __slots__ = ("buckets", "count", "exempt", "fronts", "key", "lacking", "starving", "turn", "units")

    def __init__(self, key: Hashable, units: Units, exempt: bool, starving: int) -> None:
        self.key = key
        self.units = units
        #: Below held units, which must come back: nothing is kept from these nodes.
        self.exempt = exempt
        self.starving = starving
        self.buckets: dict[Line, None] = {}
        self.count = 0
        #: The fronts of its lines, by role.
        self.fronts: dict[Role, list[Entry]] = {}
        #: What it was set aside for: a resource's name, or (lender's id, resource).
        self.lacking: Hashable | None = None
        #: A number of the time when it was set aside, which tells a stale note of it from the present one; else 0.
        self.turn = 0


class Vertex:
    """One node of the graph and the indexes that hang on it."""

    __slots__ = (
        "active",
        "blevel_end",
        "blevel_start",
        "bucket",
        "buckets",
        "bypass_count",
        "children",
        "dep_on",
        "dependents",
        "gated",
        "gating_group",
        "group",
        "heap_deadline",
        "lease",
        "number",
        "open_children",
        "outcome_deps",
        "parent",
        "present",
        "priority_end",
        "priority_start",
        "queue_entry",
        "record",
        "resource_ancestor",
        "started_children",
        "unmet",
    )

    def __init__(self, record: Node, number: int) -> None:
        self.record = record
        self.number = number
        self.group = record.kind in GROUPS
        self.lease: Lease | None = None
        #: Whether the graph has it: false before it is added and once it is pruned.
        self.present = False
        self.parent: Vertex | None = None
        self.children: dict[Vertex, None] | None = None
        #: Targets of record.deps in the same order; null where the target was pruned.
        self.dep_on: tuple[Vertex | None, ...] = ()
        #: Those of them that are ancestors: such an edge looks at the target's own outcome.
        self.outcome_deps: frozenset[Vertex] | None = None
        self.dependents: dict[Vertex, int] | None = None
        self.unmet = 0
        self.open_children = 0
        self.started_children = 0
        #: Nearest group above.
        self.gating_group: Vertex | None = None
        #: Nearest ancestor that needs resources.
        self.resource_ancestor: Vertex | None = None
        #: For a node with needs: how many below it are claimed, running or completing.
        self.active = 0
        #: For a group: its deps, its hold or a group above it keep its members back.
        self.gated = False
        # The longest chain after the end of this node, and from its start on; effective priorities likewise.
        self.blevel_end = 0.0
        self.blevel_start = 0.0
        self.priority_end = record.priority
        self.priority_start = record.priority
        self.queue_entry: Entry | None = None
        self.bucket: Line | None = None
        #: For a node with needs: the lines of ready nodes below it.
        self.buckets: dict[Line, None] | None = None
        self.bypass_count = 0
        #: When the reaper looks at this lease next, at its deadline or before; None: it does not.
        self.heap_deadline: float | None = None

    def __lt__(self, other: Vertex) -> bool:
        """By number, so that a heap entry may end in a vertex."""
        return self.number < other.number

    def __repr__(self) -> str:
        return f"<{self.record.id} {self.record.status}>"
