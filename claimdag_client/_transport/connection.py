"""One blocking connection to claimdagd: find the socket, start a daemon where none listens, say hello, ask, read.

The command line and the blocking client stand on this module, so it must stay cheap to import: no `socket`, no
`subprocess`, nothing of the daemon. It must hold no verb's logic and print nothing.
"""

from __future__ import annotations

import _socket
import errno
import json
import os
import sys
import time
from collections.abc import Mapping

from claimdagd import paths
from claimdagd.limits import EXIT_ALREADY_RUNNING, LINE_MAX_BYTES, PROTOCOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

#: How long a daemon started from here stays while it is idle and empty.
IDLE_EXIT_S = 60
#: A daemon that is alive (it may be recovering a large graph) gets this long to listen and to say hello.
START_TIMEOUT_S = 60.0
LOG_MAX_BYTES = 1024 * 1024
_POLL_S = 0.01


class ClaimdagError(Exception):
    """Anything that a caller of this package may want to catch. `remedy` says what to do next, or is empty."""

    remedy: str = ""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        if remedy:
            self.remedy = remedy


class Unreachable(ClaimdagError):
    """No daemon could be reached, or the connection ended before the answer came."""


class Mismatch(ClaimdagError):
    """Client and daemon speak different protocols."""


class Malformed(ClaimdagError):
    """The request cannot be sent as it is: too long, or not text."""


class Refused(ClaimdagError):
    """The daemon refused: `code`, `message` as on the wire, and everything that came beside them in `details`."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("message", "refused")))
        self.code = str(error.get("code", "internal"))
        self.details: dict[str, Any] = {k: v for k, v in error.items() if k not in ("code", "message")}
        #: The whole error object as it came.
        self.error: dict[str, Any] = dict(error)


def directory_of(directory: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The absolute path of the daemon's directory: the same choice that the daemon makes when it is not told."""
    return paths.choose_directory(directory, environ, os.getuid())


def socket_of(
    socket_path: str | None = None, directory: str | None = None, environ: Mapping[str, str] = os.environ
) -> str:
    """The absolute path of the socket: `socket_path`, else CLAIMDAG_SOCKET, else `sock` in the directory."""
    path = paths.choose_socket(socket_path, environ, directory_of(directory, environ))
    try:
        paths.check_socket_path(path)
    except paths.UnsafePathError as exc:
        raise Unreachable(f"{path}: {exc.reason}", remedy=exc.remedy) from None
    return path


class Place:
    """Where the daemon is and whether it may be started: the options that stand before every verb of `claimdag`."""

    __slots__ = ("directory", "socket_path", "start")

    def __init__(self, socket_path: str | None = None, directory: str | None = None, *, start: bool = True) -> None:
        self.socket_path = socket_path
        self.directory = directory
        self.start = start

    @property
    def socket(self) -> str:
        """The socket's absolute path."""
        return socket_of(self.socket_path, self.directory)

    def connect(self, *, client: str = "claimdag", start: bool | None = None, hello: bool = True) -> Connection:
        """As `connect` below; `start` overrides what stands here."""
        start = self.start if start is None else start
        return connect(self.socket_path, self.directory, start=start, client=client, hello=hello)


