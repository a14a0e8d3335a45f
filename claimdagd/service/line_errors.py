"""What is wrong with a line that is no request: each wrong field by name, its value, and what is accepted.

Runs only after a line was refused, so it may be slow: it walks the types of the wire beside the values that came. Must
not decide whether a line is refused, and never shows the decoder's own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import EnumType
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect

from claimdagd import wire
from claimdagd.core.refusal import Refusal
from claimdagd.wire import Code

#: How many faults one message tells; all are in `faults`, up to FAULTS_MAX.
TOLD_MAX: Final = 8
FAULTS_MAX: Final = 1000
#: How much of a wrong value is shown.
SHOWN_MAX: Final = 64
ONE_OBJECT: Final = "a request is one JSON object a line"

_loosely = msgspec.json.Decoder().decode


class Fault(NamedTuple):
    """One wrong value: the path of its `field`, and a `message` that says what is accepted there."""

    field: str
    message: str
    accepted: str


def refusal_of_line(line: bytes, error: Exception) -> tuple[str | int | None, Refusal]:
    """Return the line's rid, where it has one, and the refusal that says what is wrong with it."""
    try:
        raw = _loosely(line)
    except (msgspec.MsgspecError, RecursionError, ValueError) as exc:
        return None, Refusal(Code.BAD_REQUEST, f"bad line: {_not_json(exc)}; {ONE_OBJECT}")
    if not isinstance(raw, dict):
        return None, Refusal(Code.BAD_REQUEST, f"bad line: it is {_shown(raw)}, not an object; {ONE_OBJECT}")
    rid = raw.get("rid")
    if not isinstance(rid, str | int) or isinstance(rid, bool):
        rid = None
    op = raw.pop("op", None)
    if not isinstance(op, str):
        return rid, Refusal(Code.BAD_REQUEST, "bad line: no op; a request names its op as a text", field="op")
    cls = wire.REQUEST_TYPES.get(op)
    if cls is None:
        known = ", ".join(wire.REQUEST_TYPES)
        return rid, Refusal(Code.UNKNOWN_OP, f"unknown op {_shown(op)}; known are {known}")
    return rid, _refusal(op, list(_first(_wrong(raw, _type_of(cls), ""))), error)


def _refusal(op: str, faults: list[Fault], error: Exception) -> Refusal:
    if not faults:
        what = "nested too deeply" if isinstance(error, RecursionError) else "one of its values is not accepted"
        return Refusal(Code.BAD_REQUEST, f"{op}: {what}")
    told = [fault.message for fault in faults[:TOLD_MAX]]
    if len(faults) > TOLD_MAX:
        told.append(f"and {len(faults) - TOLD_MAX} more")
    details: dict[str, Any] = {"field": faults[0].field, "accepted": faults[0].accepted}
    if len(faults) > 1:
        details["faults"] = [fault._asdict() for fault in faults]
    return Refusal(Code.BAD_REQUEST, f"{op}: {'; '.join(told)}", **details)


def _first(faults: Iterator[Fault]) -> Iterator[Fault]:
    for _, fault in zip(range(FAULTS_MAX), faults, strict=False):
        yield fault


