"""Where a graph lives: the choice of its directory and socket, and the making of both with explicit modes.

Daemon and clients call the same functions, so that they never disagree. Standard library only: the start of the
command line pays for this import. This module must not open the state files.
"""

from __future__ import annotations

import errno
import os
import stat

from claimdagd.descriptors import above_standard_streams
from claimdagd.limits import SOCKET_PATH_MAX_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600


class UnsafePathError(Exception):
    """A path that may not be used: `path`, `reason` and, if there is one, `remedy`."""

    def __init__(self, path: str, reason: str, remedy: str = "") -> None:
        super().__init__(f"{path}: {reason}" + (f"; {remedy}" if remedy else ""))
        self.path = path
        self.reason = reason
        self.remedy = remedy


def choose_directory(explicit: str | None, environ: Mapping[str, str], uid: int) -> str:
    """Return the absolute path of the state directory.

    It is `explicit`, else CLAIMDAG_DIR, else the first base that exists for this user. XDG variables that are not
    absolute are ignored, as their specification says. XDG_RUNTIME_DIR and the home directory count only while they
    exist; XDG_STATE_HOME is made if it is missing.
    """
    if named := explicit or environ.get("CLAIMDAG_DIR"):
        return os.path.abspath(named)
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") and os.path.isdir(runtime):
        return os.path.join(runtime, "claimdag")
    state = environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return os.path.join(state, "claimdag")
    home = environ.get("HOME") or os.path.expanduser("~")
    if home.startswith("/") and os.path.isdir(home):
        return os.path.join(home, ".local", "state", "claimdag")
    return f"/tmp/claimdag-{uid}"


def choose_socket(explicit: str | None, environ: Mapping[str, str], directory: str) -> str:
    """Return the absolute path of the socket: `explicit`, else CLAIMDAG_SOCKET, else `sock` in the directory."""
    named = explicit or environ.get("CLAIMDAG_SOCKET")
    return os.path.abspath(named) if named else os.path.join(directory, "sock")


def check_socket_path(path: str) -> None:
    """Refuse by name a path that does not fit a Unix socket's address."""
    size = len(os.fsencode(path))
    if size > SOCKET_PATH_MAX_BYTES:
        raise UnsafePathError(
            path,
            f"the socket's path is {size} bytes long and a Unix socket's may have at most {SOCKET_PATH_MAX_BYTES}",
            "name a shorter one with --socket or --dir",
        )


def make_directory(path: str) -> None:
    """Make the directory `path` and every missing one above it, each with mode 0700 under any umask.

    A directory that exists is left as it is. Raises OSError.
    """
    try:
        os.mkdir(path, DIRECTORY_MODE)
    except FileExistsError:
        return
    except FileNotFoundError:
        above = os.path.dirname(path)
        if above == path or not above:
            raise
        make_directory(above)
        os.mkdir(path, DIRECTORY_MODE)
    if os.lstat(path).st_mode & 0o777 != DIRECTORY_MODE:
        os.chmod(path, DIRECTORY_MODE)  # the umask took the owner's own permissions away


def open_private(path: str, flags: int) -> int:
    """Open the regular file `path` with `flags`, or make it with mode 0600 under any umask.

    Symbolic links, pipes and all else that is not a regular file are refused. The descriptor is closed on exec and is
    never one of the standard streams'. Raises OSError.
    """
    # O_NONBLOCK: a pipe of that name must be refused, not waited for.
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    while True:
        try:
            descriptor = above_standard_streams(os.open(path, flags))
            mode = 0
        except FileNotFoundError:
            try:
                descriptor = above_standard_streams(os.open(path, flags | os.O_CREAT | os.O_EXCL, FILE_MODE))
                mode = FILE_MODE
            except FileExistsError:
                continue  # another process made it meanwhile
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", path)
            if mode:
                os.fchmod(descriptor, mode)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor
