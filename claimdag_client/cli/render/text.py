"""Text for people's terminals: made safe, coloured where that is wanted, cut to width; and JSON lines for programs.

Every text that came from a daemon, a file or another person goes through `clean` before it is written: no control
character, terminal escape or direction override of theirs ever acts on the reader's terminal. It must not import
anything that costs, and it asks the daemon nothing.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TextIO

#: Not printable by Unicode's book, and harmless: the joiners of emoji and of several scripts.
_JOINERS = "\u200c\u200d"
_COLOURS = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36",
}  # fmt: skip
DEFAULT_COLUMNS = 100


def clean(text: object) -> str:
    """Return one line of text that acts on no terminal: line breaks become blanks, unprintables visible escapes."""
    line = str(text)
    if line.isprintable():
        return line
    return "".join(map(_visible, line))


def clean_lines(text: object) -> list[str]:
    """Return the lines of a text, each made safe."""
    return [clean(line) for line in str(text).split("\n")]


def _visible(char: str) -> str:
    if char.isprintable() or char in _JOINERS:
        return char
    if char in "\n\t\r\v\f" or char.isspace():
        return " "
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def json_line(value: object) -> str:
    """Return one line of JSON in ASCII: every character that could act on a terminal is an escape in it."""
    import json  # half the start of a command that prints none

    return json.dumps(value, separators=(",", ":")).replace("\x7f", "\\u007f")


def unicode_wanted(stream: TextIO | None) -> bool:
    """Say whether signs beyond ASCII can be written there."""
    encoding = getattr(stream, "encoding", None) or ""
    return encoding.lower().replace("-", "").startswith("utf")


class Paint:
    """Colour for one stream: only on a terminal, and never with NO_COLOR or on a dumb one."""

    def __init__(self, stream: TextIO | None) -> None:
        self.tty = bool(stream is not None and stream.isatty())
        self.on = self.tty and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") != "dumb"
        self.unicode = unicode_wanted(stream)

    def __call__(self, text: str, *colours: str) -> str:
        if not self.on or not text or not colours:
            return text
        return f"\x1b[{';'.join(_COLOURS[colour] for colour in colours)}m{text}\x1b[0m"

    @property
    def columns(self) -> int | None:
        """Return the terminal's width; None for a file or a pipe, which take lines of any length."""
        if not self.tty:
            return None
        return size_of_terminal()[0]


def room_for(paint: Paint, indent: int) -> int | None:
    """Return how many columns are left beside an indent; None for what has no end."""
    return None if paint.columns is None else max(10, paint.columns - indent)


def size_of_terminal() -> tuple[int, int]:
    """Return columns and rows, or 100 and 24 if neither the environment nor the terminal says."""
    columns, rows = (_positive(os.environ.get(name)) for name in ("COLUMNS", "LINES"))
    if not (columns and rows):
        try:
            size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1)
            columns, rows = columns or size.columns, rows or size.lines
        except (OSError, ValueError):
            pass
    return columns or DEFAULT_COLUMNS, rows or 24


def _positive(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def width(text: str) -> int:
    """Return how many columns a clean text takes on a terminal."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(char) or char in _JOINERS or char == "\ufe0f"
        else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )  # fmt: skip


def cut(text: str, columns: int | None, *, unicode: bool = True) -> str:
    """Return a clean text cut to so many columns; None leaves it whole."""
    if columns is None or width(text) <= columns:
        return text
    mark = "…" if unicode else "..."
    kept = ""
    room = columns - len(mark)
    for char in text:
        room -= width(char)
        if room < 0:
            break
        kept += char
    return kept.rstrip() + mark if columns >= len(mark) else ""


def fit(line: str, columns: int | None, *, unicode: bool = True) -> str:
    """Return a clean line, painted or not, cut to so many columns. Colours take no room, and end with the line."""
    if "\x1b" not in line:
        return cut(line, columns, unicode=unicode)
    first, *painted = line.split("\x1b[")
    parts = [("", first), *(part.partition("m")[::2] for part in painted)]
    if columns is None or width("".join(text for _, text in parts)) <= columns:
        return line
    mark = "…" if unicode else "..."
    fitted = ""
    room = columns - len(mark)
    for colour, text in parts:
        fitted += f"\x1b[{colour}m" if colour else ""
        if width(text) > room:
            return fitted + (cut(text, room + len(mark), unicode=unicode) if room + len(mark) > 0 else "") + "\x1b[0m"
        fitted += text
        room -= width(text)
    return fitted


def fold(text: str, columns: int | None) -> list[str]:
    """Return a clean text as lines of at most so many columns, broken at blanks where there are any."""
    if columns is None or width(text) <= columns:
        return [text]
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if width(joined) <= columns:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for char in word:
            if width(lines[-1]) + width(char) > columns and lines[-1]:
                lines.append("")
            lines[-1] += char
    return lines


def pad(text: str, columns: int) -> str:
    """Return a clean text filled up with blanks to so many columns."""
    return text + " " * (columns - width(text))


def duration(seconds: float) -> str:
    """Return a span of time in at most two units: 4 s, 3 min, 2 h 5 min, 3 d 4 h."""
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if 0 < seconds < 1 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min" if minutes >= 10 or not rest else f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def number(value: object) -> str:
    """Return a count or a cost as briefly as it can be said."""
    if not isinstance(value, float):
        return str(value)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def clock(at: float | None) -> str:
    """Return a moment in the reader's own time: the time of today, else with its date."""
    if at is None:
        return "-"
    try:
        then = time.localtime(at)
    except (OverflowError, ValueError, OSError):
        return number(at)
    same_day = then[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S", then)


def size(count: float) -> str:
    """Return bytes in a unit that fits."""
    if count < 1024:
        return f"{count:.0f} bytes"
    for unit in ("KiB", "MiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} GiB"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number of things: 1 node, 2 nodes."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def columns_of(rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width that each column of some rows needs."""
    widths: list[int] = []
    for row in rows:
        for index, cell in enumerate(row):
            if index == len(widths):
                widths.append(0)
            widths[index] = max(widths[index], width(cell))
    return widths


def some(items: Sequence[Any], limit: int = 4) -> str:
    """Return a few names out of many, clean, with how many more there are."""
    named = ", ".join(clean(item) for item in items[:limit])
    return f"{named} and {len(items) - limit} more" if len(items) > limit else named


def paused_text(scopes: Sequence[str | None]) -> str:
    """Return in words what is paused, None being the whole graph; nothing if nothing is."""
    if None in scopes:
        return "the graph is paused"
    return f"paused: {some(scopes, 8)}" if scopes else ""
