"""The client's end of the protocol without I/O, on a clock that the test moves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from claimdag_client._protocol import requests, several
from claimdag_client._protocol.call import Call
from claimdag_client._protocol.protocol import ClientProtocol
from claimdag_client.errors import ClaimLost, Malformed, Storage, Unreachable, Unresponsive

NODE = {
    "id": "t3st-1", "kind": "task", "role": "unset", "status": "claimed", "summary": "", "parent": None, "deps": [],
    "needs": {}, "cost": 1.0, "priority": 0, "assignee": "a", "gen": 2, "attempts": 1, "max_attempts": None,
    "outcome": None, "cause": None, "error": None, "archived": False, "created_at": 0.0, "updated_at": 0.0,
    "started_at": None, "finished_at": None,
}  # fmt: skip


class Table:
    """A conversation, and the daemon's side of it played by hand."""

    def __init__(self) -> None:
        self.protocol = ClientProtocol("tok")
        self.now = 100.0
        self.protocol.connection_made("t3st", self.now)

    def ask(self, ask: requests.Request[Any]) -> Call[Any]:
        return self.protocol.start(ask, self.now, lambda: None)

    def sent(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.protocol.data_to_send().splitlines()]

    def answer(self, request: dict[str, Any], **ok: Any) -> None:
        self.protocol.receive_line(json.dumps({"rid": request["rid"], "ok": ok}).encode(), self.now)

    def refuse(self, request: dict[str, Any], code: str) -> None:
        error = {"code": code, "message": f"{request['op']}: no"}
        self.protocol.receive_line(json.dumps({"rid": request["rid"], "error": error}).encode(), self.now)

    def tell(self, **event: Any) -> None:
        self.protocol.receive_line(json.dumps({"event": event}).encode(), self.now)

    def reconnect(self) -> None:
        self.protocol.connection_lost()
        self.protocol.connection_made("t3st", self.now)

    def claim(self, lease: float = 30.0, gen: int = 2) -> Call[Any]:
        call = self.ask(requests.claim_next("a", lease=lease))
        self.grant(self.sent()[-1], lease, gen)
        return call

    def grant(self, request: dict[str, Any], lease: float = 30.0, gen: int = 2) -> None:
        self.answer(request, id="t3st-1", gen=gen, expires_in=lease, node={**NODE, "gen": gen})


def next_claim(gen: int) -> dict[str, Any]:
    return {"id": "t3st-2", "gen": gen, "expires_in": 12.0, "node": {**NODE, "id": "t3st-2", "gen": gen}}


def test_claim_is_renewed_after_a_third_of_its_lease_and_then_of_what_was_given() -> None:
    """Never before, and never twice at once."""
    table = Table()
    table.claim(lease=30)
    assert table.protocol.next_timer() == 110
    table.now = 109.9
    table.protocol.handle_timer(table.now)
    assert table.sent() == []
    table.now = 110
    table.protocol.handle_timer(table.now)
    [renewal] = table.sent()
    assert renewal == {
        "op": "renew", "id": "t3st-1", "gen": 2, "actor": "a", "lease": 30, "bound": True, "rid": renewal["rid"],
    }  # fmt: skip
    table.protocol.handle_timer(table.now + 20)
    assert table.sent() == []
    assert table.protocol.next_timer() is None
    table.now = 111
    table.answer(renewal, id="t3st-1", gen=2, expires_in=60)
    assert table.protocol.next_timer() == 131


def test_expiring_renews_at_once() -> None:
    """The daemon's warning is heeded whatever the plan."""
    table = Table()
    table.claim()
    table.tell(op="expiring", id="t3st-1", gen=2, expires_in=1)
    assert [request["op"] for request in table.sent()] == ["renew"]


def test_renewal_that_the_daemon_could_not_do_is_tried_again() -> None:
    """A full disk costs nobody a claim."""
    table = Table()
    held = table.claim().held
    table.now = 110
    table.protocol.handle_timer(table.now)
    table.refuse(table.sent()[0], "storage")
    assert held is not None
    assert held.lost is None
    assert table.protocol.next_timer() == 111


