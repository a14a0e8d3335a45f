"""What is wrong with a value beside its type of the wire: each wrong part by its path, and what is accepted there.

For lines of the wire and for files that are made into them. Pure; never shows the decoder's own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import EnumType
from typing import Any, Final, NamedTuple

from msgspec import inspect

#: How much of a wrong value is shown.
SHOWN_MAX: Final = 64


class Fault(NamedTuple):
    """One wrong value: the path of its `field`, and a `message` that says what is accepted there."""

    field: str
    message: str
    accepted: str


def wrong(value: Any, expected: inspect.Type, path: str, *, nullable: bool = False) -> Iterator[Fault]:
    """Yield each fault of `value`, which stands at `path` and should be of the type `expected`."""
    match expected:
        case inspect.UnionType(types=types):
            others = [each for each in types if not isinstance(each, inspect.NoneType)]
            nullable = len(others) < len(types)
            if value is None and nullable:
                return
            if len(others) == 1:
                yield from wrong(value, others[0], path, nullable=nullable)
            elif not any(_fits(value, each) for each in others):
                yield _fault(path, value, expected, nullable=False)
        case inspect.StructType() if isinstance(value, dict):
            yield from _wrong_fields(value, expected, path)
        case inspect.VarTupleType() if isinstance(value, list):
            yield from _wrong_items(value, expected, path)
        case inspect.DictType(key_type=key_type, value_type=value_type) if isinstance(value, dict):
            for key, each in value.items():
                if not _fits(key, key_type):
                    accepted = accepted_of(key_type)
                    yield Fault(path, f"a key of {path} must be {accepted}, not {shown(key)}", accepted)
                yield from wrong(each, value_type, f"{path}.{key[:SHOWN_MAX]}")
        case _:
            if not _fits(value, expected):
                yield _fault(path, value, expected, nullable=nullable)


def _wrong_items(value: list[Any], expected: inspect.VarTupleType, path: str) -> Iterator[Fault]:
    if len(value) < (expected.min_length or 0):
        accepted = accepted_of(expected)
        yield Fault(path, f"{path} must be {accepted}, not an array of {len(value)}", accepted)
    for index, each in enumerate(value):
        yield from wrong(each, expected.item_type, f"{path}[{index}]")


def _wrong_fields(value: dict[str, Any], expected: inspect.StructType, path: str) -> Iterator[Fault]:
    fields = {each.encode_name: each for each in expected.fields}
    names = ", ".join(fields) or "none"
    for name in value:
        if name not in fields:
            where = f" in {path}" if path else ""
            message = f"unknown field {shown(name)}{where}; accepted are {names}"
            yield Fault(_joined(path, name[:SHOWN_MAX]), message, names)
    for name, each in fields.items():
        at = _joined(path, name)
        if name in value:
            yield from wrong(value[name], each.type, at)
        elif each.required:
            accepted = accepted_of(each.type)
            yield Fault(at, f"{at} is missing; it must be {accepted}", accepted)


def _fault(path: str, value: Any, expected: inspect.Type, *, nullable: bool) -> Fault:
    accepted = accepted_of(expected) + (" or null" if nullable else "")
    return Fault(path, f"{path} must be {accepted}, not {shown(value)}", accepted)


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


def accepted_of(expected: inspect.Type) -> str:
    """Return what `expected` takes, in words that fit behind "must be"."""
    match expected:
        case inspect.Metadata(type=type_, extra_json_schema=schema):
            return (schema or {}).get("description") or accepted_of(type_)
        case inspect.UnionType(types=types):
            return " or ".join(accepted_of(each) for each in types)
        case inspect.StructType(fields=fields):
            return f"an object of {', '.join(each.encode_name for each in fields)}"
        case inspect.VarTupleType(item_type=item, min_length=least):
            return f"an array{f' of {least} or more' if least else ''}, each item {accepted_of(item)}"
        case inspect.DictType(key_type=key_type, value_type=value_type):
            return f"an object; each key is {accepted_of(key_type)}, each value {accepted_of(value_type)}"
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


def shown(value: Any) -> str:
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
