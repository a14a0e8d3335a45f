"""Claims for which a process stands (law 4.14): made-up processes, time moved by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.in_process import InProcessDaemon, Peer

ID = "s1mu-1"


@pytest.fixture
def daemon() -> InProcessDaemon:
    daemon = InProcessDaemon()
    daemon.peer().ask({"op": "upsert", "summary": "work"})
    daemon.processes.start(7)
    return daemon


def ask(peer: Peer, op: str, **fields: object) -> Any:
    (answer,) = peer.ask({"op": op, **fields})
    return answer


def claim(daemon: InProcessDaemon, **fields: object) -> Any:
    return ask(daemon.peer(), "claim", id=ID, actor="a", **{"pid": 7, **fields})


def status(daemon: InProcessDaemon) -> str:
    return daemon.graph.vertices[ID].record.status


def test_claim_comes_back_a_grace_after_its_process_ended(daemon: InProcessDaemon) -> None:
    """Not before, and not with the connection that made it."""
    assert claim(daemon)["ok"]["node"]["pid"] == 7
    daemon.later(60)
    daemon.processes.end(7)
    daemon.later(4.9)
    assert status(daemon) == "claimed"
    daemon.later(0.1)
    assert status(daemon) == "ready"
    assert "pid" not in ask(daemon.peer(), "get", id=ID)["ok"]


def test_claim_of_a_living_process_lasts_four_hours(daemon: InProcessDaemon) -> None:
    """Well over the default of 900 s; then a forgetful holder loses it."""
    assert claim(daemon)["ok"]["expires_in"] == 14400
    daemon.later(14399)
    assert status(daemon) == "claimed"
    daemon.later(1)
    assert status(daemon) == "ready"


def test_lease_that_is_said_counts(daemon: InProcessDaemon) -> None:
    """With a process as without one."""
    assert claim(daemon, lease=60)["ok"]["expires_in"] == 60
    daemon.later(60)
    assert status(daemon) == "ready"


@pytest.mark.parametrize("op", ["claim", "claim_next", "renew", "complete"])
def test_unknown_process_is_refused_by_name(daemon: InProcessDaemon, op: str) -> None:
    """And nothing is changed."""
    peer = daemon.peer()
    if op in ("renew", "complete"):
        claim(daemon)
    before = daemon.graph.vertices[ID].record
    fields: dict[str, dict[str, object]] = {
        "claim": {"id": ID, "actor": "b", "pid": 8},
        "claim_next": {"actor": "b", "pid": 8, "wait": 5},
        "renew": {"id": ID, "pid": 8},
        "complete": {"id": ID, "next": {"actor": "b", "pid": 8}},
    }
    error = ask(peer, op, **fields[op])["error"]
    assert (error["code"], error["field"], error["pid"]) == ("bad_request", "pid", 8)
    assert "of the daemon's user" in error["accepted"]
    assert daemon.graph.vertices[ID].record == before


def test_peer_of_another_pid_namespace_is_refused(daemon: InProcessDaemon) -> None:
    """Its numbers are not the daemon's."""
    peer = daemon.peer()
    peer.session.peer_pid = 0
    assert ask(peer, "claim", id=ID, actor="a", pid=7)["error"]["code"] == "bad_request"


def test_daemon_without_descriptors_says_full(daemon: InProcessDaemon) -> None:
    """A claim without a process goes on."""
    daemon.processes.full = True
    assert claim(daemon)["error"]["code"] == "full"
    assert "ok" in ask(daemon.peer(), "claim", id=ID, actor="a")


