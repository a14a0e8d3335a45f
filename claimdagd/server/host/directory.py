"""Which directory the state lives in, and whether it can be trusted with it.

The directory is what keeps other users out, so every check fails closed: `Unsafe` names the path, what is wrong and
what to do. This module must not open the state files, and it never follows a symlink that stands where the directory
should.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import Final

from claimdagd.descriptors import above_standard_streams

#: sun_path is 108 bytes with its closing zero.
SOCKET_PATH_MAX_BYTES: Final = 107
DIRECTORY_MODE: Final = 0o700


class Unsafe(Exception):
    """A directory, lock or socket path that may not be used: `path`, `reason` and, where there is one, `remedy`."""

    def __init__(self, path: str, reason: str, remedy: str = "") -> None:
        super().__init__(f"{path}: {reason}" + (f"; {remedy}" if remedy else ""))
        self.path = path
        self.reason = reason
        self.remedy = remedy


def choose_directory(explicit: str | None, environ: Mapping[str, str], uid: int) -> str:
    """Name the state directory: `explicit`, else CLAIMDAG_DIR, else the first base that exists for this user.

    XDG variables that are not absolute are ignored, as their specification says. XDG_RUNTIME_DIR and the home
    directory count only while they exist; XDG_STATE_HOME is made when it is missing. `claimdag_client` makes the same
    choice for itself (it must stay light): a test holds the two together.
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
    """Name the socket: `explicit`, else CLAIMDAG_SOCKET, else `sock` in the directory."""
    named = explicit or environ.get("CLAIMDAG_SOCKET")
    return os.path.abspath(named) if named else os.path.join(directory, "sock")


def check_socket_path(path: str) -> None:
    """Refuse by name a path that does not fit a Unix socket's address."""
    size = len(os.fsencode(path))
    if size > SOCKET_PATH_MAX_BYTES:
        raise Unsafe(
            path,
            f"the socket's path is {size} bytes long and {SOCKET_PATH_MAX_BYTES} is the most a Unix socket can have",
            "name a shorter one with --socket or CLAIMDAG_SOCKET",
        )


def open_directory(path: str, uid: int) -> int:
    """Make the directory if it is missing, check it, and return a descriptor of the very one that was checked."""
    parent = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(parent, DIRECTORY_MODE, exist_ok=True)
        try:
            os.mkdir(path, DIRECTORY_MODE)
        except FileExistsError:
            pass
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = above_standard_streams(os.open(path, flags))
    except OSError as exc:
        raise Unsafe(path, _why_not_opened(path, exc)) from exc
    try:
        _check(path, descriptor, uid)
        check_ancestors(path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_ancestors(path: str) -> None:
    """Refuse a path below a directory in which everyone may rename what is not theirs: the check would not last."""
    above = os.path.dirname(os.path.realpath(path))
    while True:
        mode = os.stat(above).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise Unsafe(path, f"{above} may be written by everyone and is not sticky", f"run: chmod o-w {above}")
        if above == os.path.dirname(above):
            return
        above = os.path.dirname(above)


def _check(path: str, descriptor: int, uid: int) -> None:
    found = os.fstat(descriptor)
    if found.st_uid != uid:
        raise Unsafe(path, f"it belongs to user {found.st_uid} and not to {uid}", "name another with --dir")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        # A sticky one is everybody's, such as /tmp: whoever took our word for it would take it from them.
        shared = found.st_mode & stat.S_ISVTX
        remedy = f"name one of your own with --dir, such as {path}/claimdag" if shared else f"run: chmod 700 {path}"
        raise Unsafe(path, f"others may write it (mode {stat.S_IMODE(found.st_mode):04o})", remedy)
    if stat.S_IMODE(found.st_mode) != DIRECTORY_MODE:
        # Ours and never written by others: what it holds can be trusted, and from now on nobody else may look.
        os.fchmod(descriptor, DIRECTORY_MODE)


def _why_not_opened(path: str, exc: OSError) -> str:
    if os.path.islink(path):
        return "it is a symbolic link, which is never followed here"
    if exc.errno == errno.ENOTDIR:
        return "it is not a directory"
    return exc.strerror or str(exc)
