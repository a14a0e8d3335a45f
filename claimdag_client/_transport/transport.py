"""One blocking connection to claimdagd: connect, say hello, ask, read.

The command line and the blocking client use this module, so it must stay cheap to import: no `socket`, no
`subprocess`, nothing of the daemon. It prints nothing and knows no command.
"""

from __future__ import annotations

import _socket
import errno
import os
import sys
import time

from claimdag_client._protocol.handshake import HELLO_MAX_BYTES, DaemonLeaving, Handshake
from claimdag_client._protocol.messages import decode, encode
from claimdag_client._transport.patience import ANSWER_SLACK_S, SILENCE_LIMIT_S, Patience
from claimdag_client.errors import Mismatch, Refused, Unreachable, Unresponsive
from claimdagd.limits import ANSWER_MAX_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any, Self

    from claimdag_client._transport.endpoint import Endpoint

#: A daemon that is being started gets at least this long, also beyond the time limit of the caller.
START_S = 10.0
_POLL_S = 0.01


class Connection:
    """A connected socket that speaks JSON lines. Not for use by two threads at once.

    `hello` is the daemon's answer to hello, and holds the graph's tag.
    """

    def __init__(self, sock: _socket.socket, path: str, endpoint: Endpoint | None = None) -> None:
        self._sock = sock
        self._buffer = bytearray()
        self._endpoint = endpoint
        self.path = path
        self.hello: dict[str, Any] = {}

    @property
    def graph(self) -> str:
        """The tag that every id of this graph begins with."""
        return str(self.hello.get("graph", ""))

    @property
    def graph_told(self) -> str:
        """The graph for a person to read: its name, if it has one, and its tag."""
        name = self.hello.get("name")
        return f"{name} ({self.graph})" if name else self.graph

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._sock.fileno()

    def settimeout(self, seconds: float | None) -> None:
        """Bound every later send and receive that has no `patience`; they raise TimeoutError then. None: unbounded."""
        self._sock.settimeout(seconds)

    def patience(self, wait_s: float | None = None) -> Patience:
        """Return a wait for this daemon.

        Args:
            wait_s: The time limit that the caller gave; the daemon may well be silent until then. None: it should
                answer at once, so the user is told after a while, and the wait ends after SILENCE_LIMIT_S.
        """
        if wait_s is not None:
            return Patience(max(0.0, wait_s) + ANSWER_SLACK_S)
        say = self._endpoint.on_silence if self._endpoint is not None else None
        remark = None if say is None else lambda: say(f"waiting for {self._who()}, which does not answer")
        return Patience(SILENCE_LIMIT_S, remark)

    def send(self, request: Mapping[str, Any], patience: Patience | None = None) -> None:
        """Send one request. Raises Malformed if it is over the limit, Unreachable if the connection is broken."""
        self.send_line(encode(request), patience)

    def send_line(self, line: bytes, patience: Patience | None = None) -> None:
        """Send a line that `encode` made, newline and all."""
        try:
            if patience is None:
                self._sock.sendall(line)
            else:
                self._send_patiently(memoryview(line), patience)
        except TimeoutError:
            raise
        except OSError as exc:
            # The daemon may have answered (too_large, shutting_down) before it hung up: let that be read.
            if exc.errno not in (errno.EPIPE, errno.ECONNRESET):
                raise Unreachable(f"the connection to {self.path} broke: {exc.strerror}") from None

    def _send_patiently(self, rest: memoryview, patience: Patience) -> None:
        before = self._sock.gettimeout()
        while rest:
            self._sock.settimeout(self._left(patience))
            try:
                rest = rest[self._sock.send(rest) :]
            except TimeoutError:
                continue
        self._sock.settimeout(before)

    def receive_line(self, patience: Patience | None = None, limit_bytes: int = ANSWER_MAX_BYTES) -> bytes:
        """Return the next line, without its newline. Raises Unreachable at the end of the stream.

        Args:
            patience: How long to wait, and then raise Unresponsive. None: as `settimeout` says, and then TimeoutError.
            limit_bytes: How long the line may be; Mismatch is raised for a longer one.
        """
        start = 0
        while (end := self._buffer.find(b"\n", start)) < 0:
            start = len(self._buffer)
            if start > limit_bytes:
                raise Mismatch(f"what listens at {self.path} does not speak claimdagd's protocol: a line without end")
            try:
                chunk = self._sock.recv(262144) if patience is None else self._receive_patiently(patience)
            except TimeoutError:
                raise
            except OSError as exc:
                raise Unreachable(f"the connection to {self.path} broke: {exc.strerror}") from None
            if not chunk:
                raise Unreachable(
                    f"the daemon at {self.path} hung up before it answered",
                    remedy="ask again; daemon.log in its directory may say why",
                )
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _receive_patiently(self, patience: Patience) -> bytes:
        before = self._sock.gettimeout()
        while True:
            self._sock.settimeout(self._left(patience))
            try:
                chunk = self._sock.recv(262144)
            except TimeoutError:
                continue
            self._sock.settimeout(before)
            return chunk

    def receive(self, patience: Patience | None = None) -> dict[str, Any]:
        """Return the next object from the daemon: an answer (`ok` or `error`) or an `event`."""
        return decode(self.receive_line(patience), self.path)

    def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask and return the answer's `ok` object. Raises Refused if it is an error. Events in between are dropped."""
        return self.ask({"op": op, **fields})

    def ask(self, request: Mapping[str, Any], *, limit_s: float | None = None) -> dict[str, Any]:
        """Like `request`, for a whole request. Raises Unresponsive if the daemon keeps silent.

        That is after `limit_s`, else shortly after the time limit that the request itself carries, else after
        SILENCE_LIMIT_S.
        """
        patience = self.patience(waits(request)) if limit_s is None else Patience(limit_s)
        try:
            self.send(request, patience)
            while "event" in (message := self.receive(patience)):
                pass
        except Unresponsive as exc:
            exc.remedy += f"; once it goes on it may still do what was asked ({request.get('op')})"
            raise
        if "error" in message:
            raise Refused(message["error"])
        ok = message.get("ok")
        if not isinstance(ok, dict):
            raise Mismatch(f"what listens at {self.path} does not speak claimdagd's protocol: no ok, no error")
        return ok

    def check(self, patience: Patience) -> None:
        """Raise Unresponsive if `patience` is over; remark on the wait if it is time for that."""
        self._left(patience)

    def _left(self, patience: Patience) -> float | None:
        try:
            return patience.left()
        except TimeoutError:
            raise Unresponsive(
                f"{self._who()} is there but does not answer (waited {patience.limit_s:.3g} s)",
                remedy="it may be stopped or overloaded: see `ps` and its daemon.log",
            ) from None

    def _who(self) -> str:
        pid, _ = peer(self._sock)
        return f"the daemon at {self.path}{f' (pid {pid})' if pid else ''}"

    def close(self) -> None:
        """Hang up."""
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def waits(request: Mapping[str, Any]) -> float | None:
    """Return the seconds that the daemon may take to answer `request`, if the request says so itself."""
    found = request.get("wait", request.get("timeout"))
    if found is None and isinstance(request.get("next"), dict):
        found = request["next"].get("wait")
    return found if isinstance(found, (int, float)) else None


