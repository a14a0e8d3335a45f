"""Scopes: the ready work of one subtree in the order of claims, for workers that are hired for one goal (law 5.11).

A scope is built when it is first asked for, and kept true from then on by what the ready queue tells: each entry that
is filed, each class that is woken, each bucket that changes its class. Entries that are not their vertex's own any more
are dropped when they come up, as in the ready queue. The records alone say what a scope holds, so a scope that has not
been asked for lately is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Final, TypeAlias

from claimdagd.core.indexes.links import subtree
from claimdagd.core.state import Bucket, Entry, Queue, SchedulingClass, Vertex
from claimdagd.model import Role, Status

#: How many scopes are kept. Each costs a step for every node that becomes ready below its root.
KEPT: Final = 64

#: A head of a bucket: the entry, a number that makes it unlike any other, the bucket.
Head: TypeAlias = "tuple[Entry, int, Bucket]"


class Scope:
    """The ready work below `root`, and `root` itself, in the order of claims."""

    def __init__(self, root: Vertex) -> None:
        self.root = root
        #: Nodes that need no units, by role; the others by bucket and role.
        self.free: dict[Role, Queue] = {}
        self.queues: dict[Bucket, dict[Role, Queue]] = {}
        #: The heads of the buckets, by class and role; the heads of the classes that are not deferred, by role.
        self.class_heads: dict[SchedulingClass, dict[Role, list[Head]]] = {}
        self.heads: dict[Role, list[Head]] = {}
        #: How much work there is by status; None if it must be counted anew.
        self.work: dict[Status, int] | None = None
        self._numbers = 0

    def file(self, v: Vertex, entry: Entry) -> None:
        """File an entry that the ready queue has filed."""
        role, bucket = v.record.role, v.bucket
        if bucket is None:
            self.free.setdefault(role, Queue()).push(entry)
            return
        queue = self.queues.setdefault(bucket, {}).setdefault(role, Queue())
        queue.push(entry)
        if queue.first() is entry:
            self._push_bucket_head(bucket, role)

    def _push_bucket_head(self, bucket: Bucket, role: Role) -> None:
        entry = self.queues[bucket][role].first()
        if entry is not None:
            self._numbers += 1
            head = (entry, self._numbers, bucket)
            heappush(self.class_heads.setdefault(bucket.scheduling, {}).setdefault(role, []), head)
            if bucket.scheduling.missing_key is None:
                heappush(self.heads.setdefault(role, []), head)

    def _push_class_head(self, scheduling: SchedulingClass, role: Role) -> None:
        heap = self.class_heads.get(scheduling, {}).get(role)
        while heap:
            entry, _, bucket = heap[0]
            if bucket.scheduling is not scheduling or bucket not in self.queues:
                heappop(heap)
            elif entry[3].queue_entry is entry and entry[3].bucket is bucket:
                heappush(self.heads.setdefault(role, []), heap[0])
                return
            else:
                heappop(heap)
                self._push_bucket_head(bucket, role)

    def wake(self, scheduling: SchedulingClass) -> None:
        """Look again at a class that lacked units."""
        for role in self.class_heads.get(scheduling, ()):
            self._push_class_head(scheduling, role)

    def reclassify(self, bucket: Bucket) -> None:
        """Follow a bucket that has another class now."""
        for role in self.queues.get(bucket, ()):
            self._push_bucket_head(bucket, role)

    def top(self, role: Role, defer_if_short: Callable[[SchedulingClass], bool]) -> Entry | None:
        """Return the first entry of `role` that can run now.

        Args:
            role: the role of the node.
            defer_if_short: tells whether a class lacks units, and if so puts it off until they come back.
        """
        queue = self.free.get(role)
        best = queue.first() if queue is not None else None
        heap = self.heads.get(role)
        while heap:
            entry, _, bucket = heap[0]
            v = entry[3]
            scheduling = bucket.scheduling
            if v.queue_entry is not entry or v.bucket is not bucket:
                heappop(heap)
                if scheduling.missing_key is None:
                    self._push_class_head(scheduling, role)
                continue
            if scheduling.missing_key is not None:
                heappop(heap)
                continue
            if best is not None and best < entry:
                break
            if not defer_if_short(scheduling):
                return entry
            heappop(heap)
        return best

    def roles(self) -> set[Role]:
        """Return every role that may have ready work here."""
        return self.free.keys() | self.heads.keys()

    def count(self) -> dict[Status, int]:
        """Return how much work there is below the root by status, groups not counted."""
        if self.work is None:
            self.work = dict.fromkeys(Status, 0)
            for v in subtree(self.root):
                if not v.group:
                    self.work[v.record.status] += 1
        return self.work

    def ready(self) -> Iterator[Vertex]:
        """Yield the ready nodes, in no order."""
        queues = [*self.free.values(), *(q for by_role in self.queues.values() for q in by_role.values())]
        seen = {entry[3]: None for queue in queues for entry in queue if entry[3].queue_entry is entry}
        yield from seen


class Scopes:
    """The scopes that were asked for lately."""

    def __init__(self) -> None:
        self.by_root: dict[Vertex, Scope] = {}

    def __bool__(self) -> bool:
        return bool(self.by_root)

    def __iter__(self) -> Iterator[Scope]:
        return iter(self.by_root.values())

    def get(self, root: Vertex) -> Scope:
        """Return the scope of `root`. The ready queue must be up to date."""
        scope = self.by_root.pop(root, None)
        if scope is None:
            scope = Scope(root)
            filed = [(v.queue_entry, v) for v in subtree(root) if v.queue_entry is not None]
            # In claim order, so that each queue is one run.
            for entry, v in sorted(filed, key=_by_entry):
                scope.file(v, entry)
            if len(self.by_root) >= KEPT:
                del self.by_root[next(iter(self.by_root))]
        self.by_root[root] = scope
        return scope

    def around(self, v: Vertex) -> Iterator[Scope]:
        """Yield every kept scope that holds `v`."""
        x: Vertex | None = v
        while x is not None:
            scope = self.by_root.get(x)
            if scope is not None:
                yield scope
            x = x.parent

    def file(self, v: Vertex, entry: Entry) -> None:
        """File an entry in every scope that holds `v`."""
        for scope in self.around(v):
            scope.file(v, entry)

    def wake(self, scheduling: SchedulingClass) -> None:
        """Look again at a class, in every scope."""
        for scope in self.by_root.values():
            scope.wake(scheduling)

    def reclassify(self, bucket: Bucket) -> None:
        """Follow a bucket that has another class now, in every scope."""
        for scope in self.by_root.values():
            scope.reclassify(bucket)

    def count(self, v: Vertex, status: Status, by: int) -> None:
        """Count work that came, went or has another status."""
        for scope in self.around(v):
            if scope.work is not None:
                scope.work[status] += by

    def recount(self) -> None:
        """Count every scope anew when it is next asked: nodes moved between them."""
        for scope in self.by_root.values():
            scope.work = None

    def drop_bucket(self, bucket: Bucket) -> None:
        """Follow a bucket that is empty and gone."""
        for scope in self.by_root.values():
            scope.queues.pop(bucket, None)

    def drop_class(self, scheduling: SchedulingClass) -> None:
        """Follow a class that has no bucket any more."""
        for scope in self.by_root.values():
            scope.class_heads.pop(scheduling, None)

    def forget(self, root: Vertex) -> None:
        """Forget the scope of a node that was pruned."""
        self.by_root.pop(root, None)


def _by_entry(filed: tuple[Entry, Vertex]) -> Entry:
    return filed[0]
