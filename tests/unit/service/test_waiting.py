"""Requests that are answered later: in their order, at their time, and never twice."""

from __future__ import annotations

import pytest

from tests.support.in_process import InProcessDaemon, Peer

NEXT = {"op": "claim_next", "wait": 60}


@pytest.fixture
def daemon() -> InProcessDaemon:
    return InProcessDaemon()


def wait_for_work(daemon: InProcessDaemon, actor: str, **fields: object) -> Peer:
    peer = daemon.peer()
    assert peer.ask({**NEXT, "actor": actor, **fields}) == []
    assert peer.session.awaits_replies
    return peer


def test_claims_are_served_first_come_first_served(daemon: InProcessDaemon) -> None:
    """One node, one claim."""
    first, second = wait_for_work(daemon, "a"), wait_for_work(daemon, "b")
    daemon.peer().ask({"op": "upsert"})
    assert [len(first.look()), len(second.look())] == [1, 0]
    assert not first.session.awaits_replies
    daemon.peer().ask({"op": "upsert"})
    assert second.look()[0]["ok"]["id"] == "s1mu-2"


def test_claim_that_takes_one_role_does_not_hold_up_the_next(daemon: InProcessDaemon) -> None:
    """It stays, and the other is served."""
    strict = wait_for_work(daemon, "a", role="verifier", strict=True)
    any_role = wait_for_work(daemon, "b")
    daemon.peer().ask({"op": "upsert", "role": "explore"})
    assert (strict.look(), len(any_role.look())) == ([], 1)
    daemon.peer().ask({"op": "upsert", "role": "verifier"})
    assert len(strict.look()) == 1


def test_claim_whose_time_is_over_is_told_what_there_is(daemon: InProcessDaemon) -> None:
    """nothing_pending, or nothing_runnable with the counts."""
    peer = wait_for_work(daemon, "a")
    daemon.later(59.9)
    assert peer.look() == []
    daemon.later(0.1)
    assert peer.look()[0]["error"]["code"] == "nothing_pending"
    assert not peer.session.awaits_replies


def test_actor_that_holds_another_node_by_then_is_refused(daemon: InProcessDaemon) -> None:
    """At once when there is work, since waiting on cannot help."""
    peer = wait_for_work(daemon, "a")
    other = wait_for_work(daemon, "a")
    daemon.peer().ask({"op": "upsert"}, {"op": "upsert"})
    assert peer.look()[0]["ok"]["id"] == "s1mu-1"
    assert other.look()[0]["error"]["code"] == "assignee_busy"


def test_session_that_is_gone_is_served_nothing(daemon: InProcessDaemon) -> None:
    """The next one is."""
    gone, next_ = wait_for_work(daemon, "a"), wait_for_work(daemon, "b")
    daemon.service.closed(gone.session)
    daemon.peer().ask({"op": "upsert"})
    assert (gone.look(), len(next_.look())) == ([], 1)


def test_same_token_waiting_twice_is_one_claim(daemon: InProcessDaemon) -> None:
    """Both have the same answer."""
    first, again = wait_for_work(daemon, "a", once="t"), wait_for_work(daemon, "a", once="t")
    daemon.peer().ask({"op": "upsert"}, {"op": "upsert"})
    assert first.look()[0]["ok"] == again.look()[0]["ok"]


def test_expired_lease_serves_who_waits(daemon: InProcessDaemon) -> None:
    """In the same tick."""
    daemon.peer().ask({"op": "upsert"}, {"op": "claim", "id": "s1mu-1", "actor": "quiet", "lease": 10})
    peer = wait_for_work(daemon, "a")
    daemon.later(10)
    assert peer.look()[0]["ok"]["gen"] == 4


def test_wait_is_answered_when_the_last_node_ends(daemon: InProcessDaemon) -> None:
    """With all of them as they are then."""
    peer = daemon.peer()
    daemon.peer().ask({"op": "upsert"}, {"op": "upsert"})
    assert peer.ask({"op": "wait", "ids": ["s1mu-1", "s1mu-2"], "rid": 1}) == []
    daemon.peer().ask({"op": "complete", "id": "s1mu-1"})
    assert peer.look() == []
    daemon.peer().ask({"op": "complete", "id": "s1mu-2", "status": "failed"})
    (answer,) = peer.look()
    assert [node["status"] for node in answer["ok"]["nodes"]] == ["done", "failed"]


def test_wait_for_what_is_over_is_answered_at_once(daemon: InProcessDaemon) -> None:
    """And one for an unknown node is refused."""
    daemon.peer().ask({"op": "upsert"}, {"op": "complete", "id": "s1mu-1"})
    over, unknown = daemon.peer().ask({"op": "wait", "ids": ["s1mu-1"]}, {"op": "wait", "ids": ["s1mu-9"]})
    assert over["ok"]["nodes"][0]["status"] == "done"
    assert unknown["error"]["code"] == "not_found"


def test_wait_that_takes_too_long_says_what_is_left(daemon: InProcessDaemon) -> None:
    """By id."""
    daemon.peer().ask({"op": "upsert"}, {"op": "upsert"}, {"op": "complete", "id": "s1mu-1"})
    peer = daemon.peer()
    peer.ask({"op": "wait", "ids": ["s1mu-1", "s1mu-2"], "timeout": 3})
    daemon.later(3)
    (answer,) = peer.look()
    assert (answer["error"]["code"], answer["error"]["ids"]) == ("timeout", ["s1mu-2"])


def test_daemon_that_leaves_refuses_all_who_wait(daemon: InProcessDaemon) -> None:
    """Each once."""
    claims = wait_for_work(daemon, "a")
    daemon.peer().ask({"op": "upsert", "status": "blocked"})
    waits = daemon.peer()
    waits.ask({"op": "wait", "ids": ["s1mu-1"]})
    daemon.service.drain()
    for peer in (claims, waits):
        (answer,) = peer.look()
        assert answer["error"]["code"] == "shutting_down"
        assert not peer.session.awaits_replies


def test_claim_that_was_served_waits_on_when_the_journal_fails(daemon: InProcessDaemon) -> None:
    """At its original position, and is served when the disk is well again."""
    first, second = wait_for_work(daemon, "a"), wait_for_work(daemon, "b")
    daemon.fill()
    (answer,) = daemon.peer().ask({"op": "upsert"})
    assert answer["error"]["code"] == "storage"
    assert (first.look(), second.look()) == ([], [])
    assert first.session.awaits_replies
    daemon.heal()
    daemon.peer().ask({"op": "upsert"})
    assert (len(first.look()), second.look()) == (1, [])