def connect(
    endpoint: Endpoint,
    *,
    client: str = "claimdag",
    start: bool | None = None,
    hello: bool = True,
    limit_s: float = SILENCE_LIMIT_S,
) -> Connection:
    """Connect and say hello; start a daemon if none listens and that is allowed. Raises Unreachable if that fails.

    Args:
        endpoint: Where the daemon is.
        client: What the daemon is told that this program is.
        start: Overrides `endpoint.start`.
        hello: Whether to say hello; without it the daemon's protocol stays unknown.
        limit_s: Seconds for a daemon to listen and to answer hello, not for the requests after it.
    """
    path = endpoint.socket
    say = endpoint.on_silence
    patience = Patience(limit_s, None if say is None else lambda: say(f"waiting for the daemon at {path}"))
    autostart = None
    while True:
        try:
            connection = _open(endpoint, path, patience, client if hello else None)
        except (FileNotFoundError, ConnectionRefusedError) as exc:
            if autostart is None:
                _check_startable(endpoint.start if start is None else start, path, exc)
                from claimdag_client._transport.autostart import Autostart

                autostart = Autostart(endpoint)
                patience.extend(START_S)
            autostart.ensure_running()
        except (BlockingIOError, DaemonLeaving):
            pass  # its queue of connections is full, or it is about to leave: try again
        except OSError as exc:
            raise _not_connected(path, exc) from None
        else:
            if autostart is not None:
                autostart.forget()
            return connection
        try:
            patience.left()
        except TimeoutError:
            raise Unresponsive(
                f"no daemon answered at {path} within {limit_s:g} s", remedy="look into its daemon.log"
            ) from None
        time.sleep(_POLL_S)