def test_process_that_ends_between_check_and_claim_starts_the_grace(
    daemon: InProcessDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it had ended after it."""
    monkeypatch.setattr(daemon.processes, "watch", lambda process: False)
    assert "ok" in claim(daemon)
    daemon.later(5)
    assert status(daemon) == "ready"


def test_number_that_is_used_again_is_another_process(daemon: InProcessDaemon) -> None:
    """After a restart of the daemon the start time tells."""
    claim(daemon)
    daemon.processes.watched.clear()
    daemon.processes.end(7)
    daemon.processes.start(7)
    again = daemon.again()
    again.later(5)
    assert status(again) == "ready"


def test_daemon_that_comes_back_watches_again(daemon: InProcessDaemon) -> None:
    """And the lease is a fresh one of four hours."""
    claim(daemon)
    again = daemon.again()
    again.later(1000)
    assert status(again) == "claimed"
    again.processes.end(7)
    again.later(5)
    assert status(again) == "ready"


def test_renew_changes_the_process(daemon: InProcessDaemon) -> None:
    """The end of the first one means nothing any more, even after a restart."""
    claim(daemon)
    daemon.processes.start(8)
    ask(daemon.peer(), "renew", id=ID, gen=2, pid=8)
    daemon.processes.end(7)
    daemon.later(100)
    assert status(daemon) == "claimed"
    again = daemon.again()
    again.later(100)
    assert status(again) == "claimed"
    again.processes.end(8)
    again.later(5)
    assert status(again) == "ready"


def test_renew_ties_a_plain_claim_to_a_process(daemon: InProcessDaemon) -> None:
    """With the long lease from then on."""
    ask(daemon.peer(), "claim", id=ID, actor="a", lease=60)
    assert ask(daemon.peer(), "renew", id=ID, pid=7)["ok"]["expires_in"] == 14400
    daemon.processes.end(7)
    daemon.later(5)
    assert status(daemon) == "ready"


def test_renew_after_the_end_keeps_the_node_without_a_process(daemon: InProcessDaemon) -> None:
    """Somebody spoke for it: a daemon that comes back does not hold the old end against it."""
    claim(daemon)
    daemon.processes.end(7)
    assert "process 7, which has ended" in ask(daemon.peer(), "why", id=ID)["ok"]["text"]
    ask(daemon.peer(), "renew", id=ID, gen=2)
    daemon.later(100)
    again = daemon.again()
    again.later(100)
    assert status(again) == "claimed"
    assert "pid" not in ask(again.peer(), "get", id=ID)["ok"]


def test_waiting_claim_keeps_its_process(daemon: InProcessDaemon) -> None:
    """It is looked at again when the claim is served."""
    claim(daemon)
    waiter = daemon.peer()
    waiter.send({"op": "claim_next", "actor": "b", "pid": 7, "wait": 100, "rid": 1})
    ask(daemon.peer(), "release", id=ID, gen=2)
    assert waiter.look()[0]["ok"]["node"]["pid"] == 7
    daemon.processes.end(7)
    daemon.later(5)
    assert status(daemon) == "ready"


def test_next_of_a_complete_carries_the_process(daemon: InProcessDaemon) -> None:
    """Also where other claims wait."""
    peer = daemon.peer()
    ask(peer, "upsert", summary="more")
    claim(daemon)
    done = ask(peer, "complete", id=ID, gen=2, actor="a", next={"pid": 7})
    assert done["ok"]["next"]["node"]["pid"] == 7
    assert "pid" not in done["ok"]["node"]


def test_end_that_is_rolled_back_is_watched_again(daemon: InProcessDaemon) -> None:
    """The process ended while the journal could not be written."""
    claim(daemon)
    daemon.fill()
    assert ask(daemon.peer(), "release", id=ID, gen=2)["error"]["code"] == "storage"
    daemon.heal()
    daemon.processes.end(7)
    daemon.later(5)
    assert status(daemon) == "ready"


def test_why_names_the_process(daemon: InProcessDaemon) -> None:
    """In words and typed."""
    claim(daemon)
    why = ask(daemon.peer(), "why", id=ID)["ok"]
    assert "held by a for process 7 at generation 2" in why["text"]
    assert (why["reasons"][0]["pid"], why["reasons"][0]["alive"]) == (7, True)


def test_processes_without_a_claim_are_watched_no_longer(daemon: InProcessDaemon) -> None:
    """However many stood for claims that are over, while they run on."""
    peer = daemon.peer()
    for pid in range(100, 400):
        daemon.processes.start(pid)
        gen = ask(peer, "claim", id=ID, actor="a", pid=pid)["ok"]["gen"]
        ask(peer, "release", id=ID, gen=gen)
    assert len(daemon.processes.watched) < 150


def test_end_while_the_journal_is_not_flushed_counts_after_a_rollback() -> None:
    """The release was undone, and the process was gone by then."""
    daemon = InProcessDaemon(fsync=True)
    daemon.peer().ask({"op": "upsert", "summary": "work"})
    daemon.processes.start(7)
    claim_it = daemon.peer()
    claim_it.send({"op": "claim", "id": ID, "actor": "a", "pid": 7})
    daemon.flush()
    claim_it.send({"op": "release", "id": ID, "gen": 2})
    daemon.processes.end(7)
    daemon.service.commit_failed(OSError(5, "Input/output error"))
    assert status(daemon) == "claimed"
    daemon.later(5)
    assert status(daemon) == "ready"


def test_end_during_a_stop_of_the_daemon_leaves_holders_a_grace(daemon: InProcessDaemon) -> None:
    """After a suspend nothing ends before a holder could speak."""
    claim(daemon)
    daemon.clock.t += 20000
    daemon.service.on_clock_gap(daemon.clock.now())
    daemon.processes.end(7)
    daemon.later(4.9)
    assert status(daemon) == "claimed"
    daemon.later(0.1)
    assert status(daemon) == "ready"


def test_claim_of_a_connection_and_a_process_has_the_grace_of_the_first_end(daemon: InProcessDaemon) -> None:
    """Each counts by itself."""
    holder = daemon.peer()
    ask(holder, "claim", id=ID, actor="a", pid=7, bound=True)
    daemon.service.closed(holder.session)
    daemon.later(5)
    assert status(daemon) == "ready"
    holder = daemon.peer()
    ask(holder, "claim", id=ID, actor="a", pid=7, bound=True)
    daemon.processes.end(7)
    daemon.later(5)
    assert status(daemon) == "ready"
    assert holder.look()[-1]["event"]["why"] == "expired"


def test_running_after_the_end_forgets_the_process(daemon: InProcessDaemon) -> None:
    """As renew does: the holder has spoken since."""
    claim(daemon)
    daemon.processes.end(7)
    ask(daemon.peer(), "running", id=ID, gen=2)
    again = daemon.again()
    again.later(100)
    assert (status(again), "pid" in ask(again.peer(), "get", id=ID)["ok"]) == ("running", False)
