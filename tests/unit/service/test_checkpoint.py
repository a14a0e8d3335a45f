"""A checkpoint takes a while; what the same connection asks after it is answered after it."""

from __future__ import annotations

import json
from typing import Any

from claimdagd.core.graph import Graph
from claimdagd.service import Config, Service, Session
from claimdagd.store.recovery import recover
from claimdagd.store.store import Store
from tests.simulation.fault_disk import Disk


class _Clock:
    def now(self) -> float:
        return 1000.0

    def wall(self) -> float:
        return 1_000_000.0


class _Peer:
    """A connection that keeps what it is told."""

    def __init__(self, service: Service) -> None:
        self.told: list[Any] = []
        self.service = service
        self.session: Session = service.open(self.hear, lambda: None)

    def hear(self, data: bytes) -> None:
        self.told += map(json.loads, data.splitlines())

    def say(self, *requests: dict[str, Any]) -> None:
        self.service.receive(self.session, [json.dumps(r).encode() for r in requests])

    def rids(self) -> list[int]:
        return [answer["rid"] for answer in self.told]


def _service() -> Service:
    disk = Disk("/d")
    recovered = recover(disk, "/d", new_tag=lambda: "t3st")
    return Service(Graph("t3st"), Store(disk, "/d", "process", recovered), _Clock(), Config(check=True))


def test_request_after_a_checkpoint_is_answered_after_it() -> None:
    """Answers come in the order of the requests, of one connection; others are not held up."""
    service = _service()
    wanted: list[None] = []
    service.on_snapshot = lambda: wanted.append(None)
    one, other = _Peer(service), _Peer(service)
    one.say(
        {"op": "upsert", "rid": 1},
        {"op": "checkpoint", "rid": 2},
        {"op": "ping", "rid": 3},
        {"op": "checkpoint", "rid": 4},
        {"op": "upsert", "rid": 5},
    )
    other.say({"op": "ping", "rid": 1})
    assert (one.rids(), other.rids()) == ([1], [1])
    one.say({"op": "ping", "rid": 6})
    for _ in service.snapshot():
        pass
    assert one.rids() == [1, 2, 3]
    assert len(wanted) == 2
    for _ in service.snapshot():
        pass
    assert one.rids() == [1, 2, 3, 4, 5, 6]
    assert one.told[1]["ok"]["seq"] == 1


def test_daemon_that_leaves_refuses_the_checkpoint_and_answers_what_came_after_it() -> None:
    """Nothing that was asked goes without an answer."""
    service = _service()
    one = _Peer(service)
    one.say({"op": "checkpoint", "rid": 1}, {"op": "ping", "rid": 2}, {"op": "upsert", "rid": 3})
    service.drain()
    assert one.rids() == [1, 2, 3]
    assert [answer.get("error", {}).get("code") for answer in one.told] == ["shutting_down", None, "shutting_down"]
