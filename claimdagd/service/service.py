"""The daemon without its sockets: it takes requests, answers them, and does what is due.

Synchronous, no I/O of its own but through the store that it is given, no clock but the one it is given. The shell hands
it lines and sends what it delivers; a simulator may do the same. Here the parts are put together and each op finds its
handler. A request that may change the graph goes on in `dispatch`, its journal line and its rollback are in `batch`,
its answer leaves by `delivery`; who waits for what is in `waiting`, what is due in `timers`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Generator, Iterable
from typing import Any

import msgspec

from claimdagd import wire
from claimdagd.core.graph import Graph
from claimdagd.core.lookup import scope_root
from claimdagd.core.mutation import Mutation
from claimdagd.core.queries.views import in_scope
from claimdagd.core.refusal import Refusal
from claimdagd.model import TERMINAL, Process
from claimdagd.service.alarm import Alarm
from claimdagd.service.batch import Answered, Batch
from claimdagd.service.changes import Changes
from claimdagd.service.delivery import Delivery
from claimdagd.service.dispatch import Dispatch
from claimdagd.service.idempotency import OnceTokens
from claimdagd.service.info import Counters, ServiceInfo
from claimdagd.service.leases import Leases
from claimdagd.service.ledger import Ledger
from claimdagd.service.line_errors import refusal_of_line
from claimdagd.service.processes import NoProcesses, Processes, ProcessWatch
from claimdagd.service.queries import QUERIES
from claimdagd.service.replies import REPLIES, encode_ok, op_of, refused
from claimdagd.service.sessions import Clock, Config, Session, Storage
from claimdagd.service.snapshots import Snapshots
from claimdagd.service.timers import Timers
from claimdagd.service.wait_list import WaitList
from claimdagd.service.waiting import Waiting
from claimdagd.service.watchers import Watchers
from claimdagd.wire import Code

log = logging.getLogger("claimdagd")

_decode = msgspec.json.Decoder(wire.AnyRequest).decode


class Service:
    """One graph, its store, and all who are connected.

    `once` and `ledger` are what the store recovered. The shell sets `on_wake` (something is due earlier than `tick`
    last said), `on_shutdown` and `on_snapshot` (drive `snapshot`, please), and calls `process_ended`. Without
    `processes` no claim may name a process.
    """

    def __init__(
        self,
        graph: Graph,
        store: Storage,
        clock: Clock,
        config: Config,
        *,
        once: dict[str, bytes] | None = None,
        ledger: Iterable[bytes] = (),
        processes: ProcessWatch | None = None,
    ) -> None:
        self.on_shutdown: Callable[[], None] = _nothing
        self.on_snapshot: Callable[[], None] = _nothing
        now = clock.now()
        graph.begin(now, clock.wall())
        self._graph = graph
        self._store = store
        self._clock = clock
        self._lags = 0
        self._sessions: dict[int, Session] = {}
        self._conns = 0
        self._alarm = Alarm()
        self._once = OnceTokens(once)
        self._ledger = Ledger(store.seq, ledger)
        self._watchers = Watchers(self._ledger, functools.partial(in_scope, graph))
        self._wait_list = WaitList()
        self._leases = Leases(graph, self._sessions, config.grace_s, now)
        self._processes = Processes(NoProcesses() if processes is None else processes, self._leases)
        self._processes.resume(list(graph.by_assignee.values()), now)
        self._batch = batch = Batch(graph, store, self._wait_list, self._once, fsync=config.fsync)
        changes = Changes(graph, clock, self._once, self._leases, batch, self._alarm, self._processes)
        self._waiting = Waiting(graph, clock, self._once, self._wait_list, batch, changes, self._alarm)
        self._snapshots = Snapshots(graph, store, self._once, clock, self._answer_late)
        self._timers = Timers(
            graph, store, clock, self._alarm,
            batch=batch, leases=self._leases, wait_list=self._wait_list, waiting=self._waiting,
            watchers=self._watchers, snapshots=self._snapshots, on_snapshot=lambda: self.on_snapshot(),
        )  # fmt: skip
        delivery = Delivery(
            graph, config,
            once=self._once, ledger=self._ledger, watchers=self._watchers, leases=self._leases,
            wait_list=self._wait_list, waiting=self._waiting, timers=self._timers,
        )  # fmt: skip
        self._dispatch = Dispatch(self._once, batch, changes, self._waiting, self._wait_list)
        batch.connect(deliver=delivery.deliver, handle=self._handle, on_rollback=self._on_rollback)
        self._info = ServiceInfo(graph, config, store, now, self._counters)
        self._handlers = self._handlers_of_ops()

    def _handlers_of_ops(self) -> dict[type[wire.Request], Callable[[Session, Any], None]]:
        return {
            **dict.fromkeys(REPLIES, self._dispatch.run),
            **dict.fromkeys(QUERIES, self._query),
            wire.Watch: self._watch,
            wire.Wait: self._wait,
            wire.Log: self._log,
            wire.Checkpoint: self._checkpoint,
            wire.Shutdown: self._shutdown,
        }

    # ---------------------------------------------------------------------------------------------------- sessions

    def open(self, deliver: Callable[[bytes], None], hang_up: Callable[[], None]) -> Session:
        """Begin a connection. `deliver` queues bytes for its peer; `hang_up` closes it after what is queued."""
        self._conns += 1
        session = self._sessions[self._conns] = Session(self._conns, deliver, hang_up)
        return session

    def closed(self, session: Session, undelivered: bool = False) -> None:
        """End a connection: its bound claims go into their grace, its requests that wait are forgotten.

        Args:
            undelivered: the last answers did not reach the peer. Bound claims that were announced only in them are
                released at once.
        """
        if session.closed:
            return
        session.closed = True
        del self._sessions[session.conn]
        self._watchers.drop(session)
        self._wait_list.forget(session)
        self._snapshots.forget(session)
        if session.held:
            self._leases.unbind(session, self._clock.now(), undelivered)
            self._alarm.schedule()

    def process_ended(self, process: Process) -> None:
        """Start the grace of the claims for which this process stood."""
        if self._processes.ended(process, self._clock.now()):
            self._alarm.schedule()

    def lagged(self, session: Session) -> bytes:
        """Return the last line for a watcher that reads too slowly, before the shell cuts it off."""
        self._lags += 1
        self._watchers.drop(session)
        message = "watch: too slow: watch again from the last seq that was read"
        return refused(None, Refusal(Code.LAGGED, message, seq=self._ledger.last))

    @property
    def idle(self) -> bool:
        """Whether there is no connection, no claim and nothing unfinished."""
        return not self._sessions and not any(n for s, n in self._graph.counts.items() if s not in TERMINAL)

    @property
    def draining(self) -> bool:
        """Whether the daemon leaves."""
        return self._dispatch.draining

    def drain(self) -> None:
        """Begin to leave: refuse all that waits, hang up on the watchers, and refuse mutations from now on."""
        self._dispatch.draining = True
        refusal = Refusal(Code.SHUTTING_DOWN, "shutting down: ask again when the daemon is back")
        left = self._waiting.dismiss(refusal)
        left += self._snapshots.dismiss()
        self._answer_late([(session, refused(request.rid, refusal)) for session, request in left])
        self._watchers.hang_up()

    def _on_rollback(self, mutations: list[Mutation]) -> None:
        self._timers.on_rollback(mutations)
        self._processes.on_rollback(mutations, self._clock.now())

    def _counters(self) -> Counters:
        return Counters(len(self._wait_list), len(self._watchers), len(self._sessions), self._batch.seq, self._lags)

    # ---------------------------------------------------------------------------------------------------- requests

    def receive(self, session: Session, lines: Iterable[bytes]) -> None:
        """Handle whole lines from a connection, in order; answers are delivered when what they tell is journaled."""
        if session.unacknowledged:
            session.unacknowledged.clear()
        for line in lines:
            if session.backlog is not None:
                session.backlog.append(line)
                continue
            try:
                r = _decode(line)
            except (msgspec.MsgspecError, RecursionError, ValueError) as exc:
                self._batch.items.append(Answered(session, None, refused(*refusal_of_line(line, exc))))
            else:
                self._handle(session, r)
        self._batch.commit()

    def _handle(self, session: Session, r: wire.Request) -> None:
        try:
            self._handlers[type(r)](session, r)
        except Refusal as refusal:
            self._batch.items.append(Answered(session, r, refused(r.rid, refusal)))
        except Exception:
            log.exception("internal error in %s", op_of(r))
            bug = Refusal(Code.INTERNAL, f"{op_of(r)}: internal error; the daemon's log has it, nothing was changed")
            self._batch.items.append(Answered(session, r, refused(r.rid, bug)))

    def _query(self, session: Session, r: wire.Request) -> None:
        self._graph.begin(self._clock.now(), self._clock.wall())
        self._batch.items.append(Answered(session, r, encode_ok(r.rid, QUERIES[type(r)](self._info, r))))

    def _watch(self, session: Session, r: wire.Watch) -> None:
        scope_root(self._graph, "watch", r.under)
        self._watchers.check(r)
        # At the moment of the answer, so that nothing is missed or told twice.
        self._batch.items.append(Answered(session, r, lambda: self._watchers.begin(session, r)))

    def _wait(self, session: Session, r: wire.Wait) -> None:
        r = self._waiting.with_scope(r)
        if not self._waiting.wait(session, r):
            self._dispatch.refuse_if_draining(r)
            self._waiting.put_wait(session, r)

    def _log(self, session: Session, r: wire.Log) -> None:
        def read() -> bytes:
            return encode_ok(r.rid, b'{"entries":[%b]}' % b",".join(self._ledger.entries(r.from_, r.limit, r.id)))

        self._batch.items.append(Answered(session, r, read))

    def _checkpoint(self, session: Session, r: wire.Checkpoint) -> None:
        self._dispatch.refuse_if_draining(r)
        # It takes a while, and answers come in the order of the requests.
        session.backlog = []
        self._snapshots.ask(session, r)
        session.pending_replies += 1
        self.on_snapshot()

    def _shutdown(self, session: Session, r: wire.Shutdown) -> None:
        self._batch.items.append(Answered(session, r, encode_ok(r.rid, b"{}")))
        self.on_shutdown()

    def _answer_late(self, answers: list[tuple[Session, bytes]]) -> None:
        """Answer what could not be answered at once, and handle what the same connections asked after that."""
        for session, answer in answers:
            session.pending_replies -= 1
            self._batch.items.append(Answered(session, None, answer))
        self._batch.commit()
        for session, _ in answers:
            self._resume(session)

    def _resume(self, session: Session) -> None:
        """Handle what `session` asked after its checkpoint, which is answered."""
        backlog, session.backlog = session.backlog, None
        if backlog and not session.closed:
            self.receive(session, backlog)

    # ------------------------------------------------------------------------------------- time and the state on disk

    @property
    def on_wake(self) -> Callable[[], None]:
        """Called when something may be due earlier than `tick` last said."""
        return self._alarm.on_wake

    @on_wake.setter
    def on_wake(self, callback: Callable[[], None]) -> None:
        self._alarm.on_wake = callback

    def tick(self) -> float | None:
        """Do what is due; return the monotonic time of the next due work, or None."""
        return self._timers.tick()

    def on_clock_gap(self, now: float) -> None:
        """Reclaim nothing before a grace in which to speak, since the daemon did not run for a while."""
        self._lags += 1
        self._leases.on_clock_gap(now)
        self._alarm.schedule()

    def snapshot(self) -> Generator[Any, None, None]:
        """Write a snapshot in slices; the caller gives the loop a turn between them. Raises StorageError."""
        return self._snapshots.write()

    def check_store(self) -> None:
        """See that the files of the state are there as they were written. Raises StorageError."""
        if self._batch.seq == self._store.seq:
            self._store.check()

    @property
    def commit_due(self) -> bool:
        """fsync mode: whether answers wait for a flush of the store."""
        return bool(self._batch.unflushed)

    def committed(self) -> None:
        """fsync mode: deliver what was flushed."""
        self._batch.committed()

    def commit_failed(self, exc: Exception) -> None:
        """fsync mode: undo and refuse what could not be flushed."""
        self._batch.commit_failed(exc)


def _nothing() -> None:
    """Do nothing: no shell has set a callback yet."""
