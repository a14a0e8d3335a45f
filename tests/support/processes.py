"""Processes that are not there: what a test says runs, runs."""

from __future__ import annotations

from collections.abc import Callable

from claimdagd.model import Process


class FakeProcesses:
    """A watch of made-up processes. `start` runs one, `end` ends it; a number may be used again."""

    def __init__(self) -> None:
        self.running: dict[int, int] = {}
        self.watched: set[Process] = set()
        self.full = False
        self.on_ended: Callable[[Process], None] = lambda process: None
        self._ticks = 100

    def start(self, pid: int) -> Process:
        """Run a process with this number."""
        self._ticks += 1
        self.running[pid] = self._ticks
        return Process(pid, self._ticks)

    def end(self, pid: int) -> None:
        """End it, and tell whoever watches."""
        process = Process(pid, self.running.pop(pid))
        if process in self.watched:
            self.watched.discard(process)
            self.on_ended(process)

    def check(self, pid: int, peer_pid: int | None) -> Process | str:
        """Return the process, watched, or why not."""
        if peer_pid == 0:
            return "you run in another pid namespace"
        if pid not in self.running:
            return "there is no such process"
        process = Process(pid, self.running[pid])
        if self.full and process not in self.watched:
            raise OSError(24, "Too many open files")
        self.watched.add(process)
        return process

    def watch(self, process: Process) -> bool:
        """Watch a process, and return whether it runs."""
        if self.running.get(process.pid) != process.start:
            return False
        self.watched.add(process)
        return True

    def unwatch(self, process: Process) -> None:
        """Watch it no longer."""
        self.watched.discard(process)
