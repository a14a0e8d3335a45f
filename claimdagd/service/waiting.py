"""Requests that are answered later: who is served next, who is refused, and what they are told.

The wait list keeps them in order; here is decided what becomes of them. Must not write the journal.
"""

from __future__ import annotations

from typing import Final

import msgspec

from claimdagd import wire
from claimdagd.core.graph import Graph
from claimdagd.core.lookup import find
from claimdagd.core.mutation import Mutation
from claimdagd.core.operations.claim import nothing_to_claim
from claimdagd.core.queries.views import encode_view, unfinished_roots
from claimdagd.core.refusal import Refusal
from claimdagd.model import TERMINAL
from claimdagd.service.alarm import Alarm
from claimdagd.service.batch import Answered, Batch, Served
from claimdagd.service.changes import Changes
from claimdagd.service.idempotency import OnceTokens
from claimdagd.service.replies import encode_ok, nodes_of, refused, with_next
from claimdagd.service.sessions import Clock, Session
from claimdagd.service.wait_list import EndWaiter, WaitingClaim, WaitList
from claimdagd.wire import Code

#: Refusals that a claim may wait out.
NOTHING_TO_CLAIM: Final = frozenset({Code.NOTHING_RUNNABLE, Code.NOTHING_PENDING})


class Waiting:
    """Serves the wait list from the graph, and adds the answers to the batch."""

    def __init__(
        self,
        graph: Graph,
        clock: Clock,
        once: OnceTokens,
        wait_list: WaitList,
        batch: Batch,
        changes: Changes,
        alarm: Alarm,
    ) -> None:
        self._graph = graph
        self._clock = clock
        self._once = once
        self._list = wait_list
        self._batch = batch
        self._changes = changes
        self._alarm = alarm

    # ------------------------------------------------------------------------------------------------------- claims

    def claim_for(
        self, session: Session, r: wire.Request, claim: wire.ClaimNext, completed: bytes | None = None
    ) -> WaitingClaim:
        """Return `claim` as one that could wait, with the next position; it is not on the list yet.

        `r` is what is answered: `claim` itself, or the complete that carries it, whose reply so far is `completed`.
        """
        return self._list.make(session, r, claim, completed, self._clock.now() + (claim.wait or 0.0))

    def put(self, waiting: WaitingClaim) -> None:
        """Put a claim on the wait list."""
        self._list.put(waiting)
        waiting.session.pending_replies += 1
        self._alarm.schedule()

    def serve(self) -> None:
        """Hand what can run to the claims that wait, first come first served, no more than can run."""
        barren: set[object] = set()
        for waiting in self._list.in_order():
            # Claims that take any role are all served, or none is.
            claim = waiting.claim
            kind = (claim.role if claim.strict else None, claim.under)
            if kind in barren:
                continue
            if self._known_reply(waiting) is None and not self._can_serve(claim):
                if kind == (None, None):
                    return
                barren.add(kind)
                continue
            try:
                self._serve_one(waiting)
            except Refusal as refusal:
                self._refuse(waiting, refusal, requeue=True)
            self._list.leave(waiting)

    def _can_serve(self, claim: wire.ClaimNext) -> bool:
        """Return whether a claim can be answered now: something can run for it, or its scope was pruned."""
        under = None
        if claim.under is not None:
            under = self._graph.vertices.get(claim.under)
            if under is None:
                return True
        return self._graph.ready_queue.pick(claim.role, claim.slack, claim.strict, under) is not None

    def _known_reply(self, waiting: WaitingClaim) -> bytes | None:
        """Return the reply that the same token got meanwhile. A complete has had its token itself, so it has none."""
        once: str | None = waiting.request.once  # type: ignore[attr-defined]
        known = self._once.reply(once)
        if known is not None and waiting.completed is None:
            return known
        return None

    def _serve_one(self, waiting: WaitingClaim) -> None:
        known = self._known_reply(waiting)
        session = waiting.session
        if known is not None:
            self._batch.items.append(Served(session, None, encode_ok(waiting.request.rid, known), waiting=waiting))
        else:
            item, _, _ = self._changes.apply(session, waiting.claim, waiting)
            self._batch.items.append(item)
        session.pending_replies -= 1

    def _refuse(self, waiting: WaitingClaim, refusal: Refusal, *, requeue: bool) -> None:
        """Answer a claim that comes to nothing: its time is over, or its actor holds another node by now.

        Args:
            requeue: put the claim back on the wait list if this batch is rolled back.
        """
        session, rid = waiting.session, waiting.request.rid
        session.pending_replies -= 1
        known = self._known_reply(waiting)
        if waiting.completed is not None:
            answer = encode_ok(rid, with_next(waiting.completed, None, refusal))
        elif known is not None:
            # The same request, asked twice, was done: if that is rolled back, this one waits on like that one.
            answer, requeue = encode_ok(rid, known), True
        else:
            answer = refused(rid, refusal)
        if requeue:
            self._batch.items.append(Served(session, None, answer, waiting=waiting))
        else:
            self._batch.items.append(Answered(session, None, answer))

    # ----------------------------------------------------------------------------------------- waits for nodes to end

    def with_scope(self, r: wire.Wait) -> wire.Wait:
        """Return the wait with ids in place of its scope; with neither, for all work that is unfinished now."""
        if r.under is not None:
            # A node ends with everything below it, so its end is the end of its scope.
            return msgspec.structs.replace(r, ids=(*r.ids, r.under))
        return r if r.ids else msgspec.structs.replace(r, ids=unfinished_roots(self._graph))

    def wait(self, session: Session, r: wire.Wait) -> bool:
        """Answer `r` if its nodes have ended, and return whether they have; refuse one that is unknown."""
        for node_id in r.ids:
            find(self._graph, "wait", node_id)
        over = all(map(self.is_over, r.ids))
        if over:
            self._batch.items.append(Answered(session, r, self._ended_reply(r)))
        return over

    def put_wait(self, session: Session, r: wire.Wait) -> None:
        """Let `r` wait for its nodes."""
        self._list.put_wait(EndWaiter(session, r, self._clock.now() + r.timeout if r.timeout is not None else None))
        session.pending_replies += 1
        self._alarm.schedule()

    def on_ended(self, mutation: Mutation) -> None:
        """Answer at once the waits that are over because nodes ended; the end is journaled."""
        for waiter in self._list.ended((v.record.id for v in mutation.ended), self.is_over):
            waiter.session.pending_replies -= 1
            waiter.session.deliver(self._ended_reply(waiter.request))

    def is_over(self, node_id: str) -> bool:
        """Return whether a node is terminal, or pruned after it was."""
        v = self._graph.vertices.get(node_id)
        return v is None or v.record.status in TERMINAL

    def _ended_reply(self, r: wire.Wait) -> bytes:
        graph = self._graph
        graph.begin(self._clock.now(), self._clock.wall())
        views = [encode_view(graph, graph.vertices[i]) for i in r.ids if i in graph.vertices]
        return encode_ok(r.rid, nodes_of(views))

    # ------------------------------------------------------------------------------------------------ when it is time

    def time_out(self, now: float) -> None:
        """Answer all whose time is over."""
        for waiting in self._list.overdue_claims(now):
            self._graph.begin(now, self._clock.wall())
            self._refuse(waiting, nothing_to_claim(self._graph, waiting.claim.under), requeue=False)
        for waiter in self._list.overdue_waits(now):
            ids = waiter.request.ids
            pending = [i for i in ids if not self.is_over(i)]
            waiter.session.pending_replies -= 1
            refusal = Refusal(Code.TIMEOUT, f"wait: {len(pending)} of {len(ids)} not finished", ids=pending)
            self._batch.items.append(Answered(waiter.session, None, refused(waiter.request.rid, refusal)))

    def look_again(self) -> None:
        """Answer and serve all that can be, as things stand after a rollback."""
        for waiter in self._list.over(self.is_over):
            waiter.session.pending_replies -= 1
            self._batch.items.append(Answered(waiter.session, None, self._ended_reply(waiter.request)))
        self.serve()

    def dismiss(self, refusal: Refusal) -> list[tuple[Session, wire.Request]]:
        """Refuse every claim that waits, and return the waits for nodes, which the caller answers."""
        claims, waits = self._list.clear()
        for waiting in claims:
            self._refuse(waiting, refusal, requeue=False)
        return [(waiter.session, waiter.request) for waiter in waits]
