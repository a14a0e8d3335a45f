"""The running daemon around one service: accepts, gives every connection its turn, keeps time, and leaves in order.

Everything runs in one thread on one loop; the only exception is the flush of a journal on a disk. The loop is also
where the daemon notices that it was stopped, that it is watched by systemd, and that its place on the file system was
taken from it. Must hold no rule of the graph.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import anyio.to_thread

from claimdagd.server.host.listener import Listener
from claimdagd.server.host.processes import PidfdWatch
from claimdagd.server.host.systemd import Notifier
from claimdagd.server.loop.acceptor import Acceptor
from claimdagd.server.loop.connection import Connection
from claimdagd.server.loop.poller import Poller

if TYPE_CHECKING:
    from claimdagd.service import Clock, Service

log = logging.getLogger("claimdagd")

HEARTBEAT_S = 0.5
TICK_GAP_S = 0.01
#: After a snapshot could not be written, before the next is tried.
SNAPSHOT_RETRY_S = 5.0
#: After a longer gap of the loop than this no holder could be heard, so nothing is reclaimed for a grace.
GAP_S = 1.0
#: Requests that were already sent are still read for so long when the daemon leaves, and answers sent until the end.
LAST_REQUESTS_S = 0.2
LEAVE_WITHIN_S = 0.8

#: Exit status of a daemon that lost its directory, lock or socket (EX_IOERR).
EXIT_OWNERSHIP_LOST = 74


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a caller may set. Every time is in seconds."""

    #: Leave after so long without work and without a connection; None: never.
    idle_exit_s: float | None = None
    max_connections: int = 4096


