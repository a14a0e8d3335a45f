"""Whether the state directory can be trusted with the state.

The directory is what keeps other users out, so every check fails closed: `UnsafePathError` names the path, what is
wrong and what to do. This module must not open the state files, and it never follows a symbolic link that stands where
the directory should be.
"""

from __future__ import annotations

import errno
import os
import stat

from claimdagd.descriptors import above_standard_streams
from claimdagd.paths import DIRECTORY_MODE, UnsafePathError, make_directory


def open_directory(path: str, uid: int) -> int:
    """Make the directory if it is missing, check it, and return a descriptor of the very one that was checked."""
    try:
        make_directory(path)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = above_standard_streams(os.open(path, flags))
    except OSError as exc:
        raise UnsafePathError(path, *_why_not_opened(path, exc, uid)) from exc
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
            reason = f"{above} may be written by everyone and is not sticky"
            raise UnsafePathError(path, reason, f"run: chmod o-w {above}")
        if above == os.path.dirname(above):
            return
        above = os.path.dirname(above)


def _check(path: str, descriptor: int, uid: int) -> None:
    found = os.fstat(descriptor)
    if found.st_uid != uid:
        raise UnsafePathError(path, f"it belongs to user {found.st_uid} and not to {uid}", "name another with --dir")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        # A sticky directory such as /tmp is shared: to close it would take it from the other users.
        shared = found.st_mode & stat.S_ISVTX
        remedy = f"name one of your own with --dir, such as {path}/claimdag" if shared else f"run: chmod 700 {path}"
        raise UnsafePathError(path, f"others may write it (mode {stat.S_IMODE(found.st_mode):04o})", remedy)
    if stat.S_IMODE(found.st_mode) != DIRECTORY_MODE:
        # Owned by this user and not writable by others: its content can be trusted. Close it to readers too.
        os.fchmod(descriptor, DIRECTORY_MODE)


def _why_not_opened(path: str, exc: OSError, uid: int) -> tuple[str, str]:
    """Return the reason and the remedy, as far as there is one."""
    if os.path.islink(path):
        return "it is a symbolic link, which is never followed here", "name another with --dir"
    if exc.errno in (errno.ENOTDIR, errno.EEXIST):
        return "it is not a directory", "name another with --dir"
    reason = exc.strerror or str(exc)
    if exc.errno == errno.EACCES:
        closed = _closed_to_its_owner(path, uid)
        return (f"{closed} is closed to its own owner", f"run: chmod u+rwx {closed}") if closed else (reason, "")
    return reason, ""


def _closed_to_its_owner(path: str, uid: int) -> str | None:
    """Return the topmost directory on `path` that its owner, who is `uid`, may not use."""
    above = os.path.dirname(path)
    if above != path and (found := _closed_to_its_owner(above, uid)):
        return found
    try:
        status = os.lstat(path)
    except OSError:
        return None
    owned = stat.S_ISDIR(status.st_mode) and status.st_uid == uid
    return path if owned and status.st_mode & stat.S_IRWXU != stat.S_IRWXU else None
