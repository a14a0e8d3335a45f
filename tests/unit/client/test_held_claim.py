"""One claim's facts by the clock that its test moves."""

from __future__ import annotations

import itertools

import pytest

from claimdag_client._protocol import requests
from claimdag_client._protocol.backoff import FIRST_S, LONGEST_S, delays
from claimdag_client._protocol.call import Call, claim_fields, wait_of
from claimdag_client._protocol.held_claim import HeldClaim
from claimdag_client.errors import ClaimLost, Unreachable


def held() -> HeldClaim:
    return HeldClaim("t3st-1", 2, actor="a", lease=30.0, bound=True)


def test_a_claim_is_renewed_after_a_third_of_what_is_left() -> None:
    """Time for two more tries."""
    claim = held()
    claim.extend(30.0, now=100.0)
    assert (claim.renew_at, claim.expires_at) == (110.0, 130.0)


@pytest.mark.parametrize("flag", ["renewing", "ending", "resting"])
def test_a_claim_is_not_renewed_while_something_else_decides(flag: str) -> None:
    """A renewal, its end, or a worker that may be gone."""
    claim = held()
    assert claim.renewable
    setattr(claim, flag, True)
    assert not claim.renewable


def test_check_raises_once_the_claim_is_lost() -> None:
    """With the node, its generation and the reason."""
    claim = held()
    claim.check()
    claim.lost = "reclaimed"
    with pytest.raises(ClaimLost) as caught:
        claim.check()
    assert (caught.value.id, caught.value.gen, caught.value.why) == ("t3st-1", 2, "reclaimed")


def test_a_call_is_settled_once() -> None:
    """What comes later changes nothing and tells nobody."""
    told: list[int] = []
    call = Call(1, requests.ping(), lambda: told.append(1))
    call.settle(error=Unreachable("gone"))
    call.settle(result=5.0)
    assert told == [1]
    with pytest.raises(Unreachable):
        call.result()


def test_a_call_sent_again_waits_only_for_the_rest_of_its_time() -> None:
    """And never for less than nothing."""
    call = Call(3, requests.wait("t3st-1", timeout=10), lambda: None)
    call.until = 110.0
    assert call.fields(104.0) == {"op": "wait", "ids": ("t3st-1",), "timeout": 6.0, "rid": 3}
    assert call.fields(200.0)["timeout"] == 0.0


def test_wait_and_claim_of_a_request_are_found() -> None:
    """Of a claim itself, or of the next of a complete."""
    assert wait_of(requests.claim_next("a", wait=2)) == 2
    assert wait_of(requests.get("t3st-1")) is None
    following = requests.complete_and_next("t3st-1", actor="a", gen=2, lease=7)
    assert claim_fields(following) == {"actor": "a", "lease": 7, "bound": True}
    assert claim_fields(requests.claim_next("b"))["actor"] == "b"


def test_pauses_double_up_to_the_longest_and_keep_a_crowd_apart() -> None:
    """Half to all of each step."""
    steps = [min(FIRST_S * 2**n, LONGEST_S) for n in range(10)]
    for pause, step in zip(itertools.islice(delays(), 10), steps, strict=True):
        assert step / 2 <= pause <= step
