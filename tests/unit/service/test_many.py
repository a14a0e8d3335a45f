"""Several nodes in one request, as the service answers and journals it (law 10.6)."""

from __future__ import annotations

import pytest

from tests.support.in_process import InProcessDaemon, Peer


@pytest.fixture
def daemon() -> InProcessDaemon:
    return InProcessDaemon()


@pytest.fixture
def peer(daemon: InProcessDaemon) -> Peer:
    return daemon.peer()


def three(peer: Peer) -> list[str]:
    (made,) = peer.ask({"op": "submit", "nodes": [{}, {}, {}]})
    return list(made["ok"]["ids"])


def test_several_are_one_entry_and_outlive_a_restart(daemon: InProcessDaemon, peer: Peer) -> None:
    """The journal has one line, and replay puts back what it says."""
    ids = three(peer)
    seq = daemon.store.seq
    (answer,) = peer.ask({"op": "cancel", "ids": ids, "error": "no"})
    assert answer["ok"] == {"results": [{"ids": [node_id]} for node_id in ids]}
    assert daemon.store.seq == seq + 1
    views = peer.ask(*[{"op": "get", "id": node_id} for node_id in ids])
    assert daemon.again().peer().ask(*[{"op": "get", "id": node_id} for node_id in ids]) == views


def test_refusal_names_each_fault_and_journals_nothing(daemon: InProcessDaemon, peer: Peer) -> None:
    """And the token stays free."""
    ids = three(peer)
    seq = daemon.store.seq
    (refused,) = peer.ask({"op": "complete", "ids": [*ids, "x", "y"], "once": "t"})
    assert [fault["index"] for fault in refused["error"]["faults"]] == [3, 4]
    assert daemon.store.seq == seq
    (done,) = peer.ask({"op": "complete", "ids": ids, "once": "t"})
    (again,) = peer.ask({"op": "complete", "ids": ids, "once": "t"})
    assert done == again
    assert [each["node"]["status"] for each in done["ok"]["results"]] == ["done"] * 3
    assert daemon.store.seq == seq + 1


def test_renewal_of_several_is_not_journaled(daemon: InProcessDaemon, peer: Peer) -> None:
    """As that of one is not."""
    ids = three(peer)
    for node_id in ids:
        peer.ask({"op": "claim", "id": node_id, "actor": f"a{node_id}"})
    seq = daemon.store.seq
    (answer,) = peer.ask({"op": "renew", "ids": ids, "lease": 60})
    assert [each["expires_in"] for each in answer["ok"]["results"]] == [60.0] * 3
    assert daemon.store.seq == seq


def test_bound_renewal_of_several_binds_each(daemon: InProcessDaemon, peer: Peer) -> None:
    """When the connection closes, each is handed back within the grace."""
    ids = three(peer)
    for node_id in ids:
        peer.ask({"op": "claim", "id": node_id, "actor": f"a{node_id}"})
    peer.ask({"op": "renew", "ids": ids[:2], "bound": True})
    daemon.service.closed(peer.session)
    daemon.later(6.0)
    views = daemon.peer().ask(*[{"op": "get", "id": node_id} for node_id in ids])
    assert [view["ok"]["status"] for view in views] == ["ready", "ready", "claimed"]


def test_holder_that_releases_several_is_not_told_that_they_are_lost(peer: Peer) -> None:
    """One that another cancels is."""
    ids = three(peer)
    for node_id in ids:
        peer.ask({"op": "claim", "id": node_id, "actor": f"a{node_id}", "bound": True})
    assert "results" in peer.ask({"op": "release", "ids": ids[:2]})[0]["ok"]
    assert peer.look() == []


def test_write_that_fails_undoes_all_of_them(daemon: InProcessDaemon, peer: Peer) -> None:
    """The disk is full: nothing is done."""
    ids = three(peer)
    daemon.fill()
    (refused,) = peer.ask({"op": "cancel", "ids": ids})
    assert refused["error"]["code"] == "storage"
    daemon.heal()
    views = peer.ask(*[{"op": "get", "id": node_id} for node_id in ids])
    assert [view["ok"]["status"] for view in views] == ["ready"] * 3


@pytest.mark.parametrize("ids", [[], "x", [1], None])
def test_wrong_ids_are_refused_by_field(peer: Peer, ids: object) -> None:
    """An empty list too: whoever builds one has meant some."""
    (refused,) = peer.ask({"op": "cancel", "ids": ids})
    assert refused["error"]["code"] == "bad_request"
    assert refused["error"]["field"].startswith("ids")


def test_waiting_claims_are_served_by_what_several_made_ready(peer: Peer) -> None:
    """In one go, once all is done."""
    (made,) = peer.ask({"op": "submit", "nodes": [{"ref": "a"}, {"ref": "b"}, {"deps": [{"on": "a"}, {"on": "b"}]}]})
    first, second, last = made["ok"]["ids"]
    for node_id, actor in ((first, "ann"), (second, "bob")):
        peer.ask({"op": "claim", "id": node_id, "actor": actor})
    peer.send({"op": "claim_next", "actor": "cyd", "wait": 60, "rid": "w"})
    peer.send({"op": "complete", "ids": [first, second], "rid": "c"})
    heard = {line["rid"]: line["ok"] for line in peer.look()}
    assert heard["c"]["results"][1]["ready"] == [last]
    assert heard["w"]["id"] == last
