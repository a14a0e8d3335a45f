"""The lock that says whether a daemon lives: an flock on a file, and nothing else.

Holding it is the only licence to unlink a socket. A stopped daemon still holds it, a killed one does not, so there is
nothing to guess and no pid to trust; the pid in the file is for messages alone. The file is never unlinked, because a
lock on an unlinked file keeps no daemon out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

from claimdagd.paths import UnsafePathError, open_private

#: How long a newcomer waits for a daemon that may just be leaving: longer than a drain takes.
PATIENCE_S = 1.5


class LockHeldError(Exception):
    """Another process holds the lock at `path`; `pid` is what it wrote there, or 0."""

    def __init__(self, path: str, pid: int) -> None:
        who = f"claimdagd with pid {pid}" if pid else "another claimdagd"
        super().__init__(f"{path}: {who} is alive and holds it")
        self.path = path
        self.pid = pid


class Lock:
    """An flock that this process holds until `close`, or its end."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: str, uid: int, *, patience_s: float = PATIENCE_S) -> Lock:
        """Take the lock at `path`, making the file. Raises `LockHeldError` or `UnsafePathError`."""
        give_up_at = time.monotonic() + patience_s
        while True:
            descriptor = _open(path, uid)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as exc:
                pid = _pid_in(descriptor)
                os.close(descriptor)
                if exc.errno not in (errno.EAGAIN, errno.EACCES):
                    raise UnsafePathError(path, f"it cannot be locked: {exc.strerror}") from exc
                if time.monotonic() >= give_up_at:
                    raise LockHeldError(path, pid) from None
                time.sleep(0.05)
                continue
            lock = cls(path, descriptor)
            if lock.is_ours():
                lock._sign()
                return lock
            # The file was replaced between open and lock: what we hold keeps no daemon out.
            lock.close()

    def is_ours(self) -> bool:
        """Return whether the path still names the file that this process has locked."""
        return same_file(self.path, os.fstat(self._descriptor))

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _sign(self) -> None:
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            pass  # a full disk costs the name in a message, not the lock


def same_file(path: str, expected: os.stat_result) -> bool:
    """Return whether `path` itself, unfollowed, is the file that `expected` describes."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (expected.st_dev, expected.st_ino)


def _open(path: str, uid: int) -> int:
    try:
        descriptor = open_private(path, os.O_RDWR)
    except OSError as exc:
        reason = "it is a symbolic link, which is never followed here" if os.path.islink(path) else exc.strerror
        raise UnsafePathError(path, f"the lock cannot be opened: {reason}") from exc
    owner = os.fstat(descriptor).st_uid
    if owner != uid:
        os.close(descriptor)
        raise UnsafePathError(path, f"the lock belongs to user {owner}")
    return descriptor


def _pid_in(descriptor: int) -> int:
    try:
        return int(os.pread(descriptor, 32, 0))
    except (OSError, ValueError):
        return 0
