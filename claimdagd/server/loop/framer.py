"""Bytes into lines, with a hard limit. Must not look inside a line, and does no I/O."""

from __future__ import annotations


class LineTooLongError(Exception):
    """A line is over the limit; `whole` are the lines that ended before it in the same bytes."""

    def __init__(self, whole: list[bytes]) -> None:
        super().__init__("a line is over the limit")
        self.whole = whole


class Framer:
    """Splits what arrives into lines. Never holds more than one unfinished line, of at most `limit` bytes."""

    __slots__ = ("_limit", "_tail")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # A bytearray grows and is cut in amortised constant time a byte, however small the pieces that come.
        self._tail = bytearray()

    @property
    def held(self) -> int:
        """Return how many bytes of an unfinished line are held."""
        return len(self._tail)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` ends, without newlines. Raises `LineTooLongError`; feed nothing after that."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if not lines:
            self._tail += rest
        else:
            if self._tail:
                self._tail += lines[0]
                lines[0] = bytes(self._tail)
                self._tail.clear()
            # Only the first line can be longer than `data`, but `data` itself may be over the limit.
            if len(lines[0]) > self._limit or len(data) > self._limit:
                self._check(lines)
            self._tail += rest
        if len(self._tail) > self._limit:
            raise LineTooLongError(lines)
        return lines

    def rest(self) -> bytes:
        """Return the unfinished line at the end of the stream, and forget it."""
        rest = bytes(self._tail)
        self._tail.clear()
        return rest

    def _check(self, lines: list[bytes]) -> None:
        for index, line in enumerate(lines):
            if len(line) > self._limit:
                raise LineTooLongError(lines[:index])