class Server:
    """Serves one service at one listener until told to leave. Made for one `run`."""

    service: Service
    poller: Poller
    _acceptor: Acceptor

    def __init__(
        self,
        service: Service,
        listener: Listener,
        clock: Clock,
        *,
        options: Options = Options(),
        notifier: Notifier | None = None,
        sync: Callable[[], None] | None = None,
        ownership_lost: Callable[[], str | None] = lambda: None,
        status: Callable[[], str] = lambda: "",
        housekeep: Callable[[], None] = lambda: None,
        processes: PidfdWatch | None = None,
    ) -> None:
        """`sync` flushes the journal, blocking; `ownership_lost` says what is no longer this daemon's own.

        `status` is a line for a supervisor, `housekeep` is called with every heartbeat. `processes` is
        the watch that the service has: the server lets it report.
        """
        self.service = service
        self.connections: set[Connection] = set()
        self.to_flush: list[Connection] = []
        self.deadlines: set[Connection] = set()
        self.unread_bytes = 0
        self._listener = listener
        self._clock = clock
        self._options = options
        self._notifier = notifier or Notifier()
        self._sync = sync
        self._ownership_lost = ownership_lost
        self._status = status
        self._housekeep = housekeep
        self._processes = processes
        self._uid = os.geteuid()
        self._last_beat = time.monotonic()
        self._idle_since: float | None = None
        self._due: float | None = None
        self._woken = False
        self._flushing = False
        self._after_commit: set[Connection] = set()
        self._exit_status = 0
        self._reason = ""

    async def run(self, backend: str) -> int:
        """Serve until a signal, a shutdown request, idleness or loss of the place; returns the exit status.

        Must be called under `anyio.run` with that `backend`, since it decides how readiness is waited for.
        """
        self._leave = anyio.Event()
        self._deserted = anyio.Event()
        self._alarm = anyio.Event()
        self._snapshot_wanted = anyio.Event()
        self._commit_wanted = anyio.Event()
        async with anyio.create_task_group() as tasks:
            self.poller = Poller()
            self._acceptor = Acceptor(
                self._listener.sock, self.poller, has_room=self._has_room, on_connect=self._on_connect
            )
            self.service.on_wake = self._on_wake
            self.service.on_shutdown = lambda: self.stop("a client asked for it")
            self.service.on_snapshot = lambda: self._wake(self._snapshot_wanted)
            if self._processes is not None:
                self._processes.on_ended = self.service.process_ended
                self._processes.has_room = self._has_room
                self._processes.start(self.poller)
            self._last_beat = time.monotonic()
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
                for work in (self._reap, self._beat, self._snapshots, self._commits):
                    tasks.start_soon(work)
                tasks.start_soon(self.poller.run, backend)
                tasks.start_soon(self._handle_signals, signals)
                self._acceptor.resume()
                self._notifier.ready(self._status())
                await self._leave.wait()
                await self._shut_down()
                tasks.cancel_scope.cancel()
        return self._exit_status

    def stop(self, reason: str, exit_status: int = 0) -> None:
        """Begin to leave. The first reason counts."""
        if not self._reason:
            self._reason = reason
            self._exit_status = exit_status
            self._wake(self._leave)

    def _wake(self, event: anyio.Event) -> None:
        """Wake the task that waits for `event`, before more is served."""
        event.set()
        self.poller.yield_loop()

    @property
    def accepting(self) -> bool:
        """Whether new connections are accepted at this moment."""
        return hasattr(self, "_acceptor") and self._acceptor.accepting

    # ------------------------------------------------------------------------------------- what connections call

    def heartbeat(self) -> None:
        """Record that the loop runs. After a gap, notify the service before anything else happens."""
        now = time.monotonic()
        gap = now - self._last_beat
        self._last_beat = now
        if gap > GAP_S:
            log.warning("the daemon did not run for %.1f s: no claim is ended before its holder could speak", gap)
            self.service.on_clock_gap(self._clock.now())

    def end_turn(self) -> None:
        """Flush each connection that has something to send, and have the journal flushed if answers wait for it."""
        to_flush = self.to_flush
        while to_flush:
            connection = to_flush.pop()
            try:
                connection.flush()
            except Exception:
                log.exception("a connection could not be flushed, by an error in claimdagd itself")
                connection.to_flush = False
                connection.close()
        if self._sync is not None and self.service.commit_due:
            self._wake(self._commit_wanted)

    def await_commit(self, connection: Connection) -> bool:
        """Return whether a flush may still release answers; if so, the connection is flushed after it."""
        if self._sync is None or not (self._flushing or self.service.commit_due):
            return False
        self._after_commit.add(connection)
        return True

    def forget(self, connection: Connection) -> None:
        """Remove a connection that is closed, and accept again if that makes room."""
        self.connections.discard(connection)
        if not self.connections:
            self._wake(self._deserted)
        self._after_commit.discard(connection)
        if not self._acceptor.accepting and not self._reason:
            self.poller.call_soon(self._acceptor.resume)

    # ------------------------------------------------------------------------------------------------------ accepting

    def _has_room(self) -> bool:
        watched = 0 if self._processes is None else len(self._processes)
        return len(self.connections) + watched < self._options.max_connections

    def _on_connect(self, sock: socket.socket) -> None:
        try:
            pid, uid = _peer(sock)
            if uid != self._uid:
                log.warning("refused a connection of user %d", uid)
                sock.close()
                return
            sock.setblocking(False)
            self.connections.add(Connection(sock, self, peer_pid=pid))
        except Exception:
            log.exception("a connection could not be taken on")
            sock.close()

    # ----------------------------------------------------------------------------------------------------------- time

    def _on_wake(self) -> None:
        # Called in the middle of the service's work, and often: the reaper does the work after it.
        if not self._woken:
            self._woken = True
            self._wake(self._alarm)

    def _tick(self) -> None:
        self.heartbeat()
        try:
            self._due = self.service.tick()
        except Exception:
            log.exception("what was due could not be done, by an error in claimdagd itself")
            self._due = self._clock.now() + 1.0
        self.end_turn()

    async def _reap(self) -> None:
        """Sleep to the next deadline of any claim or waiting request, and have the service do what is due.

        A busy service moves its next deadline with every request; looking at it more often than every TICK_GAP_S would
        cost as much as the requests do.
        """
        while True:
            self._tick()
            ticked = time.monotonic()
            self._alarm = anyio.Event()
            self._woken = False
            with anyio.move_on_after(None if self._due is None else max(0.0, self._due - self._clock.now())):
                await self._alarm.wait()
            gap = ticked + TICK_GAP_S - time.monotonic()
            if gap > 0:
                await anyio.sleep(gap)

    async def _beat(self) -> None:
        """Check for gaps, stalls, idleness and loss of the place; feed systemd's watchdog from the loop that works."""
        period = HEARTBEAT_S
        if self._notifier.watchdog_s:
            period = min(period, self._notifier.watchdog_s / 3)
        while True:
            self.heartbeat()
            self._notifier.alive()
            self._notifier.status(self._status())
            now = time.monotonic()
            for connection in [each for each in self.deadlines if each.deadline < now]:
                connection.on_deadline()
            if lost := self._ownership_lost():
                log.error("%s is no longer this daemon's own: it leaves", lost)
                self.stop(f"{lost} is no longer its own", EXIT_OWNERSHIP_LOST)
            self._acceptor.resume()  # descriptors that ran out may have come back elsewhere
            self._leave_if_idle(now)
            if self._processes is not None:
                self._processes.retry()
            self._housekeep()
            if self._due is not None and self._clock.now() >= self._due:
                self._on_wake()  # only a clock that jumped can be here before the reaper
            await anyio.sleep(period)

    def _leave_if_idle(self, now: float) -> None:
        if self._options.idle_exit_s is None or self.connections or not self.service.idle:
            self._idle_since = None
            return
        if self._idle_since is None:
            self._idle_since = now
        if now - self._idle_since < self._options.idle_exit_s:
            return
        # A client that connects from now on must find no socket and start a daemon, not meet this one as it leaves.
        self._acceptor.accept()
        if not self.connections:
            self._acceptor.stop()
            self._listener.close()
            self.stop("it is idle and empty")

    # ---------------------------------------------------------------------------------------------------------- state

    async def _snapshots(self) -> None:
        while True:
            await self._snapshot_wanted.wait()
            self._snapshot_wanted = anyio.Event()
            try:
                for blocking in self.service.snapshot():
                    self.end_turn()
                    if blocking is None:
                        await anyio.lowlevel.checkpoint()
                    else:
                        await anyio.to_thread.run_sync(blocking)
            except Exception as exc:
                log.error("no snapshot was written: %s", exc)
                self.end_turn()
                await anyio.sleep(SNAPSHOT_RETRY_S)
            self.end_turn()

    async def _commits(self) -> None:
        """Flush the journal in a thread, one flush for all that was written while the last one ran."""
        while True:
            await self._commit_wanted.wait()
            self._commit_wanted = anyio.Event()
            while self._sync is not None and self.service.commit_due:
                self._flushing = True
                try:
                    await anyio.to_thread.run_sync(self._sync)
                except Exception as exc:
                    log.error("the journal could not be flushed: %s", exc)
                    self.service.commit_failed(exc)
                else:
                    self.service.committed()
                finally:
                    self._flushing = False
                self._flush_after_commit()

    def _flush_after_commit(self) -> None:
        waiting, self._after_commit = self._after_commit, set()
        self.end_turn()
        for connection in waiting:
            connection.flush()

    # -------------------------------------------------------------------------------------------------------- leaving

    async def _handle_signals(self, signals: AsyncIterator[signal.Signals]) -> None:
        async for number in signals:
            self.stop(f"{number.name} came")

    async def _shut_down(self) -> None:
        """Answer what was asked, close every connection, and end within a second."""
        log.info("leaving: %s", self._reason)
        self._notifier.stopping(f"leaving: {self._reason}")
        started = time.monotonic()
        if self._acceptor.accepting:
            self._acceptor.accept()
        self._acceptor.stop()
        self._listener.close()
        for connection in list(self.connections):
            connection.final_read()
        while time.monotonic() < started + LAST_REQUESTS_S and any(each.busy for each in self.connections):
            await anyio.lowlevel.checkpoint()
        self.service.drain()
        self.end_turn()
        self._deserted = anyio.Event()
        for connection in list(self.connections):
            connection.hang_up()
        self.end_turn()
        if self.connections:
            with anyio.move_on_after(max(0.0, started + LEAVE_WITHIN_S - time.monotonic())):
                await self._deserted.wait()
        for connection in list(self.connections):
            connection.close()


def _peer(sock: socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid
