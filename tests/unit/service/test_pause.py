"""Pause and resume as a client sees them: who waits keeps his place, and a restart changes nothing (law 10.4, 10.5)."""

from __future__ import annotations

import pytest

from tests.support.in_process import InProcessDaemon

NEXT = {"op": "claim_next", "wait": 60}


@pytest.fixture
def daemon() -> InProcessDaemon:
    return InProcessDaemon()


@pytest.mark.parametrize("under", [None, "s1mu-1"])
def test_claims_that_wait_are_served_on_resume_in_their_order(daemon: InProcessDaemon, under: str | None) -> None:
    """Work that comes meanwhile serves nobody."""
    boss, first, second = daemon.peer(), daemon.peer(), daemon.peer()
    scope = {} if under is None else {"under": under}
    boss.ask({"op": "upsert", "kind": "goal"}, {"op": "pause", **scope})
    assert first.ask({**NEXT, "actor": "a"}) == []
    assert second.ask({**NEXT, "actor": "b"}) == []
    boss.ask({"op": "upsert", "parent": "s1mu-1", "priority": 1}, {"op": "upsert", "parent": "s1mu-1"})
    daemon.later(30)
    assert (first.look(), second.look()) == ([], [])
    assert boss.ask({"op": "resume", **scope})[0]["ok"] == {"paused": []}
    assert [peer.look()[0]["ok"]["id"] for peer in (first, second)] == ["s1mu-2", "s1mu-3"]


def test_claim_whose_time_is_over_in_a_pause_is_told_so(daemon: InProcessDaemon) -> None:
    """It is not stuck: a resume helps."""
    boss, waiting = daemon.peer(), daemon.peer()
    boss.ask({"op": "upsert"}, {"op": "pause"})
    waiting.ask({**NEXT, "actor": "a"})
    daemon.later(60)
    error = waiting.look()[0]["error"]
    assert (error["code"], error["paused"], error["stuck"]) == ("nothing_runnable", 1, False)


def test_lease_that_runs_out_in_a_pause_serves_nobody(daemon: InProcessDaemon) -> None:
    """The node waits for the resume as the others do."""
    boss, waiting = daemon.peer(), daemon.peer()
    boss.ask({"op": "upsert"}, {"op": "claim_next", "actor": "a", "lease": 10}, {"op": "pause"})
    assert waiting.ask({**NEXT, "actor": "b"}) == []
    daemon.later(11)
    assert waiting.look() == []
    boss.ask({"op": "resume"})
    assert waiting.look()[0]["ok"]["gen"] == 4


def test_pause_outlives_a_restart_from_the_journal_and_from_a_snapshot(daemon: InProcessDaemon) -> None:
    """So does its end."""
    daemon.peer().ask({"op": "upsert"}, {"op": "pause", "under": "s1mu-1"}, {"op": "pause"})
    for _ in range(2):
        daemon = daemon.again()
        peer = daemon.peer()
        assert peer.ask({"op": "stats"})[0]["ok"]["paused"] == ["s1mu-1", None]
        assert peer.ask({"op": "claim_next", "actor": "a"})[0]["error"]["paused"] == 1
        for _ in daemon.service.snapshot():
            pass
    daemon.peer().ask({"op": "resume"}, {"op": "resume", "under": "s1mu-1"})
    daemon = daemon.again()
    peer = daemon.peer()
    assert peer.ask({"op": "stats"})[0]["ok"]["paused"] == []
    assert peer.ask({"op": "claim_next", "actor": "a"})[0]["ok"]["id"] == "s1mu-1"


def test_pause_that_cannot_be_written_is_undone(daemon: InProcessDaemon) -> None:
    """The disk is full: nothing is paused."""
    peer = daemon.peer()
    peer.ask({"op": "upsert"})
    daemon.fill()
    assert peer.ask({"op": "pause"})[0]["error"]["code"] == "storage"
    daemon.heal()
    assert peer.ask({"op": "claim_next", "actor": "a"})[0]["ok"]["id"] == "s1mu-1"


def test_token_of_a_pause_is_answered_as_the_first_time(daemon: InProcessDaemon) -> None:
    """Even after the resume."""
    peer = daemon.peer()
    first = peer.ask({"op": "pause", "once": "t"})
    peer.ask({"op": "resume"})
    assert peer.ask({"op": "pause", "once": "t"}) == first
    assert peer.ask({"op": "stats"})[0]["ok"]["paused"] == []
