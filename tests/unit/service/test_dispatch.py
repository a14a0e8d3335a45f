"""The way of one request: tokens, completes that claim the next node, and refusals that change nothing."""

from __future__ import annotations

import pytest

from tests.support.in_process import InProcessDaemon, Peer


@pytest.fixture
def daemon() -> InProcessDaemon:
    return InProcessDaemon()


@pytest.fixture
def peer(daemon: InProcessDaemon) -> Peer:
    return daemon.peer()


def holding(peer: Peer, actor: str = "a") -> str:
    """Have `actor` hold a new node, and return its id."""
    (node,) = peer.ask({"op": "upsert"})
    (claim,) = peer.ask({"op": "claim", "id": node["ok"]["id"], "actor": actor})
    return claim["ok"]["id"]


def test_same_token_has_the_first_answer_and_is_done_once(daemon: InProcessDaemon, peer: Peer) -> None:
    """With the rid of whoever asks; also after a restart."""
    first, again = peer.ask({"op": "upsert", "once": "t", "rid": 1}, {"op": "upsert", "once": "t", "rid": 2})
    assert first["ok"] == again["ok"]
    assert (first["rid"], again["rid"]) == (1, 2)
    (later,) = daemon.again().peer().ask({"op": "upsert", "once": "t"})
    assert later["ok"] == first["ok"]


def test_refused_request_leaves_its_token_free(daemon: InProcessDaemon, peer: Peer) -> None:
    """And nothing is journaled."""
    seq = daemon.store.seq
    refused, done = peer.ask({"op": "complete", "id": "s1mu-1", "once": "t"}, {"op": "upsert", "once": "t"})
    assert (refused["error"]["code"], done["ok"]["id"]) == ("not_found", "s1mu-1")
    assert daemon.store.seq == seq + 1


def test_token_of_a_request_that_changes_nothing_is_journaled(daemon: InProcessDaemon, peer: Peer) -> None:
    """Else the answer could be another one after a restart."""
    (first,) = peer.ask({"op": "reclaim", "lease": 1, "once": "t"})
    (node,) = daemon.again().peer().ask({"op": "reclaim", "lease": 1, "once": "t"})
    assert node == first


def test_complete_claims_the_next_node_in_one_entry(daemon: InProcessDaemon, peer: Peer) -> None:
    """Nobody else waits."""
    held = holding(peer)
    peer.ask({"op": "upsert"})
    seq = daemon.store.seq
    (answer,) = peer.ask({"op": "complete", "id": held, "actor": "a", "next": {}})
    assert answer["ok"]["next"]["id"] == "s1mu-2"
    assert daemon.store.seq == seq + 1


def test_claims_that_waited_come_before_the_next_of_a_complete(daemon: InProcessDaemon, peer: Peer) -> None:
    """The node that the complete made ready goes to whoever came first."""
    held = holding(peer)
    peer.ask({"op": "upsert", "deps": [{"on": held}]})
    waits = daemon.peer()
    waits.ask({"op": "claim_next", "actor": "b", "wait": 60})
    (answer,) = peer.ask({"op": "complete", "id": held, "actor": "a", "next": {}})
    assert waits.look()[0]["ok"]["id"] == "s1mu-2"
    assert (answer["ok"]["next"], answer["ok"]["code"]) == (None, "nothing_runnable")


@pytest.mark.parametrize("others", [0, 1])
def test_complete_whose_next_waits_is_answered_with_it_later(daemon: InProcessDaemon, peer: Peer, others: int) -> None:
    """Whether others wait or not; done at once, told once."""
    held = holding(peer)
    for number in range(others):
        daemon.peer().ask(
            {"op": "claim_next", "actor": f"other{number}", "role": "verifier", "strict": True, "wait": 60}
        )
    assert peer.ask({"op": "complete", "id": held, "actor": "a", "next": {"wait": 60}, "rid": 7}) == []
    assert daemon.graph.vertices[held].record.status == "done"
    daemon.peer().ask({"op": "upsert", "role": "explore"})
    (answer,) = peer.look()
    assert (answer["rid"], answer["ok"]["node"]["id"], answer["ok"]["next"]["id"]) == (7, held, "s1mu-2")


@pytest.mark.parametrize("next_", [{}, {"wait": 60}])
@pytest.mark.parametrize("work", [0, 2])
def test_token_of_a_complete_with_next_belongs_to_the_last_item(
    daemon: InProcessDaemon, peer: Peer, next_: dict, work: int
) -> None:
    """Others wait; asked again, also after a restart, it is the same complete and the same next."""
    held = holding(peer)
    daemon.peer().ask({"op": "claim_next", "actor": "other", "role": "verifier", "strict": True, "wait": 60})
    for _ in range(work):
        peer.ask({"op": "upsert"})
    request = {"op": "complete", "id": held, "actor": "a", "next": next_, "once": "t"}
    first = peer.ask(request)
    (again,) = daemon.peer().ask(request)
    if first:
        assert again == first[0]
    assert again["ok"]["node"]["id"] == held
    (later,) = daemon.again().peer().ask(request)
    assert later == again


def test_complete_and_next_of_a_failing_disk_change_nothing(daemon: InProcessDaemon, peer: Peer) -> None:
    """Whoever waited waits on, and the same request can be done afterwards."""
    held = holding(peer)
    peer.ask({"op": "upsert", "deps": [{"on": held}]}, {"op": "upsert", "deps": [{"on": held}]})
    waits = daemon.peer()
    waits.ask({"op": "claim_next", "actor": "b", "wait": 60})
    daemon.fill()
    request = {"op": "complete", "id": held, "actor": "a", "next": {}, "once": "t"}
    (answer,) = peer.ask(request)
    assert answer["error"]["code"] == "storage"
    assert waits.look() == []
    assert daemon.graph.vertices[held].record.status == "claimed"
    daemon.heal()
    (answer,) = peer.ask(request)
    assert (waits.look()[0]["ok"]["id"], answer["ok"]["next"]["id"]) == ("s1mu-2", "s1mu-3")
    daemon.later(0)


def test_next_without_any_actor_is_refused_whole(daemon: InProcessDaemon, peer: Peer) -> None:
    """The complete is not done either."""
    held = holding(peer)
    daemon.peer().ask({"op": "claim_next", "actor": "b", "wait": 60})
    (answer,) = peer.ask({"op": "complete", "id": held, "next": {}})
    assert (answer["error"]["code"], answer["error"]["field"]) == ("bad_request", "next")
    assert daemon.graph.vertices[held].record.status == "claimed"


def test_daemon_that_drains_refuses_changes_and_answers_questions(daemon: InProcessDaemon, peer: Peer) -> None:
    """A known token has its answer still."""
    peer.ask({"op": "upsert", "once": "t"})
    daemon.service.drain()
    codes = [
        answer.get("error", {}).get("code")
        for answer in peer.ask({"op": "upsert"}, {"op": "ping"}, {"op": "upsert", "once": "t"}, {"op": "checkpoint"})
    ]
    assert codes == ["shutting_down", None, None, "shutting_down"]
