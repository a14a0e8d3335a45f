"""`claimdag watch` and `claimdag wait` as processes: what they print, and daemons that restart under them."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Client, Daemon, running, until
from tests.system.worker import Worker, claimdag


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir / "claimdag") as daemon:
        yield daemon


def add(daemon: Daemon, **fields: Any) -> str:
    with Client(daemon.path) as client:
        return str(client.ask("upsert", **fields)["id"])


def stats(daemon: Daemon) -> dict[str, Any]:
    with Client(daemon.path) as client:
        return client.ask("stats")


def watching(daemon: Daemon) -> None:
    until(lambda: stats(daemon)["watchers"] == 1, "a watcher")


def line_of(worker: Worker) -> bytes:
    assert worker.process.stdout is not None
    return bytes(worker.process.stdout.readline())


def test_watch_prints_what_happens_from_now_on(daemon: Daemon) -> None:
    """A line for a person: who did what, and what became of the node; no escape of others' texts."""
    add(daemon, summary="before")
    with claimdag(daemon, "watch") as worker:
        watching(daemon)
        id = add(daemon, summary="evil \x1b[31m\u202e text", actor="bob")
        line = line_of(worker).decode()
        assert all(word in line for word in ("upsert by bob", id, "ready", "evil"))
        assert line[:-1].isprintable()
        worker.signal(signal.SIGINT)
        assert worker.wait() == 130
        assert worker.err == b""


def test_watch_json_from_a_seq_gives_the_ledger_as_journaled(daemon: Daemon) -> None:
    """Every entry once, in order, over a restart and a crash of the daemon."""
    add(daemon)
    with claimdag(daemon, "watch", "--from", "1", "--json") as worker:
        seen = [json.loads(line_of(worker))]
        for number in (signal.SIGTERM, signal.SIGKILL):
            watching(daemon)
            daemon.signal(number)
            daemon.wait()
            daemon.end()
            daemon = Daemon(daemon.directory).until_up()
            add(daemon)
            seen.append(json.loads(line_of(worker)))
        entries = daemon.client().ask("log")["entries"]
    daemon.end()
    assert [entry["seq"] for entry in seen] == [1, 2, 3]
    assert [entry["nodes"][0]["id"] for entry in seen] == [entry["nodes"][0]["id"] for entry in entries]


def test_watch_ends_when_nobody_reads_it(daemon: Daemon) -> None:
    """As `head` leaves it."""
    with claimdag(daemon, "watch", "--json") as worker:
        watching(daemon)
        assert worker.process.stdout is not None
        worker.process.stdout.close()
        worker.process.stdout = None
        add(daemon)
        assert worker.wait() == 141


def test_wait_ends_with_the_last_of_the_nodes(daemon: Daemon) -> None:
    """However they ended, one line each."""
    ids = [add(daemon) for _ in range(2)]
    with claimdag(daemon, "wait", ids[0], ids[1].partition("-")[2], stderr=subprocess.STDOUT) as worker:
        until(lambda: stats(daemon)["parked"] == 1, "a waiting process")
        daemon.client().ask("complete", id=ids[0])
        time.sleep(0.1)
        assert worker.process.poll() is None
        daemon.client().ask("complete", id=ids[1], status="failed", error="no \x1b[31mgood")
        assert worker.wait() == 0
    first, second = worker.out.decode().splitlines()
    assert f"{ids[0]} done" in first
    assert f"{ids[1]} failed" in second
    assert "\x1b" not in second


def test_wait_whose_time_is_over_exits_one(daemon: Daemon) -> None:
    """And says how many are not finished."""
    id = add(daemon)
    with claimdag(daemon, "wait", id, "--timeout", "0.2") as worker:
        assert worker.wait() == 1
    assert b"not finished" in worker.err


def test_wait_for_an_unknown_node_exits_one(daemon: Daemon) -> None:
    """There is nothing to wait for."""
    with claimdag(daemon, "wait", "77") as worker:
        assert worker.wait() == 1


def test_wait_goes_on_over_a_restart(daemon: Daemon) -> None:
    """Asked again of the next daemon, with the time that is left."""
    id = add(daemon)
    with claimdag(daemon, "wait", id, "--timeout", "30") as worker:
        until(lambda: stats(daemon)["parked"] == 1, "a waiting process")
        daemon.kill()
        with running(daemon.directory) as again:
            again.client().ask("complete", id=id)
            assert worker.wait() == 0
