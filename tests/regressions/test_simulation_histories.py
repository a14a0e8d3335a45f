"""What the simulator found, each cut down to the few requests that show it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from claimdagd.core import invariants
from claimdagd.limits import ONCE_TOKENS_MAX
from tests.support.in_process import TAG, InProcessDaemon


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def upsert(**fields: Any) -> dict[str, Any]:
    return {"op": "upsert", **fields}


def claim_next(actor: str, **fields: Any) -> dict[str, Any]:
    return {"op": "claim_next", "actor": actor, **fields}


def codes(answers: list[dict[str, Any]]) -> list[str]:
    return [answer["error"]["code"] if "error" in answer else "ok" for answer in answers]


# ------------------------------------------------------------------------------------------------- a write that fails


@pytest.mark.parametrize("token", [{}, {"once": "t"}])
def test_complete_with_next_that_cannot_be_written_is_refused(token: dict[str, str]) -> None:
    """While others wait for work: refused once, nobody is told of it, and its token is not used up."""
    daemon = InProcessDaemon()
    boss, worker, parked, watcher = (daemon.peer() for _ in range(4))
    boss.ask(upsert())
    worker.ask(claim_next("w"))
    parked.ask(claim_next("p", wait=60))
    watcher.ask({"op": "watch"})
    daemon.fill()
    done = {"op": "complete", "id": f"{TAG}-1", "gen": 2, "actor": "w", "next": {}, **token}
    assert codes(worker.ask(done)) == ["storage"]
    assert codes(worker.ask(done)) == ["storage"]
    assert watcher.look() == []
    assert daemon.graph.vertices[f"{TAG}-1"].record.assignee == "w"
    daemon.heal()
    assert codes(worker.ask(done)) == ["ok"]
    assert daemon.again().graph.vertices[f"{TAG}-1"].record.status == "done"


def test_refused_write_uses_up_no_token() -> None:
    """However often a request fails, the replies that are remembered stay."""
    daemon = InProcessDaemon()
    peer = daemon.peer()
    peer.ask(*(upsert(once=f"t{n}") for n in range(3)))
    daemon.fill()
    for n in range(ONCE_TOKENS_MAX + 10):
        peer.ask(upsert(once=f"no{n}"))
    daemon.heal()
    (answer,) = peer.ask(upsert(once="t0"))
    assert answer["ok"]["id"] == f"{TAG}-1"


def test_refused_running_leaves_the_lease_as_it_was() -> None:
    """A lease that was to become shorter by a request that could not be written is as long as before."""
    daemon = InProcessDaemon()
    peer = daemon.peer()
    peer.ask(upsert(), claim_next("w", lease=60))
    daemon.fill()
    assert codes(peer.ask({"op": "running", "id": f"{TAG}-1", "lease": 1})) == ["storage"]
    daemon.heal()
    daemon.later(59)
    assert daemon.graph.vertices[f"{TAG}-1"].record.assignee == "w"
    daemon.later(2)
    assert daemon.graph.vertices[f"{TAG}-1"].record.assignee is None


def test_reply_without_a_change_is_the_same_after_a_restart() -> None:
    """The first reply to a token holds, also where it changed nothing."""
    daemon = InProcessDaemon()
    peer = daemon.peer()
    peer.ask(upsert(summary="a"))
    first = peer.ask(upsert(id=f"{TAG}-1", summary="a", once="t"))
    peer.ask(upsert(id=f"{TAG}-1", summary="b"))
    daemon = daemon.again()
    assert daemon.peer().ask(upsert(id=f"{TAG}-1", summary="a", once="t")) == first
    assert daemon.graph.vertices[f"{TAG}-1"].record.summary == "b"


# ------------------------------------------------------------------------------------------------- a flush that fails


def test_refusals_after_a_failed_flush_come_in_the_order_of_the_requests() -> None:
    """Of one connection, without ids: the answers are told apart by their order alone."""
    daemon = InProcessDaemon(fsync=True)
    peer = daemon.peer()
    asked = ({"op": "ping", "rid": 0}, upsert(rid=1), {"op": "ping", "rid": 2}, upsert(rid=3), {"op": "x", "rid": 4})
    assert peer.ask(*asked) == []
    daemon.files.arm("fsync", "fail")
    daemon.flush()
    answers = peer.look()
    assert [answer["rid"] for answer in answers] == [0, 1, 2, 3, 4]
    assert codes(answers) == ["ok", "storage", "ok", "storage", "unknown_op"]


def test_claim_that_is_taken_back_goes_to_who_waits() -> None:
    """The node that nobody has after all is not left lying while somebody waits for one."""
    daemon = InProcessDaemon(fsync=True)
    boss, first, second = (daemon.peer() for _ in range(3))
    boss.ask(upsert())
    daemon.flush()
    first.ask(claim_next("a"))
    second.ask(claim_next("b", wait=60))
    daemon.files.arm("fsync", "fail")
    daemon.flush()
    assert codes(first.look()) == ["storage"]
    daemon.later(1.1)
    assert second.look()[0]["ok"]["id"] == f"{TAG}-1"


def test_complete_that_is_taken_back_does_not_wait_on() -> None:
    """Refused is refused: its claim, already handed out in the same flush, is not handed out later either."""
    daemon = InProcessDaemon(fsync=True)
    boss, worker = daemon.peer(), daemon.peer()
    boss.ask(upsert())
    daemon.flush()
    worker.ask(claim_next("w"))
    daemon.flush()
    worker.look()
    worker.ask({"op": "complete", "id": f"{TAG}-1", "actor": "w", "next": {"wait": 60}})
    boss.ask(upsert())
    daemon.files.arm("fsync", "fail")
    daemon.flush()
    assert codes(worker.look()) == ["storage"]
    assert not worker.session.awaits_replies
    boss.ask({"op": "complete", "id": f"{TAG}-1"}, upsert())
    daemon.flush()
    daemon.later(2)
    assert worker.look() == []


def test_wait_for_a_node_whose_reopening_is_taken_back_ends() -> None:
    """It had ended, was about to come back and did not: who waits for its end is told."""
    daemon = InProcessDaemon(fsync=True)
    boss, waiter = daemon.peer(), daemon.peer()
    boss.ask(upsert())
    daemon.flush()
    waiter.ask({"op": "wait", "ids": [f"{TAG}-1"]})
    boss.ask({"op": "complete", "id": f"{TAG}-1"})
    boss.ask({"op": "reopen", "id": f"{TAG}-1"})
    # The completion is on disk; the flush of what came after it fails.
    daemon.store._journal.flushed = 2
    daemon.service.committed()
    assert waiter.look() == []
    daemon.files.arm("fsync", "fail")
    daemon.flush()
    daemon.later(1.1)
    assert waiter.look()[0]["ok"]["nodes"][0]["status"] == "done"


def test_claim_whose_release_is_taken_back_has_its_grace() -> None:
    """Its connection is gone meanwhile: the node comes back in seconds, not in a lease."""
    daemon = InProcessDaemon(fsync=True, grace=5.0)
    boss, worker = daemon.peer(), daemon.peer()
    boss.ask(upsert())
    daemon.flush()
    worker.ask(claim_next("w", bound=True))
    daemon.flush()
    worker.ask({"op": "release", "id": f"{TAG}-1"})
    daemon.service.closed(worker.session)
    daemon.files.arm("fsync", "fail")
    daemon.flush()
    assert daemon.graph.vertices[f"{TAG}-1"].record.assignee == "w"
    daemon.later(6)
    assert daemon.graph.vertices[f"{TAG}-1"].record.assignee is None


# ------------------------------------------------------------------------------------------------------- who is parked


def test_complete_with_a_token_waits_for_its_next() -> None:
    """Its own reply so far is not taken for the answer that it waits for."""
    daemon = InProcessDaemon()
    boss, worker = daemon.peer(), daemon.peer()
    boss.ask(upsert())
    worker.ask(claim_next("w"))
    assert worker.ask({"op": "complete", "id": f"{TAG}-1", "actor": "w", "once": "t", "next": {"wait": 60}}) == []
    boss.ask(upsert())
    assert worker.look()[0]["ok"]["next"]["id"] == f"{TAG}-2"


def test_request_that_was_sent_twice_and_waits_gets_one_answer_for_both() -> None:
    """The second does not end with nothing_runnable where the first got a node."""
    daemon = InProcessDaemon()
    boss, worker = daemon.peer(), daemon.peer()
    worker.ask(claim_next("w", wait=5, once="t", rid=1), claim_next("w", wait=5, once="t", rid=2))
    boss.ask(upsert())
    daemon.later(6)
    first, second = sorted(worker.look(), key=lambda answer: answer["rid"])
    assert first["ok"] == second["ok"]


def test_parked_complete_is_not_refused_by_a_daemon_that_leaves() -> None:
    """The node is done and stays so: the answer says that, and that there is no next."""
    daemon = InProcessDaemon()
    boss, worker = daemon.peer(), daemon.peer()
    boss.ask(upsert())
    worker.ask(claim_next("w"))
    worker.ask({"op": "complete", "id": f"{TAG}-1", "actor": "w", "next": {"wait": 60}})
    daemon.service.drain()
    (answer,) = worker.look()
    assert answer["ok"]["node"]["status"] == "done"
    assert (answer["ok"]["next"], answer["ok"]["code"]) == (None, "shutting_down")


# -------------------------------------------------------------------------------------------------- leases and warnings


def test_running_goal_has_no_lease_after_a_restart() -> None:
    """A goal is nobody's claim: nothing of it ever runs out."""
    daemon = InProcessDaemon()
    daemon.peer().ask(upsert(kind="goal"), upsert(parent=f"{TAG}-1"), claim_next("w", lease=5000))
    daemon = daemon.again()
    seq = daemon.store.seq
    daemon.later(1000)
    assert daemon.store.seq == seq
    assert daemon.graph.vertices[f"{TAG}-1"].record.gen == 1
    assert daemon.graph.vertices[f"{TAG}-2"].record.assignee == "w"


