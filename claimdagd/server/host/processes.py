"""The processes that stand for holders of claims, each watched by a pidfd. Must know nothing of claims.

A pidfd becomes readable when its process ends, so nothing is polled and no thread waits. A number that is used again is
told from the process that had it by the time of its start, in clock ticks since the machine was started.
"""

from __future__ import annotations

import errno
import logging
import os
import select
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from claimdagd.model import Process

log = logging.getLogger("claimdagd")

_NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Readers(Protocol):
    """What the watch needs of the poller."""

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None: ...
    def forget(self, fd: int) -> None: ...


class Facts(NamedTuple):
    """What /proc tells of a process: whose it is, in how many pid namespaces it has a number, whether it has ended."""

    uid: int
    namespaces: int
    over: bool
    leader: int
    start: int


class PidfdWatch:
    """Watches processes. Calls `on_ended` from the poller; before `start` it only collects.

    `has_room` says whether one more descriptor may be used for one.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self.on_ended: Callable[[Process], None] = lambda process: None
        self.has_room: Callable[[], bool] = lambda: True
        self._proc = proc
        self._uid = os.geteuid()
        self._fds: dict[Process, int] = {}
        #: Those for which there was no descriptor when the daemon came back.
        self._pending: set[Process] = set()
        self._poller: Readers | None = None

    def __len__(self) -> int:
        return len(self._fds)

    def start(self, poller: Readers) -> None:
        """Report ends from now on."""
        self._poller = poller
        for process, fd in self._fds.items():
            poller.add_reader(fd, lambda process=process: self._ended(process))  # type: ignore[misc]

    def close(self) -> None:
        """Watch nothing any more. The poller must have ended."""
        self._poller = None
        for process in list(self._fds):
            self.unwatch(process)

    def check(self, pid: int, peer_pid: int | None) -> Process | str:
        """Return the process with this number, watched from now on, or what keeps it from being accepted."""
        if peer_pid is not None and self._is_foreign(peer_pid):
            return "you run in another pid namespace, where the number means another process"
        try:
            fd = os.pidfd_open(pid)
        except OSError as exc:
            if exc.errno in _NO_DESCRIPTORS:
                raise
            return _why_not_opened(exc)
        # From here on the number cannot become another process's without the pidfd telling that this one has ended.
        facts = self._facts(pid)
        refused = "it has ended" if facts is None or _is_over(fd) else self._refused(pid, facts)
        if refused is not None or facts is None:
            os.close(fd)
            return refused or "it has ended"
        process = Process(pid, facts.start)
        if process in self._fds:
            os.close(fd)
        elif not self.has_room():
            os.close(fd)
            raise OSError(errno.EMFILE, "the daemon's open files are used up by connections and processes")
        else:
            self._keep(process, fd)
        return process

    def watch(self, process: Process) -> bool:
        """Watch a process from now on, unless it is watched already. Return whether it runs."""
        if process in self._fds:
            return True
        try:
            fd = os.pidfd_open(process.pid)
        except OSError as exc:
            if exc.errno in _NO_DESCRIPTORS:
                if process not in self._pending:
                    log.warning("process %d is not watched yet: %s", process.pid, exc.strerror)
                self._pending.add(process)
                return True
            return False
        facts = self._facts(process.pid)
        if facts is None or facts.over or facts.start != process.start or facts.uid != self._uid or _is_over(fd):
            os.close(fd)
            return False
        self._keep(process, fd)
        return True

    def retry(self) -> None:
        """Watch those for which there was no descriptor, and report which of them have ended."""
        for process in list(self._pending):
            if not self.watch(process):
                self._pending.discard(process)
                self._report(process)
            elif process in self._fds:
                self._pending.discard(process)

    def unwatch(self, process: Process) -> None:
        """Watch a process no longer."""
        self._pending.discard(process)
        fd = self._fds.pop(process, None)
        if fd is not None:
            if self._poller is not None:
                self._poller.forget(fd)
            os.close(fd)

    def _keep(self, process: Process, fd: int) -> None:
        self._fds[process] = fd
        if self._poller is not None:
            self._poller.add_reader(fd, lambda: self._ended(process))

    def _ended(self, process: Process) -> None:
        self.unwatch(process)
        self._report(process)

    def _report(self, process: Process) -> None:
        try:
            self.on_ended(process)
        except Exception:
            log.exception("the end of process %d could not be noted, by an error in claimdagd itself", process.pid)

    def _refused(self, pid: int, facts: Facts) -> str | None:
        if facts.over:
            return "it has ended (a zombie)"
        if facts.uid != self._uid:
            return f"it is user {facts.uid}'s"
        if facts.namespaces > 1:
            return "it is in another pid namespace"
        if facts.leader != pid:
            return f"it is a thread of process {facts.leader}"
        return None

    def _is_foreign(self, peer_pid: int) -> bool:
        """Return whether a peer counts processes in another way. The kernel says 0 if it has no number here."""
        if peer_pid == 0:
            return True
        facts = self._facts(peer_pid)
        return facts is not None and facts.namespaces > 1

    def _facts(self, pid: int) -> Facts | None:
        """Return what /proc tells of a process, or None if there is none. Both files can be read by every user."""
        try:
            with open(f"{self._proc}/{pid}/status", "rb") as file:
                fields = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
            with open(f"{self._proc}/{pid}/stat", "rb") as file:
                # The second field is the command, which may hold spaces and brackets.
                stat = file.read().rpartition(b")")[2].split()
        except OSError:
            return None
        return Facts(
            uid=int(fields[b"Uid"].split()[1]),
            namespaces=len(fields.get(b"NSpid", b"1").split()),
            over=fields[b"State"].split()[0] in (b"Z", b"X"),
            leader=int(fields[b"Tgid"]),
            start=int(stat[19]),
        )


def _is_over(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def _why_not_opened(exc: OSError) -> str:
    if exc.errno == errno.ESRCH:
        return "there is no such process"
    if exc.errno == errno.ENOSYS:
        return "this system cannot watch processes (no pidfd_open)"
    # A thread that does not lead its process: EINVAL, or ENOENT on newer systems.
    if exc.errno in (errno.EINVAL, errno.ENOENT):
        return "it is no process but a thread"
    return f"it cannot be watched ({exc.strerror})"
