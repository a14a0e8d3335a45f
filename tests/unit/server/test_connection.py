"""One connection without a loop or a daemon: what it waits for after each thing that may happen to it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from claimdagd.server.loop.connection import UNREAD_MAX_BYTES, Connection
from tests.support.fake_poller import FakePoller
from tests.unit.server.stub import StubService


class FakeHost:
    """What connections share. `flushing`: answers are held back until a flush of the journal."""

    def __init__(self) -> None:
        self.service: Any = StubService()
        self.poller: Any = FakePoller()
        self.to_flush: list[Connection] = []
        self.deadlines: set[Connection] = set()
        self.unread_bytes = 0
        self.flushing = False
        self.forgotten = 0

    def heartbeat(self) -> None:
        pass

    def end_turn(self) -> None:
        while self.to_flush:
            self.to_flush.pop().flush()

    def await_commit(self, _connection: Connection) -> bool:
        return self.flushing

    def forget(self, _connection: Connection) -> None:
        self.forgotten += 1


class Ends:
    """A connection on a socket pair, and its peer."""

    def __init__(self) -> None:
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.peer.setblocking(False)
        self.host = FakeHost()
        self.connection = Connection(ours, self.host)

    @property
    def waits(self) -> set[str]:
        return self.host.poller.waits(self.connection.fd)

    def say(self, data: bytes) -> None:
        self.peer.sendall(data)
        self.connection.on_readable()

    def heard(self) -> bytes:
        data = b""
        with suppress(BlockingIOError):
            while more := self.peer.recv(1 << 20):
                data += more
        return data


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.connection.close()
    ends.peer.close()


def test_idle_connection_waits_for_input_alone(ends: Ends) -> None:
    """Before the first request and after it."""
    assert ends.waits == {"read"}
    ends.say(b'{"op":"ping","rid":1}\n')
    assert ends.heard() == b'{"rid": 1, "ok": {}}\n'
    assert ends.waits == {"read"}


def test_answer_that_the_kernel_does_not_take_waits_for_room(ends: Ends) -> None:
    """And requests are read meanwhile, up to a limit."""
    ends.say(b'{"op":"size","n":1000000,"rid":1}\n')
    assert ends.waits == {"read", "write"}
    assert ends.connection in ends.host.deadlines
    total = 0
    while "write" in ends.waits:
        total += len(ends.heard())
        ends.connection.on_writable()
    total += len(ends.heard())
    assert total > 1_000_000
    assert ends.waits == {"read"}
    assert ends.connection not in ends.host.deadlines
    assert ends.host.unread_bytes == 0


def test_peer_that_leaves_too_much_unread_is_not_read_from(ends: Ends) -> None:
    """Until it has read."""
    ends.say(b'{"op":"size","n":%d,"rid":1}\n' % (UNREAD_MAX_BYTES + 1_000_000))
    assert ends.waits == {"write"}
    while len(ends.connection._unread) > UNREAD_MAX_BYTES:
        ends.heard()
        ends.connection.on_writable()
    assert ends.waits == {"read", "write"}


def test_half_closed_connection_without_more_to_say_is_closed(ends: Ends) -> None:
    """A last line without its newline is a request."""
    ends.peer.sendall(b'{"op":"ping","rid":1}')
    ends.connection.on_readable()
    ends.peer.shutdown(socket.SHUT_WR)
    ends.connection.on_readable()
    assert ends.heard().endswith(b"}\n")
    assert ends.connection.closed
    assert ends.host.forgotten == 1


def test_half_closed_connection_with_a_reply_to_come_waits_for_the_hangup(ends: Ends) -> None:
    """And is closed when that has been sent."""
    ends.say(b'{"op":"park","rid":1}\n')
    ends.peer.shutdown(socket.SHUT_WR)
    ends.connection.on_readable()
    assert ends.waits == {"hangup"}
    ends.host.service._unpark(ends.host.service.sessions[0])
    ends.host.end_turn()
    assert ends.connection.closed


def test_half_closed_connection_waits_for_answers_held_back_by_a_flush(ends: Ends) -> None:
    """It is looked at again after it."""
    ends.host.flushing = True
    ends.peer.shutdown(socket.SHUT_WR)
    ends.connection.on_readable()
    assert not ends.connection.closed
    ends.host.flushing = False
    ends.connection.flush()
    assert ends.connection.closed


def test_hang_up_closes_after_what_is_queued(ends: Ends) -> None:
    """Nothing more is read."""
    ends.say(b'{"op":"size","n":1000000,"rid":1}\n')
    ends.connection.hang_up()
    ends.host.end_turn()
    assert ends.waits == {"write"}
    while not ends.connection.closed:
        ends.heard()
        ends.connection.on_writable()


def test_peer_that_is_gone_closes_the_connection_once(ends: Ends) -> None:
    """The service is told that its answers did not arrive."""
    ends.say(b'{"op":"size","n":1000000,"rid":1}\n')
    ends.peer.close()
    ends.connection.on_writable()
    ends.connection.close()
    assert ends.host.service.undelivered == [True]
    assert ends.host.unread_bytes == 0


def test_bug_costs_the_connection_and_is_logged(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing else."""
    ends.say(b'{"op":"boom"}\n')
    assert ends.connection.closed
    assert "error in claimdagd itself" in caplog.text


def test_deadline_cuts_the_peer_off(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    """With how much it left unread."""
    caplog.set_level("INFO", "claimdagd")
    ends.say(b'{"op":"size","n":1000000,"rid":1}\n')
    ends.connection.on_deadline()
    assert ends.connection.closed
    assert "cut off a client that left" in caplog.text
