"""Servers and load clients as processes: started, pinned to a core, their CPU time read, ended.

Must end whatever it started. State is kept on a file system in memory where there is one, as it is in a session's
runtime directory.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.benchmarks.shapes import BATCH

LOAD = Path(__file__).with_name("load.py")
#: claimdagd's loops, and the options that choose them.
LOOPS = {"asyncio": ("--no-uvloop",), "uvloop": (), "trio": ("--backend", "trio")}


def loops() -> list[str]:
    """Those of the loops that are installed."""
    return [name for name in LOOPS if name == "asyncio" or find_spec(name) is not None]


@contextmanager
def directory() -> Iterator[Path]:
    """An empty directory in memory, if possible."""
    shm = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="claimdag-bench-", dir=shm if os.access(shm, os.W_OK) else None))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, to the nanosecond: its own clock, as clock_getcpuclockid(3) names it."""
    return time.clock_gettime((~pid << 3) | 2)


def cores() -> list[int]:
    """Those that this process may use."""
    return sorted(os.sched_getaffinity(0))


def environment() -> dict[str, str]:
    """This process's own, but with compiled modules kept as an installed package has them: starting is measured too."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@contextmanager
def process(*command: str, up: bool = False, **popen: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed in the end. `up`: once it has said so, a line on stdout."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    found = subprocess.Popen(command, text=True, env=environment(), **{**pipes, **popen})
    try:
        if up:
            assert found.stdout is not None
            if not found.stdout.readline():
                raise RuntimeError(f"{' '.join(command)} ended with {found.wait()}")
        yield found
    finally:
        found.kill()
        found.communicate()


@dataclass
class Daemon:
    """A claimdagd that answers at `path`."""

    pid: int
    path: str
    directory: Path
    lines: Any = field(repr=False)

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """One request, by a connection that stays."""
        self.lines.write(json.dumps({"op": op, **fields}).encode() + b"\n")
        self.lines.flush()
        answer: dict[str, Any] = json.loads(self.lines.readline())
        if "ok" not in answer:
            raise RuntimeError(f"{op}: {answer}")
        ok: dict[str, Any] = answer["ok"]
        return ok

    def submit(self, count: int, **fields: Any) -> None:
        """That many more nodes, all alike; and a snapshot, so that none falls due for them in what is measured."""
        while count > 0:
            self.ask("submit", nodes=[fields] * min(count, BATCH), **{"return": []})
            count -= BATCH
        self.ask("checkpoint")


@contextmanager
def claimdagd(where: Path, *options: str, max_nodes: int = 10_000_000) -> Iterator[Daemon]:
    """A daemon on `where`."""
    path = str(where / "sock")
    command = (sys.executable, "-m", "claimdagd", "--dir", str(where), "--max-nodes", str(max_nodes), *options)
    with process(*command) as found, ExitStack() as stack:
        sock = stack.enter_context(connected(path, found))
        lines = stack.enter_context(sock.makefile("rwb"))
        daemon = Daemon(found.pid, path, where, lines)
        daemon.ask("hello")
        yield daemon


def connected(path: str, server: subprocess.Popen[str], within: float = 120.0) -> socket.socket:
    """A connection, as soon as the server listens."""
    give_up_at = time.monotonic() + within
    while True:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(path)
            return sock
        except OSError:
            sock.close()
        if server.poll() is not None or time.monotonic() > give_up_at:
            raise RuntimeError(f"{server.args!r} does not listen (status {server.returncode})")
        time.sleep(0.001)


@contextmanager
def echo(where: Path, kind: str, size: int) -> Iterator[tuple[int, str]]:
    """An echo server: its pid and its socket."""
    path = str(where / f"{kind}-{size}.sock")
    with process(sys.executable, "-m", "tests.benchmarks.echo", path, str(size), kind, up=True) as found:
        yield found.pid, path


@dataclass(frozen=True)
class Load:
    """What some clients did together. Seconds are wall time, from the first start to the last end."""

    seconds: float
    requests: int
    server_cpu_s: float
    laps: tuple[float, ...]

    @property
    def cpu_us(self) -> float:
        """Server CPU microseconds per request."""
        return 1e6 * self.server_cpu_s / self.requests

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


def run_load(
    pid: int,
    path: str,
    kind: str,
    count: int,
    *,
    depth: int = 1,
    workers: int = 1,
    bytes_out: int = 90,
    core: int | None = None,
    laps: bool = False,
) -> Load:
    """Drive the server `pid` from `workers` processes at once; on `core`, all of it runs on that one."""
    everywhere = os.sched_getaffinity(0)
    last = [str(count), str(depth), str(bytes_out), *(["-l"] if laps else [])]
    arguments = [[path, kind, f"w{n}", *last] for n in range(workers)]
    clients = [
        subprocess.Popen(
            [sys.executable, "-I", "-S", str(LOAD), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for words in arguments
    ]
    try:
        for pinned in (pid, *(client.pid for client in clients)):
            os.sched_setaffinity(pinned, {core} if core is not None else everywhere)
        for client in clients:
            assert client.stdout is not None
            if client.stdout.readline() != "ready\n":
                raise RuntimeError(f"a load client ended: {client.args!r}")
        cpu = cpu_seconds(pid)
        began = time.perf_counter()
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.flush()
        results = [_result(client) for client in clients]
        elapsed = max([r[0] for r in results] if workers == 1 else [time.perf_counter() - began])
        used = cpu_seconds(pid) - cpu
    finally:
        os.sched_setaffinity(pid, everywhere)
        for client in clients:
            client.kill()
            client.communicate()
    return Load(elapsed, sum(r[1] for r in results), used, tuple(lap for r in results for lap in r[2]))


def _result(client: subprocess.Popen[str]) -> tuple[float, int, Sequence[float]]:
    assert client.stdout is not None
    words = client.stdout.readline().split()
    if len(words) != 3:
        raise RuntimeError(f"a load client failed: {client.args!r}")
    laps = [float(word) for word in client.stdout.readline().split()]
    return float(words[0]), int(words[1]), laps
