"""What is wrong with a line that is no request: each wrong field by name, its value, and what is accepted.

Runs only after a line was refused, so it may be slow: it walks the types of the wire beside the values that came. Must
not decide whether a line is refused, and never shows the decoder's own words.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import inspect

from claimdagd import wire
from claimdagd.core.refusal import Refusal
from claimdagd.faults import Fault, shown, wrong
from claimdagd.wire import Code

#: How many faults one message tells; all are in `faults`, up to FAULTS_MAX.
TOLD_MAX: Final = 8
FAULTS_MAX: Final = 1000
ONE_OBJECT: Final = "a request is one JSON object a line"

_loosely = msgspec.json.Decoder().decode


def refusal_of_line(line: bytes, error: Exception) -> tuple[str | int | None, Refusal]:
    """Return the line's rid, where it has one, and the refusal that says what is wrong with it."""
    try:
        raw = _loosely(line)
    except (msgspec.MsgspecError, RecursionError, ValueError) as exc:
        return None, Refusal(Code.BAD_REQUEST, f"bad line: {_not_json(exc)}; {ONE_OBJECT}")
    if not isinstance(raw, dict):
        return None, Refusal(Code.BAD_REQUEST, f"bad line: it is {shown(raw)}, not an object; {ONE_OBJECT}")
    rid = raw.get("rid")
    if not isinstance(rid, str | int) or isinstance(rid, bool):
        rid = None
    op = raw.pop("op", None)
    if not isinstance(op, str):
        return rid, Refusal(Code.BAD_REQUEST, "bad line: no op; a request names its op as a text", field="op")
    cls = wire.REQUEST_TYPES.get(op)
    if cls is None:
        known = ", ".join(wire.REQUEST_TYPES)
        return rid, Refusal(Code.UNKNOWN_OP, f"unknown op {shown(op)}; known are {known}")
    return rid, _refusal(op, list(_first(wrong(raw, _type_of(cls), ""))), error)


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
