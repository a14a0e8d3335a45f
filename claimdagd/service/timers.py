"""What is due at a time: leases that are over, claims and waits that are, deadlocks to look for, ranks left over."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

import msgspec

from claimdagd.core.apply import begin_due, expire
from claimdagd.core.graph import Graph
from claimdagd.core.mutation import Mutation
from claimdagd.core.queries.deadlock import deadlock_possible, find_deadlocks
from claimdagd.service.alarm import Alarm
from claimdagd.service.batch import Batch, Changed
from claimdagd.service.leases import Leases
from claimdagd.service.sessions import Clock, Storage
from claimdagd.service.snapshots import Snapshots
from claimdagd.service.wait_list import WaitList
from claimdagd.service.waiting import Waiting
from claimdagd.service.watchers import Watchers

log = logging.getLogger("claimdagd")

#: After a failed write no lease is ended, and no waiting claim is looked at, for this many seconds.
RETRY_S: Final = 1.0
#: How many ranks are brought up to date in one turn.
RANKS_PER_TURN: Final = 1024
#: The wall clock is compared with the monotonic one so often, while a node waits for its time.
CLOCK_CHECK_S: Final = 30.0
#: A new deadlock is told within this many seconds.
DEADLOCK_S: Final = 1.0

_encode = msgspec.json.Encoder().encode


class Timers:
    """Does what is due, and knows when the next is."""

    def __init__(
        self,
        graph: Graph,
        store: Storage,
        clock: Clock,
        alarm: Alarm,
        *,
        batch: Batch,
        leases: Leases,
        wait_list: WaitList,
        waiting: Waiting,
        watchers: Watchers,
        snapshots: Snapshots,
        on_snapshot: Callable[[], None],
    ) -> None:
        """`on_snapshot` is called when the journal has grown so long that a snapshot is worth while."""
        self._graph = graph
        self._store = store
        self._clock = clock
        self._alarm = alarm
        self._batch = batch
        self._leases = leases
        self._list = wait_list
        self._waiting = waiting
        self._watchers = watchers
        self._snapshots = snapshots
        self._on_snapshot = on_snapshot
        self._deadlocks: set[tuple[str, ...]] = set()
        self._deadlock_check: float | None = None
        #: No lease is ended before this time.
        self._reap_again = 0.0
        #: No node is let begin before this time.
        self._begin_again = 0.0
        #: The next time to begin of which the alarm was told.
        self._next_begin: float | None = None
        #: When those who wait are looked at again.
        self._serve_again: float | None = None

    def tick(self) -> float | None:
        """Do what is due; return the monotonic time of the next due work, or None."""
        now = self._clock.now()
        self._leases.warn(now)
        leases = self._reap(now)
        begins = self._begin_due(now)
        self._waiting.time_out(now)
        if self._deadlock_check is not None and now >= self._deadlock_check:
            self._look_for_deadlocks(now)
        if self._serve_again is not None and now >= self._serve_again:
            self._serve_again = None
            self._waiting.look_again()
        self._batch.commit()
        if leases is None:
            leases = self._leases.next_due()
        ranks = self._graph.ranks
        if ranks.dirty:
            # What a large submission moved is worked off by the way, not by the next claim.
            ranks.update(budget=RANKS_PER_TURN)
        more = now if len(ranks.dirty) > RANKS_PER_TURN else None
        due = (leases, begins, self._list.next_due(), self._deadlock_check, self._serve_again, more)
        times = [time for time in due if time is not None]
        self._alarm.tick_at = min(times, default=math.inf)
        return self._alarm.tick_at if times else None

    def look_ahead(self) -> None:
        """After a delivery: have `tick` called if something is due before the shell would, and a snapshot written."""
        graph, alarm = self._graph, self._alarm
        deadlines = graph.leases.heap
        if deadlines and deadlines[0][0] < alarm.tick_at:
            alarm.schedule()
        if self._store.journal_bytes > self._snapshots.wanted_above:
            self._snapshots.begun()
            self._on_snapshot()
        if self._deadlock_check is None and graph.ready_queue.buckets:
            self._deadlock_check = self._clock.now() + DEADLOCK_S
            alarm.schedule()
        if len(graph.ranks.dirty) > RANKS_PER_TURN:
            alarm.schedule()
        if graph.start_times.waiting:
            when = graph.start_times.next_due()
            if when != self._next_begin:
                self._next_begin = when
                alarm.schedule()

    def on_rollback(self, mutations: list[Mutation]) -> None:
        """Look again in a moment at those who wait, since a rollback may leave something for them.

        A lease whose end was rolled back is over still, but is not ended again at once on a disk that fails.
        """
        now = self._clock.now()
        self._leases.on_rollback(mutations, now)
        self._reap_again = self._begin_again = now + RETRY_S
        if len(self._list):
            self._serve_again = now + RETRY_S
        self._alarm.schedule()

    def _reap(self, now: float) -> float | None:
        """Hand back the nodes whose leases are over. Return when to try again, if the journal could not be written."""
        if not self._leases.may_reap(now):
            return None
        if now < self._reap_again:
            return self._reap_again
        graph, batch = self._graph, self._batch
        while True:
            expired = expire(graph, now, self._clock.wall())
            if expired is None:
                return None
            v, mutation = expired
            line = batch.line("expire", None, mutation, {})
            lost = self._leases.lost(None, None, mutation)
            batch.items.append(Changed(None, None, None, mutation, line, lost=lost))
            if self._list.claims:
                self._waiting.serve()
            batch.commit()
            if graph.leases.overdue(now) is v:
                self._reap_again = now + RETRY_S
                return self._reap_again

    def _begin_due(self, now: float) -> float | None:
        """Let the nodes begin whose time has come. Return the monotonic time at which to look again."""
        times = self._graph.start_times
        wall = self._clock.wall()
        if not times.timed:
            times.judged = wall
            return None
        if now < self._begin_again:
            return self._begin_again
        mutation = begin_due(self._graph, now, wall)
        if mutation is not None:
            line = self._batch.line("begin", None, mutation, {})
            self._batch.items.append(Changed(None, None, None, mutation, line))
            if self._list.claims:
                self._waiting.serve()
            self._batch.commit()
        # The clock may be set, or the machine sleep, at any time: so a far time is looked at again in between.
        when = times.next_due()
        return now + (CLOCK_CHECK_S if when is None else min(max(0.0, when - wall), CLOCK_CHECK_S))

    def _look_for_deadlocks(self, now: float) -> None:
        """Tell the watchers of each deadlock between subtrees that is new."""
        graph = self._graph
        self._deadlock_check = None
        graph.begin(now, self._clock.wall())
        found = find_deadlocks(graph) if deadlock_possible(graph) else []
        keys = {(*d["subtrees"], *d["resources"]) for d in found}
        for d in found:
            if (*d["subtrees"], *d["resources"]) not in self._deadlocks:
                log.warning("%s", d["text"])
                self._watchers.tell(b'{"event":%b}\n' % _encode({"op": "deadlock", **d}))
        self._deadlocks = keys
