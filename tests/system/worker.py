"""A real `claimdag` process for tests: `run`, `work`, `watch`, `wait`. Every one is ended with its whole session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.daemon import WAIT_S, Daemon, until


class Worker:
    """`claimdag ARGUMENTS` on a daemon's socket. `out` and `err` are kept once it has ended."""

    def __init__(self, daemon: Daemon, *arguments: str, **popen: Any) -> None:
        command = [sys.executable, "-m", "claimdag_client.cli", "--socket", str(daemon.path), "--no-start", *arguments]
        streams: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "start_new_session": True,
        }
        self.process = subprocess.Popen(command, **(streams | popen))
        self.out = self.err = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float = WAIT_S) -> int:
        out, err = self.process.communicate(timeout=timeout)
        self.out += out or b""
        self.err += err or b""
        return self.process.returncode

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@contextmanager
def claimdag(daemon: Daemon, *arguments: str, **popen: Any) -> Iterator[Worker]:
    worker = Worker(daemon, *arguments, **popen)
    try:
        yield worker
    finally:
        worker.end()


def alive(pid: int) -> bool:
    """The process runs: it is there, and no zombie that nobody has reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def pids_of(path: Path, count: int) -> list[int]:
    """The process ids that a command has written to a file, once there are so many."""
    found: list[int] = []

    def written() -> bool:
        found[:] = [int(word) for word in path.read_text().split()] if path.exists() else []
        return len(found) >= count

    until(written, f"{count} process ids in {path.name}")
    return found


def all_gone(pids: list[int], within: float = 5.0) -> None:
    until(lambda: not any(map(alive, pids)), "the end of all processes", within)


STOPS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