def test_renewal_refused_is_a_claim_lost() -> None:
    """With the code for its reason, told once."""
    table = Table()
    held = table.claim().held
    assert held is not None
    told: list[str | None] = []
    held.on_lost = lambda: told.append(held.lost)
    table.now = 110
    table.protocol.handle_timer(table.now)
    table.refuse(table.sent()[0], "gen_mismatch")
    table.tell(op="lost", id="t3st-1", gen=2, why="reclaim")
    assert told == ["gen_mismatch"]
    with pytest.raises(ClaimLost):
        held.check()
    assert table.protocol.next_timer() is None


def test_loss_of_an_older_generation_leaves_the_claim() -> None:
    """Events are about one generation."""
    table = Table()
    held = table.claim(gen=5).held
    table.tell(op="lost", id="t3st-1", gen=2, why="reclaim")
    assert held is not None
    assert held.lost is None


def test_reconnect_rebinds_first_and_then_asks_again_in_order() -> None:
    """With the same tokens and what is left of a wait."""
    table = Table()
    table.claim()
    table.ask(requests.upsert(summary="x"))
    table.ask(requests.claim_next("b", wait=50))
    first = table.sent()
    table.now = 120
    table.reconnect()
    again = table.sent()
    assert [request["op"] for request in again] == ["renew", "upsert", "claim_next"]
    assert again[1] == first[0]
    assert again[2] == {**first[1], "wait": 30}


def test_complete_on_its_way_over_a_reconnect_is_asked_again_and_not_renewed() -> None:
    """A renewal of a node that is done by now would call the claim lost."""
    table = Table()
    held = table.claim().held
    call = table.ask(requests.complete("t3st-1", gen=2, actor="a"))
    table.sent()
    table.reconnect()
    [again] = table.sent()
    assert again["op"] == "complete"
    table.answer(again, node={**NODE, "status": "done"}, ready=[])
    assert call.result().node.status == "done"
    assert held is not None
    assert held.lost is None
    assert not table.protocol.held


def test_answer_to_a_repeated_claim_is_believed_after_a_renewal() -> None:
    """It may be the first asking's answer, with the claim long gone."""
    table = Table()
    call = table.ask(requests.claim_next("a"))
    table.reconnect()
    [again] = table.sent()
    table.grant(again)
    assert not call.settled
    [renewal] = table.sent()
    assert (renewal["op"], renewal["gen"], renewal["bound"]) == ("renew", 2, True)
    table.refuse(renewal, "gen_mismatch")
    [anew] = table.sent()
    assert anew["once"] != again["once"]
    table.grant(anew, gen=7)
    assert call.result().gen == 7
    assert [*table.protocol.held] == [("t3st-1", 7)]


def test_next_of_a_complete_is_held_and_its_own_claim_no_more() -> None:
    """Under the lease and the binding that were asked for; renewed like any other."""
    table = Table()
    table.claim()
    call = table.ask(requests.complete_and_next("t3st-1", actor="a", gen=2, lease=12.0))
    [request] = table.sent()
    assert request["next"] == {"lease": 12.0, "bound": True}
    table.answer(request, node={**NODE, "status": "done"}, ready=[], next=next_claim(gen=5))
    assert call.held is not None
    assert (call.held.gen, call.held.actor, call.held.lease, call.held.bound) == (5, "a", 12.0, True)
    assert [*table.protocol.held] == [("t3st-2", 5)]
    table.now += 5.0
    table.protocol.handle_timer(table.now)
    [renewal] = table.sent()
    assert (renewal["op"], renewal["id"], renewal["gen"]) == ("renew", "t3st-2", 5)


def test_next_of_a_repeated_complete_is_believed_after_a_renewal() -> None:
    """It may be the first asking's, with the claim long gone: then the complete is said once more for another next."""
    table = Table()
    table.claim()
    call = table.ask(requests.complete_and_next("t3st-1", actor="a", gen=2))
    table.reconnect()
    [again] = table.sent()
    table.answer(again, node={**NODE, "status": "done"}, ready=["t3st-9"], next=next_claim(gen=5))
    assert not call.settled
    [renewal] = table.sent()
    assert (renewal["op"], renewal["id"], renewal["gen"], renewal["bound"]) == ("renew", "t3st-2", 5, True)
    table.refuse(renewal, "gen_mismatch")
    [anew] = table.sent()
    assert anew["once"] != again["once"]
    table.answer(anew, node={**NODE, "status": "done"}, ready=["t3st-9"], next=None, code="nothing_pending")
    assert (call.result().next, call.result().code, call.result().ready) == (None, "nothing_pending", ("t3st-9",))
    assert not table.protocol.held