def _check_startable(start: bool, path: str, exc: OSError) -> None:
    """Raise Unreachable if no daemon may or can be started for the socket at `path`."""
    if os.path.islink(path):
        raise Unreachable(
            f"{path} is a symbolic link to {os.readlink(path)}, where no daemon listens",
            remedy="remove the link, or name the socket itself with --socket",
        )
    if not start:
        raise Unreachable(
            f"no daemon listens at {path} ({exc.strerror})", remedy="start one: claimdagd, or leave out --no-start"
        )


def _not_connected(path: str, exc: OSError) -> Unreachable:
    if exc.errno in (errno.EMFILE, errno.ENFILE):
        return Unreachable(
            f"no connection to {path} could be opened: {exc.strerror}",
            remedy="allow this process more open files: ulimit -n 64",
        )
    theirs = exc.errno in (errno.EACCES, errno.EPERM)
    remedy = "see who owns that path" if theirs else "name another with --socket or --dir"
    return Unreachable(f"{path}: {exc.strerror or exc}", remedy=remedy)


def _open(endpoint: Endpoint, path: str, patience: Patience, client: str | None) -> Connection:
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | getattr(_socket, "SOCK_CLOEXEC", 0))
    try:
        # Never blocks for a Unix socket: a full queue is EAGAIN, and the caller tries again.
        sock.setblocking(False)
        sock.connect(path)
        check_peer_uid(sock, path)
        connection = Connection(sock, path, endpoint)
        if client is not None:
            _say_hello(connection, client, patience)
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return connection


def _say_hello(connection: Connection, client: str, patience: Patience) -> None:
    handshake = Handshake(client, connection.path)
    try:
        connection.send_line(handshake.request, patience)
        while (hello := handshake.receive(connection.receive_line(patience, HELLO_MAX_BYTES))) is None:
            pass
    except (Unresponsive, DaemonLeaving):
        raise
    except Unreachable as exc:
        raise DaemonLeaving(exc.message) from None  # It hung up: so does a daemon that leaves.
    connection.hello = hello


def peer(sock: _socket.socket) -> tuple[int, int | None]:
    """Return the process id and user id of the other end, as it was when it began to listen; 0, None if unknown."""
    if not hasattr(_socket, "SO_PEERCRED"):
        return 0, None
    try:
        credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    except OSError:
        return 0, None
    return int.from_bytes(credentials[:4], sys.byteorder), int.from_bytes(credentials[4:8], sys.byteorder)


def check_peer_uid(sock: _socket.socket, path: str) -> None:
    """Refuse the daemon of another user, who may put a socket in a place that others can write, such as /tmp."""
    _, uid = peer(sock)
    if uid is not None and uid != os.geteuid():
        raise Unreachable(
            f"the daemon at {path} belongs to user {uid}, not to this one ({os.geteuid()})",
            remedy="name your own with --socket or --dir",
        )
