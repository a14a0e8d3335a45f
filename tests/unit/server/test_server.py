"""The shell around a stub service: every way in which bytes, peers and time can come, on both loops."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from claimdagd.limits import LINE_MAX_BYTES
from claimdagd.server import server as server_module
from claimdagd.server.loop import connection as connection_module
from claimdagd.server.server import Options
from tests.unit.server.peer import Peer, serving
from tests.unit.server.stub import StubService

pytestmark = pytest.mark.anyio


def request(op: str, **fields: object) -> bytes:
    return json.dumps({"op": op, **fields}).encode() + b"\n"


async def test_requests_pipelined_are_answered_in_order(short_dir: Path) -> None:
    """Thousands of requests sent at once come back one by one, in order (law 8.1)."""
    async with serving(short_dir) as running:
        peer = running.connect()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.send, b"".join(request("ping", rid=n) for n in range(5000)))
            for n in range(5000):
                assert (await peer.answer())["rid"] == n


async def test_requests_in_one_chunk_are_given_to_the_service_at_once(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk's lines make one batch, so that they make one journal write and one send."""
    monkeypatch.setattr(connection_module, "TURN_S", 60.0)  # on a busy machine a turn may be over before
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(b"".join(request("ping", rid=n) for n in range(64)))
        for n in range(64):
            assert (await peer.answer())["rid"] == n
        assert running.service.batches == [64]


async def test_line_sent_one_byte_at_a_time_is_one_request(short_dir: Path) -> None:
    """The pieces that a line comes in do not matter."""
    async with serving(short_dir) as running:
        peer = running.connect()
        for byte in request("ping", rid=7):
            await peer.send(bytes([byte]))
            await anyio.lowlevel.checkpoint()
        assert (await peer.answer())["rid"] == 7
        assert len(running.service.lines) == 1


async def test_bad_line_costs_an_answer_and_not_the_connection(short_dir: Path) -> None:
    """After nonsense the next request is answered (law 8.3)."""
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(b"\xff\xfe nonsense\n" + request("ping", rid=1))
        assert (await peer.answer())["error"]["code"] == "bad_request"
        assert (await peer.answer())["rid"] == 1


async def test_line_at_the_limit_is_taken(short_dir: Path) -> None:
    """Exactly 4 MiB without the newline is a line."""
    async with serving(short_dir) as running:
        peer = running.connect()
        line = b'{"op":"ping","rid":1}'
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.send, line + b" " * (LINE_MAX_BYTES - len(line)) + b"\n")
            assert (await peer.answer())["rid"] == 1
        assert len(running.service.lines[0]) == LINE_MAX_BYTES


@pytest.mark.parametrize("size", [LINE_MAX_BYTES + 1, 3 * LINE_MAX_BYTES])
async def test_line_over_the_limit_is_answered_and_ends_the_connection(short_dir: Path, size: int) -> None:
    """What came before the long line is answered, then too_large, then the end; what comes after is not looked at.

    Law 8.3.
    """
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(request("ping", rid=1) + b"x" * size + b"\n" + request("ping", rid=2))
        peer.half_close()
        lines = (await peer.rest()).splitlines()
        assert json.loads(lines[0])["rid"] == 1
        assert json.loads(lines[1])["error"]["code"] == "too_large"
        assert len(lines) == 2
        await running.until(lambda: not running.server.connections, "the end of the connection")


async def test_half_closed_connection_still_gets_its_answers(short_dir: Path) -> None:
    """Also those that are answered later, and a last line without its newline (law 8.1)."""
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(request("park", rid=1) + request("ping", rid=2).rstrip())
        peer.half_close()
        assert (await peer.answer())["rid"] == 2
        other = running.connect()
        await other.ask("unpark", rid=3)
        assert (await peer.answer()) == {"rid": 1, "ok": {"unparked": True}}
        assert await peer.rest() == b""


async def test_peer_that_leaves_while_half_closed_and_parked_is_noticed(short_dir: Path) -> None:
    """Closing the other half ends the session at once, without anything being sent."""
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(request("park", rid=1))
        peer.half_close()
        await running.until(lambda: running.service.sessions and running.service.sessions[0].awaits_replies, "parking")
        await anyio.sleep(0.02)
        peer.close()
        await running.until(lambda: not running.service.sessions, "the end of the session")


