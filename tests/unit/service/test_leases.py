"""Claims and connections: warnings, losses, graces and when the next lease is over."""

from __future__ import annotations

import pytest

from tests.support.in_process import InProcessDaemon, Peer


@pytest.fixture
def daemon() -> InProcessDaemon:
    daemon = InProcessDaemon()
    daemon.peer().ask({"op": "upsert", "summary": "work"})
    return daemon


def claim(peer: Peer, **fields: object) -> dict[str, object]:
    (answer,) = peer.ask({"op": "claim", "id": "s1mu-1", "actor": "a", "lease": 100, **fields})
    return answer["ok"]


def status(daemon: InProcessDaemon) -> str:
    return daemon.graph.vertices["s1mu-1"].record.status


def test_holder_is_warned_when_a_fifth_of_the_lease_is_left(daemon: InProcessDaemon) -> None:
    """Once, and only a bound one."""
    holder, other = daemon.peer(), daemon.peer()
    claim(holder, bound=True)
    daemon.later(79)
    assert holder.look() == []
    daemon.later(1)
    assert holder.look() == [{"event": {"op": "expiring", "id": "s1mu-1", "gen": 2, "expires_in": 20.0}}]
    daemon.later(1)
    assert (holder.look(), other.look()) == ([], [])


def test_renewed_lease_is_warned_of_anew(daemon: InProcessDaemon) -> None:
    """At a fifth of the new one."""
    holder = daemon.peer()
    claim(holder, bound=True)
    daemon.later(50)
    holder.ask({"op": "renew", "id": "s1mu-1", "gen": 2, "lease": 100, "bound": True})
    daemon.later(79)
    assert holder.look() == []
    daemon.later(1)
    assert holder.look()[0]["event"]["op"] == "expiring"


def test_quiet_holder_loses_the_node_and_is_told(daemon: InProcessDaemon) -> None:
    """The node is ready again, at another generation."""
    holder = daemon.peer()
    claim(holder, bound=True)
    daemon.later(80)
    holder.look()
    daemon.later(20)
    assert holder.look() == [{"event": {"op": "lost", "id": "s1mu-1", "gen": 2, "why": "expired"}}]
    assert status(daemon) == "ready"


def test_connection_that_ends_leaves_its_claim_a_grace(daemon: InProcessDaemon) -> None:
    """5 s by default; a rebind within it keeps the node."""
    holder = daemon.peer()
    claim(holder, bound=True)
    daemon.later(2)
    daemon.service.closed(holder.session)
    daemon.later(4.9)
    assert status(daemon) == "claimed"
    daemon.peer().ask({"op": "renew", "id": "s1mu-1", "gen": 2, "bound": True})
    daemon.later(10)
    assert status(daemon) == "claimed"


def test_connection_that_ends_without_a_rebind_gives_the_node_back(daemon: InProcessDaemon) -> None:
    """When the grace is over."""
    holder = daemon.peer()
    claim(holder, bound=True)
    daemon.service.closed(holder.session)
    daemon.later(5)
    assert status(daemon) == "ready"


def test_claim_that_the_peer_cannot_know_of_comes_back_at_once(daemon: InProcessDaemon) -> None:
    """Its answer is known not to have arrived."""
    holder = daemon.peer()
    claim(holder, bound=True)
    daemon.service.closed(holder.session, undelivered=True)
    daemon.later(0)
    assert status(daemon) == "ready"


def test_unbound_claim_outlives_its_connection(daemon: InProcessDaemon) -> None:
    """It has its lease alone."""
    holder = daemon.peer()
    claim(holder)
    daemon.service.closed(holder.session)
    daemon.later(99)
    assert status(daemon) == "claimed"
    daemon.later(1)
    assert status(daemon) == "ready"


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"op": "cancel", "id": "s1mu-1"}, "cancelled"),
        ({"op": "release", "id": "s1mu-1"}, "released by another"),
        ({"op": "complete", "id": "s1mu-1"}, "completed by another"),
        ({"op": "reclaim", "lease": 0}, "reclaimed"),
    ],
)
def test_holder_is_told_how_another_ended_its_claim(daemon: InProcessDaemon, request_: dict, why: str) -> None:
    """And not of what it did itself."""
    holder, other = daemon.peer(), daemon.peer()
    claim(holder, bound=True)
    daemon.later(1)
    assert "ok" in other.ask(request_)[0]
    assert holder.look() == [{"event": {"op": "lost", "id": "s1mu-1", "gen": 2, "why": why}}]


@pytest.mark.parametrize("op", ["release", "complete"])
def test_holder_is_not_told_of_what_it_did_itself(daemon: InProcessDaemon, op: str) -> None:
    """There is an answer for that."""
    holder = daemon.peer()
    claim(holder, bound=True)
    (answer,) = holder.ask({"op": op, "id": "s1mu-1", "gen": 2})
    assert "ok" in answer


def test_nothing_is_reclaimed_before_a_grace_after_a_gap(daemon: InProcessDaemon) -> None:
    """The daemon was stopped, and nobody could speak."""
    claim(daemon.peer())
    daemon.clock.t += 200
    daemon.service.on_clock_gap(daemon.clock.now())
    daemon.later(4.9)
    assert status(daemon) == "claimed"
    daemon.later(0.1)
    assert status(daemon) == "ready"


def test_bound_claims_have_time_to_rebind_after_a_restart(daemon: InProcessDaemon) -> None:
    """10 s, or the grace if that is longer."""
    claim(daemon.peer(), bound=True)
    again = daemon.again()
    again.later(9.9)
    assert status(again) == "claimed"
    again.later(0.1)
    assert status(again) == "ready"
