"""Hello without I/O: what its answer means, whichever client asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from claimdag_client._protocol.handshake import DaemonLeaving, Handshake
from claimdag_client.errors import Mismatch, Refused, Unreachable
from claimdagd.limits import PROTOCOL

HELLO = {"version": "1.2", "protocol": PROTOCOL, "graph": "t3st"}


def answer(**message: Any) -> bytes:
    return json.dumps({"rid": 0, **message}).encode()


def test_the_request_names_program_and_protocol() -> None:
    """One line, whole."""
    request = Handshake("worker", "/s").request
    assert request.endswith(b"\n")
    assert json.loads(request) == {"op": "hello", "client": "worker", "protocol": PROTOCOL, "rid": 0}


def test_an_event_before_the_hello_is_passed_over() -> None:
    """The daemon may have something to tell already."""
    handshake = Handshake("worker", "/s")
    assert handshake.receive(b'{"event":{"op":"expiring"}}') is None
    assert handshake.receive(answer(ok=HELLO)) == HELLO


def test_a_daemon_that_is_leaving_is_unreachable_for_now() -> None:
    """So whoever connects tries again."""
    assert issubclass(DaemonLeaving, Unreachable)
    with pytest.raises(DaemonLeaving):
        Handshake("worker", "/s").receive(answer(error={"code": "shutting_down", "message": "hello: leaving"}))


@pytest.mark.parametrize(("theirs", "remedy"), [(PROTOCOL + 1, "upgrade this client"), (0, "claimdag shutdown")])
@pytest.mark.parametrize("refused", [True, False])
def test_another_protocol_is_told_with_the_side_to_change(theirs: int, remedy: str, refused: bool) -> None:
    """Whether the daemon refuses or this side notices."""
    found = {"protocol": theirs, "version": "9"}
    line = answer(error={"code": "bad_request", "message": "m", **found}) if refused else answer(ok=found)
    with pytest.raises(Mismatch, match=f"claimdagd 9 speaks protocol {theirs}") as caught:
        Handshake("worker", "/s").receive(line)
    assert remedy in caught.value.remedy


def test_another_refusal_is_passed_on() -> None:
    """Such as one for lack of memory."""
    with pytest.raises(Refused) as caught:
        Handshake("worker", "/s").receive(answer(error={"code": "internal", "message": "hello: a bug"}))
    assert caught.value.code == "internal"


@pytest.mark.parametrize("line", [b"HTTP/1.1 400", b"[1]", b'{"rid":0}', b'{"ok":[]}', b"\xff", b"[" * 5000])
def test_what_is_not_of_the_protocol_is_a_mismatch(line: bytes) -> None:
    """Another server's words."""
    with pytest.raises(Mismatch, match="does not speak"):
        Handshake("worker", "/s").receive(line)
