"""The daemon without its sockets: it takes requests, answers them, and does what is due.

Synchronous, no I/O of its own but through the store that it is given, no clock but the one it is given. The shell hands
it lines and sends what it delivers; a simulator may do the same. What is written and told when is the batch's part, who
waits for what the parking lot's, which claim belongs to which connection the leases'.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

import msgspec

from claimdagd import wire
from claimdagd.core import apply as verbs
from claimdagd.core.graph import Graph
from claimdagd.core.invariants import check
from claimdagd.core.lookup import find
from claimdagd.core.mutation import Mutation
from claimdagd.core.operations.claim import nothing_to_claim
from claimdagd.core.queries.deadlock import deadlock_possible, find_deadlocks
from claimdagd.core.queries.views import encode_view
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import TERMINAL
from claimdagd.service.batch import UNJOURNALED, Act, Batch
from claimdagd.service.idempotency import OnceTokens
from claimdagd.service.leases import Leases
from claimdagd.service.ledger import Ledger
from claimdagd.service.line_errors import refusal_of_line
from claimdagd.service.queries import QUESTIONS, nodes_of
from claimdagd.service.replies import REPLIES, encode_ok, op_of, refused, with_next
from claimdagd.service.sessions import Clock, Config, Keeper, Session
from claimdagd.service.snapshots import Checkpoints
from claimdagd.service.waiting import Lot, ParkedClaim, Waiter
from claimdagd.service.watchers import Watchers
from claimdagd.wire import Code

log = logging.getLogger("claimdagd")

#: After a failed write the reaper tries again after this many seconds.
RETRY_S: Final = 1.0
#: How many levels are brought up to date in one turn.
LEVELS_PER_TURN: Final = 1024
#: A new deadlock is told within this many seconds.
DEADLOCK_S: Final = 1.0

_NOTHING: Final = frozenset({Code.NOTHING_RUNNABLE, Code.NOTHING_PENDING})
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(wire.AnyRequest).decode


class Service:
    """One graph, its store, and all who are connected.

    `once` and `ledger` are what the store recovered. The shell sets `on_wake` (something is due earlier than `tick`
    last said), `on_shutdown` and `on_snapshot` (drive `snapshot`, please).
    """

    def __init__(
        self,
        graph: Graph,
        store: Keeper,
        clock: Clock,
        config: Config,
        *,
        once: dict[str, bytes] | None = None,
        ledger: Iterable[bytes] = (),
    ) -> None:
        self.graph = graph
        self.store = store
        self.clock = clock
        self.config = config
        self.on_wake: Callable[[], None] = _nothing
        self.on_shutdown: Callable[[], None] = _nothing
        self.on_snapshot: Callable[[], None] = _nothing
        self.started = clock.now()
        self.lags = 0
        self._sessions: dict[int, Session] = {}
        self._conns = 0
        self._once = OnceTokens(once)
        self._ledger = Ledger(store.seq, ledger)
        self._watchers = Watchers(self._ledger)
        self._lot = Lot()
        self._batch = Batch(
            graph, store, self._lot, self._once,
            fsync=config.fsync, tell=self._tell, ask=self._ask, undone=self._undone,
        )  # fmt: skip
        self._draining = False
        self._checkpoints = Checkpoints(graph, store, self._once, clock, self._tell_late)
        self._deadlocks: set[tuple[str, ...]] = set()
        self._deadlock_check: float | None = None
        #: After a failed write no lease is ended before this time.
        self._reap_again = 0.0
        #: When those who wait are looked at again, after something was taken back.
        self._wake_at: float | None = None
        #: When the shell means to call `tick` next; it is woken for what is due before.
        self._tick_at = 0.0
        graph.begin(self.started, clock.wall())
        self._leases = Leases(graph, self._sessions, config.grace_s, self.started)
        self._handlers: dict[type[wire.Request], Callable[[Session, Any], None]] = {
            **dict.fromkeys(REPLIES, self._mutate),
            **dict.fromkeys(QUESTIONS, self._question),
            wire.Watch: self._watch,
            wire.Wait: self._wait,
            wire.Log: self._log,
            wire.Checkpoint: self._checkpoint,
            wire.Shutdown: self._shutdown,
        }

    # ---------------------------------------------------------------------------------------------------- sessions

    def open(self, deliver: Callable[[bytes], None], hang_up: Callable[[], None]) -> Session:
        """A new connection. `deliver` queues bytes for its peer; `hang_up` closes it after what is queued."""
        self._conns += 1
        session = self._sessions[self._conns] = Session(self._conns, deliver, hang_up)
        return session

    def closed(self, session: Session, undelivered: bool = False) -> None:
        """The connection is gone: its bound claims go into their grace, its parked requests are forgotten.

        `undelivered`: the last answers did not reach the peer. A bound claim that one of them told of, and of which
        the peer so cannot know, comes back at once.
        """
        if session.closed:
            return
        session.closed = True
        del self._sessions[session.conn]
        self._watchers.drop(session)
        self._lot.forget(session)
        self._checkpoints.forget(session)
        if session.held:
            self._leases.unbind(session, self.clock.now(), undelivered)
            self._call()

    @property
    def connections(self) -> int:
        """How many are connected."""
        return len(self._sessions)

    @property
    def watchers(self) -> int:
        """How many are told of every mutation."""
        return len(self._watchers)

    @property
    def parked(self) -> int:
        """How many requests wait for their answer."""
        return len(self._lot)

    @property
    def seq(self) -> int:
        """The number of the last mutation."""
        return self._batch.seq

    @property
    def idle(self) -> bool:
        """No connection, no claim, nothing unfinished."""
        return not self._sessions and not any(n for s, n in self.graph.counts.items() if s not in TERMINAL)

    def drain(self) -> None:
        """The daemon leaves: parked requests are told so, watchers are let go, mutations are refused from now on."""
        self._draining = True
        refusal = Refusal(Code.SHUTTING_DOWN, "shutting down: ask again when the daemon is back")
        parked, waiters = self._lot.clear()
        for claim in parked:
            self._refuse_parked(claim, refusal)
        left: list[tuple[Session, wire.Request]] = [(w.session, w.request) for w in waiters]
        left += self._checkpoints.let_go()
        self._tell_late([(session, refused(request.rid, refusal)) for session, request in left])
        self._watchers.hang_up()

    # ---------------------------------------------------------------------------------------------------- requests

    def receive(self, session: Session, lines: Iterable[bytes]) -> None:
        """Whole lines from a connection, in order; answers are delivered when what they tell is in the journal."""
        if session.handed:
            session.handed.clear()
        for line in lines:
            if session.backlog is not None:
                session.backlog.append(line)
                continue
            try:
                r = _decode(line)
            except (msgspec.MsgspecError, RecursionError, ValueError) as exc:
                self._batch.acts.append(Act(session, None, refused(*refusal_of_line(line, exc))))
            else:
                self._ask(session, r)
        self._batch.commit()

    def _go_on(self, session: Session) -> None:
        """The checkpoint of `session` is answered: now what it asked after that."""
        backlog, session.backlog = session.backlog, None
        if backlog and not session.closed:
            self.receive(session, backlog)

    def _ask(self, session: Session, r: wire.Request) -> None:
        try:
            self._handlers[type(r)](session, r)
        except Refusal as refusal:
            self._batch.acts.append(Act(session, r, refused(r.rid, refusal)))
        except Exception:
            log.exception("internal error in %s", op_of(r))
            bug = Refusal(Code.INTERNAL, f"{op_of(r)}: internal error; the daemon's log has it, nothing was changed")
            self._batch.acts.append(Act(session, r, refused(r.rid, bug)))

    def _answer(self, session: Session, r: wire.Request, ok: bytes) -> None:
        self._batch.acts.append(Act(session, r, encode_ok(r.rid, ok)))

    def _question(self, session: Session, r: wire.Request) -> None:
        self.graph.begin(self.clock.now(), self.clock.wall())
        self._answer(session, r, QUESTIONS[type(r)](self, r))

    # ---------------------------------------------------------------------------------------------------- mutations

    def _mutate(self, session: Session, r: wire.Mutation) -> None:
        if r.once is not None:
            known = self._once.reply(r.once)
            if known is not None:
                self._answer(session, r, known)
                return
        self._refuse_if_leaving(r)
        if self._lot.claims and type(r) is wire.Complete and r.next is not None:
            self._complete_then_next(session, r, r.next)
            return
        try:
            self._do(session, r)
        except Refusal as refusal:
            if refusal.code not in _NOTHING or not isinstance(r, wire.ClaimNext) or not r.wait:
                raise
            self._park(session, r, r, None)

    def _refuse_if_leaving(self, r: wire.Request) -> None:
        if self._draining:
            raise Refusal(Code.SHUTTING_DOWN, f"{op_of(r)}: shutting down: ask again when the daemon is back")

    def _do(self, session: Session, r: wire.Mutation, parked: ParkedClaim | None = None) -> None:
        """Perform `r` now, for itself or for what was `parked`; the answer leaves when it is journaled."""
        graph, batch, clock = self.graph, self._batch, self.clock
        result, mutation = verbs.apply_request(graph, r, clock.now(), clock.wall(), session.conn)
        request: wire.Request = r if parked is None else parked.request
        once: str | None = request.once  # type: ignore[attr-defined]
        # A token's reply is journaled even where nothing changed: it must be the same after a restart.
        changed = bool(mutation) or (once is not None and type(r) not in UNJOURNALED)
        act = Act(session, request, None)
        try:
            recs: dict[Vertex, bytes] = {}
            ok = REPLIES[type(r)](graph, r, result, recs)
            if parked is not None and parked.completed is not None:
                ok = with_next(parked.completed, ok)
            if mutation.ends_bound_claim:
                act.lost = self._leases.lost(session, r, mutation)
            if changed:
                act.mutation = mutation
                act.line = batch.line(op_of(r), r.actor, mutation, recs, once, ok)
        except BaseException:
            graph.undo(mutation)
            raise
        if once is not None:
            act.once, act.once_before = once, self._once.remember(once, ok)
        held = result.v if result.next is None else result.next
        if held is not None and held.lease is not None and held.lease.conn == session.conn:
            self._bind(session, held)
        if parked is not None:
            act.parked = parked if parked.waited else None
            act.follows = not parked.waited
        batch.acts.append(act)
        refusal = result.next_refusal
        if refusal is not None and refusal.code in _NOTHING and type(r) is wire.Complete and r.next and r.next.wait:
            act.parks = self._park(session, r, _as_claim_next(r, r.next), ok)
        else:
            act.answer = encode_ok(request.rid, ok)
        if changed and self._lot.claims:
            self._wake()

    def _bind(self, session: Session, v: Vertex) -> None:
        if self._leases.bind(session, v):
            self._call()

    def _complete_then_next(self, session: Session, r: wire.Complete, next_: wire.Next) -> None:
        """Others were waiting before this one asks for a next node: they come first."""
        graph = self.graph
        if next_.actor is None and r.actor is None:
            raise Refusal(Code.BAD_REQUEST, "complete: next wants an actor, its own or complete's", field="next")
        plain = msgspec.structs.replace(r, next=None, once=None)
        result, mutation = verbs.apply_request(graph, plain, self.clock.now(), self.clock.wall(), session.conn)
        batch = self._batch
        recs: dict[Vertex, bytes] = {v: _encode(v.record) for v in mutation.nodes}
        ok = REPLIES[wire.Complete](graph, plain, result, recs)
        act = Act(session, r, None)
        if mutation:
            act.mutation = mutation
            act.line = batch.line(op_of(r), r.actor, mutation, recs)
            act.lost = self._leases.lost(session, r, mutation)
        seq = batch.seq
        batch.acts.append(act)
        self._wake()
        claim = _as_claim_next(r, next_)
        try:
            self._do(session, claim, self._lot.make(session, r, claim, ok, self._deadline(claim)))
        except Refusal as refusal:
            told = Act(session, None, None, follows=True)
            if refusal.code in _NOTHING and claim.wait:
                act.parks = self._park(session, r, claim, ok)
            else:
                ok = with_next(ok, None, refusal)
                told.answer = encode_ok(r.rid, ok)
            if r.once is not None:
                # A claim would have had the token in its own line.
                bearer, at = (act, seq) if mutation else (told, None)
                bearer.mutation = mutation
                bearer.line = batch.line(op_of(r), r.actor, mutation, recs, r.once, ok, at)
                bearer.once, bearer.once_before = r.once, self._once.remember(r.once, ok)
            batch.acts.append(told)

    # ------------------------------------------------------------------------------------------------------ parking

    def _deadline(self, claim: wire.ClaimNext) -> float:
        return self.clock.now() + (claim.wait or 0.0)

    def _park(self, session: Session, r: wire.Request, claim: wire.ClaimNext, completed: bytes | None) -> ParkedClaim:
        parked = self._lot.make(session, r, claim, completed, self._deadline(claim))
        self._lot.park(parked)
        session.lots += 1
        self._call()
        return parked

    def _wake(self) -> None:
        """Hand what can run to those who wait, first come first served, no more than can run."""
        barren: set[object] = set()
        for parked in self._lot.in_line():
            # Whoever takes any role is served or nobody of that kind is.
            kind = parked.claim.role if parked.claim.strict else None
            if kind in barren:
                continue
            claim = parked.claim
            known = parked.completed is None and self._once.reply(parked.request.once) is not None  # type: ignore[attr-defined]
            if not known and self.graph.ready_queue.pick(claim.role, claim.slack, claim.strict) is None:
                if kind is None:
                    return
                barren.add(kind)
                continue
            try:
                self._serve(parked)
            except Refusal as refusal:
                self._refuse_parked(parked, refusal, parked)
            self._lot.leave(parked)

    def _serve(self, parked: ParkedClaim) -> None:
        session, request = parked.session, parked.request
        known = self._once.reply(request.once)  # type: ignore[attr-defined]
        if known is not None and parked.completed is None:
            self._batch.acts.append(Act(session, None, encode_ok(request.rid, known), parked=parked))
        else:
            waiting, self._lot.claims = self._lot.claims, {}
            try:
                self._do(session, parked.claim, parked)
            finally:
                self._lot.claims = waiting
        session.lots -= 1

    def _refuse_parked(self, parked: ParkedClaim, refusal: Refusal, waits_on: ParkedClaim | None = None) -> None:
        """A parked claim comes to nothing: its time is over, or its actor holds another node by now.

        `waits_on`: it, where that is so only as long as what was done before is not taken back.
        """
        parked.session.lots -= 1
        known = self._once.reply(parked.request.once)  # type: ignore[attr-defined]
        if parked.completed is not None:
            answer = encode_ok(parked.request.rid, with_next(parked.completed, None, refusal))
        elif known is not None:
            # Done by the same request, asked twice: should that be taken back, this waits on like that one.
            answer = encode_ok(parked.request.rid, known)
            waits_on = parked
        else:
            answer = refused(parked.request.rid, refusal)
        self._batch.acts.append(Act(parked.session, None, answer, parked=waits_on))

    # ------------------------------------------------------------------------------------------------------ telling

    @property
    def commit_due(self) -> bool:
        """fsync mode: whether answers wait for a flush of the store."""
        return bool(self._batch.unflushed)

    def committed(self) -> None:
        """fsync mode: the store was flushed."""
        self._batch.committed()

    def commit_failed(self, exc: Exception) -> None:
        """fsync mode: the store could not be flushed."""
        self._batch.commit_failed(exc)

    def _tell(self, acts: list[Act]) -> None:
        """What the acts did is in the journal: answers, events, and whoever waited for it."""
        for act in acts:
            session, mutation = act.session, act.mutation
            if act.line is not None:
                self._ledger.add(act.line)
                if self._watchers:
                    self._watchers.publish(act.line)
            if act.once is not None:
                self._once.trim()
            if act.lost:
                self._leases.tell_lost(act.lost)
            if mutation is not None and mutation.ended and self._lot.waiters:
                self._tell_waiters(mutation)
            if session is not None and not session.closed:
                if act.answer is not None:
                    session.deliver(act.answer)
                elif act.late is not None:
                    session.deliver(act.late())
        graph = self.graph
        deadlines = graph.leases.heap
        if deadlines and deadlines[0][0] < self._tick_at:
            self._call()
        if self.store.journal_bytes > self._checkpoints.wanted_above:
            self._checkpoints.begun()
            self.on_snapshot()
        if self._deadlock_check is None and graph.ready_queue.buckets:
            self._deadlock_check = self.clock.now() + DEADLOCK_S
            self._call()
        if len(graph.ranks.dirty) > LEVELS_PER_TURN:
            self._call()
        if self.config.check:
            check(graph)

    def _tell_waiters(self, mutation: Mutation) -> None:
        for waiter in self._lot.ended((v.record.id for v in mutation.ended), self._is_over):
            waiter.session.lots -= 1
            waiter.session.deliver(self._waited(waiter))

    def _undone(self, mutations: list[Mutation]) -> None:
        """What was taken back may leave something for those who wait: they are looked at again, in a moment."""
        now = self.clock.now()
        self._leases.undone(mutations, now)
        # A lease whose end was among it is over still, but not to be ended again at once on a disk that fails.
        self._reap_again = now + RETRY_S
        if len(self._lot):
            self._wake_at = now + RETRY_S
        self._call()

    def _wake_again(self) -> None:
        self._wake_at = None
        for waiter in self._lot.over(self._is_over):
            waiter.session.lots -= 1
            self._batch.acts.append(Act(waiter.session, None, self._waited(waiter)))
        self._wake()

    def _is_over(self, node_id: str) -> bool:
        v = self.graph.vertices.get(node_id)
        return v is None or v.record.status in TERMINAL

    # ------------------------------------------------------------------------------------------------- what is due

    def _call(self) -> None:
        """Something may be due earlier than the shell means to look."""
        self._tick_at = 0.0
        self.on_wake()

    def starved(self, now: float) -> None:
        """The daemon did not run for a while: nobody is reclaimed before a grace in which to speak."""
        self.lags += 1
        self._leases.starved(now)
        self._call()

    def tick(self) -> float | None:
        """Do what is due; returns the monotonic time of the next due work, or None."""
        now = self.clock.now()
        self._leases.warn(now)
        leases = self._reap(now)
        for parked in self._lot.overdue_claims(now):
            self.graph.begin(now, self.clock.wall())
            self._refuse_parked(parked, nothing_to_claim(self.graph))
        for waiter in self._lot.overdue_waiters(now):
            self._time_out(waiter)
        if self._deadlock_check is not None and now >= self._deadlock_check:
            self._look_for_deadlocks(now)
        if self._wake_at is not None and now >= self._wake_at:
            self._wake_again()
        self._batch.commit()
        if leases is None:
            leases = self._leases.next_due()
        if self.graph.ranks.dirty:
            # What a large submission moved is worked off by the way, not by the next claim.
            self.graph.ranks.update(budget=LEVELS_PER_TURN)
        more = now if len(self.graph.ranks.dirty) > LEVELS_PER_TURN else None
        times = [
            t for t in (leases, self._lot.next_due(), self._deadlock_check, self._wake_at, more) if t is not None
        ]
        self._tick_at = min(times, default=math.inf)
        return self._tick_at if times else None

    def _reap(self, now: float) -> float | None:
        """Leases that are over: the daemon itself hands the nodes back. Returns when to try again, if it must."""
        if not self._leases.may_reap(now):
            return None
        if now < self._reap_again:
            return self._reap_again
        graph, batch = self.graph, self._batch
        while True:
            expired = verbs.expire(graph, now, self.clock.wall())
            if expired is None:
                return None
            v, mutation = expired
            line = batch.line("expire", None, mutation, {})
            batch.acts.append(Act(None, None, None, mutation, line, lost=self._leases.lost(None, None, mutation)))
            if self._lot.claims:
                self._wake()
            batch.commit()
            if graph.leases.overdue(now) is v:
                self._reap_again = now + RETRY_S
                return self._reap_again

    def _time_out(self, waiter: Waiter) -> None:
        ids = waiter.request.ids
        pending = [i for i in ids if not self._is_over(i)]
        waiter.session.lots -= 1
        refusal = Refusal(Code.TIMEOUT, f"wait: {len(pending)} of {len(ids)} not finished", ids=pending)
        self._batch.acts.append(Act(waiter.session, None, refused(waiter.request.rid, refusal)))

    def _look_for_deadlocks(self, now: float) -> None:
        """A deadlock between subtrees is told as an event when it is new."""
        graph = self.graph
        self._deadlock_check = None
        graph.begin(now, self.clock.wall())
        found = find_deadlocks(graph) if deadlock_possible(graph) else []
        keys = {(*d["subtrees"], *d["resources"]) for d in found}
        for d in found:
            if (*d["subtrees"], *d["resources"]) not in self._deadlocks:
                log.warning("%s", d["text"])
                event = b'{"event":%b}\n' % _encode({"op": "deadlock", **d})
                self._watchers.tell(event)
        self._deadlocks = keys

    # ---------------------------------------------------------------------------------------------------- snapshots

    def snapshot(self) -> Generator[Any, None, None]:
        """Write a snapshot in slices; the caller gives the loop a turn between them. Raises StorageError."""
        return self._checkpoints.write()

    def check_store(self) -> None:
        """See that the files of the state are there as they were written. Raises StorageError."""
        if self._batch.seq == self.store.seq:
            self.store.check()

    def _checkpoint(self, session: Session, r: wire.Checkpoint) -> None:
        self._refuse_if_leaving(r)
        # It takes a while, and answers come in the order of the requests.
        session.backlog = []
        self._checkpoints.ask(session, r)
        session.lots += 1
        self.on_snapshot()

    def _tell_late(self, answers: list[tuple[Session, bytes]]) -> None:
        """Answer what could not be answered at once, and go on with what was asked after that."""
        for session, answer in answers:
            session.lots -= 1
            self._batch.acts.append(Act(session, None, answer))
        self._batch.commit()
        for session, _ in answers:
            self._go_on(session)

    # ------------------------------------------------------------------------------- questions about what is to come

    def _watch(self, session: Session, r: wire.Watch) -> None:
        self._watchers.check(r)
        # At the moment of the answer, so that nothing is missed or told twice.
        self._batch.acts.append(Act(session, r, None, late=lambda: self._watchers.begin(session, r)))

    def lagged(self, session: Session) -> bytes:
        """The last line for a watcher that reads too slowly, before the shell cuts it off."""
        self.lags += 1
        self._watchers.drop(session)
        message = "watch: too slow: watch again from the last seq that was read"
        return refused(None, Refusal(Code.LAGGED, message, seq=self._ledger.last))

    def _wait(self, session: Session, r: wire.Wait) -> None:
        for node_id in r.ids:
            find(self.graph, "wait", node_id)
        waiter = Waiter(session, r, self.clock.now() + r.timeout if r.timeout is not None else None)
        if all(map(self._is_over, r.ids)):
            self._batch.acts.append(Act(session, r, self._waited(waiter)))
            return
        self._refuse_if_leaving(r)
        self._lot.wait(waiter)
        session.lots += 1
        self._call()

    def _waited(self, waiter: Waiter) -> bytes:
        graph = self.graph
        graph.begin(self.clock.now(), self.clock.wall())
        views = [encode_view(graph, graph.vertices[i]) for i in waiter.request.ids if i in graph.vertices]
        return encode_ok(waiter.request.rid, nodes_of(views))

    def _log(self, session: Session, r: wire.Log) -> None:
        def read() -> bytes:
            return encode_ok(r.rid, b'{"entries":[%b]}' % b",".join(self._ledger.entries(r.from_, r.limit, r.id)))

        self._batch.acts.append(Act(session, r, None, late=read))

    def _shutdown(self, session: Session, r: wire.Shutdown) -> None:
        self._answer(session, r, b"{}")
        self.on_shutdown()


def _nothing() -> None:
    """Nobody listens."""


def _as_claim_next(r: wire.Complete, n: wire.Next) -> wire.ClaimNext:
    actor = n.actor or r.actor
    assert actor is not None
    return wire.ClaimNext(
        actor=actor, role=n.role, slack=n.slack, strict=n.strict, lease=n.lease, bound=n.bound, wait=n.wait
    )
