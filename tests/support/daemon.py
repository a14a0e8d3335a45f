"""A real claimdagd process for tests, and a blocking raw client. Every wait is bounded; every process is ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAIT_S = 15.0


class Client:
    """One connection. `ask` returns `ok`, or raises AssertionError with the error."""

    def __init__(self, path: str | Path, timeout: float = WAIT_S) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(timeout)
        try:
            self.sock.connect(str(path))
        except OSError:
            self.sock.close()
            raise
        self._file = self.sock.makefile("rb")

    def send(self, op: str, **fields: Any) -> None:
        self.sock.sendall(json.dumps({"op": op, **fields}).encode() + b"\n")

    def answer(self) -> dict[str, Any]:
        line = self._file.readline()
        if not line:
            raise EOFError("the daemon hung up")
        return json.loads(line)

    def try_to(self, op: str, **fields: Any) -> dict[str, Any]:
        self.send(op, **fields)
        while "event" in (answer := self.answer()):
            pass
        return answer

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        answer = self.try_to(op, **fields)
        assert "ok" in answer, answer
        return answer["ok"]

    def rest(self) -> bytes:
        return self._file.read()

    def close(self) -> None:
        self._file.close()
        self.sock.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Daemon:
    """A claimdagd process on `directory`. Its log is kept in `stderr` once it has ended."""

    def __init__(self, directory: Path, *arguments: str, prefix: tuple[str, ...] = (), **popen: Any) -> None:
        self.directory = directory
        self.path = directory / "sock"
        command = [*prefix, sys.executable, "-m", "claimdagd", "--dir", str(directory), *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen
        )
        self.stderr = ""
        self._clients: list[Client] = []

    @property
    def pid(self) -> int:
        return self.process.pid

    def until_up(self) -> Daemon:
        """Wait until it answers; fails with its log when it ends instead."""

        def up() -> bool:
            if self.process.poll() is not None:
                self.wait()
                raise AssertionError(f"claimdagd ended with {self.process.returncode}: {self.stderr}")
            try:
                with Client(self.path) as client:
                    return int(client.ask("hello")["pid"]) == self.pid
            except (OSError, EOFError):
                return False

        until(up, "a daemon that answers")
        return self

    def client(self) -> Client:
        """A connection that is closed with the daemon's end, if not before."""
        self._clients.append(Client(self.path))
        return self._clients[-1]

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float = WAIT_S) -> int:
        """Wait for its end; returns its exit status."""
        self.stderr += self.process.communicate(timeout=timeout)[1]
        return self.process.returncode

    def kill(self) -> int:
        self.process.kill()
        return self.wait()

    def terminate(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        for client in self._clients:
            client.close()


def until(condition: Callable[[], Any], what: str, within: float = WAIT_S) -> None:
    give_up_at = time.monotonic() + within
    while not condition():
        assert time.monotonic() < give_up_at, f"{what} did not come about within {within} s"
        time.sleep(0.01)


@contextmanager
def running(directory: Path, *arguments: str, **popen: Any) -> Iterator[Daemon]:
    """A daemon that answers, killed at the end if the test has not ended it."""
    daemon = Daemon(directory, *arguments, **popen)
    try:
        yield daemon.until_up()
    finally:
        daemon.end()
