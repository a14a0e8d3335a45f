"""Answers in bytes."""

from __future__ import annotations

import json

import pytest

from claimdagd import wire
from claimdagd.core.refusal import Refusal
from claimdagd.service.replies import REPLIES, encode_ok, next_part, nodes_of, op_of, refused, with_next
from claimdagd.wire import Code


@pytest.mark.parametrize("rid", [None, 0, -7, 10**30, "", 'a"\n\\', "\u00e9"])
def test_answer_begins_with_the_rid_of_its_request(rid: str | int | None) -> None:
    """As it came; without one there is none."""
    expected = {} if rid is None else {"rid": rid}
    if isinstance(rid, int) and abs(rid) > 2**63:
        assert encode_ok(rid, b"{}") == b'{"rid":%d,"ok":{}}\n' % rid
        return
    assert json.loads(encode_ok(rid, b"{}")) == {**expected, "ok": {}}
    refusal = Refusal(Code.TERMINAL, "get: over", status="done")
    error = {"code": "terminal", "message": "get: over", "status": "done"}
    assert json.loads(refused(rid, refusal)) == {**expected, "error": error}


def test_answer_is_one_line() -> None:
    """Whatever is in it."""
    assert refused("a\nb", Refusal(Code.INTERNAL, "x\ny")).count(b"\n") == 1


def test_every_mutating_op_has_its_reply() -> None:
    """And is named by the wire's own word."""
    assert {op_of_type(cls) for cls in REPLIES} == set(wire.MUTATING_OPS)


def op_of_type(cls: type[wire.Request]) -> str:
    return next(op for op, known in wire.REQUEST_TYPES.items() if known is cls)


def test_op_of_a_request_is_the_wires_word() -> None:
    """Also where the class has another name."""
    assert op_of(wire.SetCapacity(resource="x", units=1)) == "capacity"


def test_next_of_a_complete_is_filled_in_later() -> None:
    """The rest of the reply stays as it was, a summary that looks like it included."""
    completed = b'{"node":{"summary":",\\"next\\":"},"ready":[]' + next_part(None, None) + b"}"
    claimed = json.loads(with_next(completed, b'{"id":"x"}'))
    assert (claimed["next"], claimed["code"], claimed["next_error"]) == ({"id": "x"}, None, None)
    busy = json.loads(with_next(completed, None, Refusal(Code.ASSIGNEE_BUSY, "claim: busy", id="y")))
    assert (busy["next"], busy["code"], busy["next_error"]["id"]) == (None, "assignee_busy", "y")
    assert busy["node"] == {"summary": ',"next":'}


def test_nodes_are_an_array_of_views() -> None:
    """None of them, too."""
    assert nodes_of([]) == b'{"nodes":[]}'
    assert nodes_of([b"{}", b"{}"]) == b'{"nodes":[{},{}]}'