def _not_json(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    said = str(error)
    _, found, rest = said.partition("(byte ")
    if found:
        return f"not JSON: wrong from byte {rest.rstrip(')')} on"
    if "UTF-8" in said:
        return "not JSON: a text is not UTF-8"
    return "not JSON: a number is out of range" if "out of range" in said else "not JSON: it ends too early"


@cache
def _type_of(cls: type[wire.Request]) -> inspect.Type:
    return inspect.type_info(cls)


# ------------------------------------------------------------------------------------------- values beside their types


def _wrong(value: Any, expected: inspect.Type, path: str, *, nullable: bool = False) -> Iterator[Fault]:
    """Yield each fault of `value`, which stands at `path` and should be of the type `expected`."""
    match expected:
        case inspect.UnionType(types=types):
            others = [each for each in types if not isinstance(each, inspect.NoneType)]
            nullable = len(others) < len(types)
            if value is None and nullable:
                return
            if len(others) == 1:
                yield from _wrong(value, others[0], path, nullable=nullable)
            elif not any(_fits(value, each) for each in others):
                yield _fault(path, value, expected, nullable=False)
        case inspect.StructType() if isinstance(value, dict):
            yield from _wrong_fields(value, expected, path)
        case inspect.VarTupleType(item_type=item) if isinstance(value, list):
            for index, each in enumerate(value):
                yield from _wrong(each, item, f"{path}[{index}]")
        case inspect.DictType(key_type=key_type, value_type=value_type) if isinstance(value, dict):
            for key, each in value.items():
                if not _fits(key, key_type):
                    accepted = _accepted(key_type)
                    yield Fault(path, f"a key of {path} must be {accepted}, not {_shown(key)}", accepted)
                yield from _wrong(each, value_type, f"{path}.{key[:SHOWN_MAX]}")
        case _:
            if not _fits(value, expected):
                yield _fault(path, value, expected, nullable=nullable)


def _wrong_fields(value: dict[str, Any], expected: inspect.StructType, path: str) -> Iterator[Fault]:
    fields = {each.encode_name: each for each in expected.fields}
    names = ", ".join(fields) or "none"
    for name in value:
        if name not in fields:
            where = f" in {path}" if path else ""
            message = f"unknown field {_shown(name)}{where}; accepted are {names}"
            yield Fault(_joined(path, name[:SHOWN_MAX]), message, names)
    for name, each in fields.items():
        at = _joined(path, name)
        if name in value:
            yield from _wrong(value[name], each.type, at)
        elif each.required:
            accepted = _accepted(each.type)
            yield Fault(at, f"{at} is missing; it must be {accepted}", accepted)


def _fault(path: str, value: Any, expected: inspect.Type, *, nullable: bool) -> Fault:
    accepted = _accepted(expected) + (" or null" if nullable else "")
    return Fault(path, f"{path} must be {accepted}, not {_shown(value)}", accepted)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _fits(value: Any, expected: inspect.Type) -> bool:
    """Return whether a value that has no parts of its own is one of `expected`."""
    match expected:
        case inspect.Metadata(type=type_):
            return _fits(value, type_)
        case inspect.StrType():
            return isinstance(value, str) and _fits_text(value, expected)
        case inspect.IntType():
            return type(value) is int and _fits_range(value, expected)
        case inspect.FloatType():
            return type(value) in (int, float) and _fits_range(value, expected)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.EnumType(cls=enum):
            return isinstance(value, str) and value in _members(enum)
        case _:
            return False


def _fits_text(value: str, expected: inspect.StrType) -> bool:
    if expected.pattern is not None:
        return re.search(expected.pattern, value) is not None
    least, most = expected.min_length, expected.max_length
    return (least is None or len(value) >= least) and (most is None or len(value) <= most)


def _fits_range(value: float, expected: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (expected.ge is None or value >= expected.ge)
        and (expected.gt is None or value > expected.gt)
        and (expected.le is None or value <= expected.le)
    )


# -------------------------------------------------------------------------------------------------- what is accepted


def _accepted(expected: inspect.Type) -> str:
    """Return what `expected` takes, in words that fit behind "must be"."""
    match expected:
        case inspect.Metadata(type=type_, extra_json_schema=schema):
            return (schema or {}).get("description") or _accepted(type_)
        case inspect.UnionType(types=types):
            return " or ".join(_accepted(each) for each in types)
        case inspect.StructType(fields=fields):
            return f"an object of {', '.join(each.encode_name for each in fields)}"
        case inspect.VarTupleType(item_type=item):
            return f"an array, each item {_accepted(item)}"
        case inspect.DictType(key_type=key_type, value_type=value_type):
            return f"an object; each key is {_accepted(key_type)}, each value {_accepted(value_type)}"
        case inspect.EnumType(cls=enum):
            return f"one of {', '.join(_members(enum))}"
        case _:
            return _WORDS[type(expected)](expected)


def _text_in_words(expected: Any) -> str:
    if expected.max_length is None:
        return "a text"
    return f"a text of {expected.min_length or 0} to {expected.max_length} characters"


def _number_in_words(what: str) -> Callable[[Any], str]:
    def words(expected: Any) -> str:
        least = f" from {_plain(expected.ge)}" if expected.ge is not None else ""
        over = f" over {_plain(expected.gt)}" if expected.gt is not None else ""
        most = f"{' and up' if over else ''} to {_plain(expected.le)}" if expected.le is not None else ""
        return f"{what}{least}{over}{most}"

    return words


_WORDS: Final[dict[type[inspect.Type], Callable[[Any], str]]] = {
    inspect.StrType: _text_in_words,
    inspect.IntType: _number_in_words("a whole number"),
    inspect.FloatType: _number_in_words("a number"),
    inspect.BoolType: lambda _: "true or false",
    inspect.NoneType: lambda _: "null",
}


def _members(enum: EnumType) -> list[str]:
    return [member.value for member in enum]  # type: ignore[var-annotated]


def _plain(number: float) -> str:
    return f"{int(number):d}" if number == int(number) else f"{number}"


def _shown(value: Any) -> str:
    """Return a wrong value as JSON, cut short, or what it is where that says more."""
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case str():
            return repr(value if len(value) <= SHOWN_MAX else value[:SHOWN_MAX] + "...")
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case _:
            return repr(value)[:SHOWN_MAX]
