"""Reads the objects of a JSON file in one pass and bounded memory: lines, an array, or objects one after another.

An object that only wraps a list (`{"issues": [...]}`) gives the objects of the list.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8, getincrementaldecoder
from itertools import chain

from claimdag_client.importers.interface import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    #: A row with its line, or what is wrong there.
    Record = tuple[int, "dict[str, Any] | Fault"]

_DECODER = json.JSONDecoder()
#: So much of a file is looked at to tell what form it has.
_HEAD_BYTES = 1 << 16
#: Lists under these names are rows; the first of them that there is.
_WRAPPERS = ("issues", "items", "nodes", "tasks")
_WAYS = ("data", "repository", "issues", "search")


def lines_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file that is given in pieces, without line ends and byte order mark."""
    rest: list[bytes] = []
    first = True
    for piece in pieces:
        *whole, last = piece.split(b"\n")
        if whole:
            whole[0] = b"".join((*rest, whole[0]))
            if first:
                whole[0] = whole[0].removeprefix(BOM_UTF8)
                first = False
            yield from whole
            rest = [last] if last else []
        elif last:
            rest.append(last)
    if rest:
        line = b"".join(rest)
        yield line.removeprefix(BOM_UTF8) if first else line


def records(pieces: Iterable[bytes], tick: Callable[[], None] = lambda: None) -> Iterator[Record]:
    """Each row of the file with its line, and each fault once."""
    rest = iter(pieces)
    head = b""
    for piece in rest:
        head += piece
        if len(head) >= _HEAD_BYTES:
            break
    head = head.removeprefix(BOM_UTF8)
    whole_file = chain([head], rest)
    start = head.lstrip()[:1]
    if start == b"[" or (start == b"{" and not _are_lines(head)):
        yield from _by_value(whole_file, tick)
        return
    for number, line in enumerate(lines_of(whole_file), 1):
        tick()
        text = line.strip()
        if text:
            yield from _of_line(number, text)


def _are_lines(head: bytes) -> bool:
    """Whether one of the first lines is a whole object, so that the file is one of lines even if others are faulty."""
    lines = head.split(b"\n", 64)[:64]
    if len(lines) == 1:
        return True
    return any(line.startswith(b"{") and _is_whole(line.strip()) for line in lines)


def _is_whole(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _of_line(number: int, text: bytes) -> Iterator[Record]:
    try:
        value = json.loads(text.decode())
    except UnicodeDecodeError:
        yield number, _fault(number, "it is not UTF-8")
    except ValueError as exc:
        said = f"{exc.msg} at column {exc.colno}" if isinstance(exc, json.JSONDecodeError) else str(exc)
        yield number, _fault(number, f"it is not JSON: {said}")
    except RecursionError:
        yield number, _fault(number, "it is not JSON: it is nested too deep")
    else:
        yield from _rows(number, value)


def _rows(number: int, value: Any) -> Iterator[Record]:
    """Yield the rows of a value: the value itself, or those of the list that it wraps."""
    if not isinstance(value, dict):
        yield number, _fault(number, "it is not a JSON object")
        return
    if "id" not in value and "number" not in value:
        found = _wrapped(value)
        if found is not None:
            for row in found:
                yield from [(number, row)] if isinstance(row, dict) else _rows(number, row)
            return
    yield number, value


def _wrapped(value: dict[str, Any]) -> list[Any] | None:
    for _ in range(8):
        for name in _WRAPPERS:
            if isinstance(value.get(name), list):
                found: list[Any] = value[name]
                return found
        below = next((value[name] for name in _WAYS if isinstance(value.get(name), dict)), None)
        if below is None:
            return None
        value = below
    return None


def _by_value(pieces: Iterator[bytes], tick: Callable[[], None]) -> Iterator[Record]:
    """Yield the values of an array, or of a file of values in turn, without the whole file in memory."""
    text = _Text(pieces, tick)
    number = 1
    try:
        inside = text.skip(" \t\r\n") == "["
        if inside:
            text.step()
        while True:
            character = text.skip(" \t\r\n," if inside else " \t\r\n")
            number = text.line
            if character == "" or (inside and character == "]"):
                if not character and inside:
                    yield number, _fault(number, "it is not JSON: the array has no end")
                return
            tick()
            yield from _rows(number, text.value())
    except UnicodeDecodeError:
        yield text.line, _fault(text.line, "it is not UTF-8; nothing after it was read")
    except json.JSONDecodeError as exc:
        line = number + exc.lineno - 1
        yield line, _fault(line, f"it is not JSON: {exc.msg} at column {exc.colno}; nothing after it was read")
    except RecursionError:
        yield number, _fault(number, "it is not JSON: it is nested too deep; nothing after it was read")


class _Text:
    """The text of a file, of which only what is not yet read is in memory."""

    def __init__(self, pieces: Iterator[bytes], tick: Callable[[], None]) -> None:
        self._pieces = pieces
        self._tick = tick
        self._decoder = getincrementaldecoder("utf-8")()
        self._buffer = ""
        self._at = 0
        self._ended = False
        self.line = 1

    def _more(self, characters: int = 1 << 16) -> bool:
        """Read on; False at the end of the file."""
        if self._ended:
            return False
        self._tick()
        parts = [self._buffer[self._at :]]
        size = 0
        for piece in self._pieces:
            parts.append(self._decoder.decode(piece))
            size += len(parts[-1])
            if size >= characters:
                break
        else:
            parts.append(self._decoder.decode(b"", final=True))
            self._ended = True
        self._buffer = "".join(parts)
        self._at = 0
        return True

    def skip(self, characters: str) -> str:
        """Pass over these characters; the next one, or the empty text at the end."""
        while True:
            while self._at < len(self._buffer):
                character = self._buffer[self._at]
                if character not in characters:
                    return character
                self.line += character == "\n"
                self._at += 1
            if not self._more():
                return ""

    def step(self) -> None:
        """Pass over one character."""
        self._at += 1

    def value(self) -> Any:
        """Read the JSON value that begins here."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as exc:
                # Cut off by the end of what is in memory: an error before its last part is one of the text.
                near = exc.pos >= len(self._buffer) - 32 or exc.msg.startswith("Unterminated string")
                if near and self._more(2 * (len(self._buffer) - self._at) + 1):
                    continue
                raise json.JSONDecodeError(exc.msg, self._buffer[self._at :], max(0, exc.pos - self._at)) from None
            if end == len(self._buffer) and self._more():
                continue  # a number may go on
            self.line += self._buffer.count("\n", self._at, end)
            self._at = end
            return value


def _fault(number: int, text: str) -> Fault:
    return Fault(number, f"line {number}", text, "the line")
