"""Start a daemon where none listens. Standard library only, and imported only when a daemon must be started."""

from __future__ import annotations

import os
import resource
import sys
import time

from claimdag_client.errors import Unreachable
from claimdagd import paths
from claimdagd.limits import EXIT_ALREADY_RUNNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from claimdag_client._transport.endpoint import Endpoint

#: How long a daemon started from here stays while it is idle and empty.
IDLE_EXIT_S = 60
LOG_MAX_BYTES = 1024 * 1024
#: A daemon needs descriptors for its state, its socket and its event loop, besides its connections.
DESCRIPTORS_NEEDED = 64
#: What an autostarted daemon gets of this environment. A secret of this shell must not live on in a daemon, and what
#: steers one project's Python (PYTHONPATH, LD_PRELOAD, PYTHONWARNINGS) must not reach the daemon of all.
ENVIRONMENT = ("HOME", "PATH", "LANG", "LANGUAGE")
ENVIRONMENT_PREFIXES = ("XDG_", "LC_", "CLAIMDAG_")
#: What `claimdag run` tells its command is of one claim, and no business of a daemon.
ENVIRONMENT_OF_A_CLAIM = ("CLAIMDAG_ID", "CLAIMDAG_GEN", "CLAIMDAG_SUMMARY")
#: Runs the daemon from a package that only this process's own sys.path leads to.
_FROM_PATH = "import sys; sys.path.insert(0, sys.argv.pop(1)); from claimdagd.main import main; sys.exit(main())"


class Autostart:
    """Keeps a daemon starting until one listens.

    Which of several that start at once becomes the daemon is decided by the daemons themselves, by the lock in their
    directory: the others leave with EXIT_ALREADY_RUNNING, and those who started them wait for the socket. If the
    winner was just about to leave, its lock comes free and a new one is started.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.path = endpoint.socket
        self.directory = endpoint.state_directory
        self.log_path = os.path.join(self.directory, "daemon.log")
        self.pid: int | None = None
        self.not_before = 0.0
        self.log_from = 0

    def ensure_running(self) -> None:
        """Start a daemon unless the one started is still on its way. Raises Unreachable if it could not start."""
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
                last = self._last_line()
                raise Unreachable(
                    f"the daemon that was started left with status {status}{': ' if last else ''}{last}",
                    remedy=f"see {self.log_path}",
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
        _check_descriptor_limit()
        log = self._open_log()
        try:
            arguments = daemon_command(self.directory, self.path)
            self.pid = os.posix_spawn(
                arguments[0],
                arguments,
                daemon_environment(os.environ),
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
        try:
            paths.make_directory(self.directory)
            status = os.stat(self.directory)
        except OSError as exc:
            raise Unreachable(
                f"no daemon can be started in {self.directory}: {exc.strerror}", remedy="name another with --dir"
            ) from None
        self._check_private(status)
        try:
            log = paths.open_private(self.log_path, os.O_WRONLY | os.O_APPEND)
        except OSError as exc:
            raise self._log_refused(exc) from None
        self.log_from = os.fstat(log).st_size
        if self.log_from > LOG_MAX_BYTES:
            os.ftruncate(log, 0)
            self.log_from = 0
        return log

    def _check_private(self, status: os.stat_result) -> None:
        """Raise Unreachable if the directory is not this user's alone; the daemon would refuse it too."""
        if status.st_uid != os.geteuid():
            raise Unreachable(
                f"{self.directory} belongs to user {status.st_uid}, not to this one", remedy="name another with --dir"
            )
        if status.st_mode & 0o022:
            # A sticky one is for all users, such as /tmp: it must not be taken from them.
            shared = f"name one of your own with --dir, such as {os.path.join(self.directory, 'claimdag')}"
            raise Unreachable(
                f"{self.directory} can be written by others (mode {status.st_mode & 0o7777:04o})",
                remedy=shared if status.st_mode & 0o1000 else f"run: chmod 700 {self.directory}",
            )

    def _log_refused(self, exc: OSError) -> Unreachable:
        """Return the error for a daemon.log that cannot be written, with what stands in its place."""
        import stat

        reason = exc.strerror or str(exc)
        try:
            mode = os.lstat(self.log_path).st_mode
            if stat.S_ISLNK(mode):
                reason = "it is a symbolic link, which is never followed here"
            elif not stat.S_ISREG(mode):
                kind = "directory" if stat.S_ISDIR(mode) else "named pipe" if stat.S_ISFIFO(mode) else "special file"
                reason = f"it is a {kind}, not a regular file"
        except OSError:
            pass
        return Unreachable(
            f"no daemon can be started, because its log {self.log_path} cannot be written: {reason}",
            remedy="move that away, let it be writable, or name another directory with --dir",
        )

    def _last_line(self) -> str:
        """Return the last line that the daemon wrote to its log, which says why it left."""
        try:
            with open(self.log_path, "rb") as log:
                log.seek(self.log_from)
                lines = log.read(65536).decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1].strip() if lines else ""


def daemon_command(directory: str, socket_path: str) -> list[str]:
    """Return the command that starts a daemon for `directory` and `socket_path`."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(paths.__file__)))
    own_path = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), sys.path[0] if sys.path else ""]
    only_here = root in [os.path.abspath(entry) for entry in own_path if entry]
    program = ["-c", _FROM_PATH, root] if only_here else ["-m", "claimdagd"]
    # /bin/sh only for the change of directory: a daemon must not keep the caller's file system busy. -P, because the
    # caller's directory may hold a claimdagd or a json.py of its own.
    return [
        "/bin/sh", "-c", 'cd / && unset PWD OLDPWD && exec "$0" "$@"', sys.executable, "-P", *program,
        "--dir", directory, "--socket", socket_path, "--idle-exit", str(IDLE_EXIT_S),
    ]  # fmt: skip


def daemon_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an autostarted daemon: what its place and its locale depend on, and nothing else."""
    return {
        name: value
        for name, value in environ.items()
        if (name in ENVIRONMENT or name.startswith(ENVIRONMENT_PREFIXES)) and name not in ENVIRONMENT_OF_A_CLAIM
    }


def _check_descriptor_limit() -> None:
    """Raise Unreachable if a daemon started from here could not open the files that it needs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The daemon raises its own soft limit up to the hard one.
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_NEEDED:
        raise Unreachable(
            f"no daemon can be started: this process may have only {hard} open files, and a daemon needs at least "
            f"{DESCRIPTORS_NEEDED}",
            remedy=f"raise the hard limit (ulimit -Hn {DESCRIPTORS_NEEDED}), or start claimdagd from another shell",
        )


#: Daemons started by this process, to be reaped when they have left.
_left_running: list[int] = []


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _inheritable_fds() -> list[int]:
    """Return open descriptors past the standard three that a child would inherit, such as a caller's lock or pipe."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except (OSError, ValueError):
        return []
    found = []
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    for fd in numbers:
        try:
            if fd <= 2 or not os.get_inheritable(fd):
                continue
            if soft == resource.RLIM_INFINITY or fd < soft:
                found.append(fd)
            else:
                # Opened before the limit was lowered: the system refuses to name such a one to a child.
                os.set_inheritable(fd, False)
        except OSError:
            pass  # the descriptor of the listing itself, closed by now
    return found