class Connection:
    """A connected socket that speaks JSON lines. Not for use by two threads at once.

    `hello` is the daemon's answer to hello; the graph's tag stands in `graph`.
    """

    def __init__(self, sock: _socket.socket, path: str) -> None:
        self._sock = sock
        self._buffer = bytearray()
        self.path = path
        self.hello: dict[str, Any] = {}

    @property
    def graph(self) -> str:
        """The tag that every id of this graph begins with."""
        return str(self.hello.get("graph", ""))

    def fileno(self) -> int:
        return self._sock.fileno()

    def settimeout(self, seconds: float | None) -> None:
        """Bound every later send and receive; TimeoutError is raised when it is over. None: wait for good."""
        self._sock.settimeout(seconds)

    def send(self, request: Mapping[str, Any]) -> None:
        """Send one request, as a line. Malformed when it is over the limit; Unreachable when nobody reads."""
        self.send_line(encode(request))

    def send_line(self, line: bytes) -> None:
        """Send a line that `encode` made, newline and all."""
        try:
            self._sock.sendall(line)
        except TimeoutError:
            raise
        except OSError as exc:
            # The daemon may have answered (too_large, shutting_down) before it hung up: let that be read.
            if exc.errno not in (errno.EPIPE, errno.ECONNRESET):
                raise Unreachable(f"the connection to {self.path} broke: {exc.strerror}") from None

    def receive_line(self) -> bytes:
        """The next line from the daemon, without its newline. Unreachable at the end of the stream."""
        start = 0
        while (end := self._buffer.find(b"\n", start)) < 0:
            start = len(self._buffer)
            try:
                chunk = self._sock.recv(262144)
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

    def receive(self) -> dict[str, Any]:
        """The next object from the daemon: an answer (`ok` or `error`) or an `event`."""
        line = self.receive_line()
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise Mismatch(f"what listens at {self.path} does not speak claimdagd's protocol: {line[:80]!r}")
        return message

    def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask and wait for the answer: its `ok` object. Refused when it is an error. Events in between are dropped."""
        return self.ask({"op": op, **fields})

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """As `request`, of a request that is whole already."""
        self.send(request)
        while "event" in (message := self.receive()):
            pass
        if "error" in message:
            raise Refused(message["error"])
        ok = message.get("ok")
        if not isinstance(ok, dict):
            raise Mismatch(f"what listens at {self.path} does not speak claimdagd's protocol: no ok, no error")
        return ok

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def encode(request: Mapping[str, Any]) -> bytes:
    """A request as a line with its newline. Malformed when it is too long or holds what is not text."""
    try:
        line = json.dumps(request, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        raise Malformed("some of the text given is not valid UTF-8", remedy="give it as UTF-8") from None
    except ValueError:
        raise Malformed("a number given is not a finite one") from None
    if len(line) > LINE_MAX_BYTES:
        raise Malformed(
            f"the request is {len(line):,} bytes long, over the {LINE_MAX_BYTES:,} that one line may have",
            remedy="split it into several",
        )
    return line + b"\n"


def connect(
    socket_path: str | None = None,
    directory: str | None = None,
    *,
    start: bool = True,
    client: str = "claimdag",
    timeout: float = START_TIMEOUT_S,
    hello: bool = True,
) -> Connection:
    """Connect and say hello; with `start`, start a daemon where none listens. Unreachable when that fails too.

    `timeout` bounds, in seconds, the wait for a daemon to listen and to answer hello, not the requests after it.
    Without `hello` nothing is said yet, and nothing known of the protocol that is spoken there.
    """
    path = socket_of(socket_path, directory)
    deadline = time.monotonic() + timeout
    starter: _Starter | None = None
    while True:
        try:
            connection = _open(path, deadline, client if hello else None)
        except (FileNotFoundError, ConnectionRefusedError) as exc:
            if not start:
                raise Unreachable(
                    f"no daemon listens at {path} ({exc.strerror})",
                    remedy="start one: claimdagd, or leave out --no-start",
                ) from None
            if starter is None:
                starter = _Starter(path, directory_of(directory))
            starter.see_to_it()
        except (BlockingIOError, ConnectionResetError):
            pass  # Its queue of connections is full, or it is about to leave: look again.
        except OSError as exc:
            raise Unreachable(f"{path}: {exc.strerror or exc}", remedy="see who owns that path") from None
        else:
            if starter is not None:
                starter.forget()
            return connection
        if time.monotonic() >= deadline:
            raise Unreachable(f"no daemon answered at {path} within {timeout:g} s", remedy="look into its daemon.log")
        time.sleep(_POLL_S)


def _open(path: str, deadline: float, client: str | None) -> Connection:
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | getattr(_socket, "SOCK_CLOEXEC", 0))
    try:
        sock.settimeout(max(0.001, deadline - time.monotonic()))
        sock.connect(path)
        refuse_a_strangers_daemon(sock, path)
        connection = Connection(sock, path)
        if client is not None:
            _say_hello(connection, client)
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return connection


def _say_hello(connection: Connection, client: str) -> None:
    """Say hello; Mismatch when there is no understanding, ConnectionResetError when it is about to leave."""
    try:
        connection.hello = connection.request("hello", client=client, protocol=PROTOCOL)
    except TimeoutError:
        raise Unreachable(
            f"the daemon at {connection.path} is there but does not answer",
            remedy="it may be stopped or overloaded: see `ps` and its daemon.log",
        ) from None
    except Refused as exc:
        if exc.code == "shutting_down":
            raise ConnectionResetError(errno.ECONNRESET, exc.message) from None
        theirs = exc.details.get("protocol")
        if exc.code != "bad_request" or not isinstance(theirs, int):
            raise
        raise mismatch_of(theirs, exc.details.get("version")) from None
    except Unreachable as exc:
        raise ConnectionResetError(errno.ECONNRESET, exc.message) from None
    theirs = connection.hello.get("protocol")
    if theirs != PROTOCOL:
        raise mismatch_of(theirs, connection.hello.get("version"))


def mismatch_of(theirs: object, version: object) -> Mismatch:
    """The daemon, of `version`, speaks protocol `theirs`: which of the two is to be changed, and how."""
    which = f"claimdagd {version} speaks" if version else "the daemon speaks"
    newer = isinstance(theirs, int) and theirs > PROTOCOL
    return Mismatch(
        f"{which} protocol {theirs}, this client protocol {PROTOCOL}",
        remedy=(
            "upgrade this client (pip install --upgrade claimdagd)"
            if newer
            else "stop the older daemon with claimdag shutdown (its state is kept) and ask again: a new one starts"
        ),
    )


def refuse_a_strangers_daemon(sock: _socket.socket, path: str) -> None:
    """A socket in a place that others can write, as /tmp is, may be anybody's: the listener must be this user's."""
    if not hasattr(_socket, "SO_PEERCRED"):
        return
    credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    uid = int.from_bytes(credentials[4:8], sys.byteorder)
    if uid != os.geteuid():
        raise Unreachable(
            f"the daemon at {path} belongs to user {uid}, not to this one ({os.geteuid()})",
            remedy="name your own with --socket or --dir",
        )


class _Starter:
    """Keeps a daemon starting until one listens.

    Which of several that start at once becomes the daemon is decided by the daemons themselves, by the flock in their
    directory: the others leave with EXIT_ALREADY_RUNNING, and whoever started them waits for the socket. When the
    winner was just about to leave, its lock comes free and a new one is started.
    """

    def __init__(self, path: str, directory: str) -> None:
        self.path = path
        self.directory = directory
        self.pid: int | None = None
        self.not_before = 0.0
        self.log_from = 0

    def see_to_it(self) -> None:
        """Start a daemon unless the one started is still on its way; Unreachable when it could not start."""
        if self.pid is not None:
            try:
                pid, wait_status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, wait_status = self.pid, 0
            if not pid:
                return
            self.pid = None
            status = os.waitstatus_to_exitcode(wait_status)
            if status not in (0, EXIT_ALREADY_RUNNING):
                said = self._said()
                raise Unreachable(
                    f"the daemon that was started left with status {status}{': ' if said else ''}{said}",
                    remedy=f"see {os.path.join(self.directory, 'daemon.log')}",
                )
            self.not_before = time.monotonic() + 0.2
        if time.monotonic() >= self.not_before:
            self._start()

    def forget(self) -> None:
        """Leave the daemon to itself; one that lost the race is reaped when this process next starts one, or ends."""
        if self.pid is not None:
            _left_running.append(self.pid)

    def _start(self) -> None:
        _left_running[:] = [pid for pid in _left_running if not _reaped(pid)]
        log = self._open_log()
        try:
            # /bin/sh only for the change of directory: a daemon must not keep the caller's file system busy. -P, for
            # the same caller's directory may hold a claimdagd or a json.py of its own.
            arguments = [
                "/bin/sh", "-c", 'cd / && exec "$0" "$@"', sys.executable, "-P", "-m", "claimdagd",
                "--dir", self.directory, "--socket", self.path, "--idle-exit", str(IDLE_EXIT_S),
            ]  # fmt: skip
            self.pid = os.posix_spawn(
                arguments[0],
                arguments,
                _environment(),
                setsid=True,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                    *((os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable_fds()),
                ],
            )
        except OSError as exc:
            raise Unreachable(f"no daemon could be started: {exc.strerror}") from None
        finally:
            os.close(log)

    def _open_log(self) -> int:
        directory = self.directory
        try:
            paths.make_directory(directory)
            status = os.stat(directory)
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                raise Unreachable(
                    f"{directory} belongs to somebody else or can be written by others",
                    remedy="name a directory of your own with --dir, or chmod 0700 it",
                )
            log = paths.open_private(os.path.join(directory, "daemon.log"), os.O_WRONLY | os.O_APPEND)
        except OSError as exc:
            raise Unreachable(
                f"no daemon can be started in {directory}: {exc.strerror}", remedy="name another with --dir"
            ) from None
        self.log_from = os.fstat(log).st_size
        if self.log_from > LOG_MAX_BYTES:
            os.ftruncate(log, 0)
            self.log_from = 0
        return log

    def _said(self) -> str:
        """The last line that the daemon wrote to its log, which is where its refusal stands."""
        try:
            with open(os.path.join(self.directory, "daemon.log"), "rb") as log:
                log.seek(self.log_from)
                lines = log.read(65536).decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1].strip() if lines else ""


#: Daemons started by this process, to be reaped when they have left.
_left_running: list[int] = []


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _environment() -> dict[str, str]:
    """This environment without what would tie the daemon to the service, or to the claim, that the caller runs in."""
    ours = ("NOTIFY_SOCKET", "LISTEN_", "WATCHDOG_", "CLAIMDAG_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _inheritable_fds() -> list[int]:
    """Open descriptors past the standard three that a child would inherit, such as a caller's lock or pipe."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except (OSError, ValueError):
        return []
    found = []
    for fd in numbers:
        try:
            if fd > 2 and os.get_inheritable(fd):
                found.append(fd)
        except OSError:
            pass  # the descriptor of the listing itself, closed by now
    return found
