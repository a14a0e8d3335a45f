"""One client's connection: bytes in, whole lines to the service, answers out. A plain synchronous object.

The order of work is: read a chunk, give the service all its lines, send all the answers at once, without waiting. Only
what the kernel would not take is kept and sent when the peer reads again. A connection has at most one turn's worth of
work done before others have theirs, and one whose peer does not read is first not read from, then cut off: no peer is
waited for. Must not know what a request means.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from claimdagd.limits import LINE_MAX_BYTES
from claimdagd.server.loop.framer import Framer, LineTooLongError
from claimdagd.server.loop.interest import BACKLOGS, INTEREST, Backlog, State

if TYPE_CHECKING:
    from claimdagd.server.loop.poller import Poller
    from claimdagd.service import Service

log = logging.getLogger("claimdagd")

#: Read at once; more in the middle of a long line.
READ_BYTES = 16 * 1024
READ_LONG_BYTES = 256 * 1024
#: The most of one client's work before the other clients have their turn.
TURN_LINES = 256
TURN_S = 0.002
#: Answers that a peer may leave unread before its requests are left unread too.
UNREAD_MAX_BYTES = 4 * 1024 * 1024
#: Once all connections together have this much unread, each of them is read from only when it has nothing.
UNREAD_TOTAL_MAX_BYTES = 64 * 1024 * 1024
#: Events that a watcher may leave unread before it is told `lagged`, besides what came at once while it kept up.
WATCHER_MAX_BYTES = 1024 * 1024
#: A peer that has not read a byte for so long, with answers waiting, is cut off.
STALL_S = 10.0
#: How long the rest of an overlong line is read and dropped, so that the peer lives to read why.
DISCARD_S = 5.0

_FOREVER = float("inf")


#: Without a rid, like every answer to a line that could not be read.
TOO_LARGE_LINE = (
    b'{"error":{"code":"too_large","message":"request: over the %d bytes that a line may have; the connection ends"}}\n'
    % LINE_MAX_BYTES
)


class ConnectionHost(Protocol):
    """What connections share: the loop, the service, and who has something to send."""

    service: Service
    poller: Poller
    #: Connections to be flushed at the end of this turn.
    to_flush: list[Connection]
    #: Connections that have a deadline.
    deadlines: set[Connection]
    #: Bytes that all peers together have left unread.
    unread_bytes: int

    def heartbeat(self) -> None:
        """Record that the loop runs."""

    def end_turn(self) -> None:
        """End a turn: flush each connection that has something to send."""

    def await_commit(self, connection: Connection) -> bool:
        """Return whether answers are held back until a flush; if so, flush the connection after it."""

    def forget(self, connection: Connection) -> None:
        """Remove a connection that is closed."""


class Connection:
    """A client and its session. Everything happens in `on_readable`, `on_writable`, `on_turn` and `flush`."""

    __slots__ = (
        "_framer", "_host", "_lag_at", "_lines", "_lingering", "_out", "_reading", "_recv", "_send", "_session",
        "_sock", "_state", "_turn_due", "_unread", "_writing", "closed", "deadline", "fd", "to_flush",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, host: ConnectionHost, peer_pid: int | None = None) -> None:
        self._host = host
        self._sock = sock
        self._recv = sock.recv
        self._send = sock.send
        self.fd = sock.fileno()
        self._framer = Framer(LINE_MAX_BYTES)
        #: Whole lines that the last turn had no time for.
        self._lines: deque[bytes] = deque()
        #: Answers of this turn.
        self._out: list[bytes] = []
        #: Answers that the kernel would not take yet.
        self._unread = bytearray()
        self._lag_at = WATCHER_MAX_BYTES
        self._state = State.OPEN
        self._reading = False
        self._writing = False
        self._turn_due = False
        self._lingering = False
        self.to_flush = False
        self.closed = False
        #: When the connection is cut off unless something happens before, on the real monotonic clock.
        self.deadline = _FOREVER
        self._session = host.service.open(self.deliver, self.hang_up)
        self._session.peer_pid = peer_pid
        self._resume_reading()

    # ------------------------------------------------------------------------------- what the service calls, any time

    def deliver(self, line: bytes) -> None:
        """Queue bytes for the peer; they leave at the end of the turn, together."""
        self._out.append(line)
        if not self.to_flush:
            self.to_flush = True
            self._host.to_flush.append(self)

    def hang_up(self) -> None:
        """Close once the queued bytes are sent; read no more."""
        self._state = State.CLOSING
        self._lines.clear()
        if not self.to_flush:
            self.to_flush = True
            self._host.to_flush.append(self)

    # --------------------------------------------------------------------------------------------- what the loop calls

    def on_readable(self) -> None:
        """Read once, and do a turn's work of what came."""
        try:
            self._host.heartbeat()
            self._read()
        except Exception:
            self._fail()
        self._host.end_turn()

    def on_turn(self) -> None:
        """Handle lines that the last turn left over."""
        self._turn_due = False
        if self.closed:
            return
        try:
            self._host.heartbeat()
            self._work()
        except Exception:
            self._fail()
        self._host.end_turn()

    def on_writable(self) -> None:
        """Send more of what the peer has not read yet."""
        try:
            sent = self._send(self._unread)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
        else:
            del self._unread[:sent]
            self._host.unread_bytes -= sent
            self._put_off_deadline()
            self._update_interest()
        self._host.end_turn()

    def final_read(self) -> None:
        """Read once more what was sent before the daemon leaves."""
        if self._reading:
            self.on_readable()

    @property
    def busy(self) -> bool:
        """Whether lines that were read are still to be handled."""
        return bool(self._lines)

    def on_hangup(self) -> None:
        """Close: the peer, half-closed before, has closed the other direction too."""
        self.close()
        self._host.end_turn()

    def on_deadline(self) -> None:
        """Cut the peer off."""
        if self._unread:
            log.info("cut off a client that left %d bytes unread", len(self._unread))
        self.close()
        self._host.end_turn()

    # -------------------------------------------------------------------------------------------------------- sending

    def flush(self) -> None:
        """Send the answers of this turn, as many as the kernel takes without waiting."""
        self.to_flush = False
        out = self._out
        if out and not self.closed:
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            if self._unread:
                self._buffer_output(data)
            else:
                try:
                    sent = self._send(data)
                except (BlockingIOError, InterruptedError):
                    sent = 0
                except OSError:
                    self.close(undelivered=True)
                    return
                if sent < len(data):
                    self._put_off_deadline()
                    self._buffer_output(data[sent:] if sent else data)
        if self._unread or self._lines or not self._reading or self._state is not State.OPEN:
            self._update_interest()

    def close(self, undelivered: bool = False) -> None:
        """Close now, once. `undelivered`: the peer is known not to have read the last answers."""
        if self.closed:
            return
        self.closed = True
        undelivered = undelivered or bool(self._unread)
        host = self._host
        host.poller.forget(self.fd)
        self._lines.clear()
        self._out.clear()
        host.unread_bytes -= len(self._unread)
        self._unread.clear()
        host.deadlines.discard(self)
        host.forget(self)
        self._sock.close()
        host.service.closed(self._session, undelivered)

    def _buffer_output(self, data: bytes) -> None:
        if not self._unread:
            # Do not count a requested replay or a single large event against the watcher's limit.
            self._lag_at = WATCHER_MAX_BYTES + len(data)
        elif self._session.watching and len(self._unread) > self._lag_at and self._state is not State.CLOSING:
            # Only whole lines are ever queued, so this one starts a line of its own.
            data = self._host.service.lagged(self._session)
            self._state = State.CLOSING
            self._lines.clear()
            self._put_off_deadline()
        self._unread += data
        self._host.unread_bytes += len(data)

    def _put_off_deadline(self) -> None:
        # A watcher has a limit of bytes instead, since it may be stopped in a debugger and read nothing.
        patient = self._session.watching and self._state is not State.CLOSING
        self.deadline = _FOREVER if patient else time.monotonic() + STALL_S
        self._host.deadlines.add(self)

    # -------------------------------------------------------------------------------------------------------- reading

    def _read(self) -> None:
        try:
            data = self._recv(READ_BYTES if self._framer.held < READ_BYTES else READ_LONG_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            # The kernel says so (ECONNRESET) when a peer ends with answers in its queue that it never read.
            self.close(undelivered=True)
            return
        if not data:
            self._end_of_input()
        elif self._state is State.DISCARDING:
            pass
        else:
            try:
                lines = self._framer.feed(data)
            except LineTooLongError as exc:
                lines = exc.whole
                self._state = State.OVERLONG
            if len(lines) == 1 and self._state is State.OPEN:
                self._host.service.receive(self._session, lines)
            elif lines or self._state is State.OVERLONG:
                self._lines.extend(lines)
                self._work()

    def _work(self) -> None:
        if self._lines:
            self._host.service.receive(self._session, self._turn())
        if self._state is State.OVERLONG and not self._lines:
            self._state = State.DISCARDING
            self.deliver(TOO_LARGE_LINE)
        if self._lines and not self.to_flush:
            self._update_interest()

    def _turn(self) -> Iterator[bytes]:
        """Yield the lines of one turn, until there are TURN_LINES or TURN_S is over."""
        lines = self._lines
        over_at = time.monotonic() + TURN_S
        for _ in range(TURN_LINES):
            if not lines:
                return
            yield lines.popleft()
            if time.monotonic() > over_at:
                return

    def _end_of_input(self) -> None:
        self._stop_reading()
        if _is_gone(self.fd):
            self.close()
            return
        if self._state is State.DISCARDING:
            self._state = State.CLOSING
            self._update_interest()
            return
        if self._state is State.OPEN:
            self._state = State.HALF_CLOSED
        # Only the sending side was closed, as by socat or a shell's here-document: the peer waits for answers.
        if rest := self._framer.rest():
            self._host.service.receive(self._session, [rest])
        if not self.closed:
            self._update_interest()

    # ------------------------------------------------------------------------------------------- what to wait for next

    def _update_interest(self) -> None:
        """Wait for exactly what state and backlog call for; close the connection if that is nothing."""
        if self.closed or self.to_flush:
            return  # the flush at the end of this turn calls this again
        host = self._host
        interest = INTEREST[self._state][self._backlog()]
        self._listen_for_room(interest.write)
        if interest.finish:
            if not host.await_commit(self):
                self.close()
            return
        if interest.goodbye and self.deadline == _FOREVER:
            self._say_goodbye()
        if interest.turn and not self._turn_due:
            self._turn_due = True
            host.poller.call_soon(self.on_turn)
        if not interest.read:
            self._stop_reading()
        elif not self._reading:
            self._resume_reading()
        if interest.hangup and not self._lingering:
            self._lingering = True
            host.poller.add_hangup(self.fd, self.on_hangup)

    def _backlog(self) -> Backlog:
        unread = len(self._unread)
        lines = bool(self._lines)
        if unread or lines:
            most = UNREAD_MAX_BYTES if self._host.unread_bytes < UNREAD_TOTAL_MAX_BYTES else 0
            return BACKLOGS[lines, 2 if unread > most else 1 if unread else 0]
        session = self._session
        return Backlog.REPLIES_TO_COME if session.awaits_replies or session.watching else Backlog.NOTHING

    def _listen_for_room(self, wanted: bool) -> None:
        if wanted:
            if not self._writing:
                self._writing = True
                self._host.poller.add_writer(self.fd, self.on_writable)
            return
        if self._writing:
            self._writing = False
            self._host.poller.remove_writer(self.fd)
        if self._state is not State.DISCARDING and self.deadline != _FOREVER:
            self.deadline = _FOREVER
            self._host.deadlines.discard(self)

    def _say_goodbye(self) -> None:
        """Shut down the sending side, since the answer to an overlong line was the last, and set a deadline."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self.deadline = time.monotonic() + DISCARD_S
        self._host.deadlines.add(self)

    def _resume_reading(self) -> None:
        self._reading = True
        self._host.poller.add_reader(self.fd, self.on_readable)

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._host.poller.remove_reader(self.fd)

    def _fail(self) -> None:
        """Log a bug of this daemon, and close the connection that met it."""
        log.exception("a connection ends by an error in claimdagd itself")
        try:
            self.close()
        except Exception:
            log.exception("and so did the closing of it")


def _is_gone(fd: int) -> bool:
    """Return whether the peer has closed both directions, which the end of its stream alone does not show."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))