def test_abandoned_complete_hands_back_the_next_that_it_brings() -> None:
    """The node that was completed stays so; the one that nobody waits for goes to others."""
    table = Table()
    table.claim()
    call = table.ask(requests.complete_and_next("t3st-1", actor="a", gen=2))
    [request] = table.sent()
    table.protocol.abandon(call, table.now)
    table.answer(request, node={**NODE, "status": "done"}, ready=[], next=next_claim(gen=5))
    [release] = table.sent()
    assert (release["op"], release["id"], release["gen"]) == ("release", "t3st-2", 5)
    assert not table.protocol.held


def test_abandoned_claim_is_handed_back_when_it_comes() -> None:
    """And one that had come already."""
    table = Table()
    call = table.ask(requests.claim_next("a", wait=5))
    [request] = table.sent()
    table.protocol.abandon(call, table.now)
    table.grant(request)
    [release] = table.sent()
    assert (release["op"], release["id"], release["gen"]) == ("release", "t3st-1", 2)
    settled = table.claim(gen=9)
    table.protocol.abandon(settled, table.now)
    assert [request["op"] for request in table.sent()] == ["release"]
    assert not table.protocol.held


def test_abandoned_question_is_not_asked_again() -> None:
    """Nobody waits for the answer."""
    table = Table()
    call = table.ask(requests.ping())
    table.sent()
    table.protocol.abandon(call, table.now)
    table.reconnect()
    assert table.sent() == []
    table.protocol.connection_lost()
    call = table.ask(requests.ping())
    table.protocol.abandon(call, table.now)
    table.protocol.connection_made("t3st", table.now)
    assert table.sent() == []


def test_shutting_down_drops_the_connection_and_settles_nothing() -> None:
    """The question is the next daemon's."""
    table = Table()
    call = table.ask(requests.upsert())
    table.refuse(table.sent()[0], "shutting_down")
    assert table.protocol.leaving
    assert not call.settled
    table.reconnect()
    assert not table.protocol.leaving
    assert [request["op"] for request in table.sent()] == ["upsert"]


def test_refusals_settle_and_the_end_fails_all() -> None:
    """Now and later."""
    table = Table()
    refused = table.ask(requests.upsert())
    table.refuse(table.sent()[0], "storage")
    with pytest.raises(Storage):
        refused.result()
    waiting = table.ask(requests.ping())
    table.protocol.close(Unreachable("gone"))
    for call in (waiting, table.ask(requests.ping())):
        with pytest.raises(Unreachable, match="gone"):
            call.result()


@pytest.mark.parametrize(
    "line", [b"", b"[", b"{}x", b'{"rid":1,"ok":{"nonsense":1}}', b"[" * 100_000, b'{"event":1', b'{"event":1}']
)
def test_line_that_is_not_of_the_protocol_is_a_value_error(line: bytes) -> None:
    """The connection is dropped for it; nothing is settled."""
    table = Table()
    call = table.ask(requests.get("t3st-1"))
    with pytest.raises(ValueError, match="not of the protocol"):
        table.protocol.receive_line(line, table.now)
    assert not call.settled


def test_line_for_nobody_is_let_pass() -> None:
    """An answer to what was abandoned, an event of a later daemon."""
    table = Table()
    table.protocol.receive_line(b'{"rid":77,"ok":{}}', table.now)
    table.protocol.receive_line(b'{"rid":"x","error":{"code":"bad_request","message":"m"}}', table.now)
    table.tell(op="of_a_later_daemon")


def test_question_too_long_is_malformed_and_not_asked() -> None:
    """Refused here, before it could cost the connection."""
    table = Table()
    with pytest.raises(Malformed):
        table.ask(requests.upsert(summary="x" * 5_000_000))
    assert not table.protocol.calls
    assert table.sent() == []