def test_holder_is_warned_of_a_lease_shorter_than_the_one_before() -> None:
    """A node that was claimed for long, given back, and claimed for a moment."""
    daemon = InProcessDaemon()
    peer = daemon.peer()
    peer.ask(upsert(), claim_next("w", bound=True, lease=900), {"op": "release", "id": f"{TAG}-1"})
    peer.ask(claim_next("w", bound=True, lease=10))
    daemon.later(8.5)
    assert [answer["event"]["op"] for answer in peer.look()] == ["expiring"]


def test_loss_of_a_claim_is_told_once() -> None:
    """Also where the same reclaim first made it the heir of its parent's units."""
    daemon = InProcessDaemon()
    boss, first, second = (daemon.peer() for _ in range(3))
    boss.ask(upsert(needs={"gpu": 1}), upsert(parent=f"{TAG}-1", needs={"gpu": 1}))
    first.ask({"op": "claim", "id": f"{TAG}-1", "actor": "a", "bound": True})
    second.ask({"op": "claim", "id": f"{TAG}-2", "actor": "b", "bound": True})
    boss.ask({"op": "reclaim", "lease": 0})
    assert [answer["event"]["op"] for answer in second.look()] == ["lost"]


# ------------------------------------------------------------------------------------------------------------ the core


def test_node_whose_role_and_needs_change_at_once_stays_in_the_queue() -> None:
    """It is looked for under one of the two roles, never under both."""
    daemon = InProcessDaemon()
    peer = daemon.peer()
    peer.ask(upsert(needs={"gpu": 1}), {"op": "ready"})
    answers = peer.ask(upsert(id=f"{TAG}-1", role="general", needs={"cpu": 1}), claim_next("w"))
    assert codes(answers) == ["ok", "ok"]
    invariants.check(daemon.graph)


