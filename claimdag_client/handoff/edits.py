"""Edits of other people's files that leave every other byte as it was, and can be undone exactly. Pure text.

Prose and TOML get a block between two marks. JSON has no comments, so an entry is put first into its object or array;
what may be removed is found by trying: a removal is right if the same edit of its result gives the text again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

BEGIN, END = "claimdag begin: written by `claimdag init --agents`, taken back by `--remove`", "claimdag end"
_WHITE = " \t\r\n"


class NotPlain(ValueError):
    """The text cannot be edited safely: it is not plain JSON, or another value stands where ours belongs."""


class Marks(NamedTuple):
    """How a mark looks in a file."""

    before: str
    after: str = ""

    def around(self, body: str, newline: str) -> str:
        """The block with its marks, each line ended as the file ends its own."""
        lines = [f"{self.before}{BEGIN}{self.after}", *body.splitlines(), f"{self.before}{END}{self.after}"]
        return newline.join(lines) + newline


MARKDOWN = Marks("<!-- ", " -->")
HASH = Marks("# ")


def put_block(text: str | None, body: str, marks: Marks) -> str:
    """The text with the block in it: at its end, or in place of an older one. None is a file that is not there."""
    newline = "\r\n" if text and "\r\n" in text else "\n"
    block = marks.around(body, newline)
    if text is None:
        return block
    if (span := _block_span(text, marks)) is not None:
        return text[: span[0]] + block + text[span[1] :]
    return text + newline + block


def take_block(text: str, marks: Marks) -> str | None:
    """The text as it was before `put_block`; None if the file was not there."""
    span = _block_span(text, marks)
    if span is None:
        return text
    begin, end = span
    if begin == 0 and end == len(text):
        return None
    for newline in ("\n", "\r\n"):
        before = text[:begin].removesuffix(newline) + text[end:]
        # The block ends the lines as the file did before: that tells which of the two was added.
        if ("\r\n" in before) == (newline == "\r\n"):
            return before
    return text[:begin] + text[end:]


def _block_span(text: str, marks: Marks) -> tuple[int, int] | None:
    begin = text.find(f"{marks.before}{BEGIN}")
    if begin < 0:
        return None
    last = f"{marks.before}{END}{marks.after}"
    end = text.find(last, begin)
    if end < 0:
        raise NotPlain(f"the mark {last!r} that ends the block is missing")
    end += len(last)
    for newline in ("\r\n", "\n"):
        if text.startswith(newline, end):
            return begin, end + len(newline)
    return begin, end


# --------------------------------------------------------------------------------------------------------------- JSON


def put_entry(text: str | None, path: Sequence[str], entry: Any) -> str:
    """The JSON text with `entry` at `path`.

    Args:
        text: The file's text, or None if it is not there.
        path: The keys down to the entry. A last key of "" means an element of an array.
        entry: The value; the same value already there changes nothing.

    Raises:
        NotPlain: The text is not a JSON object, or another value stands at the path.
    """
    if text is None:
        return json.dumps(_nested(path, entry), indent=2) + "\n"
    whole = _parse(text)
    if _stands(whole, path, entry):
        return text
    known, at = whole, _skip(text, 0)
    for depth, key in enumerate(path[:-1]):
        if key not in known:
            return _insert(text, at, f"{json.dumps(key)}: {_created(path[depth + 1 :], entry)}")
        known, at = known[key], _member(text, at, key)
        if not isinstance(known, list if path[depth + 1] == "" else dict):
            raise NotPlain(f"{'.'.join(path[: depth + 1])} is of another type")
    key = path[-1]
    if key and key in known:
        raise NotPlain(f"{'.'.join(path)} is there already, with another value")
    shown = json.dumps(entry)
    return _insert(text, at, f"{json.dumps(key)}: {shown}" if key else shown)


def take_entry(text: str, path: Sequence[str], entry: Any) -> str | None:
    """The text as it was before `put_entry`; None if the file was not there; unchanged if the entry is not there."""
    if text == put_entry(None, path, entry):
        return None
    if not _stands(_parse(text), path, entry):
        return text
    shown = json.dumps(entry)
    inserted = [f"{json.dumps(path[-1])}: {shown}" if path[-1] else shown]
    inserted += [f"{json.dumps(path[depth])}: {_created(path[depth + 1 :], entry)}" for depth in range(len(path) - 1)]
    for one in inserted:
        for begin in _places(text, one):
            for before in _removals(text, begin, begin + len(one)):
                try:
                    if put_entry(before, path, entry) == text:
                        return before
                except NotPlain:
                    continue
    raise NotPlain(f"{'.'.join(part for part in path if part)} was changed since: take it out by hand")


def _nested(path: Sequence[str], entry: Any) -> Any:
    for key in reversed(path):
        entry = {key: entry} if key else [entry]
    return entry


def _stands(value: Any, path: Sequence[str], entry: Any) -> bool:
    for key in path:
        if key == "":
            return isinstance(value, list) and entry in value
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return bool(value == entry)


def _created(path: Sequence[str], entry: Any) -> str:
    """Containers made for the entry: with spaces inside, to tell them from empty ones that were there."""
    if not path:
        return json.dumps(entry)
    inner = _created(path[1:], entry)
    return f"{{ {json.dumps(path[0])}: {inner} }}" if path[0] else f"[ {inner} ]"


def _parse(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise NotPlain(f"it is not plain JSON ({exc})") from None
    if not isinstance(value, dict):
        raise NotPlain("it is not a JSON object")
    return value


def _skip(text: str, at: int) -> int:
    while text[at] in _WHITE:
        at += 1
    return at


def _member(text: str, at: int, key: str) -> int:
    """Where the value of `key` begins, in the object that begins at `at`. The text is known to be right."""
    decoder = json.JSONDecoder()
    at = _skip(text, at + 1)
    while True:
        name, at = decoder.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        if name == key:
            return at
        _, at = decoder.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)


def _insert(text: str, at: int, shown: str) -> str:
    """The text with one more entry, the first of the container that begins at `at`."""
    first = _skip(text, at + 1)
    if text[first] in "]}":
        return text[: at + 1] + shown + text[at + 1 :]
    return text[: at + 1] + text[at + 1 : first] + shown + "," + text[at + 1 :]


def _places(text: str, part: str) -> list[int]:
    found, at = [], text.find(part)
    while at >= 0:
        found.append(at)
        at = text.find(part, at + 1)
    return found


def _removals(text: str, begin: int, end: int) -> list[str]:
    """What the text may have been without the entry from `begin` to `end`."""
    white = begin
    while white and text[white - 1] in _WHITE:
        white -= 1
    if text[end : end + 1] == ",":
        return [text[:white] + text[end + 1 :]]
    return [text[:begin] + text[end:], text[:white] + text[end:]]
