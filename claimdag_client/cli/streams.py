"""The three standard streams and the arguments, as the command line needs them: safe, and UTF-8 in every locale.

Text for standard output goes through `write` and `flush`, which raise OutputError; text for standard error through
`tell`, which never fails. This module must not import anything that costs.
"""

from __future__ import annotations

import errno
import os
import sys

from claimdagd.descriptors import hold_standard_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TextIO

PIECE_BYTES = 1 << 20
#: A path of exactly this name is standard input.
STANDARD_INPUT = "-"


class OutputError(Exception):
    """Standard output cannot be written. `reader_left` if it is a pipe whose reader has gone."""

    def __init__(self, error: OSError | ValueError) -> None:
        super().__init__((error.strerror if isinstance(error, OSError) else None) or str(error))
        self.reader_left = isinstance(error, BrokenPipeError)


class InputError(Exception):
    """Standard input or a file cannot be read; the text names it and says why."""


def prepare() -> None:
    """Hold descriptors 0 to 2 open, and let text of any characters be written.

    In the C and POSIX locales and in every other without UTF-8's characters, ASCII streams become UTF-8, as Python
    itself does where it may. Elsewhere a character that the stream lacks is written as an escape.
    """
    hold_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
            if _is_ascii(stream) and "PYTHONIOENCODING" not in os.environ:
                stream.reconfigure(encoding="utf-8")


def _is_ascii(stream: TextIO) -> bool:
    return (stream.encoding or "").lower() in ("ascii", "us-ascii", "ansi_x3.4-1968", "646")


def decoded(arguments: Sequence[str]) -> list[str]:
    """Return arguments as UTF-8 text in a locale of any encoding. Bytes that are not UTF-8 stay lone surrogates."""
    if sys.getfilesystemencoding() == "utf-8":
        return [*arguments]
    return [os.fsencode(argument).decode("utf-8", "surrogateescape") for argument in arguments]


def as_path(text: str) -> str:
    """Return a text argument as the path that the operating system's functions take for the same bytes."""
    if sys.getfilesystemencoding() == "utf-8":
        return text
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def write(text: str) -> None:
    """Write text, clean already, to standard output. Raises OutputError."""
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, "it is closed")
        sys.stdout.write(text)
    except (OSError, ValueError) as exc:
        raise OutputError(exc) from None


def flush() -> None:
    """Hand everything written to the operating system. Raises OutputError."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError) as exc:
        raise OutputError(exc) from None


def abandon_output() -> None:
    """Drop what is buffered for standard output, so that the interpreter does not try to write it at its end."""
    _abandon(1)


def _abandon(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def tell(text: str) -> None:
    """Write text, clean already, to standard error. An error is ignored: there is no other way to report it."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
    except (OSError, ValueError):
        _abandon(2)


def pieces_of(path: str) -> Iterator[tuple[bytes, float | None]]:
    """Read a file, or standard input for -: each piece, and the part of the file read so far. Raises InputError."""
    try:
        if path == STANDARD_INPUT:
            if sys.stdin is None:
                raise InputError("standard input is closed")
            while piece := sys.stdin.buffer.read(PIECE_BYTES):
                yield piece, None
            if piece is None:
                raise InputError("standard input has nothing to read yet and does not wait: it is non-blocking")
            return
        with open(as_path(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            count = 0
            while piece := file.read(PIECE_BYTES):
                count += len(piece)
                yield piece, min(1.0, count / size) if size else None
    except (OSError, ValueError) as exc:
        named = "standard input" if path == STANDARD_INPUT else path
        raise InputError(f"{named}: {getattr(exc, 'strerror', None) or exc}") from None


def read_text(path: str) -> str:
    """Read a whole file, or standard input for -, as UTF-8 text. Raises InputError."""
    content = b"".join(piece for piece, _ in pieces_of(path))
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InputError(f"{'standard input' if path == STANDARD_INPUT else path} is not UTF-8 text") from None
