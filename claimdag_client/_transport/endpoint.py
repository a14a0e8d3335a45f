"""Where a daemon is, and whether it may be started. Plain data; standard library only."""

from __future__ import annotations

import errno
import os

from claimdag_client.errors import Unreachable
from claimdagd import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class Endpoint:
    """Where the daemon is and whether it may be started: the options before every command of `claimdag`."""

    __slots__ = ("_location", "directory", "graph", "on_silence", "socket_path", "start")

    def __init__(
        self,
        socket_path: str | None = None,
        directory: str | None = None,
        *,
        graph: str | None = None,
        start: bool = True,
        on_silence: Callable[[str], None] | None = None,
    ) -> None:
        self.socket_path = socket_path
        self.directory = directory
        #: The name of a graph, if one was asked for by name.
        self.graph = graph
        self._location: paths.Location | None = None
        #: Whether a daemon may be started if none listens.
        self.start = start
        #: Called with a text for the user if a daemon keeps silent for some seconds.
        self.on_silence = on_silence

    def take(self, args: Any) -> None:
        """Take over the options that were given after the command, from the namespace of its arguments."""
        self.socket_path = getattr(args, "socket", self.socket_path)
        self.directory = getattr(args, "dir", self.directory)
        self.graph = getattr(args, "graph", self.graph)
        self.start = self.start and not getattr(args, "no_start", False)

    def locate(self, environ: Mapping[str, str] = os.environ) -> paths.Location:
        """Return where the graph lives that is meant here. Raises Unreachable, or OSError for a path to nowhere."""
        try:
            return paths.locate(self.socket_path, self.directory, self.graph, environ, os.getuid())
        except FileNotFoundError:
            named = self.socket_path or self.directory or environ.get("CLAIMDAG_SOCKET") or environ.get("CLAIMDAG_DIR")
            reason = "the working directory is gone, which this relative path needs"
            raise FileNotFoundError(errno.ENOENT, reason, named) from None
        except paths.UnsafePathError as exc:
            raise Unreachable(f"{exc.path}: {exc.reason}", remedy=exc.remedy) from None

    @property
    def socket(self) -> str:
        """The socket's absolute path."""
        path = self._located().socket
        try:
            paths.check_socket_path(path)
        except paths.UnsafePathError as exc:
            raise Unreachable(f"{exc.path}: {exc.reason}", remedy=exc.remedy) from None
        return path

    @property
    def state_directory(self) -> str:
        """The absolute path of the daemon's directory."""
        return self._located().directory

    def _located(self) -> paths.Location:
        # Kept: a program that changes its working directory goes on with the same graph.
        if self._location is None:
            self._location = self.locate()
        return self._location
