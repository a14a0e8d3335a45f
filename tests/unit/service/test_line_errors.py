"""Every field of every op, given what it does not take: the answer names it and says what is accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from claimdagd import wire
from claimdagd.service.line_errors import refusal_of_line

#: Words that only the decoder has, and that a person or a program can do nothing with.
DECODERS_WORDS = ("Expected", "`", "$", "matching regex", "Invalid", "Object ", "got ", "truncated", "malformed")
#: Values of every JSON form, at and past every bound of the wire.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, -101, 101, 1.5, -0.5, 1e13, 10**9 + 1, 2**63, -(2**70), 32_000_000,
    "", "text", "two words", "7q2f-1", "n" * 65, "t" * 129, "t" * 257, "caf\u00e9\n",
    [], [1], ["7q2f-1"], [None], [{}], [{"on": 1}], [{"on": "7q2f-1", "when": "later"}], [[]],
    {}, {"a": 0}, {"a": 1}, {"two words": 1}, {"a": "1"}, {"actor": 1}, {"wait": -1}, {"lease": 0}, {"x": 1},
)  # fmt: skip

decode = msgspec.json.Decoder(wire.AnyRequest).decode


def fields() -> Iterator[tuple[str, str]]:
    for op, cls in wire.REQUEST_TYPES.items():
        for field in msgspec.structs.fields(cls):
            yield op, field.encode_name


def right(op: str) -> dict[str, Any]:
    """The least that `op` takes."""
    known = {"nodes": [], "ids": [], "units": 1}
    cls = wire.REQUEST_TYPES[op]
    names = [field.encode_name for field in msgspec.structs.fields(cls) if field.required]
    return {"op": op, **{name: known.get(name, "name") for name in names}}


def refused(request: Any) -> tuple[Any, dict[str, Any]] | None:
    """What the line of `request` is refused with, if the wire does not take it."""
    line = request if isinstance(request, bytes) else json.dumps(request).encode()
    try:
        decode(line)
    except (msgspec.MsgspecError, RecursionError) as exc:
        rid, refusal = refusal_of_line(line, exc)
        return rid, {"code": refusal.code.value, "message": refusal.message, **refusal.details}
    return None


def is_plain(message: str) -> bool:
    return not any(word in message for word in DECODERS_WORDS)


@pytest.mark.parametrize(("op", "field"), list(fields()))
def test_wrong_value_is_told_by_field_and_by_what_is_accepted(op: str, field: str) -> None:
    """Whatever the wire does not take in any field of any op (law 8.2)."""
    told = 0
    for value in VALUES:
        came = refused({**right(op), field: value, "rid": value if field == "rid" else 7})
        if came is None:
            continue
        told += 1
        rid, error = came
        assert rid == (None if field == "rid" else 7)
        assert error["code"] == "bad_request"
        assert error["field"].partition(".")[0].partition("[")[0] == field, error
        assert error["message"].startswith(f"{op}: "), error
        assert error["accepted"] in error["message"], error
        assert is_plain(error["message"].replace(repr(value), "")), error
    assert told, "every field refuses something"


@pytest.mark.parametrize("op", list(wire.REQUEST_TYPES))
def test_missing_fields_are_all_told_at_once(op: str) -> None:
    """Each by its name and with what it takes."""
    names = [field.encode_name for field in msgspec.structs.fields(wire.REQUEST_TYPES[op]) if field.required]
    came = refused({"op": op})
    if not names:
        assert came is None
        return
    assert came is not None
    assert came[1]["field"] == names[0]
    assert all(f"{name} is missing; it must be a" in came[1]["message"] for name in names)


@pytest.mark.parametrize("op", list(wire.REQUEST_TYPES))
def test_unknown_field_is_told_with_the_fields_that_there_are(op: str) -> None:
    """A misspelt field is never taken for an absent one."""
    came = refused({**right(op), "sumary": 1})
    assert came is not None
    assert came[1]["field"] == "sumary"
    assert came[1]["message"].startswith(f"{op}: unknown field 'sumary'; accepted are rid")


def test_walk_agrees_with_the_decoder() -> None:
    """What the decoder refuses the walk finds, and what the decoder takes the walk lets through."""
    for op, field in fields():
        for value in VALUES:
            line = json.dumps({**right(op), field: value}).encode()
            _, refusal = refusal_of_line(line, ValueError("for the test"))
            found = "field" in refusal.details
            assert found == (refused(line) is not None), (line, refusal.message)


@pytest.mark.parametrize(
    ("request_", "field", "message"),
    [
        (
            {"op": "submit", "nodes": [{}, {"deps": [{"on": "a"}, {"on": "b", "when": "soon"}]}]},
            "nodes[1].deps[1].when",
            "submit: nodes[1].deps[1].when must be one of after_ok, after_any, not 'soon'",
        ),
        (
            {"op": "submit", "nodes": [{"needs": {"gpu": 0}}]},
            "nodes[0].needs.gpu",
            "submit: nodes[0].needs.gpu must be a whole number from 1 to 1000000000, not 0",
        ),
        (
            {"op": "complete", "id": "a", "next": {"actor": "x", "hurry": True}},
            "next.hurry",
            "complete: unknown field 'hurry' in next; accepted are actor, role, slack, strict, lease, bound, pid, wait,"
            " under",
        ),
        (
            {"op": "claim", "id": "a", "actor": "x", "lease": 0},
            "lease",
            "claim: lease must be a number over 0 and up to 31622400 or null, not 0",
        ),
        ({"op": "get", "id": None}, "id", "get: id must be a text, not null"),
        ({"op": "get", "id": ["a"]}, "id", "get: id must be a text, not an array"),
        ({"op": "wait", "ids": "a"}, "ids", "wait: ids must be an array, each item a text, not 'a'"),
        ({"op": "ping", "rid": 1.5}, "rid", "ping: rid must be a text or a whole number or null, not 1.5"),
    ],
)
def test_message_reads_as_a_sentence(request_: dict[str, Any], field: str, message: str) -> None:
    """The path as it is written, the value, and what is accepted."""
    came = refused(request_)
    assert came is not None
    assert (came[1]["field"], came[1]["message"]) == (field, message)


def test_several_faults_are_told_at_once_and_counted() -> None:
    """All of them in `faults`, the first few in words."""
    came = refused({"op": "submit", "nodes": [{"cost": 0}] * 20})
    assert came is not None
    error = came[1]
    assert [fault["field"] for fault in error["faults"]] == [f"nodes[{n}].cost" for n in range(20)]
    assert error["message"].count(" must be ") == 8
    assert error["message"].endswith("not 0; and 12 more")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"what?", "bad line: not JSON: wrong from byte 0 on"),
        (b'{"op": "ping"', "bad line: not JSON: it ends too early"),
        (b"", "bad line: not JSON: it ends too early"),
        (b'{"op": "\xff"}', "bad line: not JSON: a text is not UTF-8"),
        (b'{"op": "ping", "rid": 1e999}', "bad line: not JSON: a number is out of range"),
        (b"[" * 5000, "bad line: nested too deeply"),
        (b"[]", "bad line: it is an array, not an object"),
        (b"null", "bad line: it is null, not an object"),
        (b'{"op": 1}', "bad line: no op"),
        (b'{"op": "' + b"x" * 500 + b'"}', "unknown op 'xxx"),
    ],
)
def test_line_that_is_no_request_at_all_is_told_in_plain_words(line: bytes, said: str) -> None:
    """Never with the words of the decoder, nor with all of a long line."""
    came = refused(line)
    assert came is not None
    message = came[1]["message"]
    assert message.startswith(said)
    assert is_plain(message)
    assert len(message) < 600


def test_types_of_the_wire_are_all_known_to_the_walk() -> None:
    """A field of a new form would have no words of its own."""
    known = (
        inspect.UnionType, inspect.StructType, inspect.VarTupleType, inspect.DictType, inspect.Metadata,
        inspect.StrType, inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.EnumType, inspect.NoneType,
    )  # fmt: skip
    for cls in wire.REQUEST_TYPES.values():
        described = inspect.type_info(cls)
        assert isinstance(described, inspect.StructType)
        assert all(isinstance(field.type, known) for field in described.fields)
