"""The same job through the queues that people use (b): cycles of claim and complete per second, one worker and four.

Every worker is a process that uses the peer's own Python client (claimdagd's: its blocking client, and besides a bare
socket). The peers keep what claimdagd keeps: beanstalkd its binlog, Redis an append-only file flushed each second, with
a lease and a fencing generation by Lua, Postgres (SKIP LOCKED) without synchronous commit; SQLite (WAL, NORMAL) runs
within the worker, without any socket. State is in memory (tmpfs) for all. A peer that is not installed is left out.

To install them: `apt-get install beanstalkd redis-server postgresql`, `pip install greenstalk redis psycopg huey rq`.
"""

from __future__ import annotations

import glob
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from math import isnan
from pathlib import Path

from tests.benchmarks.peer_job import huey_queue, nothing
from tests.benchmarks.processes import LOAD, LOOPS, claimdagd, connected, cpu_seconds, directory, process
from tests.benchmarks.table import Cell, Scale, median, show

#: Where a peer is reached, how it is given so many jobs, and its process, if it is one.
Served = tuple[str, Callable[[int], None], int | None]


@contextmanager
def _claimdagd(where: Path) -> Iterator[Served]:
    with claimdagd(where, *LOOPS["asyncio"]) as daemon:
        yield daemon.path, daemon.submit, daemon.pid


@contextmanager
def _beanstalkd(where: Path) -> Iterator[Served]:
    import greenstalk

    path = str(where / "sock")
    (where / "binlog").mkdir()
    with process("beanstalkd", "-l", f"unix:{path}", "-b", str(where / "binlog")) as found:
        connected(path, found).close()
        client = greenstalk.Client(path)

        def fill(count: int) -> None:
            for n in range(count):
                client.put(f"job {n}")

        yield path, fill, found.pid
        client.close()


@contextmanager
def _redis_server(where: Path) -> Iterator[tuple[str, int]]:
    path = str(where / "sock")
    options = ("--port", "0", "--unixsocket", path, "--dir", str(where), "--save", "")
    with process("redis-server", *options, "--appendonly", "yes", "--appendfsync", "everysec") as found:
        connected(path, found).close()
        yield path, found.pid


@contextmanager
def _redis(where: Path) -> Iterator[Served]:
    import redis

    with _redis_server(where) as (path, pid):
        client = redis.Redis(unix_socket_path=path)
        number = 0

        def fill(count: int) -> None:
            nonlocal number
            client.zadd("ready", {f"job-{number + n}": number + n for n in range(count)})
            number += count

        yield path, fill, pid


@contextmanager
def _huey(where: Path) -> Iterator[Served]:
    with _redis_server(where) as (path, pid):
        queue, task = huey_queue(path)

        def fill(count: int) -> None:
            for _ in range(count):
                queue.enqueue(task.s())

        yield path, fill, pid


@contextmanager
def _rq(where: Path) -> Iterator[Served]:
    import redis
    from rq import Queue

    with _redis_server(where) as (path, pid):
        queue = Queue("bench", connection=redis.Redis(unix_socket_path=path))

        def fill(count: int) -> None:
            queue.enqueue_many([Queue.prepare_data(nothing) for _ in range(count)])

        yield path, fill, pid


@contextmanager
def _sqlite(where: Path) -> Iterator[Served]:
    path = str(where / "jobs.sqlite")
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; {SCHEMA.format('INTEGER PRIMARY KEY')}")

    def fill(count: int) -> None:
        db.execute("BEGIN")
        db.executemany("INSERT INTO jobs (status) VALUES (?)", [("ready",)] * count)
        db.execute("COMMIT")

    yield path, fill, None
    db.close()


SCHEMA = """
CREATE TABLE jobs (id {} , status TEXT NOT NULL, priority INTEGER NOT NULL DEFAULT 0, assignee TEXT,
                   gen INTEGER NOT NULL DEFAULT 1, deadline DOUBLE PRECISION);
CREATE INDEX jobs_ready ON jobs (priority DESC, id) WHERE status = 'ready';
"""


@contextmanager
def _postgres(where: Path) -> Iterator[Served]:
    binaries = _postgres_binaries()
    assert binaries is not None
    # It refuses to run as root.
    as_user: tuple[str, ...] = ()
    if os.geteuid() == 0:
        as_user = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
        shutil.chown(where, "nobody")
    data = str(where / "data")
    initdb = [*as_user, f"{binaries}/initdb", "-D", data, "-U", "bench", "-A", "trust"]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    command = (*as_user, f"{binaries}/postgres", "-D", data, "-c", "listen_addresses=", "-k", str(where))
    with process(*command) as found:
        try:
            yield from _postgres_at(where, found)
        finally:
            # Killed, it would leave its children and its shared memory behind: this is its fast shutdown.
            found.send_signal(signal.SIGINT)
            found.wait()


def _postgres_at(where: Path, found: subprocess.Popen[str]) -> Iterator[Served]:
    import psycopg

    address = f"host={where} user=bench dbname=postgres"
    connected(str(where / ".s.PGSQL.5432"), found).close()
    for _ in range(200):
        try:
            db = psycopg.connect(address, autocommit=True)
            break
        except psycopg.OperationalError:
            time.sleep(0.02)
    else:
        raise RuntimeError("Postgres does not answer")
    db.execute(SCHEMA.format("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"))

    def fill(count: int) -> None:
        db.execute("INSERT INTO jobs (status) SELECT 'ready' FROM generate_series(1, %s)", (count,))
        db.execute("ANALYZE jobs")

    yield address, fill, None
    db.close()


