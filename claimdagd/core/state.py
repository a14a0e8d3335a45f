"""The plain data of the graph: a vertex, its lease, and the queues, buckets and classes that ready vertices wait in.

A vertex's `record` is the only part that is ever written down; all else can be rebuilt from the records alone. Nothing
here decides anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Protocol, TypeAlias

import msgspec

from claimdagd.model import GROUPS, Grant, Node, Process, Role

#: Place in the order of claims: minus effective priority, minus depth, number; the smallest is first.
Entry: TypeAlias = "tuple[float, float, int, Vertex]"

#: What a claim takes from outside itself: resource, units, and the id of the ancestor that lends them, or None.
Units: TypeAlias = "tuple[tuple[str, int, str | None], ...]"

#: What a claim takes: each vertex that is to hold grants, with them, the highest ancestor first.
ClaimGrants: TypeAlias = "list[tuple[Vertex, tuple[Grant, ...]]]"


class Lease(msgspec.Struct, frozen=True):
    """A live claim's lease. Times are seconds of the monotonic clock.

    `conn` is the connection that a bound claim belongs to, as an opaque number, or None. `process` is the process that
    stands for the holder, or None, as once that has ended.
    """

    deadline: float
    lease_s: float
    spoke: float
    bound: bool = False
    conn: int | None = None
    process: Process | None = None


class Queue:
    """Entries, the smallest first. An entry that is not its vertex's own any more is dropped when it comes up.

    Work mostly becomes ready in the order in which it will be claimed. So an entry that comes after all others joins
    the end of a sorted run, and only one that comes before some of them goes on a heap: taking the first of a million
    entries that became ready together costs no more than taking the first of ten.
    """

    __slots__ = ("_heap", "_run")

    def __init__(self) -> None:
        self._run: deque[Entry] = deque()
        self._heap: list[Entry] = []

    def push(self, entry: Entry) -> None:
        """Insert `entry` in order."""
        run = self._run
        if run and entry < run[-1]:
            heappush(self._heap, entry)
        else:
            run.append(entry)

    def first(self) -> Entry | None:
        """Return the smallest current entry, or None."""
        run, heap = self._run, self._heap
        while run:
            entry = run[0]
            if entry[3].queue_entry is entry:
                break
            run.popleft()
        while heap:
            entry = heap[0]
            if entry[3].queue_entry is entry:
                return run[0] if run and run[0] < entry else entry
            heappop(heap)
        return run[0] if run else None

    def __iter__(self) -> Iterator[Entry]:
        """Yield every entry, stale ones too; first the run, in order."""
        yield from self._run
        yield from self._heap


class Bucket:
    """Ready nodes with the same needs below the same nearest ancestor that has needs."""

    __slots__ = ("above", "count", "key", "needs", "queues", "scheduling", "starved", "under")

    def __init__(self, key: Hashable, needs: dict[str, int], under: Vertex | None, starved: int) -> None:
        self.key = key
        self.needs = needs
        self.under = under
        #: The number of the one node in it, if that node has starved; else 0.
        self.starved = starved
        self.queues: dict[Role, Queue] = {}
        self.count = 0
        self.scheduling: SchedulingClass
        #: The ancestors with needs that list this bucket.
        self.above: list[Vertex] = []


class SchedulingClass:
    """Buckets whose nodes would take the same units from the same places: if one node cannot run, none can."""

    __slots__ = ("buckets", "count", "exempt", "heads", "key", "missing_key", "starved", "units", "version")

    def __init__(self, key: Hashable, units: Units, exempt: bool, starved: int) -> None:
        self.key = key
        self.units = units
        #: Whether an ancestor holds units. Those must come back, so nothing is reserved at the cost of these nodes.
        self.exempt = exempt
        self.starved = starved
        self.buckets: dict[Bucket, None] = {}
        self.count = 0
        #: The heads of its buckets, by role.
        self.heads: dict[Role, list[Entry]] = {}
        #: What it is deferred for: a resource's name, or (lender's id, resource); None if it is not deferred.
        self.missing_key: Hashable | None = None
        #: Which deferral is the present one, so that a stale note of an earlier one is told from it; else 0.
        self.version = 0


class Vertex:
    """One node of the graph and what the indexes keep of it."""

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
        #: Targets of record.deps in the same order; None for a target that was pruned.
        self.dep_on: tuple[Vertex | None, ...] = ()
        #: Those targets that are ancestors: such an edge depends on the target's own outcome.
        self.outcome_deps: frozenset[Vertex] | None = None
        #: Who waits on this node, each with the bits of its edge (`waitgraph.ON_ANY`, `ON_OUTCOME`).
        self.dependents: dict[Vertex, int] | None = None
        self.unmet = 0
        self.open_children = 0
        self.started_children = 0
        #: The nearest group above.
        self.gating_group: Vertex | None = None
        #: The nearest ancestor that needs resources.
        self.resource_ancestor: Vertex | None = None
        #: For a node with needs: how many nodes below it are claimed, running or completing.
        self.active = 0
        #: For a group: whether its deps, its block or a group above it keep its members from starting.
        self.gated = False
        # The longest chain after the end of this node, and from its start on (its bottom level); the effective
        # priorities likewise.
        self.blevel_end = 0.0
        self.blevel_start = 0.0
        self.priority_end = record.priority
        self.priority_start = record.priority
        self.queue_entry: Entry | None = None
        self.bucket: Bucket | None = None
        #: For a node with needs: the buckets of ready nodes below it.
        self.buckets: dict[Bucket, None] | None = None
        self.bypass_count = 0
        #: When the reaper looks at this lease next, at its deadline or before; None: it does not.
        self.heap_deadline: float | None = None

    def __lt__(self, other: Vertex) -> bool:
        """Compare by number, so that a heap entry may end in a vertex."""
        return self.number < other.number

    def __repr__(self) -> str:
        return f"<{self.record.id} {self.record.status}>"


class RankSource(Protocol):
    """What the ready queue needs to know of the ranks."""

    dirty: dict[Vertex, int]
    #: Ready vertices whose place in the order may have changed; the ready queue takes them out.
    requeue: dict[Vertex, None]

    def update(self) -> None: ...


def scope_ids(scopes: tuple[Vertex | None, ...]) -> list[str | None]:
    """Return the ids of `scopes`; None stands for the whole graph."""
    return [None if v is None else v.record.id for v in scopes]
