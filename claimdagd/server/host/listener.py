"""The listening socket: bound by this process under its lock, or handed over by systemd.

Only the holder of the lock may call `bind`, since that is what makes a socket file found in the way a stale one. A
socket that systemd made is systemd's: it is never unlinked here.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import MutableMapping

from claimdagd.descriptors import above_standard_streams
from claimdagd.paths import UnsafePathError, check_socket_path
from claimdagd.server.host.directory import check_ancestors
from claimdagd.server.host.lock import same_file

BACKLOG = 1024
#: systemd's first passed descriptor, as sd_listen_fds(3) has it.
FIRST_PASSED = 3
LISTEN_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


class Listener:
    """A listening Unix socket, with the path and file that it answers at."""

    def __init__(self, sock: socket.socket, path: str, *, adopted: bool) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.path = path
        self.adopted = adopted
        self._file = None if adopted else os.lstat(path)

    def is_ours(self) -> bool:
        """Return whether the path still leads clients to this socket; always true for a socket that systemd keeps."""
        return self._file is None or same_file(self.path, self._file)

    def close(self) -> None:
        """Stop listening, and unlink the path if it still names this socket."""
        if self._file is not None and same_file(self.path, self._file):
            os.unlink(self.path)
        self._file = None
        self.sock.close()


def bind(path: str, uid: int) -> Listener:
    """Bind and listen at `path`, replacing a stale socket of ours; the caller holds the lock that makes it stale.

    The socket is 0600 from the first instant: it is made so by the umask, not changed afterwards. Raises
    `UnsafePathError`.
    """
    check_socket_path(path)
    check_ancestors(path)
    _clear(path, uid)
    sock = _new_socket()
    # The umask belongs to the whole process: no thread has been started yet.
    before = os.umask(0o177)
    try:
        sock.bind(path)
        sock.listen(BACKLOG)
    except OSError as exc:
        sock.close()
        raise UnsafePathError(path, f"the socket cannot be bound: {exc.strerror}") from exc
    finally:
        os.umask(before)
    return Listener(sock, path, adopted=False)


def _new_socket() -> socket.socket:
    descriptor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).detach()
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=above_standard_streams(descriptor))


def adopt(environ: MutableMapping[str, str], pid: int) -> Listener | None:
    """Take the listening socket that systemd passed to this very process, or None if it passed none.

    The variables are removed in any case, so that no child takes them for its own. Raises `UnsafePathError` for
    descriptors that are not one listening Unix stream socket.
    """
    passed = {name: environ.pop(name, "") for name in LISTEN_VARIABLES}
    if passed["LISTEN_PID"] != str(pid) or not passed["LISTEN_FDS"].isdigit() or passed["LISTEN_FDS"] == "0":
        return None
    if passed["LISTEN_FDS"] != "1":
        raise UnsafePathError("LISTEN_FDS", f"{passed['LISTEN_FDS']} sockets were passed, and this daemon serves one")
    try:
        sock = socket.socket(fileno=FIRST_PASSED)
    except OSError as exc:
        raise UnsafePathError("LISTEN_FDS", f"descriptor {FIRST_PASSED} is not a socket: {exc.strerror}") from exc
    os.set_inheritable(FIRST_PASSED, False)
    listening = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM or not listening:
        sock.close()
        raise UnsafePathError("LISTEN_FDS", "the passed socket is not a listening Unix stream socket")
    name = sock.getsockname()
    return Listener(sock, name if isinstance(name, str) else os.fsdecode(name), adopted=True)


def _clear(path: str, uid: int) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise UnsafePathError(path, f"the socket's place cannot be looked at: {exc.strerror}") from exc
    if not stat.S_ISSOCK(found.st_mode):
        raise UnsafePathError(path, "something that is not a socket is in the socket's place", "move it away")
    if found.st_uid != uid:
        raise UnsafePathError(path, f"a socket of user {found.st_uid} is in the socket's place")
    os.unlink(path)