def _postgres_binaries() -> str | None:
    for name in ("initdb", *sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), reverse=True)):
        found = shutil.which(name)
        if found and (Path(found).resolve().parent / "postgres").exists():
            return str(Path(found).resolve().parent)
    return None


class Peer:
    """A way to do the job: the server, the client's name in peer_worker (or a load kind), and what must be there."""

    def __init__(
        self,
        name: str,
        serve: Callable[[Path], AbstractContextManager[Served]],
        worker: str,
        *,
        program: str = "",
        module: str = "",
        share: float = 1.0,
    ) -> None:
        self.name = name
        self.serve = serve
        self.worker = worker
        #: The part of the usual number of jobs that fits into the usual time.
        self.share = share
        self.missing = ""
        if program and (_postgres_binaries() is None if program == "postgres" else shutil.which(program) is None):
            self.missing = f"no program {program}"
        elif module and find_spec(module) is None:
            self.missing = f"no module {module}"


def peers() -> list[Peer]:
    return [
        Peer("claimdagd, bare socket, next", _claimdagd, "load:next"),
        Peer("claimdagd, bare socket, two requests", _claimdagd, "load:claim"),
        Peer("claimdagd, its client, next", _claimdagd, "client"),
        Peer("claimdagd, its client, two requests", _claimdagd, "client-two"),
        Peer("beanstalkd, binlog", _beanstalkd, "beanstalkd", program="beanstalkd", module="greenstalk"),
        Peer("Redis, Lua lease, AOF each second", _redis, "redis", program="redis-server", module="redis"),
        Peer("Postgres, SKIP LOCKED", _postgres, "postgres", program="postgres", module="psycopg"),
        Peer("huey on Redis", _huey, "huey", program="redis-server", module="huey", share=0.5),
        Peer("RQ on Redis, without fork", _rq, "rq", program="redis-server", module="rq", share=0.05),
        Peer("SQLite in the worker, WAL", _sqlite, "sqlite"),
    ]


def cycles(peer: Peer, address: str, pid: int | None, workers: int, count: int) -> tuple[float, float, float]:
    """`workers` processes do `count` jobs each: jobs per second, CPU microseconds each of server and worker."""
    if peer.worker.startswith("load:"):
        commands = [
            [sys.executable, "-I", "-S", str(LOAD), address, peer.worker[5:], f"w{n}", str(count), "1"]
            for n in range(workers)
        ]
    else:
        # With `next` a worker holds a node when it ends, so the next one under its name would be refused.
        name = f"w{time.monotonic_ns()}"
        module = [sys.executable, "-m", "tests.benchmarks.peer_worker"]
        commands = [[*module, peer.worker, address, f"{name}.{n}", str(count)] for n in range(workers)]
    clients = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for command in commands
    ]
    try:
        for client in clients:
            assert client.stdout is not None
            if client.stdout.readline() != "ready\n":
                raise RuntimeError(f"a worker ended: {client.args!r}")
        cpu = cpu_seconds(pid) if pid is not None else 0.0
        began = time.perf_counter()
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.flush()
        used = 0.0
        for client in clients:
            assert client.stdout is not None
            words = client.stdout.readline().split()
            if not words:
                raise RuntimeError(f"a worker failed: {client.args!r}")
            used += float(words[2])
        elapsed = time.perf_counter() - began
        jobs = workers * count
        of_server = (cpu_seconds(pid) - cpu) / jobs if pid is not None else float("nan")
        return jobs / elapsed, 1e6 * of_server, 1e6 * used / jobs
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def run(scale: Scale, names: list[str] | None = None) -> None:
    """Print the table."""
    rounds = scale.pick(1, 3, 9)
    count = scale.pick(500, 2000, 4000)
    here = [peer for peer in peers() if not peer.missing]
    found: dict[str, tuple[list[tuple[float, float, float]], ...]] = {peer.name: ([], []) for peer in here}
    with ExitStack() as stack:
        served = {peer.name: stack.enter_context(peer.serve(stack.enter_context(directory()))) for peer in here}
        for _ in range(rounds):
            for peer in here:
                address, fill, pid = served[peer.name]
                jobs = max(20, int(peer.share * count))
                for column, workers in enumerate((1, 4)):
                    each = jobs // workers
                    # Each worker does one before it says that it is ready, and may hold one more.
                    fill(workers * (each + 2))
                    found[peer.name][column].append(cycles(peer, address, pid, workers, each))
    reference = found[here[0].name]
    rows: list[list[Cell]] = []
    for peer in here:
        row: list[Cell] = [peer.name]
        for ours, theirs in zip(reference, found[peer.name], strict=True):
            row.append(median(rate for rate, _, _ in theirs))
            row.append(median(a[0] / b[0] for a, b in zip(ours, theirs, strict=True)))
        one = found[peer.name][0]
        server = median(of_server for _, of_server, _ in one)
        rows.append([*row, None if isnan(server) else server, median(of_worker for _, _, of_worker in one)])
    show(
        "Cycles of claim and complete per second (x: so many times as fast is claimdagd, `next` over a bare socket)",
        ("", "1 worker", "x", "4 workers", "x", "server CPU us", "worker CPU us"),
        rows,
        "CPU microseconds per cycle, of one worker: they are little changed by what else runs on the machine.",
    )
    for peer in peers():
        if peer.missing:
            print(f"left out: {peer.name}: {peer.missing}; see docs/explanation/performance.md for how to install it")
