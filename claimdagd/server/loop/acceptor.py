"""Takes connections from the listening socket, and rests while there is no room for them.

Newcomers wait in the kernel's queue meanwhile. Must not know what a connection is for.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

from claimdagd.server.loop.poller import Poller

log = logging.getLogger("claimdagd")

#: The most that are taken before others have their turn.
BATCH: Final = 64
_SHORT_OF: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Calls `on_connect` with each new connection while `has_room` says so.

    It rests at the limit, or when descriptors run out, until `resume`: so it costs nothing meanwhile. The log has one
    line when newcomers begin to wait, and one when none waits any more, however often it resumed in between.
    """

    def __init__(
        self,
        listening: socket.socket,
        poller: Poller,
        *,
        has_room: Callable[[], bool],
        on_connect: Callable[[socket.socket], None],
    ) -> None:
        self._socket = listening
        self._poller = poller
        self._has_room = has_room
        self._on_connect = on_connect
        self._stopped = False
        #: Whether newcomers are taken at this moment.
        self.accepting = False
        #: Why newcomers wait, or waited when it last looked; empty if none does.
        self.trouble = ""

    def resume(self) -> None:
        """Take newcomers again, unless `stop` was called or there is no room."""
        if not self.accepting and not self._stopped and self._has_room():
            self.accepting = True
            self._poller.add_reader(self._socket.fileno(), self.accept)

    def stop(self) -> None:
        """Take no more, from now on."""
        self._stopped = True
        self._rest()

    def accept(self) -> None:
        """Take those who wait, up to a batch."""
        for _ in range(BATCH):
            if not self._has_room():
                self._wait("too many connections")
                return
            try:
                taken, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                if self.trouble:
                    log.info("accepting connections again")
                    self.trouble = ""
                return
            except OSError as exc:
                if exc.errno not in _SHORT_OF:
                    log.error("accepting failed: %s", exc)
                self._wait(exc.strerror or str(exc))
                return
            self._on_connect(taken)

    def _wait(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("%s: new ones wait", trouble)
            self.trouble = trouble
        self._rest()

    def _rest(self) -> None:
        if self.accepting:
            self.accepting = False
            self._poller.remove_reader(self._socket.fileno())
