"""Requests that are limited to a subtree: claims, ready, wait, stats, watch, and claims that wait (law 5.11)."""

from __future__ import annotations

from typing import Any

from tests.support.in_process import InProcessDaemon, Peer


def _two_goals(service: Any) -> tuple[Peer, list[str]]:
    """Two goals with two tasks each, and a task beside them."""
    boss = Peer(service)
    nodes = [
        {"ref": "a", "kind": "goal"},
        {"ref": "b", "kind": "goal"},
        *({"parent": goal} for goal in "aabb"),
        {"priority": 9},
    ]
    boss.send({"op": "submit", "nodes": nodes})
    return boss, boss.received[-1]["ok"]["ids"]


def _ask(peer: Peer, **request: Any) -> dict[str, Any]:
    peer.send(request)
    return dict(peer.received[-1])


def test_worker_with_a_scope_never_leaves_it() -> None:
    """It takes what is below its goal, and then hears that nothing is pending there (law 5.11)."""
    service = InProcessDaemon().service
    boss, (a, b, a1, a2, *_, beside) = _two_goals(service)
    for expected in (a1, a2):
        taken = _ask(boss, op="claim_next", actor="ann", under=a)["ok"]
        assert taken["id"] == expected
        _ask(boss, op="complete", id=taken["id"])
    assert _ask(boss, op="claim_next", actor="ann", under=a)["error"]["code"] == "nothing_pending"
    assert _ask(boss, op="claim_next", actor="ann", under=b)["ok"]["node"]["parent"] == b
    assert _ask(boss, op="claim_next", actor="ben")["ok"]["id"] == beside


def test_nothing_runnable_counts_the_scope_alone() -> None:
    """What others do elsewhere is not counted, but keeps it from being stuck."""
    service = InProcessDaemon().service
    boss, (a, _b, a1, a2, *_) = _two_goals(service)
    for id in (a1, a2):
        _ask(boss, op="upsert", id=id, status="blocked")
    refused = _ask(boss, op="claim_next", actor="ann", under=a)["error"]
    assert refused["code"] == "nothing_runnable"
    assert (refused["blocked"], refused["leases"], refused["stuck"]) == (2, 0, True)
    _ask(boss, op="claim_next", actor="ben")
    assert _ask(boss, op="claim_next", actor="ann", under=a)["error"]["stuck"] is False


def test_complete_with_next_stays_in_the_scope() -> None:
    """The next claim is as limited as a claim of its own."""
    service = InProcessDaemon().service
    boss, (a, _b, a1, a2, *_) = _two_goals(service)
    _ask(boss, op="claim_next", actor="ann", under=a)
    for done, following in ((a1, a2), (a2, None)):
        ok = _ask(boss, op="complete", id=done, actor="ann", next={"under": a})["ok"]
        assert (ok["next"] or {}).get("id") == following
    assert ok["code"] == "nothing_pending"


def test_claims_that_wait_with_a_scope_are_fair_and_starve_nobody() -> None:
    """First come first served within a scope, and whoever has none is served past those whose scope is empty."""
    service = InProcessDaemon().service
    boss = Peer(service)
    goals = _ask(boss, op="submit", nodes=[{"kind": "goal"}, {"kind": "goal"}])["ok"]["ids"]
    first, second, free = Peer(service), Peer(service), Peer(service)
    first.send({"op": "claim_next", "actor": "first", "under": goals[0], "wait": 60})
    second.send({"op": "claim_next", "actor": "second", "under": goals[0], "wait": 60})
    free.send({"op": "claim_next", "actor": "free", "wait": 60})
    _ask(boss, op="upsert", parent=goals[1])
    assert (len(first.received), len(second.received), len(free.received)) == (0, 0, 1)
    one = _ask(boss, op="upsert", parent=goals[0])["ok"]["id"]
    assert first.received[-1]["ok"]["id"] == one
    assert not second.received
    two = _ask(boss, op="upsert", parent=goals[0])["ok"]["id"]
    assert second.received[-1]["ok"]["id"] == two


def test_claim_that_waits_hears_when_its_scope_has_ended() -> None:
    """A goal that is over hands nothing out any more: its time runs out as any other's."""
    daemon = InProcessDaemon()
    boss, (a, *_) = _two_goals(daemon.service)
    _ask(boss, op="cancel", id=a)
    assert _ask(boss, op="claim_next", actor="ann", under=a)["error"]["code"] == "nothing_pending"


def test_ready_and_stats_are_of_the_scope() -> None:
    """In the order in which a claim would take it; counts of groups too."""
    service = InProcessDaemon().service
    boss, (a, _b, a1, a2, *_) = _two_goals(service)
    assert [node["id"] for node in _ask(boss, op="ready", under=a)["ok"]["nodes"]] == [a1, a2]
    stats = _ask(boss, op="stats", under=a)["ok"]
    assert (stats["nodes"], stats["live"], stats["statuses"]["ready"]) == (3, 0, 3)


def test_wait_for_a_scope_ends_with_everything_below_it() -> None:
    """And without ids and scope, with all work that was unfinished when it was asked (law 5.11)."""
    service = InProcessDaemon().service
    boss, ids = _two_goals(service)
    scoped, everything = Peer(service), Peer(service)
    scoped.send({"op": "wait", "under": ids[0]})
    everything.send({"op": "wait"})
    for id in ids[2:4]:
        assert not scoped.received
        _ask(boss, op="complete", id=id)
    assert [node["id"] for node in scoped.received[-1]["ok"]["nodes"]] == [ids[0]]
    for id in ids[4:]:
        assert not everything.received
        _ask(boss, op="complete", id=id)
    assert {node["status"] for node in everything.received[-1]["ok"]["nodes"]} == {"done"}


def test_watch_of_a_scope_hears_of_nothing_else() -> None:
    """From now on, and from an entry that is kept (law 5.11)."""
    service = InProcessDaemon().service
    boss, (a, b, a1, _a2, b1, *_) = _two_goals(service)
    _ask(boss, op="complete", id=b1)
    now, kept = Peer(service), Peer(service)
    now.send({"op": "watch", "under": a})
    kept.send({"op": "watch", "under": b, "from": 1})
    _ask(boss, op="complete", id=a1)
    # Elsewhere, but what it makes ready is in the scope.
    _ask(boss, op="submit", nodes=[{"ref": "x"}, {"parent": a, "deps": [{"on": "x"}]}])
    _ask(boss, op="complete", id=_ask(boss, op="list", status="ready")["ok"]["nodes"][0]["id"])
    events = [line["event"] for line in now.received if "event" in line]
    assert [event["op"] for event in events] == ["complete", "submit", "complete"]
    assert [line["event"]["op"] for line in kept.received if "event" in line] == ["submit", "complete"]


def test_unknown_scope_is_refused_by_name_for_every_op() -> None:
    """And nothing is changed."""
    boss = Peer(InProcessDaemon().service)
    for op in ("claim_next", "ready", "wait", "stats", "watch"):
        more = {"actor": "ann"} if op == "claim_next" else {}
        refused = _ask(boss, op=op, under="t3st-99", **more)["error"]
        assert (refused["code"], op in refused["message"]) == ("not_found", True)
