"""What is written in one go: told after that, or rolled back whole and done again one by one."""

from __future__ import annotations

import pytest

from tests.support.in_process import InProcessDaemon, Peer

MANY = [{"op": "upsert", "summary": f"n{number}", "rid": number} for number in range(5)]


def test_batch_is_one_write() -> None:
    """Five requests in one chunk."""
    daemon = InProcessDaemon()
    appended: list[int] = []
    append = daemon.store.append

    def count(lines: list[bytes]) -> None:
        appended.append(len(lines))
        append(lines)

    daemon.store.append = count  # type: ignore[method-assign]
    answers = daemon.peer().ask(*MANY)
    assert [answer["rid"] for answer in answers] == list(range(5))
    assert appended == [5]


def test_batch_that_cannot_be_written_is_done_again_one_by_one() -> None:
    """What changes nothing is answered; what would is refused, and nothing is left of it."""
    daemon = InProcessDaemon()
    peer = daemon.peer()
    daemon.fill()
    answers = peer.ask(MANY[0], {"op": "ping", "rid": 9}, {"op": "what", "rid": 8}, MANY[1])
    assert [answer["rid"] for answer in answers] == [0, 9, 8, 1]
    assert [answer.get("error", {}).get("code") for answer in answers] == ["storage", None, "unknown_op", "storage"]
    assert daemon.graph.vertices == {}
    daemon.heal()
    assert peer.ask(MANY[0])[0]["ok"]["id"] == "s1mu-1"


def test_disk_with_room_for_some_takes_those() -> None:
    """The requests that fit are done."""
    daemon = InProcessDaemon()
    peer = daemon.peer()
    peer.ask({"op": "upsert"})
    daemon.disk.capacity = daemon.disk.used + 700
    answers = peer.ask(*MANY)
    done = [answer for answer in answers if "ok" in answer]
    assert 0 < len(done) < len(MANY)
    assert len(daemon.again().graph.vertices) == 1 + len(done)


def test_token_of_what_was_rolled_back_is_free() -> None:
    """The same request is done when the disk is well."""
    daemon = InProcessDaemon()
    peer = daemon.peer()
    daemon.fill()
    assert peer.ask({"op": "upsert", "once": "t"})[0]["error"]["code"] == "storage"
    daemon.heal()
    assert peer.ask({"op": "upsert", "once": "t"})[0]["ok"]["id"] == "s1mu-1"


@pytest.fixture
def flushing() -> InProcessDaemon:
    return InProcessDaemon(fsync=True)


def test_answers_wait_for_the_flush(flushing: InProcessDaemon) -> None:
    """Those that tell nothing new wait behind them, in order."""
    peer = flushing.peer()
    assert peer.ask({"op": "ping", "rid": 0}) != []
    assert peer.ask({"op": "upsert", "rid": 1}, {"op": "ping", "rid": 2}) == []
    assert flushing.service.commit_due
    flushing.flush()
    assert [answer["rid"] for answer in peer.look()] == [1, 2]
    assert not flushing.service.commit_due


def test_flush_tells_nothing_that_came_after_it(flushing: InProcessDaemon) -> None:
    """A batch written while the flush ran waits for the next."""
    peer = flushing.peer()
    peer.ask({"op": "upsert", "rid": 1})
    flushing.store.sync()
    peer.send({"op": "upsert", "rid": 2})
    flushing.service.committed()
    assert [answer["rid"] for answer in peer.look()] == [1]
    flushing.flush()
    assert [answer["rid"] for answer in peer.look()] == [2]


def test_failed_flush_refuses_what_was_not_on_disk(flushing: InProcessDaemon) -> None:
    """Questions are answered all the same."""
    peer = flushing.peer()
    peer.ask({"op": "upsert", "rid": 1}, {"op": "ping", "rid": 2})
    flushing.service.commit_failed(OSError("no more"))
    answers = peer.look()
    assert [(answer["rid"], answer.get("error", {}).get("code")) for answer in answers] == [(1, "storage"), (2, None)]
    assert flushing.graph.vertices == {}


def test_closed_session_is_told_nothing() -> None:
    """What it asked is done."""
    daemon = InProcessDaemon(fsync=True)
    peer: Peer = daemon.peer()
    peer.send({"op": "upsert"})
    daemon.service.closed(peer.session)
    daemon.flush()
    assert peer.look() == []
    assert len(daemon.graph.vertices) == 1
