"""What is delivered once it is in the journal: answers, events, and what waits for it."""

from __future__ import annotations

from claimdagd.core.graph import Graph
from claimdagd.core.invariants import check
from claimdagd.service.batch import Answered, BatchItem, Changed
from claimdagd.service.idempotency import OnceTokens
from claimdagd.service.leases import Leases
from claimdagd.service.ledger import Ledger
from claimdagd.service.sessions import Config
from claimdagd.service.timers import Timers
from claimdagd.service.wait_list import WaitList
from claimdagd.service.waiting import Waiting
from claimdagd.service.watchers import Watchers


class Delivery:
    """Delivers the items of a batch. Must not change the graph."""

    def __init__(
        self,
        graph: Graph,
        config: Config,
        *,
        once: OnceTokens,
        ledger: Ledger,
        watchers: Watchers,
        leases: Leases,
        wait_list: WaitList,
        waiting: Waiting,
        timers: Timers,
    ) -> None:
        self._graph = graph
        self._check = config.check
        self._once = once
        self._ledger = ledger
        self._watchers = watchers
        self._leases = leases
        self._list = wait_list
        self._waiting = waiting
        self._timers = timers

    def deliver(self, items: list[BatchItem]) -> None:
        """Deliver what the items tell, since it is in the journal now."""
        for item in items:
            if type(item) is Answered:  # the most frequent one, and quicker than isinstance
                session, answer = item.session, item.answer
                if not session.closed:
                    session.deliver(answer if isinstance(answer, bytes) else answer())
            elif isinstance(item, Changed):
                self._deliver_change(item)
        self._timers.look_ahead()
        if self._check:
            check(self._graph)

    def _deliver_change(self, item: Changed) -> None:
        line, mutation, session = item.line, item.mutation, item.session
        if line is not None:
            self._ledger.add(line)
            if self._watchers:
                self._watchers.publish(line)
        if item.once is not None:
            self._once.trim()
        if item.lost:
            self._leases.tell_lost(item.lost)
        if mutation is not None and mutation.ended and self._list.waits:
            self._waiting.on_ended(mutation)
        if item.answer is not None and session is not None and not session.closed:
            session.deliver(item.answer)
