"""Find and signal the whole tree of processes under one process, however they detached themselves.

A subreaper is given every orphan among its descendants, so a process that left its group and session is still below it
by links of parents. Two facts keep the search free of races: an orphan is handed over within the kernel, so a process
that lives is always below the subreaper; and one that was born after a pass over /proc is found by the next pass, so a
caller repeats until a pass finds nothing. A process is signalled by a descriptor that is checked against its start
time, so a number that is used again reaches no other process. Standard library only, and no event loop.
"""

from __future__ import annotations

import os
import signal
from typing import NamedTuple

PR_SET_CHILD_SUBREAPER = 36


class Process(NamedTuple):
    """A living process as /proc showed it."""

    pid: int
    parent: int
    group: int
    #: In clock ticks since the boot: with the number, it names a process uniquely.
    started: int


def become_subreaper() -> bool:
    """Have every orphan among this process's descendants handed to it. False if the system cannot."""
    import ctypes  # costs milliseconds that no other command should pay

    try:
        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def find_process(pid: int) -> Process | None:
    """Return a process, or None if it has ended. A zombie has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # pid (name, which may hold anything) state parent group ...
            fields = file.read().rpartition(b")")[2].split()
        if fields[0] in b"ZX":
            return None
        return Process(pid, int(fields[1]), int(fields[2]), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def all_processes() -> list[Process]:
    """Return every living process that this one can see."""
    found = (find_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def descendants(root: int, without: frozenset[int] = frozenset()) -> list[Process]:
    """Return the living processes below `root`, except those in `without` and what is below them."""
    children: dict[int, list[Process]] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    rest = [root]
    while rest:
        below = [process for process in children.pop(rest.pop(), ()) if process.pid not in without]
        found += below
        rest += [process.pid for process in below]
    return found


def group_members(group: int) -> list[Process]:
    """Return the living processes of a process group."""
    return [process for process in all_processes() if process.group == group]


def signal_process(process: Process, number: int) -> None:
    """Send a signal to that process and to no other that has its number by now."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return  # It has ended.
    try:
        now = find_process(process.pid)
        if now is not None and now.started == process.started:
            signal.pidfd_send_signal(descriptor, number)
    except OSError:
        pass  # It has ended, or runs as another user and is out of reach.
    finally:
        os.close(descriptor)


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group. False if it has no members."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # A member changed its user: it is out of reach, but there.
    return True