def test_a_wait_that_the_daemon_does_not_end_in_time_is_given_up_and_what_it_brings_released() -> None:
    """A claim that comes after its caller stopped waiting goes back."""
    table = Table()
    request = requests.claim_next("a", wait=2)
    call = table.ask(request)
    sent = table.sent()[-1]
    limit = table.protocol.time_limit(request)
    assert limit is not None
    assert 2 < limit < 4
    table.now += limit
    assert isinstance(table.protocol.overdue(call, table.now), Unresponsive)
    table.grant(sent)
    assert [line["op"] for line in table.sent()] == ["release"]
    assert table.protocol.held == {}


def test_a_question_without_a_limit_has_none_of_its_own() -> None:
    """Infinity is a limit that is never reached in a lifetime."""
    assert ClientProtocol("tok").time_limit(requests.get("t3st-1")) is None
    assert ClientProtocol("tok").time_limit(requests.wait("t3st-1")) is None


def test_a_connected_daemon_that_stays_silent_is_given_up_after_the_limit() -> None:
    """What should be answered at once fails; a wait, and what is asked later, go on."""
    table = Table()
    table.protocol.silence_limit_s = 60.0
    waiting = table.ask(requests.wait("t3st-1", timeout=1000))
    first = table.ask(requests.get("t3st-1"))
    table.now += 30
    second = table.ask(requests.get("t3st-1"))
    assert table.protocol.next_timer() == 160.0
    table.now += 30
    table.protocol.handle_timer(table.now)
    assert (first.settled, second.settled, waiting.settled) == (True, False, False)
    with pytest.raises(Unresponsive, match="has not answered for 60 s"):
        first.result()
    assert table.protocol.next_timer() == 190.0


def test_a_silent_daemon_that_answers_late_settles_nothing_twice() -> None:
    """The claim that a given-up complete brings along is released."""
    table = Table()
    table.protocol.silence_limit_s = 60.0
    table.claim()
    call = table.ask(requests.complete_and_next("t3st-1", actor="a", gen=2))
    sent = table.sent()[-1]
    table.now += 60
    table.protocol.handle_timer(table.now)
    with pytest.raises(Unresponsive):
        call.result()
    table.answer(sent, node={**NODE, "status": "done"}, ready=[], next=next_claim(5))
    assert [line["op"] for line in table.sent()][-1] == "release"
    assert table.protocol.held == {}


def test_completion_of_several_ends_the_claims_among_them() -> None:
    """No renewal is sent while it is under way, nor after it."""
    table = Table()
    table.claim(lease=30.0)
    table.ask(several.complete_many(["t3st-1", "t3st-7"]))
    (asked,) = table.sent()
    assert asked["ids"] == ["t3st-1", "t3st-7"]
    table.now += 20.0
    table.protocol.handle_timer(table.now)
    assert table.sent() == []
    done = {"node": NODE, "ready": [], "next": None, "code": None, "next_error": None}
    table.answer(asked, results=[done, done])
    assert table.protocol.held == {}


def test_refusal_of_several_costs_the_claims_that_its_faults_name() -> None:
    """Another claim among them is held on, for nothing was done."""
    table = Table()
    kept, lost = table.claim().held, table.ask(requests.claim("t3st-2", actor="b"))
    claimed = {"id": "t3st-2", "gen": 3, "expires_in": 30.0, "node": {**NODE, "id": "t3st-2", "gen": 3}}
    table.answer(table.sent()[-1], **claimed)
    assert kept is not None
    assert lost.held is not None
    table.ask(several.release_many(["t3st-1", "t3st-2"]))
    fault = {"index": 1, "id": "t3st-2", "code": "terminal", "message": "release: t3st-2 is cancelled, not held"}
    error = {"code": "terminal", "message": fault["message"], "faults": [fault]}
    table.protocol.receive_line(json.dumps({"rid": table.sent()[-1]["rid"], "error": error}).encode(), table.now)
    assert (kept.lost, lost.held.lost) == (None, "terminal")
    assert not kept.ending


def test_renewal_of_several_extends_each_claim() -> None:
    """As that of one does."""
    table = Table()
    held = table.claim(lease=30.0).held
    assert held is not None
    table.ask(several.renew_many(["t3st-1"], lease=90.0))
    table.answer(table.sent()[-1], results=[{"id": "t3st-1", "gen": 2, "expires_in": 90.0}])
    assert held.expires_at == table.now + 90.0
