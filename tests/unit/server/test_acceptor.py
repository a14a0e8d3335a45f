"""Accepting: in batches, resting at a limit, and said in the log once however often it flaps."""

from __future__ import annotations

import errno
import logging
import os
import socket

import pytest

from claimdagd.server.loop.acceptor import BATCH, Acceptor
from tests.support.fake_poller import FakePoller


class FakeListening:
    """A listening socket with `waiting` newcomers; `error` is raised instead if it is set."""

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting
        self.error: OSError | None = None
        self.asked = 0

    def fileno(self) -> int:
        return 7

    def accept(self) -> tuple[object, str]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        if not self.waiting:
            raise BlockingIOError
        self.waiting -= 1
        return object(), ""


class Door:
    """An acceptor with room for `limit`, and what it let in."""

    def __init__(self, waiting: int, limit: int) -> None:
        self.listening = FakeListening(waiting)
        self.poller = FakePoller()
        self.limit = limit
        self.taken: list[socket.socket] = []
        self.acceptor = Acceptor(
            self.listening,  # type: ignore[arg-type]
            self.poller,  # type: ignore[arg-type]
            has_room=lambda: len(self.taken) < self.limit,
            on_connect=self.taken.append,
        )
        self.acceptor.resume()


def test_all_who_wait_are_taken_in_batches() -> None:
    """Others have their turn after each batch."""
    door = Door(BATCH + 3, limit=1000)
    door.acceptor.accept()
    assert len(door.taken) == BATCH
    door.acceptor.accept()
    assert len(door.taken) == BATCH + 3
    assert door.acceptor.accepting


def test_acceptor_rests_at_the_limit_until_there_is_room() -> None:
    """No callback is registered meanwhile, and a resume without room changes nothing."""
    door = Door(5, limit=2)
    door.acceptor.accept()
    assert (len(door.taken), door.poller.readers) == (2, {})
    door.acceptor.resume()
    assert door.poller.readers == {}
    door.taken.pop()
    door.acceptor.resume()
    door.acceptor.accept()
    assert (len(door.taken), door.poller.readers) == (2, {})


def test_flapping_at_the_limit_is_one_line_until_nobody_waits(caplog: pytest.LogCaptureFixture) -> None:
    """However often there was room for one more in between."""
    caplog.set_level(logging.INFO, "claimdagd")
    door = Door(500, limit=2)
    door.acceptor.accept()
    while door.listening.waiting:
        door.taken.clear()
        door.acceptor.resume()
        door.acceptor.accept()
    door.taken.clear()
    door.acceptor.resume()
    door.acceptor.accept()
    assert [record.getMessage() for record in caplog.records] == [
        "too many connections: new ones wait",
        "accepting connections again",
    ]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
def test_acceptor_rests_without_descriptors_or_memory(number: int, caplog: pytest.LogCaptureFixture) -> None:
    """It asks the kernel once each time it is resumed, and says so once."""
    caplog.set_level(logging.INFO, "claimdagd")
    door = Door(5, limit=1000)
    door.listening.error = OSError(number, os.strerror(number))
    for _ in range(100):
        door.acceptor.accept()
        assert not door.acceptor.accepting
        door.acceptor.resume()
    assert door.listening.asked == 100
    assert len(caplog.records) == 1
    door.listening.error = None
    door.acceptor.accept()
    assert len(door.taken) == 5
    assert caplog.records[-1].getMessage() == "accepting connections again"


def test_other_error_is_said_by_name(caplog: pytest.LogCaptureFixture) -> None:
    """It is no reason to end."""
    door = Door(1, limit=10)
    door.listening.error = OSError(errno.EPROTO, "Protocol error")
    door.acceptor.accept()
    assert not door.acceptor.accepting
    assert "accepting failed" in caplog.text


def test_stopped_acceptor_is_never_resumed() -> None:
    """The daemon leaves."""
    door = Door(1, limit=10)
    door.acceptor.stop()
    door.acceptor.resume()
    assert not door.acceptor.accepting
    assert door.poller.readers == {}
