"""Callbacks on descriptors: who is called when, that the loop has its turns, and that vain looking stops."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.lowlevel
import pytest

from claimdagd.server.loop.poller import MISSES_MAX, Poller, SpinPolicy

pytestmark = pytest.mark.anyio


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def fill(sock: socket.socket) -> None:
    """Send until the kernel takes no more."""
    with suppress(BlockingIOError):
        while True:
            sock.send(b"x" * 65536)


def empty(sock: socket.socket) -> None:
    """Read until there is nothing."""
    with suppress(BlockingIOError):
        while True:
            sock.recv(1 << 20)


@asynccontextmanager
async def running(backend: str) -> AsyncIterator[Poller]:
    """A poller that serves."""
    poller = Poller()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(poller.run, backend)
        yield poller
        tasks.cancel_scope.cancel()


async def test_a_reader_is_called_as_long_as_it_leaves_something(
    anyio_backend_name: str, pair: tuple[socket.socket, socket.socket]
) -> None:
    """Level-triggered: a byte at a time, all of them come."""
    ours, theirs = pair
    got = bytearray()
    done = anyio.Event()

    def read() -> None:
        got.extend(ours.recv(1))
        if len(got) == 5:
            done.set()
            poller.yield_loop()

    async with running(anyio_backend_name) as poller:
        poller.add_reader(ours.fileno(), read)
        theirs.send(b"hello")
        with anyio.fail_after(5):
            await done.wait()
        poller.remove_reader(ours.fileno())
        theirs.send(b"more")
        await anyio.sleep(0.02)
    assert got == b"hello"


async def test_a_writer_is_called_once_there_is_room(
    anyio_backend_name: str, pair: tuple[socket.socket, socket.socket]
) -> None:
    """Not before the peer reads, and beside a reader of the same descriptor."""
    ours, theirs = pair
    fill(ours)
    called: list[str] = []
    done = anyio.Event()

    def write() -> None:
        called.append("write")
        poller.remove_writer(ours.fileno())
        done.set()
        poller.yield_loop()

    async with running(anyio_backend_name) as poller:
        poller.add_reader(ours.fileno(), lambda: called.append("read"))
        poller.add_writer(ours.fileno(), write)
        await anyio.sleep(0.02)
        assert called == []
        empty(theirs)
        with anyio.fail_after(5):
            await done.wait()
        poller.forget(ours.fileno())
    assert called == ["write"]


async def test_a_hangup_is_told_where_nothing_else_is_listened_for(
    anyio_backend_name: str, pair: tuple[socket.socket, socket.socket]
) -> None:
    """Half closed is not gone; fully closed is, and is told once it is forgotten no more."""
    ours, theirs = pair
    done = anyio.Event()
    calls = 0

    def gone() -> None:
        nonlocal calls
        calls += 1
        poller.forget(ours.fileno())
        done.set()
        poller.yield_loop()

    async with running(anyio_backend_name) as poller:
        theirs.shutdown(socket.SHUT_WR)
        poller.add_hangup(ours.fileno(), gone)
        await anyio.sleep(0.02)
        assert calls == 0
        theirs.close()
        with anyio.fail_after(5):
            await done.wait()
        await anyio.sleep(0.02)
    assert calls == 1


async def test_what_is_due_soon_is_done_once_and_in_order(anyio_backend_name: str) -> None:
    """Also what that itself puts off, each in a turn of its own."""
    order: list[int] = []
    done = anyio.Event()

    def again() -> None:
        order.append(1)
        poller.call_soon(last)

    def last() -> None:
        order.append(3)
        done.set()
        poller.yield_loop()

    async with running(anyio_backend_name) as poller:
        poller.call_soon(again)
        poller.call_soon(lambda: order.append(2))
        with anyio.fail_after(5):
            await done.wait()
        await anyio.sleep(0.02)
    assert order == [1, 2, 3]


async def test_a_flood_leaves_the_loop_its_turns(
    anyio_backend_name: str, pair: tuple[socket.socket, socket.socket]
) -> None:
    """A descriptor that is always ready keeps neither another one nor a task of the loop waiting."""
    ours, theirs = pair
    theirs.send(b"never read")
    turns = others = 0

    def flood() -> None:
        nonlocal turns
        turns += 1

    def other() -> None:
        nonlocal others
        others += 1
        poller.call_soon(other)

    async with running(anyio_backend_name) as poller:
        poller.add_reader(ours.fileno(), flood)
        poller.call_soon(other)
        with anyio.fail_after(5):
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            while turns < 1000:
                await anyio.sleep(0.001)
        poller.forget(ours.fileno())
    assert others > 100


async def test_giving_way_lets_the_loop_run_at_once(
    anyio_backend_name: str, pair: tuple[socket.socket, socket.socket]
) -> None:
    """After `yield_loop` nobody else is served before the task that was woken has run."""
    ours, theirs = pair
    theirs.send(b"never read")
    woken = anyio.Event()
    turns = 0
    seen = -1

    def flood() -> None:
        nonlocal turns
        turns += 1
        if turns == 10:
            woken.set()
            poller.yield_loop()

    async def wait() -> None:
        nonlocal seen
        await woken.wait()
        seen = turns

    async with running(anyio_backend_name) as poller, anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.sleep(0.01)
        poller.add_reader(ours.fileno(), flood)
        with anyio.fail_after(5):
            await woken.wait()
        poller.forget(ours.fileno())
    # The loop may look for who is ready once more before it runs the task, but not again and again.
    assert 10 <= seen < 10 + 5


def chances(patience: SpinPolicy) -> int:
    """How many chances are left out before the next is taken."""
    left_out = 0
    while not patience.may_spin():
        left_out += 1
    return left_out


def test_looking_is_left_off_where_nobody_comes() -> None:
    """Twice as long with each miss, up to a bound; one who comes brings it back."""
    patience = SpinPolicy()
    assert chances(patience) == 0
    waits = []
    for _ in range(MISSES_MAX + 2):
        patience.missed()
        waits.append(chances(patience))
    assert waits == [2**n - 1 for n in range(1, MISSES_MAX + 1)] + 2 * [2**MISSES_MAX - 1]
    patience.paid()
    assert chances(patience) == 0
    patience.missed()
    assert chances(patience) == 1


def test_looking_is_left_off_where_the_core_is_wanted_by_others() -> None:
    """At once, and for long."""
    patience = SpinPolicy()
    patience.preempted()
    assert chances(patience) == 2**MISSES_MAX - 1
