"""What the value of a flag may be: each kind of value with its check and the words for what it takes.

A wrong value is told as the flag, the value and what it takes. The bounds are those of the wire; what only the daemon
can know (whether an id exists, say) is left to the daemon.
"""

from __future__ import annotations

import os

from claimdagd.limits import ERROR_MAX_BYTES, KINDS, LEASE_MAX_S, LIVE, ROLES, SUMMARY_MAX_BYTES, TERMINAL
from claimdagd.paths import is_graph_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

STATUSES = ("todo", "ready", "blocked", *LIVE, "completing", *TERMINAL)
NAME_LENGTH_MAX = 64
TOKEN_LENGTH_MAX = 128
COUNT_MAX = 1_000_000_000
RETRIES_MAX = 100
COST_MAX = 1e12
PID_MAX = 2**31 - 1
#: What --columns may show of a node, and what --sort may sort by.
COLUMN_NAMES = (
    "id", "status", "kind", "role", "summary", "parent", "assignee", "gen", "attempts", "cost", "depth", "priority",
    "quiet", "expires_in", "error", "cause", "created_at", "updated_at", "started_at", "finished_at",
)  # fmt: skip
SORT_NAMES = ("id", "status", "assignee", "priority", "depth", "cost", "quiet", "created_at", "updated_at")
#: How long an agent's shell tool lets a command run, in seconds.
TOOL_TIMEOUT_VARIABLE = "CLAIMDAG_TOOL_TIMEOUT"
TOOL_WAIT_S, TOOL_MARGIN_S = 45.0, 5.0
WHENS = ("after_ok", "after_any")
UNITS_OF_SIZE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
UNITS_OF_TIME = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@:/-")


class ExplainedError(ValueError):
    """A value that is right in itself and cannot be taken: why, in words."""


class _Null:
    """The value of a flag that was given the word none."""


NULL = _Null()


class Value:
    """A kind of value. `convert` takes the text and raises ValueError; `takes` says what it accepts."""

    __slots__ = ("choices", "convert", "takes")

    def __init__(self, takes: str, convert: Callable[[str], Any], choices: Sequence[str] = ()) -> None:
        self.takes = takes
        self.convert = convert
        #: All values there are, if they can be listed.
        self.choices = choices


def _text(limit: int | None = None) -> Callable[[str], str]:
    def convert(text: str) -> str:
        size = len(text.encode())  # UnicodeEncodeError, a ValueError, for bytes that are no text
        if limit is not None and size > limit:
            raise ValueError(f"{size} bytes")
        return text

    return convert


def _name(text: str) -> str:
    if not 1 <= len(text) <= NAME_LENGTH_MAX or not _NAME_CHARACTERS.issuperset(text):
        raise ValueError(text)
    return text


def _graph_name(text: str) -> str:
    if not is_graph_name(text):
        raise ValueError(text)
    return text


def _token(text: str) -> str:
    if not 1 <= len(text) <= TOKEN_LENGTH_MAX:
        raise ValueError(text)
    return _text()(text)


