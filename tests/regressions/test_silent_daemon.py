"""A daemon that is stopped or stuck: time limits hold, and without one a command says whom it waits for and ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimdag_client import connect as connect_async
from claimdag_client._transport.endpoint import Endpoint
from claimdag_client._transport.patience import REMARK_S, SILENCE_LIMIT_S, Patience
from claimdag_client._transport.transport import connect
from claimdag_client.errors import Unreachable, Unresponsive
from claimdag_client.sync import connect as connect_blocking

CLAIMDAG = [sys.executable, "-m", "claimdag_client.cli.main"]


@pytest.fixture
def stopped(short_dir: Path) -> Iterator[Path]:
    """The directory of a daemon with one node that was then stopped by SIGSTOP."""
    daemon = subprocess.Popen([sys.executable, "-m", "claimdagd", "--dir", str(short_dir)], stderr=subprocess.DEVNULL)
    try:
        while not (short_dir / "sock").exists():
            assert daemon.poll() is None
            time.sleep(0.01)
        with connect(Endpoint(directory=str(short_dir), start=False)) as connection:
            connection.request("upsert", summary="x")
        os.kill(daemon.pid, signal.SIGSTOP)
        yield short_dir
    finally:
        daemon.kill()
        daemon.wait()


def daemon_of(directory: Path) -> int:
    """The process that serves the directory, as its lock says."""
    return int((directory / "lock").read_text())


def run(directory: Path, *argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CLAIMDAG, "--dir", str(directory), *argv], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["wait", "1", "--timeout", "0.2"],
        ["next", "--actor", "a", "--wait", "0.2"],
        ["complete", "1", "--actor", "a", "--next", "--wait", "0.2"],
    ],
)
def test_a_time_limit_is_kept_though_the_daemon_is_stopped(stopped: Path, command: list[str]) -> None:
    """The command ends by itself, long before a command without a limit would."""
    out, err = (process := run(stopped, *command)).communicate(timeout=SILENCE_LIMIT_S / 2)
    assert (process.returncode, out) == (69, "")
    assert "is there but does not answer" in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_without_a_limit_a_command_says_whom_it_waits_for_and_ends(stopped: Path) -> None:
    """Short commands, and those that wait or watch: on stderr the socket, then status 69 (law 9.12)."""
    commands = [
        ["ping"],
        ["list"],
        ["wait", "1"],
        ["watch"],
        ["shutdown"],
        ["run", "--assignee", "a", "1", "--", "true"],
    ]
    running = [run(stopped, *command) for command in commands]
    for command, process in zip(commands, running, strict=True):
        _, err = process.communicate(timeout=SILENCE_LIMIT_S + 20)
        assert (command, process.returncode) == (command, 69)
        assert f"waiting for the daemon at {stopped}/sock" in err.splitlines()[0]
        assert "Traceback" not in err


@pytest.mark.slow
def test_a_wait_notices_that_its_daemon_was_stopped_meanwhile(short_dir: Path) -> None:
    """A parked question is silent by nature: a ping tells the difference."""
    daemon = subprocess.Popen([sys.executable, "-m", "claimdagd", "--dir", str(short_dir)], stderr=subprocess.DEVNULL)
    try:
        while not (short_dir / "sock").exists():
            time.sleep(0.01)
        with connect(Endpoint(directory=str(short_dir), start=False)) as connection:
            connection.request("upsert", summary="x")
            waiting = run(short_dir, "wait", "1")
            while connection.request("stats")["connections"] < 2:
                time.sleep(0.01)
        time.sleep(0.5)
        os.kill(daemon.pid, signal.SIGSTOP)
        _, err = waiting.communicate(timeout=SILENCE_LIMIT_S + 20)
        assert waiting.returncode == 69
        assert f"(pid {daemon.pid})" in err
    finally:
        daemon.kill()
        daemon.wait()


def test_a_full_queue_of_connections_is_given_up_in_time(short_dir: Path) -> None:
    """A stuck daemon accepts nobody; the system refuses further connections without a word."""
    path = str(short_dir / "sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = []
        while True:
            one = socket.socket(socket.AF_UNIX)
            waiting.append(one)
            one.setblocking(False)
            try:
                one.connect(path)
            except BlockingIOError:
                break
        with pytest.raises(Unresponsive, match="no daemon answered"):
            connect(Endpoint(path, start=False), limit_s=0.1)
        for one in waiting:
            one.close()


def test_a_daemon_that_reads_nothing_does_not_hold_up_a_long_request(short_dir: Path) -> None:
    """The socket's buffer is full: sending ends in time too."""
    path = str(short_dir / "sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(4)
        with connect(Endpoint(path, start=False), hello=False) as connection, pytest.raises(Unresponsive):
            connection.send({"op": "upsert", "summary": "x" * 4_000_000}, Patience(0.1))


def test_a_wait_remarks_once_and_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock alone."""
    now = 100.0
    monkeypatch.setattr("claimdag_client._transport.patience.time.monotonic", lambda: now)
    said: list[str] = []
    patience = Patience(SILENCE_LIMIT_S, lambda: said.append("waiting"))
    assert patience.left() == REMARK_S
    now += REMARK_S
    assert patience.left() == SILENCE_LIMIT_S - REMARK_S
    now += SILENCE_LIMIT_S
    with pytest.raises(TimeoutError):
        patience.left()
    assert said == ["waiting"]


def test_nobody_listening_is_still_unreachable_at_once(short_dir: Path) -> None:
    """A limit is for a silent daemon, not for none."""
    with pytest.raises(Unreachable, match="no daemon listens") as caught:
        connect(Endpoint(str(short_dir / "sock"), start=False), limit_s=30)
    assert not isinstance(caught.value, Unresponsive)


@pytest.mark.slow
def test_the_blocking_client_keeps_every_limit_that_its_caller_gave(stopped: Path) -> None:
    """Of the connection itself, of each wait, and of closing; an answer that comes later does no harm."""
    with pytest.raises(Unresponsive):
        connect_blocking(directory=str(stopped), patience_s=0.2)
    os.kill(daemon_of(stopped), signal.SIGCONT)
    with connect_blocking(directory=str(stopped), patience_s=0.5) as dag:
        node = dag.list()[0].id
        os.kill(daemon_of(stopped), signal.SIGSTOP)
        with pytest.raises(Unresponsive, match="time limit given"):
            dag.claim_next("a", wait=0.1)
        with pytest.raises(Unresponsive, match="time limit given"):
            dag.wait(node, timeout=0.1)
        with pytest.raises(Unreachable):
            dag.get(node)
    os.kill(daemon_of(stopped), signal.SIGCONT)
    with connect_blocking(directory=str(stopped)) as dag:
        # The claim of the caller that had given up was handed back, or was bound to a connection that ended.
        assert dag.claim_next("b", wait=20).id == node


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_async_client_keeps_every_limit_that_its_caller_gave(stopped: Path) -> None:
    """As the blocking one, on both event loops."""
    with pytest.raises(Unresponsive):
        async with connect_async(directory=str(stopped), patience_s=0.2):
            pass
    os.kill(daemon_of(stopped), signal.SIGCONT)
    async with connect_async(directory=str(stopped), patience_s=0.5) as dag:
        node = (await dag.list())[0].id
        os.kill(daemon_of(stopped), signal.SIGSTOP)
        with pytest.raises(Unresponsive, match="time limit given"):
            await dag.claim_next("a", wait=0.1)
        with pytest.raises(Unresponsive, match="time limit given"):
            await dag.wait(node, timeout=0.1)
        with pytest.raises(Unreachable):
            await dag.get(node)
    os.kill(daemon_of(stopped), signal.SIGCONT)
    async with connect_async(directory=str(stopped)) as dag:
        assert (await dag.claim_next("b", wait=20)).id == node


@pytest.mark.anyio
async def test_an_async_connection_to_a_full_queue_is_given_up_in_time(short_dir: Path) -> None:
    """Both event loops take the system's refusal for a connection."""
    path = str(short_dir / "sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = []
        while True:
            one = socket.socket(socket.AF_UNIX)
            waiting.append(one)
            one.setblocking(False)
            try:
                one.connect(path)
            except BlockingIOError:
                break
        with pytest.raises(Unresponsive):
            async with connect_async(path, patience_s=0.2):
                pass
        for one in waiting:
            one.close()