async def test_peer_that_leaves_in_the_middle_of_a_line_has_not_asked(short_dir: Path) -> None:
    """A line without its end is nothing when nobody is left to hear the answer."""
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(b'{"op":"ping"}')
        await anyio.sleep(0.02)
        peer.close()
        await running.until(lambda: not running.server.connections, "the end of the connection")
        assert running.service.lines == []


@pytest.mark.parametrize("read", [True, False])
async def test_peer_that_ends_without_reading_its_answer_is_told_from_one_that_read_it(
    short_dir: Path, read: bool
) -> None:
    """So that a claim handed to the dead comes back at once."""
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(request("ping"))
        await running.until(lambda: running.service.lines, "the request")
        if read:
            await peer.answer()
        else:
            await anyio.sleep(0.02)
        peer.close()
        await running.until(lambda: not running.service.sessions, "the end of the session")
        assert running.service.undelivered == [not read]


async def test_error_in_the_service_costs_that_connection_alone(
    short_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug is logged, never sent, and the others go on."""
    async with serving(short_dir) as running:
        other = running.connect()
        await other.ask("ping")
        peer = running.connect()
        await peer.send(request("boom"))
        assert await peer.rest() == b""
        assert "planted bug" in caplog.text
        assert (await other.ask("ping", rid=2))["rid"] == 2


async def test_service_may_hang_up_after_what_is_queued(short_dir: Path) -> None:
    """The last answer arrives, the requests behind it are not looked at."""
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(request("hang_up", rid=1) + request("ping", rid=2))
        assert json.loads(await peer.rest())["rid"] == 1


async def test_large_answers_arrive_whole_at_a_slow_reader(short_dir: Path) -> None:
    """What the kernel does not take at once is sent as the peer reads."""
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(b"".join(request("size", rid=n, n=1_000_000) for n in range(10)))
        await anyio.sleep(0.05)
        for n in range(10):
            answer = await peer.answer()
            assert (answer["rid"], len(answer["ok"]["text"])) == (n, 1_000_000)
        assert running.server.unread_bytes == 0


async def test_peer_that_does_not_read_is_not_read_from(short_dir: Path) -> None:
    """Its requests wait unread, so that what is kept for it is bounded; once it reads it gets every answer."""
    async with serving(short_dir) as running:
        peer = running.connect()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.send, b"".join(request("size", rid=n, n=100_000) for n in range(300)))
            await anyio.sleep(0.2)
            assert running.server.unread_bytes < connection_module.UNREAD_MAX_BYTES * 2
            for n in range(300):
                assert (await peer.answer())["rid"] == n


async def test_peer_that_never_reads_is_cut_off(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the stall timeout; nothing of it is kept (law 8.4)."""
    monkeypatch.setattr(connection_module, "STALL_S", 0.05)
    monkeypatch.setattr(server_module, "HEARTBEAT_S", 0.05)
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(request("size", n=3_000_000))
        await running.until(lambda: running.server.unread_bytes, "unread bytes")
        await running.until(lambda: not running.server.connections, "the cut")
        assert running.server.unread_bytes == 0
        assert running.service.sessions == []


async def test_watcher_that_does_not_read_is_told_lagged_and_cut_off(short_dir: Path) -> None:
    """What is kept for it is bounded, ends in whole lines, and the last of them says why; others notice nothing.

    Law 8.7.
    """
    async with serving(short_dir) as running:
        watcher = running.connect()
        await watcher.ask("watch")
        good = running.connect()
        await good.ask("watch")
        source = running.connect()
        seen = 0
        for _ in range(40):
            await source.ask("emit", n=10, size=10_000)
            for _ in range(10):
                await good.answer()
        assert running.server.unread_bytes < connection_module.WATCHER_MAX_BYTES * 2
        lines = (await watcher.rest()).splitlines()
        for line in lines[:-1]:
            assert json.loads(line)["event"]["n"] == seen % 10
            seen += 1
        assert json.loads(lines[-1])["error"]["code"] == "lagged"
        assert 0 < seen < 400
        assert (await good.ask("ping", rid=5))["rid"] == 5


async def test_watcher_with_a_long_replay_is_not_lagging_for_that(short_dir: Path) -> None:
    """What it asked for itself does not count against it."""
    async with serving(short_dir) as running:
        watcher = running.connect()
        await watcher.send(request("watch", n=500, size=10_000))
        await anyio.sleep(0.05)
        await running.connect().ask("emit", n=1, size=10)
        await watcher.answer()
        for number in range(500):
            assert (await watcher.answer())["event"]["replay"] == number
        assert (await watcher.answer())["event"]["n"] == 0


async def test_hostile_pipeliner_does_not_starve_others(short_dir: Path) -> None:
    """While one client has seconds of work queued, another is answered within a few turns."""
    async with serving(short_dir) as running:
        hostile = running.connect()
        good = running.connect()
        await good.ask("ping")
        await hostile.send(request("work", seconds=0.001) * 400)
        await anyio.sleep(0.005)
        handled = []
        for n in range(10):
            before = len(running.service.lines)
            assert (await good.ask("ping", rid=n))["rid"] == n
            handled.append(len(running.service.lines) - before)
        assert len(running.service.lines) < 400
        assert max(handled) < 40, "of 400 that are queued, between a question and its answer"


async def test_unfinished_turn_is_gone_on_with(short_dir: Path) -> None:
    """Lines that a turn had no time for are answered without the peer sending anything more."""
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(b"".join(request("work", rid=n, seconds=0.001) for n in range(20)))
        peer.half_close()
        assert [json.loads(line)["rid"] for line in (await peer.rest()).splitlines()] == list(range(20))
        assert len(running.service.batches) > 3


async def test_alarm_rings_when_due_and_when_it_comes_nearer(short_dir: Path) -> None:
    """The reaper sleeps to the next deadline, and wakes for an earlier one."""
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(request("alarm", rid="late", seconds=60) + request("alarm", rid="soon", seconds=0.05))
        assert (await peer.answer())["rid"] == "soon"
        assert running.service.ticks < 10
        running.service.clock.ahead += 60
        assert (await peer.answer())["rid"] == "late"


@pytest.mark.slow
async def test_gap_in_the_loop_is_told_before_anything_else(short_dir: Path) -> None:
    """After the daemon was stopped the service hears of it before any deadline is looked at (law 4.8)."""
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(request("alarm", rid=1, seconds=0.5))
        await running.until(lambda: running.service.alarms, "the alarm's setting")
        await anyio.sleep(0.05)
        time.sleep(server_module.GAP_S + 0.1)  # noqa: ASYNC251 - to stop the loop is the point
        await peer.answer()
        assert running.service.heard == ["gap", "alarm"]


async def test_snapshot_leaves_requests_their_turns(short_dir: Path) -> None:
    """Between two slices others are answered (law 7.5)."""
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.ask("snapshot")
        await peer.ask("ping")
        assert running.service.slices < 50
        await running.until(lambda: running.service.slices == 50, "the end of the snapshot")


async def test_answers_held_back_leave_after_the_flush(short_dir: Path) -> None:
    """In fsync mode many requests share a flush, also those of a half-closed connection."""
    synced: list[int] = []
    service = StubService(held_back=True)

    def sync() -> None:
        synced.append(service.commits)
        time.sleep(0.02)

    async with serving(short_dir, service, sync=sync) as running:
        peers = [running.connect() for _ in range(20)]
        for peer in peers:
            await peer.send(request("ping", rid=1) + request("ping", rid=2))
            peer.half_close()
        for peer in peers:
            assert [json.loads(line)["ok"] for line in (await peer.rest()).splitlines()] == [{"durable": True}] * 2
        assert len(synced) < 10


async def test_failed_flush_is_told_to_the_service(short_dir: Path) -> None:
    """The answers held back become refusals, and the daemon goes on."""

    def sync() -> None:
        raise OSError(28, "No space left on device")

    async with serving(short_dir, StubService(held_back=True), sync=sync) as running:
        peer = running.connect()
        for _ in range(2):
            assert (await peer.ask("ping"))["error"]["code"] == "storage"


async def test_connections_over_the_cap_wait_for_one_to_close(short_dir: Path) -> None:
    """They are not refused: they are in the kernel's queue until there is room."""
    async with serving(short_dir, options=Options(max_connections=2)) as running:
        first, second, third = (running.connect() for _ in range(3))
        await first.ask("ping")
        await second.ask("ping")
        await third.send(request("ping", rid=3))
        await anyio.sleep(0.05)
        assert len(running.server.connections) == 2
        first.close()
        assert (await third.answer())["rid"] == 3


async def test_thousand_connections_are_served(short_dir: Path) -> None:
    """Each of them, and none is lost when they go."""
    async with serving(short_dir) as running:
        peers: list[Peer] = []
        for _ in range(1000):
            peers.append(running.connect())
            if len(peers) % 50 == 0:
                await anyio.lowlevel.checkpoint()
        for n, peer in enumerate(peers):
            await peer.send(request("ping", rid=n))
        for n, peer in enumerate(peers):
            assert (await peer.answer())["rid"] == n
        for peer in peers:
            peer.close()
        await running.until(lambda: not running.server.connections, "the end of a thousand connections")
        assert running.service.sessions == []


@pytest.mark.slow
async def test_idle_server_leaves_by_itself(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not while somebody is connected, nor while there is work (law 9.2)."""
    monkeypatch.setattr(server_module, "HEARTBEAT_S", 0.02)
    async with serving(short_dir, options=Options(idle_exit_s=0.1)) as running:
        peer = running.connect()
        await peer.ask("ping")
        await anyio.sleep(0.3)
        assert running.status is None
        running.service.idle = False
        peer.close()
        await anyio.sleep(0.3)
        assert running.status is None
        running.service.idle = True
        await running.until(lambda: running.status == 0, "leaving")
        assert not running.path.exists()


async def test_shutdown_answers_what_was_asked_and_hangs_up(short_dir: Path) -> None:
    """Requests sent before are answered, parked ones are told, the socket's path is gone."""
    async with serving(short_dir) as running:
        parked, idle, asking, last = (running.connect() for _ in range(4))
        await idle.ask("ping")
        await parked.send(request("park", rid=1))
        await parked.send(request("ping", rid=2))
        assert (await parked.answer())["rid"] == 2
        await asking.ask("ping")
        await last.send(request("shutdown", rid=9))
        await asking.send(request("ping", rid=3))
        assert json.loads(await last.rest())["rid"] == 9
        assert json.loads(await asking.rest())["rid"] == 3
        assert json.loads(await parked.rest())["error"]["code"] == "shutting_down"
        assert await idle.rest() == b""
        await running.until(lambda: running.status == 0, "leaving")
        assert not running.path.exists()


async def test_shutdown_does_not_wait_for_a_peer_that_does_not_read(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon is gone all the same, when the time that it leaves in is over."""
    monkeypatch.setattr(server_module, "LEAVE_WITHIN_S", 0.05)
    async with serving(short_dir) as running:
        peer = running.connect()
        await peer.send(request("size", n=3_000_000))
        await running.until(lambda: running.server.unread_bytes, "unread bytes")
        running.server.stop("the test says so")
        await running.until(lambda: running.status == 0, "leaving")
        assert len(running.service.undelivered) == 1


async def test_server_whose_place_is_lost_says_so_and_leaves(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A socket's path that is another's by now is not unlinked on the way out (law 9.4)."""
    monkeypatch.setattr(server_module, "HEARTBEAT_S", 0.02)
    lost: list[str] = []
    async with serving(short_dir, ownership_lost=lambda: lost[0] if lost else None) as running:
        running.path.unlink()
        with socket.socket(socket.AF_UNIX) as usurper:
            usurper.bind(str(running.path))
            lost.append("the socket")
            await running.until(lambda: running.status == server_module.EXIT_OWNERSHIP_LOST, "leaving")
            assert running.path.exists()
    assert "the socket is no longer" in caplog.text
