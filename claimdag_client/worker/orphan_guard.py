"""The warden: a small process that ends the worker's commands when the worker itself is killed, even by SIGKILL.

It holds the read end of a pipe whose only write end is the worker's. While the worker lives it writes there which
process groups its commands run in; when the pipe ends, however that came about, every group still named is ended. A
group is named by the command's own process before it becomes the command, so there is no moment at which a kill could
leave one behind. (PR_SET_PDEATHSIG would reach the command alone and not what it started.)

It is a fork without exec, so it must be started before threads and event loops, and must use nothing but os calls.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a whole process group; False when nobody is in it any more. Signal 0 only asks."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # Somebody is in it who changed their user: out of reach, but there.
    return True


def group_lives(group: int) -> bool:
    """Somebody in a process group still runs. Zombies do not, and those that nobody reaps would stay for ever."""
    if not signal_group(group, 0):
        return False
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # pid (name, which may hold anything) state parent group ...
                state, _, member_of = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # It has ended meanwhile.
        if int(member_of) == group and state not in b"ZX":
            return True
    return False


class Warden:
    """The worker's end: `watch` and `unwatch` groups; `tell` is what the command's own process calls."""

    def __init__(self, pipe: int, pid: int) -> None:
        self._pipe = pipe
        self._pid = pid

    @classmethod
    def start(cls, kill_after_s: float) -> Self:
        """Fork the warden. `kill_after_s` lies between its SIGTERM and its SIGKILL."""
        theirs, ours = os.pipe()
        pid = os.fork()
        if pid:
            os.close(theirs)
            return cls(ours, pid)
        status = 1
        try:
            os.close(ours)
            _stand_aside()
            _watch_over(theirs, kill_after_s)
            status = 0
        finally:
            os._exit(status)

    def tell(self, pid: int) -> None:
        """Name a group. Called between fork and exec too, so it does nothing but write."""
        self._say(b"+%d\n" % pid)

    def mark(self) -> None:
        """A command is about to be started."""
        self._say(b"?\n")

    def forget_since_mark(self) -> None:
        """It could not be: if its process had named a group, that number is anybody's now."""
        self._say(b"!\n")

    def unwatch(self, group: int) -> None:
        """That group is the worker's business no more."""
        self._say(b"-%d\n" % group)

    def _say(self, line: bytes) -> None:
        try:
            os.write(self._pipe, line)
        except OSError:
            pass  # Somebody killed the warden: the work goes on without.

    def close(self) -> None:
        """Let it go, and end what is still named."""
        os.close(self._pipe)
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass


def _stand_aside() -> None:
    """Out of the terminal's and the worker's reach, and holding none of the worker's files open."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def _watch_over(pipe: int, kill_after_s: float) -> None:
    groups: set[int] = set()
    marked: set[int] = set()
    rest = b""
    while data := os.read(pipe, 4096):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            match line[:1]:
                case b"+":
                    groups.add(int(line[1:]))
                case b"?":
                    marked = set(groups)
                case b"!":
                    groups = set(marked)
                case _:
                    groups.discard(int(line[1:]))
    deadline = time.monotonic() + kill_after_s
    for group in groups:
        signal_group(group, signal.SIGTERM)
        signal_group(group, signal.SIGCONT)
    while groups and time.monotonic() < deadline:
        groups = {group for group in groups if group_lives(group)}
        time.sleep(0.02)
    for group in groups:
        signal_group(group, signal.SIGKILL)


if sys.platform == "win32":  # pragma: no cover
    raise ImportError("process groups are needed")
