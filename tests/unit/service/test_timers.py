"""What is due at a time, and when the next is."""

from __future__ import annotations

from claimdagd.service.timers import CLOCK_CHECK_S, DEADLOCK_S, RETRY_S
from tests.support.in_process import InProcessDaemon


def test_idle_daemon_has_nothing_due() -> None:
    """It may sleep for ever."""
    assert InProcessDaemon().service.tick() is None


def test_tick_returns_the_end_of_the_next_lease() -> None:
    """The earliest of them."""
    daemon = InProcessDaemon()
    peer = daemon.peer()
    for number, lease in ((1, 50), (2, 20)):
        peer.ask({"op": "upsert"}, {"op": "claim", "id": f"s1mu-{number}", "actor": f"a{number}", "lease": lease})
    assert daemon.service.tick() == daemon.clock.now() + 20


def test_shell_is_woken_for_what_is_due_before_it_meant_to_look() -> None:
    """And not for what is due after."""
    daemon = InProcessDaemon()
    woken: list[None] = []
    daemon.service.on_wake = lambda: woken.append(None)
    peer = daemon.peer()
    peer.ask({"op": "upsert"}, {"op": "upsert"}, {"op": "claim", "id": "s1mu-1", "actor": "a", "lease": 20})
    assert woken
    daemon.service.tick()
    woken.clear()
    peer.ask({"op": "claim", "id": "s1mu-2", "actor": "b", "lease": 50})
    assert not woken


def test_lease_whose_end_cannot_be_written_is_tried_again_later() -> None:
    """Not in a loop."""
    daemon = InProcessDaemon()
    daemon.peer().ask({"op": "upsert"}, {"op": "claim", "id": "s1mu-1", "actor": "a", "lease": 10})
    daemon.fill()
    daemon.clock.t += 10
    assert daemon.service.tick() == daemon.clock.now() + RETRY_S
    assert daemon.graph.vertices["s1mu-1"].record.status == "claimed"
    daemon.heal()
    daemon.later(RETRY_S)
    assert daemon.graph.vertices["s1mu-1"].record.status == "ready"


def test_new_deadlock_is_told_to_the_watchers_once() -> None:
    """Within a second of its coming about."""
    daemon = InProcessDaemon(max_nodes=64)
    peer, watcher = daemon.peer(), daemon.peer()
    watcher.ask({"op": "watch"})
    peer.ask(
        {"op": "upsert", "needs": {"x": 1}},
        {"op": "upsert", "needs": {"y": 1}},
        {"op": "claim", "id": "s1mu-1", "actor": "a"},
        {"op": "claim", "id": "s1mu-2", "actor": "b"},
        {"op": "upsert", "parent": "s1mu-1", "needs": {"y": 1}},
        {"op": "upsert", "parent": "s1mu-2", "needs": {"x": 1}},
        {"op": "complete", "id": "s1mu-1"},
        {"op": "complete", "id": "s1mu-2"},
    )
    daemon.later(DEADLOCK_S)
    daemon.later(DEADLOCK_S)
    told = [each for each in watcher.look() if each.get("event", {}).get("op") == "deadlock"]
    assert len(told) == 1


def test_long_journal_asks_for_a_snapshot_once() -> None:
    """Another is not wanted before it is written."""
    daemon = InProcessDaemon()
    wanted: list[None] = []
    daemon.service.on_snapshot = lambda: wanted.append(None)
    daemon.service._snapshots.wanted_above = 100
    daemon.peer().ask({"op": "upsert"}, {"op": "upsert"})
    daemon.peer().ask({"op": "upsert"})
    assert len(wanted) == 1
    for _ in daemon.service.snapshot():
        pass
    assert daemon.service._snapshots.wanted_above > 100


def test_node_begins_at_its_time_and_is_claimed_by_who_waits() -> None:
    """Nobody has to ask again."""
    daemon = InProcessDaemon()
    begins = daemon.clock.wall() + 10
    daemon.peer().ask({"op": "upsert", "not_before": begins})
    waiting = daemon.peer()
    waiting.ask({"op": "claim_next", "actor": "a", "wait": 60})
    assert daemon.graph.vertices["s1mu-1"].record.status == "todo"
    assert daemon.service.tick() == daemon.clock.now() + 10
    daemon.later(10)
    assert daemon.graph.vertices["s1mu-1"].record.assignee == "a"


def test_far_time_is_looked_at_again_in_between() -> None:
    """The clock may be set at any time."""
    daemon = InProcessDaemon()
    daemon.peer().ask({"op": "upsert", "not_before": daemon.clock.wall() + 10_000})
    assert daemon.service.tick() == daemon.clock.now() + CLOCK_CHECK_S
