"""The daemon without its sockets: sessions, answers, the journal, parked claims, watchers, leases that end.

Synchronous, no I/O of its own but through the store that it is given, no clock but the one it is given. The shell hands
it lines and sends what it delivers; a simulator may do the same. An answer is delivered only when what it tells is in
the journal; what could not be written is undone before anybody is told.
"""

from __future__ import annotations

import logging
import math
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from heapq import heappop, heappush
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw

from claimdagd import __version__, wire
from claimdagd.answers import REPLIES, encode_ok, next_part, refusal_of_line, refused
from claimdagd.core import claims, verbs
from claimdagd.core.deadlock import find_deadlocks, suspicious
from claimdagd.core.edit import find
from claimdagd.core.explain import why
from claimdagd.core.graph import Graph, Mutation
from claimdagd.core.refusal import Refusal
from claimdagd.core.vertex import Vertex
from claimdagd.core.views import encode_view, listed, resources
from claimdagd.ledger import Ledger
from claimdagd.model import ERROR_MAX_BYTES, SUMMARY_MAX_BYTES, TERMINAL
from claimdagd.parking import Lot, ParkedClaim, Waiter
from claimdagd.store.entry import Entry, encode_entry
from claimdagd.store.errors import StorageError
from claimdagd.store.snapshot import SnapshotHead
from claimdagd.wire import Code

log = logging.getLogger("claimdagd")

ONCE_KEPT: Final = 4096
#: After a restart bound claims have at least this long to rebind, in seconds.
REBIND_S: Final = 10.0
#: A journal this many times the last snapshot, and not small, makes a new snapshot worth while.
JOURNAL_PER_SNAPSHOT: Final = 2
JOURNAL_MIN_BYTES: Final = 4 * 1024 * 1024
RETRY_S: Final = 1.0

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(wire.AnyRequest).decode


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> float:
        """Monotonic seconds."""

    def wall(self) -> float:
        """Unix seconds."""


