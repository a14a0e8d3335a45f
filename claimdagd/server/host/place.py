"""The daemon's place on the file system: its directory, its locks and its listening socket.

Taken in this order, since each is the licence for the next, and looked at while the daemon runs. Must not open the
state files.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from dataclasses import dataclass, field

from claimdagd.paths import check_socket_path, locate
from claimdagd.server.host.directory import open_directory
from claimdagd.server.host.listener import Listener, adopt, bind
from claimdagd.server.host.lock import Lock, same_file


@dataclass
class Place:
    """The directory is locked from the start; `listen` gives the socket, which may be one that systemd passed."""

    directory: str
    socket_path: str
    uid: int
    directory_itself: os.stat_result
    locks: list[Lock] = field(default_factory=list)
    listener: Listener | None = None

    @classmethod
    def take(
        cls,
        directory_option: str | None,
        socket_option: str | None,
        environ: MutableMapping[str, str],
        uid: int,
        *,
        graph_option: str | None = None,
    ) -> Place:
        """Choose, make, check and lock the directory.

        Raises UnsafePathError, LockHeldError, or OSError if a path is relative to nothing.
        """
        adopted = adopt(environ, os.getpid())
        try:
            location = locate(socket_option, directory_option, graph_option, environ, uid)
            directory = location.directory
            socket_path = adopted.path if adopted else location.socket
        except FileNotFoundError as exc:
            raise OSError(
                "the working directory is gone, so no path relative to it leads anywhere: cd elsewhere, or name "
                "absolute paths with --dir and --socket"
            ) from exc
        if adopted is None:
            check_socket_path(socket_path)
        place = cls(directory, socket_path, uid, os.fstat(open_directory(directory, uid)), listener=adopted)
        place.locks.append(Lock.take(os.path.join(directory, "lock"), uid))
        if adopted is None and socket_path != os.path.join(directory, "sock"):
            # The directory's lock says nothing of a socket elsewhere, which a daemon of another directory may serve.
            place.locks.append(Lock.take(f"{socket_path}.lock", uid))
        return place

    def listen(self) -> Listener:
        """Return the listening socket, bound now unless systemd passed one."""
        if self.listener is None:
            self.listener = bind(self.socket_path, self.uid)
        return self.listener

    def ownership_lost(self) -> str | None:
        """Return what is no longer this daemon's own, or None."""
        if not same_file(self.directory, self.directory_itself):
            return f"the directory {self.directory}"
        for lock in self.locks:
            if not lock.is_ours():
                return f"the lock {lock.path}"
        if self.listener is not None and not self.listener.is_ours():
            return f"the socket {self.listener.path}"
        return None

    def close(self) -> None:
        """Stop listening and release the locks, the last taken first."""
        if self.listener is not None:
            self.listener.close()
        for lock in reversed(self.locks):
            lock.close()
