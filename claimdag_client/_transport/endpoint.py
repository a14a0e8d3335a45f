"""Where a daemon is, and whether it may be started. Plain data; standard library only."""

from __future__ import annotations

import errno
import os

from claimdag_client.errors import Unreachable
from claimdagd import paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def directory_of(directory: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the absolute path of the daemon's directory. Raises OSError if a relative path leads nowhere."""
    try:
        return paths.choose_directory(directory, environ, os.getuid())
    except FileNotFoundError:
        raise _without_working_directory(directory or environ.get("CLAIMDAG_DIR", "")) from None


def socket_of(
    socket_path: str | None = None, directory: str | None = None, environ: Mapping[str, str] = os.environ
) -> str:
    """Return the absolute path of the socket: `socket_path`, else CLAIMDAG_SOCKET, else `sock` in the directory."""
    try:
        named = socket_path or environ.get("CLAIMDAG_SOCKET")
        path = paths.choose_socket(named, environ, "" if named else directory_of(directory, environ))
        paths.check_socket_path(path)
    except FileNotFoundError:
        raise _without_working_directory(socket_path or environ.get("CLAIMDAG_SOCKET", "")) from None
    except paths.UnsafePathError as exc:
        raise Unreachable(f"{exc.path}: {exc.reason}", remedy=exc.remedy) from None
    return path


def _without_working_directory(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "the working directory is gone, which this relative path needs", path)


class Endpoint:
    """Where the daemon is and whether it may be started: the options before every command of `claimdag`."""

    __slots__ = ("directory", "on_silence", "socket_path", "start")

    def __init__(
        self,
        socket_path: str | None = None,
        directory: str | None = None,
        *,
        start: bool = True,
        on_silence: Callable[[str], None] | None = None,
    ) -> None:
        self.socket_path = socket_path
        self.directory = directory
        #: Whether a daemon may be started if none listens.
        self.start = start
        #: Called with a text for the user if a daemon keeps silent for some seconds.
        self.on_silence = on_silence

    @property
    def socket(self) -> str:
        """The socket's absolute path."""
        return socket_of(self.socket_path, self.directory)
