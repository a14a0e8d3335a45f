"""One request that may change the graph: applied, put into a reply and a journal line, made an item of the batch."""

from __future__ import annotations

from claimdagd import wire
from claimdagd.core.apply import Result, apply_request
from claimdagd.core.graph import Graph
from claimdagd.core.state import Vertex
from claimdagd.model import Process
from claimdagd.service.alarm import Alarm
from claimdagd.service.batch import UNJOURNALED, Batch, Changed, Served
from claimdagd.service.idempotency import OnceTokens
from claimdagd.service.leases import Leases
from claimdagd.service.processes import Processes, process_named
from claimdagd.service.replies import encode_ok, op_of, reply_of, with_next
from claimdagd.service.sessions import Clock, Session
from claimdagd.service.wait_list import WaitingClaim


class Changes:
    """Applies requests for sessions. Adds nothing to the batch: that is up to the caller."""

    def __init__(
        self,
        graph: Graph,
        clock: Clock,
        once: OnceTokens,
        leases: Leases,
        batch: Batch,
        alarm: Alarm,
        processes: Processes,
    ) -> None:
        self._graph = graph
        self._clock = clock
        self._once = once
        self._leases = leases
        self._batch = batch
        self._alarm = alarm
        self._processes = processes

    def apply(
        self, session: Session, r: wire.Mutation, waiting: WaitingClaim | None = None
    ) -> tuple[Changed, Result, bytes]:
        """Apply `r` now; return its batch item, its result and its reply. Raises Refusal, and nothing has changed.

        `waiting`: the claim that `r` serves. Its request is answered then, and its token has the reply.
        """
        graph, clock = self._graph, self._clock
        pid = process_named(r)
        process = None if pid is None else self._processes.check(r, pid, session.peer_pid)
        result, mutation = apply_request(graph, r, clock.now(), clock.wall(), session.conn, process)
        request: wire.Request = r if waiting is None else waiting.request
        once: str | None = request.once  # type: ignore[attr-defined]
        # A token's reply is journaled even if nothing changed: it must be the same after a restart.
        changed = bool(mutation) or (once is not None and type(r) not in UNJOURNALED)
        lost = line = before = None
        try:
            encoded: dict[Vertex, bytes] = {}
            reply = reply_of(graph, r, result, encoded)
            if waiting is not None and waiting.completed is not None:
                reply = with_next(waiting.completed, reply)
            if mutation.ends_bound_claim:
                lost = self._leases.lost(session, r, mutation)
            if changed:
                line = self._batch.line(op_of(r), r.actor, mutation, encoded, once, reply)
        except BaseException:
            graph.undo(mutation)
            raise
        if once is not None:
            before = self._once.remember(once, reply)
        self._bind(session, result.v if result.next is None else result.next, process)
        for each in result.many or ():
            self._bind(session, each.v, process)
        answer = encode_ok(request.rid, reply)
        done = mutation if changed else None
        if waiting is None:
            return Changed(session, r, answer, done, line, once, before, lost), result, reply
        if waiting.listed:
            return Served(session, None, answer, done, line, once, before, lost, waiting=waiting), result, reply
        return Changed(session, None, answer, done, line, once, before, lost), result, reply

    def _bind(self, session: Session, held: Vertex | None, process: Process | None) -> None:
        """Note that `held` belongs to the connection of `session` and depends on `process`, if it does."""
        bound = held is not None and held.lease is not None and held.lease.conn == session.conn
        if held is not None and bound and self._leases.bind(session, held):
            self._alarm.schedule()
        if process is not None and held is not None and self._processes.hold(held, self._graph.now):
            self._alarm.schedule()

    def check_process(self, session: Session, r: wire.Mutation) -> None:
        """Refuse the process that `r` names, if it is not accepted."""
        pid = process_named(r)
        if pid is not None:
            self._processes.check(r, pid, session.peer_pid)

    def keep_token(self, session: Session, r: wire.Mutation, reply: bytes, answer: bytes | None) -> Changed:
        """Return the item that journals `reply` as that of the token of `r`, which an item before this has done."""
        graph, clock = self._graph, self._clock
        assert r.once is not None
        graph.begin(clock.now(), clock.wall())
        mutation = graph.finish()
        line = self._batch.line(op_of(r), r.actor, mutation, {}, r.once, reply)
        before = self._once.remember(r.once, reply)
        return Changed(session, None, answer, mutation, line, r.once, before)
