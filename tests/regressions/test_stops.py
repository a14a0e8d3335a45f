"""Signals that stop a command at any moment: it ends by that signal, and never prints a traceback."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from claimdag_client._async.unix_stream import UnixStream, connect_unix
from tests.support.daemon import Daemon, running

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: Starts the program as the installed command does, and says when it begins. Before that the interpreter itself loads.
START = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.close(int(sys.argv.pop(1)))
from claimdag_client.cli.__main__ import main
sys.exit(main())
"""
#: The longest time from the start of the program to the first signal; by then each of the commands waits for work.
LATEST_S = 0.7


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir / "claimdag", "--grace", "0.2") as daemon:
        yield daemon


def stop_at_random(daemon: Daemon, chance: random.Random, *arguments: str) -> None:
    """Start a command, stop it at a random moment, perhaps twice, and check how it ended."""
    begun, mark = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", START, str(mark), "--socket", str(daemon.path), "--no-start", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=[mark],
    ) as process:
        os.close(mark)
        os.read(begun, 1)
        os.close(begun)
        time.sleep(chance.random() * LATEST_S)
        numbers = [chance.choice(STOPS) for _ in range(chance.choice((1, 1, 2)))]
        for number in numbers:
            process.send_signal(number)
            time.sleep(chance.random() * 0.02)
        try:
            err = process.communicate(timeout=30)[1].decode()
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert "Traceback" not in err, err
    assert "rror" not in err, err
    by_signal = {-number for number in numbers} | {128 + number for number in numbers}
    assert process.returncode in by_signal | {0}, (arguments, numbers, err)


def stop_many(daemon: Daemon, count: int) -> None:
    seed = int(os.environ.get("CLAIMDAG_SEED", random.randrange(1 << 32)))
    sys.stdout.write(f"CLAIMDAG_SEED={seed}\n")
    chance = random.Random(seed)
    with daemon.client() as client:
        for turn in range(count):
            blocked = client.ask("upsert", summary="held up", status="blocked")["id"]
            node = client.ask("upsert", summary="work")["id"]
            command = chance.choice((["true"], ["sleep", "0.05"], ["sleep", "30"]))
            verb = ("work", "run", "watch", "wait", "next")[turn % 5]
            match verb:
                case "work":
                    arguments = ["--assignee", f"w{turn}", "-n", "2", "--", *command]
                case "run":
                    arguments = ["--assignee", f"r{turn}", node, "--", *command]
                case "wait":
                    arguments = [blocked]
                case "next":
                    client.ask("cancel", id=node)
                    arguments = ["--actor", f"n{turn}", "--role", "verifier", "--strict", "--wait", "30"]
                case _:
                    arguments = []
            stop_at_random(daemon, chance, verb, *arguments)
            for id in (node, blocked):
                client.try_to("cancel", id=id)


@pytest.mark.slow
def test_commands_that_wait_stop_without_a_traceback(daemon: Daemon) -> None:
    """Each of work, run, watch, wait and next --wait, four times at random moments."""
    stop_many(daemon, 20)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif("CLAIMDAG_SOAK" not in os.environ, reason="200 stops take minutes; CLAIMDAG_SOAK=1 runs them")
def test_commands_that_wait_stop_two_hundred_times_without_a_traceback(daemon: Daemon) -> None:
    """The same, often enough to meet the moments that are rare."""
    stop_many(daemon, 200)


@pytest.mark.anyio
async def test_receive_cancelled_as_its_bytes_arrive_is_silent(
    short_dir: Path, anyio_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop sees the bytes and the cancellation in one turn, in either order, and reports nothing."""
    stream, peer = await _pair(short_dir)
    async with stream, peer:
        for turn in range(50):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream.receive)
                await anyio.wait_all_tasks_blocked()
                await peer.send(b"x")
                if turn % 2:
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
        with anyio.move_on_after(5):
            await peer.send(b"end")
            received = b""
            while not received.endswith(b"end"):
                received += await stream.receive()
    assert received.endswith(b"end")
    assert caplog.records == []


@pytest.mark.anyio
async def test_stream_closed_while_a_task_receives_wakes_it(short_dir: Path, anyio_backend: str) -> None:
    """A receive does not hang on a descriptor that is gone."""
    stream, peer = await _pair(short_dir)
    async with peer, anyio.create_task_group() as tasks:

        async def receive() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await stream.receive()

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        await stream.aclose()


@pytest.mark.anyio
async def test_stream_sends_more_than_the_socket_holds_and_ends(short_dir: Path, anyio_backend: str) -> None:
    """Whole, while the peer reads; then the peer sees the end, and still can answer."""
    stream, peer = await _pair(short_dir)
    async with stream, peer, anyio.create_task_group() as tasks:
        big = bytes(range(256)) * 8192

        async def send() -> None:
            await stream.send(big)
            await stream.send_eof()

        tasks.start_soon(send)
        received = b""
        while len(received) < len(big):
            received += await peer.receive()
        assert received == big
        with pytest.raises(anyio.EndOfStream):
            await peer.receive()
        await peer.send(b"still")
        assert await stream.receive() == b"still"


@pytest.mark.anyio
async def test_connect_where_nothing_listens_raises(short_dir: Path, anyio_backend: str) -> None:
    """With the system's own error."""
    with pytest.raises(FileNotFoundError):
        await connect_unix(str(short_dir / "none"))


async def _pair(directory: Path) -> tuple[UnixStream, UnixStream]:
    import socket

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with listener:
        listener.bind(str(directory / "s"))
        listener.listen(1)
        stream = await connect_unix(str(directory / "s"))
        accepted, _ = listener.accept()
    accepted.setblocking(False)
    return stream, UnixStream(accepted)