def _id(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    return _text()(text)


def _whole(low: int, high: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and low <= int(text) <= high):
            raise ValueError(text)
        return int(text)

    return convert


def _number(above: float, high: float, *, inclusive: bool = False) -> Callable[[str], float]:
    def convert(text: str) -> float:
        value = float(text)
        if "_" in text or not (above < value <= high or (inclusive and value == above)):
            raise ValueError(text)
        return value

    return convert


def _duration(*, zero: bool) -> Callable[[str], float]:
    def convert(text: str) -> float:
        factor = UNITS_OF_TIME.get(text[-1:])
        return number(text) if factor is None else bounded(number(text[:-1]) * factor)

    number = _number(0, float("inf"), inclusive=zero)

    def bounded(value: float) -> float:
        if value > LEASE_MAX_S:
            raise ValueError(value)
        return value

    return lambda text: bounded(convert(text))


def wait_of_a_tool(environ: Mapping[str, str]) -> float:
    """Return how long a command of an agent's shell tool may wait, so that the tool does not cut it off.

    Five seconds less than CLAIMDAG_TOOL_TIMEOUT, in seconds, or 45. If the tool ended the command as it claimed, the
    agent would not hear of the claim. Raises ValueError for a limit that is no number over 0.
    """
    limit = environ.get(TOOL_TIMEOUT_VARIABLE)
    if not limit:
        return TOOL_WAIT_S
    seconds = _number(0, LEASE_MAX_S)(limit)
    return max(seconds - TOOL_MARGIN_S, seconds / 2)


def _moment(text: str, *, past: bool) -> float:
    """Return a moment in Unix seconds: a time of day, the next or the last such; or a date, of the reader's own zone.

    Args:
        past: the last such time of day, else the next.
    """
    from datetime import datetime, timedelta

    now = datetime.now()
    if text[2:3] == ":" or text[1:2] == ":":
        # Two digits for the hour, as datetime wants it.
        clock = datetime.fromisoformat(f"{now.date()} {text:0>{len(text) + (text[1:2] == ':')}}")
        days = timedelta(days=1 if past else -1)
        return (clock - days if (clock > now) == past and clock != now else clock).timestamp()
    return datetime.fromisoformat(text).timestamp()


def _since(text: str) -> float:
    from time import time

    try:
        return time() - _duration(zero=True)(text)
    except ValueError:
        return _moment(text, past=True)


def _at(text: str) -> float:
    return _moment(text, past=False)


def _wait(text: str) -> float:
    return wait_of_a_tool(os.environ) if text == "auto" else _duration(zero=True)(text)


def _pid(text: str) -> int:
    if text != "auto":
        return _whole(1, PID_MAX)(text)
    from claimdag_client.cli.holder_process import find_holder

    pid = find_holder()
    if pid is None:
        raise ExplainedError("no process above this command outlives it; name one, in a script by --pid $$")
    return pid


def _bytes(text: str) -> int:
    digits = text.rstrip("kKmMgG")
    unit = UNITS_OF_SIZE.get(text[len(digits) :].upper())
    if unit is None:
        raise ValueError(text)
    return _whole(1, COUNT_MAX)(digits) * unit


def _one_of(words: Sequence[str]) -> Value:
    def convert(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return Value(f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0], convert, words)


def _or_none(value: Value, none: Collection[str] = ("", "none", "null")) -> Value:
    """Return the same values, and the word none for null."""
    return Value(f"{value.takes}, or none", lambda text: NULL if text in none else value.convert(text))


def _columns(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not set(names) <= set(COLUMN_NAMES):
        raise ValueError(text)
    return names


def _units(text: str) -> tuple[str, int]:
    name, equals, units = text.partition("=")
    return _name(name), _whole(1, COUNT_MAX)(units) if equals else 1


def _dependency(text: str) -> tuple[str, str | None]:
    on, colon, when = text.rpartition(":")
    if not colon:
        return _id(text), None
    if when not in WHENS:
        raise ValueError(text)
    return _id(on), when


ID = Value("a node's id, such as 7q2f-17, or the number in it", _id)
ID_OR_NONE = _or_none(ID)
NAME = Value(f"a name: 1 to {NAME_LENGTH_MAX} of A-Za-z0-9._@:/-", _name)
GRAPH_NAME = Value("a graph's name: 1 to 64 of A-Za-z0-9._- and no dot first", _graph_name)
TEXT = Value("text in UTF-8", _text())
SUMMARY = Value(f"text in UTF-8 of at most {SUMMARY_MAX_BYTES:,} bytes, or -", _text(SUMMARY_MAX_BYTES))
ERROR = Value(f"text in UTF-8 of at most {ERROR_MAX_BYTES:,} bytes", _text(ERROR_MAX_BYTES))
TOKEN = Value(f"a token of 1 to {TOKEN_LENGTH_MAX} characters", _token)
GEN = Value("a generation: a whole number from 0", _whole(0, 2**63 - 1))
SEQ = Value("the number of an entry: a whole number from 0", _whole(0, 2**63 - 1))
WAIT = Value("a time in seconds or as 90s, 15m, 2h, 1d, at most 366d; or auto", _wait)
PID = Value("the number of a process, or auto", _pid, ("auto",))
COUNT = Value("a whole number from 1", _whole(1, 1_000_000))
BYTES = Value("a number of bytes, such as 4096, 64K, 1M or 2G", _bytes)
EXIT_STATUS = Value("an exit status: a whole number from 1 to 255", _whole(1, 255))
WORKERS = Value("a whole number from 1 to 1000", _whole(1, 1000))
CAPACITY = Value(f"a whole number from 0 to {COUNT_MAX:,}", _whole(0, COUNT_MAX))
ATTEMPTS = _or_none(Value(f"a whole number from 1 to {COUNT_MAX:,}", _whole(1, COUNT_MAX)))
PRIORITY = Value("a whole number from -100 to 100", _whole(-100, 100))
RETRIES = Value(f"a whole number from 0 to {RETRIES_MAX}", _whole(0, RETRIES_MAX))
COST = Value("a number above 0", _number(0, COST_MAX))
SLACK = Value("a number from 0", _number(0, COST_MAX, inclusive=True))
LEASE = Value("a time above 0, in seconds or as 90s, 15m, 2h, 1d, at most 366d", _duration(zero=False))
SECONDS = Value("a time in seconds or as 90s, 15m, 2h, 1d, at most 366d", _duration(zero=True))
_MOMENTS = "a time of day or a date, such as 18:30, 2026-12-24 or 2026-12-24T18:30"
SINCE = Value(f"so long ago, such as 90s, 15m, 2h or 1d; or {_MOMENTS}", _since)
AT = Value(_MOMENTS, _at)
KIND = _one_of(KINDS)
ROLE = _one_of(ROLES)
STATUS = _one_of(STATUSES)
OUTCOME = _one_of(TERMINAL)
WHEN = _one_of(WHENS)
UNITS = Value("NAME=UNITS, as in gpu=1", _units)
DEPENDENCY = Value("ID, ID:after_ok or ID:after_any", _dependency)
PLAN_FORMAT = _one_of(("json", "yaml", "toml"))
REPORT_FORMAT = _one_of(("tasks", "json", "csv", "github-comment"))
GRAPH_FORMAT = _one_of(("text", "dot", "mermaid", "svg"))
HOOK_EVENT = _one_of(("stop", "compact"))
SORT = _one_of(SORT_NAMES)
COLUMNS = Value(f"some of {', '.join(COLUMN_NAMES)}, with commas between them", _columns)
OUTPUT = _one_of(("table", "json", "jsonl", "ids"))
SHELL = _one_of(("bash", "zsh", "fish"))
