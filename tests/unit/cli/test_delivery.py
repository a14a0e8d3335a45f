"""What becomes of the changes of a command whose answer could not be printed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from claimdag_client.cli.delivery import settle_undelivered
from claimdag_client.cli.session import Session
from claimdag_client.errors import Unreachable


class Recorder:
    """A session with changes, on a connection that keeps what it is asked."""

    def __init__(self, *changes: tuple[dict[str, Any], dict[str, Any]], gone: bool = False) -> None:
        self.changes = list(changes)
        self.connection = self
        self.asked: list[dict[str, Any]] = []
        self._gone = gone

    def ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        if self._gone:
            raise Unreachable("the daemon left")
        self.asked.append(request)
        return {}


def settle(session: Recorder) -> list[str]:
    return settle_undelivered(cast("Session", session))


CLAIM = {"id": "7q2f-1", "gen": 2}
RELEASE = {"op": "release", "id": "7q2f-1", "gen": 2, "actor": "ann"}


@pytest.mark.parametrize("op", ["claim", "claim_next"])
def test_claim_is_released_by_its_generation(op: str) -> None:
    """As if it had never been made."""
    session = Recorder(({"op": op, "actor": "ann"}, CLAIM))
    assert settle(session) == ["claimed and given back: 7q2f-1 (gen 2)"]
    assert (session.asked, session.changes) == ([RELEASE], [])


def test_claim_that_cannot_be_released_names_the_command() -> None:
    """The daemon left meanwhile: a person can do it later."""
    (line,) = settle(Recorder(({"op": "claim", "actor": "ann"}, CLAIM), gone=True))
    assert line.startswith("claimed, and not given back: 7q2f-1 (gen 2): the daemon left")
    assert line.endswith("claimdag release 7q2f-1 --gen 2")


def test_claim_with_a_token_is_kept() -> None:
    """Its answer can be asked for again."""
    session = Recorder(({"op": "claim", "actor": "ann", "once": "t\x1b"}, CLAIM))
    assert settle(session) == ["claimed and kept: 7q2f-1 (gen 2); ask again with --once t\\x1b to see the answer"]
    assert session.asked == []


def test_claim_after_complete_is_released_and_the_end_told() -> None:
    """One request that did two things."""
    ok = {"node": {"id": "7q2f-9", "status": "done"}, "ready": ["7q2f-1"], "next": CLAIM}
    session = Recorder(({"op": "complete", "id": "7q2f-9", "actor": "ann", "next": {}}, ok))
    assert settle(session) == [
        "done: 7q2f-9 done, ready now: 7q2f-1", "claimed and given back: 7q2f-1 (gen 2)"
    ]  # fmt: skip
    assert session.asked == [RELEASE]


@pytest.mark.parametrize(
    ("request_", "ok", "line"),
    [
        ({"op": "upsert"}, {"id": "7q2f-3"}, "created 7q2f-3"),
        ({"op": "upsert", "id": "7q2f-3"}, {"id": "7q2f-3"}, "changed 7q2f-3"),
        ({"op": "submit"}, {"ids": ["7q2f-3", "7q2f-4"]}, "created 2 nodes, 7q2f-3 to 7q2f-4"),
        ({"op": "cancel", "id": "7q2f-3"}, {"ids": ["7q2f-3"]}, "cancel 7q2f-3"),
        ({"op": "reclaim"}, {"ids": []}, "reclaim nothing"),
        ({"op": "reopen", "id": "7q2f-3"}, {"id": "7q2f-3", "gen": 4}, "reopen 7q2f-3 gen=4"),
        ({"op": "capacity", "resource": "gpu", "units": 2}, {"name": "gpu"}, "capacity of gpu is 2"),
        ({"op": "checkpoint"}, {"seq": 1}, "checkpoint"),
    ],
)
def test_change_that_stays_is_told(request_: dict[str, Any], ok: dict[str, Any], line: str) -> None:
    """In the words of the command, with the ids that were to be printed."""
    assert settle(Recorder((request_, ok))) == [f"done: {line}"]
