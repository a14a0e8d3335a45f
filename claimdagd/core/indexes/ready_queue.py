"""The ready queue: which ready node is next, and for whom, without a look at those that cannot run.

Nodes that need no units, below no ancestor that does, wait in the free queues. The others wait in one bucket per
(needs, nearest ancestor with needs), and buckets whose nodes would take the same units from the same places form one
scheduling class: if one node of it cannot run, none can. So a class is deferred as a whole when its head cannot run,
and woken when what it lacked comes back. Heaps are never searched: an entry that is stale is dropped when it comes up.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from claimdagd.core.indexes.affinity import BROAD, by_affinity, first
from claimdagd.core.indexes.pauses import Pauses
from claimdagd.core.indexes.reservations import Bypass, Reservations, Semaphores
from claimdagd.core.indexes.scopes import Scope, Scopes
from claimdagd.core.state import Bucket, ClaimGrants, Entry, Queue, RankSource, SchedulingClass, Vertex
from claimdagd.model import Grant, Role


class ReadyQueue:
    """All ready work, in the order of claims: effective priority, then depth, then number.

    Args:
        ranks: the ranks that make the order.
        resources: the units that nodes need.
        live: every held vertex, by assignee.
        starvation: how many bypasses let a node starve.
    """

    def __init__(self, ranks: RankSource, resources: Semaphores, live: Mapping[str, Vertex], starvation: int) -> None:
        self._ranks = ranks
        self._requeue = ranks.requeue
        self.pauses = Pauses(ranks.requeue)
        self._held_back = self.pauses.held_back
        self._resources = resources
        self.reservations = Reservations(resources, live, starvation)
        #: Nodes that need no units; and the heads of the classes that are not deferred; by role.
        self.free: dict[Role, Queue] = {}
        self.heads: dict[Role, list[Entry]] = {}
        self.buckets: dict[Hashable, Bucket] = {}
        self.classes: dict[Hashable, SchedulingClass] = {}
        #: Classes by each resource of which they would take units afresh.
        self.wanting: dict[str, dict[SchedulingClass, None]] = {}
        #: Deferred classes by what they lack (a resource's name, or (lender's id, resource)), fewest units first:
        #: (units, version, class).
        self.deferred: dict[Hashable, list[tuple[int, int, SchedulingClass]]] = {}
        self._deferrals = 0
        self.free_count = 0
        #: The same work once more for each subtree that a worker was hired for.
        self.scopes = Scopes()
        self._scope_roots = self.scopes.by_root

    # ------------------------------------------------------------------------------------------ coming and going

    def add(self, v: Vertex) -> None:
        """Add `v`, which is ready. It is put in order when the ranks are up to date."""
        self._requeue[v] = None

    def remove(self, v: Vertex, role: Role) -> None:
        """Remove `v`, which is ready no longer and was filed under `role`."""
        self._requeue.pop(v, None)
        if self._held_back:
            self._held_back.pop(v, None)
        if v.queue_entry is not None:
            self._take_out(v, v.queue_entry, role)
        if v.bypass_count:
            self.reservations.reset_bypass(v)

    def move(self, v: Vertex, role: Role) -> None:
        """File `v`, which stays ready and was filed under `role`, anew. Its bypass count stays."""
        if v.queue_entry is not None:
            self._take_out(v, v.queue_entry, role)
        self.add(v)

    def _take_out(self, v: Vertex, entry: Entry, role: Role) -> None:
        bucket = v.bucket
        if bucket is None:
            v.queue_entry = None
            self.free_count -= 1
            return
        was_head = bucket.queues[role].first() is entry
        v.queue_entry = None
        v.bucket = None
        bucket.count -= 1
        bucket.scheduling.count -= 1
        if not bucket.count:
            self._drop(bucket)
            return
        if was_head:
            self._push_bucket_head(bucket, role)

    def refresh(self) -> None:
        """File every ready node whose rank or place may have changed, and decide for whom units are reserved."""
        ranks = self._ranks
        if ranks.dirty:
            ranks.update()
        if self._requeue:
            moved: list[Entry] = [(-v.priority_start, -v.blevel_start, v.number, v) for v in self._requeue]
            self._requeue.clear()
            if len(moved) > 1:
                # In claim order, so that nodes that come together are in one run of their queue.
                moved.sort()
            for key in moved:
                v = key[3]
                entry = v.queue_entry
                role = v.record.role
                if self.pauses.roots and self.pauses.hold_back(v):
                    if entry is not None:
                        self._take_out(v, entry, role)
                    continue
                if entry is not None:
                    if entry == key:
                        continue
                    self._take_out(v, entry, role)
                self._insert(v, key, role)
        reservations = self.reservations
        if (reservations.starved or reservations.reserved) and reservations.update_reservations():
            # Other units than before are reserved now, so every class that lacks units is looked at again.
            for resource in [key for key in self.deferred if isinstance(key, str)]:
                self.wake(resource)

    def isolate(self, v: Vertex) -> None:
        """Give the starved node a bucket of its own, so that units can be reserved for it alone."""
        entry = v.queue_entry
        assert entry is not None
        self._take_out(v, entry, v.record.role)
        # A new entry object: by the old one it would be in two queues.
        self._insert(v, (*entry[:3], v), v.record.role)

    def _insert(self, v: Vertex, entry: Entry, role: Role) -> None:
        v.queue_entry = entry
        needs = v.record.needs
        if not needs and v.resource_ancestor is None:
            self.free_count += 1
            queue = self.free.get(role)
            if queue is None:
                queue = self.free[role] = Queue()
            queue.push(entry)
            if self._scope_roots:
                self.scopes.file(v, entry)
            return
        bucket = v.bucket = self._bucket_of(v)
        bucket.count += 1
        bucket.scheduling.count += 1
        queue = bucket.queues.get(role)
        if queue is None:
            queue = bucket.queues[role] = Queue()
        queue.push(entry)
        if queue.first() is entry:
            scheduling = bucket.scheduling
            heappush(scheduling.heads.setdefault(role, []), entry)
            if scheduling.missing_key is None:
                heappush(self.heads.setdefault(role, []), entry)
        if self._scope_roots:
            self.scopes.file(v, entry)

    def _bucket_of(self, v: Vertex) -> Bucket:
        needs, above = v.record.needs, v.resource_ancestor
        starved = v.number if v in self.reservations.starved else 0
        key = (tuple(sorted(needs.items())), above.number if above is not None else 0, starved)
        bucket = self.buckets.get(key)
        if bucket is None:
            bucket = self.buckets[key] = Bucket(key, needs, above, starved)
            self._join(bucket)
            while above is not None:
                if above.buckets is not None:
                    above.buckets[bucket] = None
                    bucket.above.append(above)
                above = above.resource_ancestor
        return bucket

    def _drop(self, bucket: Bucket) -> None:
        del self.buckets[bucket.key]
        if self._scope_roots:
            self.scopes.drop_bucket(bucket)
        self._part(bucket)
        self._push_next_heads(bucket.scheduling, bucket)
        for a in bucket.above:
            if a.buckets is not None:
                a.buckets.pop(bucket, None)

    # ---------------------------------------------------------------------------------------- scheduling classes

    def _join(self, bucket: Bucket) -> None:
        units, exempt = self._resources.external_units(bucket.needs, bucket.under)
        key = (units, exempt, bucket.starved)
        scheduling = self.classes.get(key)
        if scheduling is None:
            scheduling = self.classes[key] = SchedulingClass(key, units, exempt, bucket.starved)
            for resource, _, lender in units:
                if lender is None:
                    self.wanting.setdefault(resource, {})[scheduling] = None
        scheduling.buckets[bucket] = None
        scheduling.count += bucket.count
        bucket.scheduling = scheduling

    def _part(self, bucket: Bucket) -> None:
        scheduling = bucket.scheduling
        del scheduling.buckets[bucket]
        scheduling.count -= bucket.count
        if not scheduling.buckets:
            scheduling.version = 0
            del self.classes[scheduling.key]
            if self._scope_roots:
                self.scopes.drop_class(scheduling)
            for resource, _, lender in scheduling.units:
                if lender is None:
                    wanting = self.wanting[resource]
                    del wanting[scheduling]
                    if not wanting:
                        del self.wanting[resource]

    def reclassify(self, buckets: Iterable[Bucket]) -> None:
        """Find the class of each of `buckets` anew: its nodes may take other units now, or from elsewhere."""
        for bucket in tuple(buckets):
            before = bucket.scheduling
            self._part(bucket)
            self._join(bucket)
            self._push_next_heads(before, bucket)
            for role in bucket.queues:
                self._push_bucket_head(bucket, role)
            if self._scope_roots:
                self.scopes.reclassify(bucket)

    def _push_next_heads(self, scheduling: SchedulingClass, bucket: Bucket) -> None:
        """Find the heads of a class that `bucket` has left: it may have had the former ones."""
        if scheduling.buckets and scheduling.missing_key is None:
            for role in bucket.queues:
                self._push_head(scheduling, role)

    def _push_bucket_head(self, bucket: Bucket, role: Role) -> None:
        """Find the head of `bucket`, and so of its class, after the former one has left."""
        scheduling = bucket.scheduling
        entry = bucket.queues[role].first()
        if entry is not None:
            heappush(scheduling.heads.setdefault(role, []), entry)
        if scheduling.missing_key is None:
            self._push_head(scheduling, role)

    def _push_head(self, scheduling: SchedulingClass, role: Role) -> None:
        entry = self._head_of_role(scheduling, role)
        if entry is not None:
            heappush(self.heads.setdefault(role, []), entry)

    @staticmethod
    def _head_of_role(scheduling: SchedulingClass, role: Role) -> Entry | None:
        heap = scheduling.heads.get(role)
        while heap:
            entry = heap[0]
            v = entry[3]
            if v.queue_entry is entry and v.bucket is not None and v.bucket.scheduling is scheduling:
                return entry
            heappop(heap)
        return None

    def head(self, scheduling: SchedulingClass) -> Entry | None:
        """Return the first entry of a class, of any role."""
        return first(self._head_of_role(scheduling, role) for role in scheduling.heads)

    # -------------------------------------------------------------------------------------------- lack of units

    def is_short(self, scheduling: SchedulingClass) -> bool:
        """Return whether the nodes of a class lack units now."""
        return scheduling.missing_key is not None or self.reservations.missing(scheduling) is not None

    def short_count(self, under: Vertex | None = None) -> int:
        """Return how many ready nodes lack units now, of all or of a subtree."""
        self.refresh()
        if under is not None:
            ready = self.scopes.get(under).ready()
            return sum(v.bucket is not None and self.is_short(v.bucket.scheduling) for v in ready)
        return sum(scheduling.count for scheduling in self.classes.values() if self.is_short(scheduling))

    def missing(self, v: Vertex) -> list[tuple[Grant, int]]:
        """Return each grant that a claim of the ready node `v` cannot have now, with the units free for it."""
        self.refresh()
        return self.reservations.missing_grants(v.bucket.scheduling) if v.bucket is not None else []

    def _defer(self, scheduling: SchedulingClass, key: Hashable, units: int) -> None:
        self._deferrals += 1
        scheduling.missing_key = key
        scheduling.version = self._deferrals
        heap = self.deferred.setdefault(key, [])
        if len(heap) > 2 * len(self.classes) + 8:
            heap[:] = [note for note in heap if note[2].version == note[1]]
            heapify(heap)
        heappush(heap, (units, scheduling.version, scheduling))

    def wake(self, key: Hashable, free: int | None = None) -> None:
        """Look again at the classes deferred for `key` that `free` units may help; at all of them if it is None."""
        heap = self.deferred.get(key)
        while heap and (free is None or heap[0][0] <= free):
            _, version, scheduling = heappop(heap)
            if scheduling.version == version:
                scheduling.missing_key = None
                scheduling.version = 0
                for role in scheduling.heads:
                    self._push_head(scheduling, role)
                if self._scope_roots:
                    self.scopes.wake(scheduling)
        if heap is not None and not heap:
            del self.deferred[key]

    def record_bypasses(self, v: Vertex, claimed: ClaimGrants) -> None:
        """Count a bypass of each class head that comes before `v` and waits for units that a claim of `v` takes."""
        entry, bucket = v.queue_entry, v.bucket
        assert entry is not None
        assert bucket is not None
        bypassed: dict[Entry, None] = {}
        for _, grants in claimed:
            for g in grants:
                if g.lender is None and len(self.wanting.get(g.resource, ())) > 1:
                    for scheduling in self.wanting[g.resource]:
                        if scheduling is not bucket.scheduling and not scheduling.starved:
                            head = self.head(scheduling)
                            if head is not None and head < entry and self.is_short(scheduling):
                                bypassed[head] = None
        for head in sorted(bypassed):
            if self.reservations.record_bypass(head[3]):
                self.isolate(head[3])

    def restore_bypasses(self, bypasses: Sequence[Bypass]) -> None:
        """Undo what a mutation changed of the bypass counts."""
        for v in self.reservations.restore(bypasses):
            if v.queue_entry is not None:
                self.move(v, v.record.role)

    # ---------------------------------------------------------------------------------------------------- order

    def _top(self, role: Role) -> Entry | None:
        """Return the first entry of `role` that can run now."""
        queue = self.free.get(role)
        best = queue.first() if queue is not None else None
        heap = self.heads.get(role)
        if heap:
            reservations = self.reservations
            while heap:
                entry = heap[0]
                v = entry[3]
                bucket = v.bucket
                if v.queue_entry is not entry or bucket is None or bucket.scheduling.missing_key is not None:
                    heappop(heap)
                    continue
                if best is not None and best < entry:
                    break
                missing = reservations.missing(bucket.scheduling)
                if missing is None:
                    return entry
                heappop(heap)
                self._defer(bucket.scheduling, *missing)
        return best

    def _defer_if_short(self, scheduling: SchedulingClass) -> bool:
        missing = self.reservations.missing(scheduling)
        if missing is None:
            return False
        self._defer(scheduling, *missing)
        return True

    def scope(self, root: Vertex) -> Scope:
        """Return the scope of `root`. The first call for a root costs its subtree."""
        self.refresh()
        return self.scopes.get(root)

    def pick(self, role: Role | None, slack: float, strict: bool, under: Vertex | None = None) -> Vertex | None:
        """Return the node that claim_next takes (law 5.2, 5.4), or None if no node that may be taken can run.

        Args:
            role: prefer a node for this role; None means any role.
            slack: how far from the deepest a node of a better fitting role may be.
            strict: leave out what is for another role.
            under: only from this subtree.
        """
        self.refresh()
        if self.pauses.everything:
            return None
        top = self._top
        roles: Iterable[Role] = self.free.keys() | self.heads.keys() if self.heads else self.free
        if under is not None:
            scope = self.scopes.get(under)
            roles = scope.roles()

            def top(role: Role) -> Entry | None:
                return scope.top(role, self._defer_if_short)

        if role is None:
            best: Entry | None = None
            for r in roles:
                entry = top(r)
                if entry is not None and (best is None or entry < best):
                    best = entry
            return best[3] if best is not None else None
        exact = top(role)
        broad = first(top(r) for r in BROAD if r is not role)
        other = None if strict else first(top(r) for r in Role if r is not role and r not in BROAD)
        best = first((exact, broad, other))
        return None if best is None else by_affinity(best, slack, (exact, broad, other))[3]