class Keeper(Protocol):
    """What the service needs of a store."""

    @property
    def seq(self) -> int: ...
    @property
    def flushed(self) -> int: ...
    @property
    def journal_bytes(self) -> int: ...

    snapshot_bytes: int

    def append(self, lines: list[bytes]) -> None: ...
    def undo_to(self, mark: int) -> None: ...
    def snapshot(
        self, head: SnapshotHead, nodes: Iterable[Any], once: Iterable[tuple[str, bytes]], *, ledger: int = 0
    ) -> Generator[Any, None, int]: ...


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Grace in seconds; `fsync` holds answers back until `committed`."""

    grace_s: float = 5.0
    fsync: bool = False
    pid: int = 0
    check: bool = False


class Session:
    """One connection: where its answers go, the claims bound to it, and what it has asked to be told later."""

    __slots__ = ("closed", "conn", "deliver", "handed", "hang_up", "held", "lots", "watch_from")

    def __init__(self, conn: int, deliver: Callable[[bytes], None], hang_up: Callable[[], None]) -> None:
        self.conn = conn
        self.deliver = deliver
        self.hang_up = hang_up
        self.held: dict[Vertex, None] = {}
        #: Claims answered since this peer last spoke: it may not know of them.
        self.handed: list[Vertex] = []
        self.lots = 0
        self.watch_from: int | None = None
        self.closed = False

    @property
    def parked(self) -> bool:
        """Whether an answer is still to come, later."""
        return self.lots > 0

    @property
    def watching(self) -> bool:
        """Whether it is told of every mutation."""
        return self.watch_from is not None


class Act(msgspec.Struct, gc=False):
    """One thing done in a batch: what is to be delivered once it is in the journal, and how it is taken back."""

    session: Session | None
    request: wire.Request | None
    answer: bytes | None
    mutation: Mutation | None = None
    line: bytes | None = None
    once: str | None = None
    #: The claim that had waited and was answered by this.
    parked: ParkedClaim | None = None
    #: The claim that waits since this.
    parks: ParkedClaim | None = None
    #: Makes the answer when it is told, where it is about the journal itself.
    late: Callable[[], bytes] | None = None
    #: Whose bound claims this ended: vertex, connection, and the event for it, if it is to be told.
    lost: list[tuple[Vertex, int, bytes | None]] | None = None


class Service:
    """Takes requests, answers them, and does what is due."""

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
        self._watchers: dict[Session, None] = {}
        self._conns = 0
        self._once: dict[str, bytes] = dict(once or {})
        self._ledger = Ledger(store.seq, ledger)
        self._lot = Lot()
        self._seq = store.seq
        self._acts: list[Act] = []
        #: fsync mode: batches whose lines are written but not flushed, each with the last seq it needs on disk.
        self._unflushed: deque[tuple[int, list[Act]]] = deque()
        self._warnings: list[tuple[float, int, Vertex]] = []
        self._warned: dict[Vertex, float] = {}
        self._not_before = self.started
        self._draining = False
        self._snapshotting = False
        self._checkpoints: list[tuple[Session, wire.Checkpoint]] = []
        self._deadlocks: set[tuple[str, ...]] = set()
        self._deadlock_check: float | None = None
        #: When the shell means to call `tick` next; it is woken for what is due before.
        self._tick_at = 0.0
        #: How large the journal may grow before a snapshot is worth while.
        self._journal_limit = 0
        self._snapshot_failed = False
        self._limit_journal()
        self._handlers: dict[type[wire.Request], Callable[[Session, Any], None]] = dict.fromkeys(REPLIES, self._mutate)
        self._handlers |= {
            wire.Hello: self._hello,
            wire.Ping: self._ping,
            wire.Get: self._get,
            wire.Why: self._why,
            wire.List: self._list,
            wire.Ready: self._ready,
            wire.Resources: self._resources,
            wire.Watch: self._watch,
            wire.Wait: self._wait,
            wire.Log: self._log,
            wire.Stats: self._stats,
            wire.Checkpoint: self._checkpoint,
            wire.Shutdown: self._shutdown,
        }
        now = self.started
        graph.begin(now, clock.wall())
        for v in graph.by_assignee.values():
            lease = v.lease
            if lease is not None and lease.bound:
                graph.set_lease(
                    v, msgspec.structs.replace(lease, deadline=now + max(config.grace_s, REBIND_S), conn=None)
                )

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
        self._watchers.pop(session, None)
        self._lot.forget(session)
        self._checkpoints = [(s, r) for s, r in self._checkpoints if s is not session]
        now = self.clock.now()
        graph = self.graph
        for v in session.held:
            lease = v.lease
            if lease is None or lease.conn != session.conn:
                continue
            unheard = undelivered and v in session.handed and now - lease.spoke < 1.0
            grace = 0.0 if unheard else self.config.grace_s
            graph.set_lease(v, msgspec.structs.replace(lease, deadline=min(lease.deadline, now + grace), conn=None))
        if session.held:
            session.held.clear()
            self._call()

    @property
    def idle(self) -> bool:
        """No connection, no claim, nothing unfinished."""
        return not self._sessions and not self._pending()

    def _pending(self) -> bool:
        counts = self.graph.counts
        return any(n for status, n in counts.items() if status not in TERMINAL)

    def drain(self) -> None:
        """The daemon leaves: parked requests are told so, watchers are let go, mutations are refused from now on."""
        self._draining = True
        refusal = Refusal(Code.SHUTTING_DOWN, "shutting down: ask again when the daemon is back")
        for session, request in self._lot.clear():
            self._acts.append(Act(session, request, refused(request.rid, refusal)))
        for session, r in self._checkpoints:
            session.lots -= 1
            self._acts.append(Act(session, r, refused(r.rid, refusal)))
        self._checkpoints.clear()
        self._commit()
        for watcher in list(self._watchers):
            watcher.hang_up()

    # ---------------------------------------------------------------------------------------------------- requests

    def receive(self, session: Session, lines: Iterable[bytes]) -> None:
        """Whole lines from a connection, in order; answers are delivered when what they tell is in the journal."""
        if session.handed:
            session.handed.clear()
        for line in lines:
            self._one(session, line)
        self._commit()

    def _one(self, session: Session, line: bytes) -> None:
        try:
            r = _decode(line)
        except (msgspec.MsgspecError, RecursionError, ValueError) as exc:
            self._acts.append(Act(session, None, refusal_of_line(line, exc)))
            return
        self._ask(session, r)

    def _ask(self, session: Session, r: wire.Request) -> None:
        try:
            self._handlers[type(r)](session, r)
        except Refusal as refusal:
            self._acts.append(Act(session, r, refused(r.rid, refusal)))
        except Exception:
            log.exception("internal error in %s", type(r).__name__)
            bug = Refusal(Code.INTERNAL, f"{_op(r)}: internal error; the daemon's log has it, nothing was changed")
            self._acts.append(Act(session, r, refused(r.rid, bug)))

    def _answer(self, session: Session, r: wire.Request, ok: bytes) -> None:
        self._acts.append(Act(session, r, encode_ok(r.rid, ok)))

    # ---------------------------------------------------------------------------------------------------- mutations

    def _mutate(self, session: Session, r: wire.Mutation) -> None:
        if r.once is not None:
            known = self._once.get(r.once)
            if known is not None:
                self._answer(session, r, known)
                return
        if self._draining:
            raise Refusal(Code.SHUTTING_DOWN, f"{_op(r)}: shutting down: ask again when the daemon is back")
        if self._lot.claims and type(r) is wire.Complete and r.next is not None:
            self._complete_then_next(session, r, r.next)
            return
        try:
            self._do(session, r)
        except Refusal as refusal:
            if refusal.code not in _NOTHING or not isinstance(r, wire.ClaimNext) or not r.wait:
                raise
            self._park(session, r, r, None)

    def _do(self, session: Session, r: wire.Mutation, parked: ParkedClaim | None = None) -> None:
        """Perform `r` now; its answer, and the answer of what was parked on it, come when it is journaled."""
        graph = self.graph
        result, mutation = verbs.perform(graph, r, self.clock.now(), self.clock.wall(), session.conn)
        try:
            ok, line = self._written(r, result, mutation, parked)
        except BaseException:
            if mutation:
                graph.undo(mutation)
            raise
        v = result.v
        if v is not None and v.lease is not None and v.lease.conn == session.conn:
            self._bind(session, v)
        v = result.next
        if v is not None and v.lease is not None and v.lease.conn == session.conn:
            self._bind(session, v)
        request: wire.Request = r if parked is None else parked.request
        act = Act(session, request, None)
        if mutation:
            act.mutation = mutation
            act.line = line
            act.once = request.once  # type: ignore[attr-defined]
            if mutation.unseated:
                act.lost = self._lost(session, r, mutation)
        if parked is not None and parked.waited:
            act.parked = parked
        self._acts.append(act)
        refusal = result.next_refusal
        if refusal is not None and refusal.code in _NOTHING and type(r) is wire.Complete and r.next and r.next.wait:
            act.parks = self._park(session, r, _as_claim_next(r, r.next), ok)
        else:
            act.answer = encode_ok(request.rid, ok)
        if mutation and self._lot.claims:
            self._wake()

    def _written(
        self, r: wire.Mutation, result: verbs.Result, mutation: Mutation, parked: ParkedClaim | None
    ) -> tuple[bytes, bytes | None]:
        """The reply and the journal line of what was done."""
        recs: dict[Vertex, bytes] = {}
        ok = REPLIES[type(r)](self.graph, r, result, recs)
        if parked is not None and parked.completed is not None:
            ok = _with_next(parked.completed, ok)
        line = None
        if mutation:
            once = parked.request.once if parked is not None else r.once  # type: ignore[attr-defined]
            line = self._journal_line(_op(r), r.actor, mutation, recs, once, ok)
            if once is not None:
                self._remember(once, ok)
        elif r.once is not None:
            self._remember(r.once, ok)
        return ok, line

    def _journal_line(
        self,
        op: str,
        actor: str | None,
        mutation: Mutation,
        recs: dict[Vertex, bytes],
        once: str | None = None,
        reply: bytes | None = None,
    ) -> bytes:
        nodes = []
        for v in mutation.nodes:
            encoded = recs.get(v)
            nodes.append(Raw(_encode(v.rec) if encoded is None else encoded))
        self._seq += 1
        return encode_entry(
            Entry(
                seq=self._seq,
                at=self.graph.wall,
                op=op,
                actor=actor,
                nodes=nodes,
                flips=mutation.flips,  # type: ignore[arg-type]
                gone=mutation.gone,
                capacity=mutation.capacity,
                once=once,
                reply=Raw(reply) if once is not None and reply is not None else None,
                next=self.graph.next_number,
            )
        )

    def _remember(self, token: str, ok: bytes) -> None:
        once = self._once
        once[token] = ok
        if len(once) > ONCE_KEPT:
            del once[next(iter(once))]

    def _bind(self, session: Session, v: Vertex) -> None:
        session.held[v] = None
        session.handed.append(v)
        lease = v.lease
        assert lease is not None
        warn = lease.deadline - lease.lease_s / 5
        if v not in self._warned:
            self._warned[v] = warn
            heappush(self._warnings, (warn, v.num, v))
            self._call()

    def _complete_then_next(self, session: Session, r: wire.Complete, next_: wire.Next) -> None:
        """Others were waiting before this one asks for a next node: they come first."""
        graph = self.graph
        actor = next_.actor or r.actor
        if actor is None:
            raise Refusal(Code.BAD_REQUEST, "complete: next wants an actor, its own or complete's", field="next")
        plain = msgspec.structs.replace(r, next=None, once=None)
        result, mutation = verbs.perform(graph, plain, self.clock.now(), self.clock.wall(), session.conn)
        recs: dict[Vertex, bytes] = {}
        ok = REPLIES[wire.Complete](graph, plain, result, recs)
        act = Act(session, None, None)
        if mutation:
            act.mutation = mutation
            act.line = self._journal_line("complete", r.actor, mutation, recs)
            act.lost = self._lost(session, r, mutation)
        self._acts.append(act)
        self._wake()
        claim = _as_claim_next(r, next_)
        try:
            self._do(session, claim, self._lot.make(session, r, claim, ok, self._deadline(claim)))
        except Refusal as refusal:
            if refusal.code in _NOTHING and claim.wait:
                act.request = r
                act.parks = self._park(session, r, claim, ok)
                return
            ok = _with_next(ok, None, refusal)
            if r.once is not None:
                self._remember(r.once, ok)
            self._answer(session, r, ok)

    # ------------------------------------------------------------------------------------------------------ parking

    def _deadline(self, claim: wire.ClaimNext) -> float:
        return self.clock.now() + (claim.wait or 0.0)

    def _park(
        self, session: Session, r: wire.Request, claim: wire.ClaimNext, completed: bytes | None
    ) -> ParkedClaim:
        parked = self._lot.make(session, r, claim, completed, self._deadline(claim))
        self._lot.park(parked)
        session.lots += 1
        self._call()
        return parked

    def _wake(self) -> None:
        """Hand what can run to those who wait, first come first served, no more than can run."""
        barren: set[object] = set()
        for parked in self._lot.in_line():
            kind = (parked.claim.role, parked.claim.strict) if parked.claim.strict else None
            if kind in barren:
                continue
            once = getattr(parked.request, "once", None)
            known = self._once.get(once) if once is not None else None
            try:
                if known is not None:
                    self._acts.append(
                        Act(parked.session, parked.request, encode_ok(parked.request.rid, known), parked=parked)
                    )
                else:
                    self._lot.leave(parked)
                    self._do_parked(parked)
                    continue
            except Refusal as refusal:
                if refusal.code in _NOTHING:
                    self._lot.come_back(parked)
                    barren.add(kind)
                    if kind is None:
                        return
                    continue
                self._refuse_parked(parked, refusal)
                continue
            self._lot.leave(parked)
            parked.session.lots -= 1

    def _do_parked(self, parked: ParkedClaim) -> None:
        claims_of, self._lot.claims = self._lot.claims, {}
        try:
            self._do(parked.session, parked.claim, parked)
        finally:
            self._lot.claims = claims_of
        parked.session.lots -= 1

    def _refuse_parked(self, parked: ParkedClaim, refusal: Refusal) -> None:
        """A parked claim comes to nothing: its time is over, or its actor holds another node by now."""
        parked.session.lots -= 1
        if parked.completed is not None:
            answer = encode_ok(parked.request.rid, _with_next(parked.completed, None, refusal))
        else:
            answer = refused(parked.request.rid, refusal)
        self._acts.append(Act(parked.session, parked.request, answer, parked=None))

    # ------------------------------------------------------------------------------------------------------- commit

    def _commit(self) -> None:
        """Write what the batch did, then tell; what cannot be written is undone and done again one by one."""
        acts = self._acts
        if not acts:
            return
        self._acts = []
        lines = [act.line for act in acts if act.line is not None]
        if lines:
            try:
                self.store.append(lines)
            except StorageError as exc:
                self._take_back(acts)
                self._one_by_one(acts, exc, len(lines) == 1)
                return
        if self.config.fsync and (lines or self._unflushed):
            self._unflushed.append((self._seq, acts))
            return
        self._tell(acts)

    def _take_back(self, acts: list[Act]) -> None:
        for act in reversed(acts):
            if act.mutation is not None:
                self.graph.undo(act.mutation)
            if act.once is not None:
                self._once.pop(act.once, None)
            if act.parks is not None and act.parks.number in self._lot.claims:
                self._lot.leave(act.parks)
                act.parks.session.lots -= 1
        self._seq = self.store.seq

    def _one_by_one(self, acts: list[Act], exc: StorageError, single: bool) -> None:
        """After a failed write: each request again by itself, so that only what cannot be written is refused."""
        failure = Refusal(Code.STORAGE, f"the journal could not be written ({exc}); nothing was changed")
        for act in acts:
            if act.parked is not None and act.session is not None and not act.session.closed:
                # What was handed to somebody who waits is not handed out: he waits on.
                if act.line is not None or act.mutation is not None:
                    self._lot.come_back(act.parked)
                    act.session.lots += 1
                else:
                    self._tell([act])
            elif act.session is None or act.request is None:
                if act.answer is not None and act.session is not None:
                    act.session.deliver(act.answer)
            elif act.line is not None and single:
                refusal = Refusal(Code.STORAGE, f"{_op(act.request)}: {failure.message}")
                act.session.deliver(refused(act.request.rid, refusal))
            else:
                self._ask(act.session, act.request)
                again, self._acts = self._acts, []
                lines = [a.line for a in again if a.line is not None]
                try:
                    if lines:
                        self.store.append(lines)
                except StorageError as error:
                    self._take_back(again)
                    self._one_by_one(again, error, True)
                else:
                    if self.config.fsync:
                        self._unflushed.append((self._seq, again))
                    else:
                        self._tell(again)

    @property
    def commit_due(self) -> bool:
        """fsync mode: whether answers wait for a flush."""
        return bool(self._unflushed)

    def committed(self) -> None:
        """fsync mode: the store was flushed; what is on disk now is answered."""
        flushed = self.store.flushed
        while self._unflushed and self._unflushed[0][0] <= flushed:
            self._tell(self._unflushed.popleft()[1])

    def commit_failed(self, exc: Exception) -> None:
        """fsync mode: the flush failed: everything not on disk is undone, and refused."""
        acts = [act for _, batch in self._unflushed for act in batch]
        self._unflushed.clear()
        try:
            self.store.undo_to(self.store.flushed)
        except StorageError as error:
            log.error("the journal could not be taken back to what is on disk: %s", error)
        self._take_back(acts)
        for act in acts:
            if act.session is None or act.session.closed:
                continue
            if act.parked is not None and act.mutation is not None:
                self._lot.come_back(act.parked)
                act.session.lots += 1
            elif isinstance(act.request, wire.Mutation):
                message = f"{_op(act.request)}: the journal could not be flushed ({exc}); nothing was changed"
                act.session.deliver(refused(act.request.rid, Refusal(Code.STORAGE, message)))
            elif act.request is not None:
                self._ask(act.session, act.request)
            elif act.answer is not None:
                act.session.deliver(act.answer)
        self._commit()

    def _tell(self, acts: list[Act]) -> None:
        """What the acts did is in the journal: answers, events, and whoever waited for it."""
        for act in acts:
            session = act.session
            if act.mutation is not None:
                self._after(act, act.mutation)
            if session is not None and not session.closed:
                if act.answer is not None:
                    session.deliver(act.answer)
                elif act.late is not None:
                    session.deliver(act.late())
        deadlines = self.graph.deadlines
        if deadlines and deadlines[0][0] < self._tick_at:
            self._call()
        if self.store.journal_bytes > self._journal_limit and not self._snapshotting:
            self._journal_limit = sys.maxsize
            self.on_snapshot()
        if self.config.check:
            from claimdagd.core.invariants import check

            check(self.graph)

    def _after(self, act: Act, mutation: Mutation) -> None:
        if act.line is not None:
            line = act.line
            self._ledger.add(line)
            if self._watchers:
                entry = b'{"event":%b}\n' % line[:-1]
                for watcher in tuple(self._watchers):
                    assert watcher.watch_from is not None
                    if self._ledger.last >= watcher.watch_from:
                        watcher.deliver(entry)
        for v, conn, event in act.lost or ():
            holder = self._sessions.get(conn)
            if holder is not None:
                if v.lease is None or v.lease.conn != conn:
                    holder.held.pop(v, None)
                if event is not None:
                    holder.deliver(event)
        if mutation.ended:
            for waiter in self._lot.ended([v.rec.id for v in mutation.ended], self._is_over):
                self._answer_waiter(waiter)
        if self._deadlock_check is None and self.graph.lines.lines:
            self._deadlock_check = self.clock.now() + 1.0
            self._call()

    def _is_over(self, node_id: str) -> bool:
        v = self.graph.vertices.get(node_id)
        return v is None or v.rec.status in TERMINAL

    def _lost(
        self, session: Session | None, r: wire.Request | None, mutation: Mutation
    ) -> list[tuple[Vertex, int, bytes | None]] | None:
        """Bound claims that this ended. Their holders are told, unless it was their own release or complete."""
        found = None
        for v, old, lease, _ in mutation.log:
            if lease is None or v is None or isinstance(lease, int) or lease.conn is None or isinstance(old, str | None):
                continue
            if v.lease is not None and v.rec.gen == old.gen:
                continue
            event = None
            if not (
                isinstance(r, wire.Release | wire.Complete)
                and r.id == old.id
                and ((session is not None and session.conn == lease.conn) or r.actor == old.assignee or r.gen == old.gen)
            ):
                reason = "expired" if r is None else _LOST.get(type(r), _op(r))
                event = b'{"event":%b}\n' % _encode({"op": "lost", "id": old.id, "gen": old.gen, "why": reason})
            found = found or []
            found.append((v, lease.conn, event))
        return found

    def _limit_journal(self) -> None:
        store = self.store
        grown = max(JOURNAL_MIN_BYTES, JOURNAL_PER_SNAPSHOT * store.snapshot_bytes)
        self._journal_limit = store.journal_bytes + grown if self._snapshot_failed else grown

    # ------------------------------------------------------------------------------------------------- what is due

    def starved(self, now: float) -> None:
        """The daemon did not run for a while: nobody is reclaimed before a grace in which to speak."""
        self.lags += 1
        self._not_before = now + max(self.config.grace_s, 1.0)
        self._call()

    def tick(self) -> float | None:
        """Do what is due; returns the monotonic time of the next due work, or None."""
        now = self.clock.now()
        self._warn(now)
        retry = self._reap(now)
        for parked in self._lot.overdue_claims(now):
            self.graph.begin(now, self.clock.wall())
            self._refuse_parked(parked, claims.nothing(self.graph))
        for waiter in self._lot.overdue_waiters(now):
            pending = [i for i in waiter.request.ids if not self._is_over(i)]
            waiter.session.lots -= 1
            refusal = Refusal(Code.TIMEOUT, f"wait: {len(pending)} of {len(waiter.request.ids)} not finished", ids=pending)
            self._acts.append(Act(waiter.session, waiter.request, refused(waiter.request.rid, refusal)))
        if self._deadlock_check is not None and now >= self._deadlock_check:
            self._look_for_deadlocks(now)
        self._commit()
        leases = self._next_due() if retry is None else retry
        times = [t for t in (leases, self._lot.next_due(), self._deadlock_check) if t is not None]
        self._tick_at = min(times, default=math.inf)
        return self._tick_at if times else None

    def _call(self) -> None:
        """Something may be due earlier than the shell means to look."""
        self._tick_at = 0.0
        self.on_wake()

    def _next_due(self) -> float | None:
        deadline = claims.next_deadline(self.graph)
        if deadline is not None and deadline < self._not_before:
            deadline = self._not_before
        if self._warnings and (deadline is None or self._warnings[0][0] < deadline):
            return self._warnings[0][0]
        return deadline

    def _reap(self, now: float) -> float | None:
        """Leases that are over: the daemon itself hands the nodes back. Returns when to try again, if it must."""
        if now < self._not_before:
            return None
        graph = self.graph
        while True:
            wall = self.clock.wall()
            expired = verbs.expire(graph, now, wall)
            if expired is None:
                return None
            _, mutation = expired
            line = self._journal_line("expire", None, mutation, {})
            self._acts.append(Act(None, None, None, mutation, line, lost=self._lost(None, None, mutation)))
            if self._lot.claims:
                self._wake()
            self._commit()
            if claims.overdue(graph, now) is expired[0]:
                return now + RETRY_S

    def _warn(self, now: float) -> None:
        warnings = self._warnings
        while warnings and warnings[0][0] <= now:
            when, num, v = heappop(warnings)
            if self._warned.get(v) != when:
                continue
            lease = v.lease
            session = self._sessions.get(lease.conn) if lease is not None and lease.conn is not None else None
            if lease is None or session is None:
                del self._warned[v]
                continue
            warn = lease.deadline - lease.lease_s / 5
            if warn > now:
                self._warned[v] = warn
                heappush(warnings, (warn, num, v))
                continue
            del self._warned[v]
            event = {"op": "expiring", "id": v.rec.id, "gen": v.rec.gen, "expires_in": max(0.0, lease.deadline - now)}
            session.deliver(b'{"event":%b}\n' % _encode(event))

    def _look_for_deadlocks(self, now: float) -> None:
        """A deadlock between subtrees is told as an event when it is new; looked for at most once a second."""
        graph = self.graph
        self._deadlock_check = None
        graph.begin(now, self.clock.wall())
        graph.lines.pick(None, 0.0, False)
        if not suspicious(graph):
            self._deadlocks.clear()
            return
        found = find_deadlocks(graph)
        keys = {(*d["subtrees"], *d["resources"]) for d in found}
        for d in found:
            if (*d["subtrees"], *d["resources"]) not in self._deadlocks:
                log.warning("%s", d["text"])
                event = b'{"event":%b}\n' % _encode({"op": "deadlock", **d})
                for watcher in tuple(self._watchers):
                    watcher.deliver(event)
        self._deadlocks = keys

    # ---------------------------------------------------------------------------------------------------- snapshots

    def snapshot(self) -> Generator[Any, None, None]:
        """Write a snapshot in slices; the caller gives the loop a turn between them."""
        graph, store = self.graph, self.store
        self._snapshotting = True
        asked, self._checkpoints = self._checkpoints, []
        seq = store.seq
        try:
            head = SnapshotHead(
                graph.tag, seq, self.clock.wall(), graph.next_number, dict(graph.pools.configured)
            )
            size = yield from store.snapshot(
                head, [v.rec for v in graph.vertices.values()], list(self._once.items())
            )
        except StorageError as exc:
            self._snapshot_failed = True
            for session, r in asked:
                session.lots -= 1
                refusal = Refusal(Code.STORAGE, f"checkpoint: no snapshot was written ({exc}); the journal stands")
                self._acts.append(Act(session, r, refused(r.rid, refusal)))
            raise
        else:
            self._snapshot_failed = False
            for session, r in asked:
                session.lots -= 1
                self._answer(session, r, _encode({"seq": seq, "bytes": size}))
        finally:
            self._snapshotting = False
            self._limit_journal()
            self._commit()

    # --------------------------------------------------------------------------------------------------- questions

    def _at_now(self) -> None:
        self.graph.begin(self.clock.now(), self.clock.wall())

    def _hello(self, session: Session, r: wire.Hello) -> None:
        if r.protocol is not None and r.protocol != wire.PROTOCOL:
            older = "the client" if r.protocol < wire.PROTOCOL else "the daemon"
            raise Refusal(
                Code.BAD_REQUEST,
                f"hello: protocol mismatch: claimdagd {__version__} speaks protocol {wire.PROTOCOL}, "
                f"{r.client or 'the client'} speaks {r.protocol}; upgrade {older}, or restart the daemon "
                "from the same installation as the client (claimdag shutdown)",
                protocol=wire.PROTOCOL,
                version=__version__,
            )
        graph = self.graph
        ok = wire.HelloOk(
            version=__version__,
            protocol=wire.PROTOCOL,
            graph=graph.tag,
            pid=self.config.pid,
            limits=wire.Limits(
                max_nodes=graph.max_nodes,
                line_bytes=wire.LINE_MAX_BYTES,
                lease=graph.default_lease_s,
                grace=self.config.grace_s,
                summary_bytes=SUMMARY_MAX_BYTES,
                error_bytes=ERROR_MAX_BYTES,
                once_tokens=ONCE_KEPT,
            ),
        )
        self._answer(session, r, _encode(ok))

    def _ping(self, session: Session, r: wire.Ping) -> None:
        self._answer(session, r, b'{"now":%.6f}' % self.clock.wall())

    def _get(self, session: Session, r: wire.Get) -> None:
        self._at_now()
        self._answer(session, r, encode_view(self.graph, find(self.graph, "get", r.id)))

    def _why(self, session: Session, r: wire.Why) -> None:
        self._at_now()
        self._answer(session, r, _encode(why(self.graph, find(self.graph, "why", r.id))))

    def _list(self, session: Session, r: wire.List) -> None:
        self._at_now()
        self._answer(session, r, _nodes(encode_view(self.graph, v) for v in listed(self.graph, r)))

    def _ready(self, session: Session, r: wire.Ready) -> None:
        self._at_now()
        order = self.graph.lines.in_order(r.role, r.slack, r.strict)
        self._answer(session, r, _nodes(encode_view(self.graph, v, runnable) for v, runnable in order))

    def _resources(self, session: Session, r: wire.Resources) -> None:
        self._at_now()
        self._answer(session, r, _encode({"resources": resources(self.graph)}))

    def _watch(self, session: Session, r: wire.Watch) -> None:
        ledger = self._ledger
        first = ledger.last + 1 if r.from_ is None else max(1, r.from_)
        if first < ledger.first:
            raise Refusal(
                Code.LAGGED,
                f"watch: entry {first} is no longer kept, the oldest is {ledger.first}; "
                f"list the nodes anew and watch from {ledger.last + 1}",
                oldest=ledger.first,
                seq=ledger.last,
            )

        def begin() -> bytes:
            # At the moment of the answer, so that nothing is missed or told twice.
            start = ledger.last + 1 if r.from_ is None else first
            session.watch_from = max(start, ledger.last + 1)
            self._watchers[session] = None
            backlog = b"".join(b'{"event":%b}\n' % line for line in ledger.since(start))
            return encode_ok(r.rid, b'{"seq":%d}' % (start - 1)) + backlog

        self._acts.append(Act(session, r, None, late=begin))

    def _wait(self, session: Session, r: wire.Wait) -> None:
        for node_id in r.ids:
            find(self.graph, "wait", node_id)
        waiter = Waiter(session, r, self.clock.now() + r.timeout if r.timeout is not None else None)
        if all(self._is_over(i) for i in r.ids):
            self._acts.append(Act(session, r, self._waited(waiter)))
            return
        self._lot.wait(waiter)
        session.lots += 1
        self._call()

    def _answer_waiter(self, waiter: Waiter) -> None:
        waiter.session.lots -= 1
        if not waiter.session.closed:
            waiter.session.deliver(self._waited(waiter))

    def _waited(self, waiter: Waiter) -> bytes:
        self._at_now()
        vertices = self.graph.vertices
        views = [encode_view(self.graph, vertices[i]) for i in waiter.request.ids if i in vertices]
        return encode_ok(waiter.request.rid, _nodes(views))

    def _log(self, session: Session, r: wire.Log) -> None:
        def read() -> bytes:
            return encode_ok(r.rid, b'{"entries":[%b]}' % b",".join(self._ledger.entries(r.from_, r.limit, r.id)))

        self._acts.append(Act(session, r, None, late=read))

    def _stats(self, session: Session, r: wire.Stats) -> None:
        graph, store = self.graph, self.store
        self._at_now()
        graph.lines.pick(None, 0.0, False)
        ok = {
            "statuses": {status.value: n for status, n in graph.counts.items()},
            "nodes": len(graph.vertices),
            "live": graph.live,
            "parked": len(self._lot),
            "watchers": len(self._watchers),
            "connections": len(self._sessions),
            "uptime": self.clock.now() - self.started,
            "seq": self._seq,
            "journal_bytes": store.journal_bytes,
            "snapshot_bytes": store.snapshot_bytes,
            "lags": self.lags,
            "deadlocks": find_deadlocks(graph) if suspicious(graph) else [],
            "graph": graph.tag,
            "version": __version__,
            "pid": self.config.pid,
        }
        self._answer(session, r, _encode(ok))

    def _checkpoint(self, session: Session, r: wire.Checkpoint) -> None:
        self._checkpoints.append((session, r))
        session.lots += 1
        self.on_snapshot()

    def _shutdown(self, session: Session, r: wire.Shutdown) -> None:
        self._answer(session, r, b"{}")
        self.on_shutdown()

    def lagged(self, session: Session) -> bytes:
        """The last line for a watcher that reads too slowly, before the shell cuts it off."""
        self.lags += 1
        session.watch_from = None
        self._watchers.pop(session, None)
        refusal = Refusal(
            Code.LAGGED, "watch: too slow: watch again from the last seq that was read", seq=self._ledger.last
        )
        return refused(None, refusal)


_OPS: Final = {cls: op for op, cls in wire.REQUEST_TYPES.items()}
_NOTHING: Final = frozenset({Code.NOTHING_RUNNABLE, Code.NOTHING_PENDING})
_LOST: Final[dict[type[wire.Request], str]] = {
    wire.Cancel: "cancelled",
    wire.Reclaim: "reclaimed",
    wire.Release: "released by another",
    wire.Complete: "completed by another",
}


def _nothing() -> None:
    """Nobody listens."""


def _op(r: wire.Request) -> str:
    return _OPS[type(r)]


def _nodes(views: Iterable[bytes]) -> bytes:
    return b'{"nodes":[%b]}' % b",".join(views)


def _as_claim_next(r: wire.Complete, n: wire.Next) -> wire.ClaimNext:
    actor = n.actor or r.actor
    assert actor is not None
    return wire.ClaimNext(
        actor=actor, role=n.role, slack=n.slack, strict=n.strict, lease=n.lease, bound=n.bound, wait=n.wait
    )


# ------------------------------------------------------------------------------------------------------------- replies


def _with_next(completed: bytes, claim: bytes | None, refusal: Refusal | None = None) -> bytes:
    """A complete's reply whose `next` is known only now."""
    head = completed[: completed.rindex(b',"next":')]
    return b"%b%b}" % (head, next_part(claim, refusal))