def test_create_never_prunes_what_it_creates() -> None:
    """A node that is cancelled at birth ends the goal above it: the two are not what has to make room for it."""
    daemon = InProcessDaemon(max_nodes=3)
    peer = daemon.peer()
    failed = {"op": "complete", "id": f"{TAG}-1", "status": "failed"}
    peer.ask(upsert(), failed, upsert(kind="goal"), upsert(deps=[{"on": f"{TAG}-1", "when": "after_any"}]))
    assert codes(peer.ask(upsert(parent=f"{TAG}-2", deps=[{"on": f"{TAG}-1"}]))) == ["full"]
    invariants.check(daemon.graph)


def test_expiring_is_told_once_though_a_new_claim_was_taken_back() -> None:
    """The holder's own next request got the node when its lease ended, which could not be written."""
    daemon = InProcessDaemon()
    holder, boss = daemon.peer(), daemon.peer()
    waits = claim_next("w", bound=True, lease=10.0, wait=1000.0)
    holder.ask(waits, waits)
    boss.ask(upsert())
    assert [claim["ok"]["gen"] for claim in holder.look()] == [2]
    daemon.later(9.0)
    assert [told["event"]["op"] for told in holder.look()] == ["expiring"]
    daemon.fill()
    daemon.later(2.0)
    daemon.later(9.0)
    assert holder.look() == []
    daemon.heal()
    daemon.later(2.0)
    lost, claim = holder.look()
    assert (lost["event"]["op"], claim["ok"]["gen"]) == ("lost", 4)
    daemon.later(9.0)
    assert [told["event"]["gen"] for told in holder.look()] == [4]
