"""Lines of the protocol: what cannot be sent is said before it is sent."""

from __future__ import annotations

import pytest

from claimdag_client._protocol.messages import decode, encode
from claimdag_client.errors import Malformed, Mismatch
from claimdagd.limits import LINE_MAX_BYTES


def test_a_request_is_one_line_of_utf_8() -> None:
    """A line break in a text is no line break on the wire."""
    assert encode({"op": "upsert", "summary": "é\n"}) == '{"op":"upsert","summary":"é\\n"}\n'.encode()


def test_a_request_as_long_as_a_line_may_be_is_sent_and_one_byte_more_is_not() -> None:
    """The newline does not count."""
    rest = LINE_MAX_BYTES - len(encode({"summary": ""})) + 1
    assert len(encode({"summary": "x" * rest})) == LINE_MAX_BYTES + 1
    with pytest.raises(Malformed, match="4,194,305 bytes"):
        encode({"summary": "x" * (rest + 1)})


@pytest.mark.parametrize(("value", "reason"), [("\ud800", "UTF-8"), (float("nan"), "finite"), (float("inf"), "finite")])
def test_what_the_wire_has_no_form_for_is_refused(value: object, reason: str) -> None:
    """Half a character, and numbers that are none."""
    with pytest.raises(Malformed, match=reason):
        encode({"x": value})


@pytest.mark.parametrize("line", [b"", b"null", b"[]", b'"x"', b"{", b"\xc3", b"[" * 100_000])
def test_a_line_that_is_no_object_is_a_mismatch(line: bytes) -> None:
    """Named with the place that it came from, cut short."""
    with pytest.raises(Mismatch, match="/the/sock") as caught:
        decode(line, "/the/sock")
    assert len(str(caught.value)) < 500
