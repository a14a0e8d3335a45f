"""A checkpoint takes a while; what the same connection asks after it is answered after it."""

from __future__ import annotations

from tests.support.in_process import InProcessDaemon, Peer


def _rids(peer: Peer) -> list[int]:
    return [answer["rid"] for answer in peer.received]


def test_request_after_a_checkpoint_is_answered_after_it() -> None:
    """Answers come in the order of the requests, of one connection; others are not held up."""
    service = InProcessDaemon().service
    wanted: list[None] = []
    service.on_snapshot = lambda: wanted.append(None)
    one, other = Peer(service), Peer(service)
    one.send(
        {"op": "upsert", "rid": 1},
        {"op": "checkpoint", "rid": 2},
        {"op": "ping", "rid": 3},
        {"op": "checkpoint", "rid": 4},
        {"op": "upsert", "rid": 5},
    )
    other.send({"op": "ping", "rid": 1})
    assert (_rids(one), _rids(other)) == ([1], [1])
    one.send({"op": "ping", "rid": 6})
    for _ in service.snapshot():
        pass
    assert _rids(one) == [1, 2, 3]
    assert len(wanted) == 2
    for _ in service.snapshot():
        pass
    assert _rids(one) == [1, 2, 3, 4, 5, 6]
    assert one.received[1]["ok"]["seq"] == 1


def test_daemon_that_leaves_refuses_the_checkpoint_and_answers_what_came_after_it() -> None:
    """Nothing that was asked goes without an answer."""
    service = InProcessDaemon().service
    one = Peer(service)
    one.send({"op": "checkpoint", "rid": 1}, {"op": "ping", "rid": 2}, {"op": "upsert", "rid": 3})
    service.drain()
    assert _rids(one) == [1, 2, 3]
    assert [answer.get("error", {}).get("code") for answer in one.received] == ["shutting_down", None, "shutting_down"]
