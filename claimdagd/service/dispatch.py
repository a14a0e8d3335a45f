"""The way of one request that may change the graph: its token, the operation, and who is served by the change."""

from __future__ import annotations

import msgspec

from claimdagd import wire
from claimdagd.core.refusal import Refusal
from claimdagd.service.batch import Answered, Batch, Changed, Waits
from claimdagd.service.changes import Changes
from claimdagd.service.idempotency import OnceTokens
from claimdagd.service.replies import encode_ok, op_of, with_next
from claimdagd.service.sessions import Session
from claimdagd.service.wait_list import WaitList
from claimdagd.service.waiting import NOTHING_TO_CLAIM, Waiting
from claimdagd.wire import Code


class Dispatch:
    """Runs requests that may change the graph. Set `draining` to refuse them from then on."""

    def __init__(self, once: OnceTokens, batch: Batch, changes: Changes, waiting: Waiting, wait_list: WaitList) -> None:
        self._once = once
        self._batch = batch
        self._changes = changes
        self._waiting = waiting
        self._list = wait_list
        self.draining = False

    def run(self, session: Session, r: wire.Mutation) -> None:
        """Do `r` and add what came of it to the batch, step by step. Raises Refusal before anything has changed."""
        if r.once is not None:
            known = self._once.reply(r.once)
            if known is not None:
                self._batch.items.append(Answered(session, r, encode_ok(r.rid, known)))
                return
        self.refuse_if_draining(r)
        if type(r) is wire.Complete and r.next is not None and not r.ids:
            if self._list.claims:
                self._complete_and_queue(session, r, r.next)
            else:
                self._complete_and_claim(session, r, r.next)
            return
        try:
            item, _, _ = self._changes.apply(session, r)
        except Refusal as refusal:
            if refusal.code not in NOTHING_TO_CLAIM or not isinstance(r, wire.ClaimNext) or not r.wait:
                raise
            self._waiting.put(self._waiting.claim_for(session, r, r))
            return
        self._batch.items.append(item)
        if item.line is not None and self._list.claims:
            self._waiting.serve()

    def refuse_if_draining(self, r: wire.Request) -> None:
        """Raise the refusal of every request that comes too late."""
        if self.draining:
            raise Refusal(Code.SHUTTING_DOWN, f"{op_of(r)}: shutting down: ask again when the daemon is back")

    def _complete_and_claim(self, session: Session, r: wire.Complete, next_: wire.Next) -> None:
        """Complete and claim the next node in one step, since no other claim waits."""
        item, result, reply = self._changes.apply(session, r)
        self._batch.items.append(item)
        refusal = result.next_refusal
        if refusal is not None and refusal.code in NOTHING_TO_CLAIM and next_.wait:
            item.answer = None
            waiting = self._waiting.claim_for(session, r, _as_claim_next(r, next_), reply)
            self._waiting.put(waiting)
            self._batch.items.append(Waits(waiting))

    def _complete_and_queue(self, session: Session, r: wire.Complete, next_: wire.Next) -> None:
        """Complete, serve the claims that waited before this one, and then claim: two items of one request.

        The token belongs to the last item, since its reply is known only then.
        """
        if next_.actor is None and r.actor is None:
            raise Refusal(Code.BAD_REQUEST, "complete: next wants an actor, its own or complete's", field="next")
        self._changes.check_process(session, r)
        items = self._batch.items
        item, _, reply = self._changes.apply(session, msgspec.structs.replace(r, next=None, once=None))
        item.request, item.answer = r, None
        items.append(item)
        self._waiting.serve()
        claim = _as_claim_next(r, next_)
        waiting = self._waiting.claim_for(session, r, claim, reply)
        try:
            claimed, _, _ = self._changes.apply(session, claim, waiting)
        except Refusal as refusal:
            answer = None
            if refusal.code in NOTHING_TO_CLAIM and claim.wait:
                self._waiting.put(waiting)
                items.append(Waits(waiting))
            else:
                reply = with_next(reply, None, refusal)
                answer = encode_ok(r.rid, reply)
            if r.once is not None:
                items.append(self._changes.keep_token(session, r, reply, answer))
            elif answer is not None:
                items.append(Changed(session, None, answer))
        else:
            items.append(claimed)
            if self._list.claims:
                self._waiting.serve()


def _as_claim_next(r: wire.Complete, n: wire.Next) -> wire.ClaimNext:
    actor = n.actor or r.actor
    assert actor is not None
    return wire.ClaimNext(
        actor=actor, role=n.role, slack=n.slack, strict=n.strict, lease=n.lease, bound=n.bound, wait=n.wait,
        under=n.under, pid=n.pid,
    )  # fmt: skip
