"""The last mutations, as journaled, kept in memory for `log` and `watch`. Must not read or write files."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from claimdagd.limits import LEDGER_ENTRIES_MAX

BYTES_MAX: Final = 32 * 1024 * 1024


class Ledger:
    """Entries numbered `first` to `last`, bounded in number and in bytes; the oldest go first."""

    def __init__(self, last: int, lines: Iterable[bytes] = ()) -> None:
        # As journaled, newline and all: the very bytes that were written, not a copy.
        self._lines = deque(line + b"\n" for line in lines)
        self._bytes = sum(map(len, self._lines))
        self.last = last
        self._trim()

    @property
    def first(self) -> int:
        """The seq of the oldest entry kept; one past the last if none is."""
        return self.last - len(self._lines) + 1

    def add(self, line: bytes) -> None:
        """Keep the next entry's journal line, with its newline."""
        self._lines.append(line)
        self._bytes += len(line)
        self.last += 1
        if len(self._lines) > LEDGER_ENTRIES_MAX or self._bytes > BYTES_MAX:
            self._trim()

    def _trim(self) -> None:
        while len(self._lines) > LEDGER_ENTRIES_MAX or (self._bytes > BYTES_MAX and len(self._lines) > 1):
            self._bytes -= len(self._lines.popleft())

    def since(self, seq: int) -> Iterator[bytes]:
        """Return the entries from `seq` on, without their newlines."""
        start = min(max(0, seq - self.first), len(self._lines))
        return (line[:-1] for line in islice(self._lines, start, None))

    def entries(self, first: int | None, limit: int | None, node_id: str | None) -> list[bytes]:
        """Return at most `limit` entries from `first` on, or the last ones, of `node_id` alone if given."""
        found = list(self.since(first or 0))
        if node_id is not None:
            # A quote inside a JSON string is escaped, so this can only be a node's own id, or one that was pruned.
            quoted = b'"%b"' % node_id.encode()
            found = [e for e in found if b'"id":' + quoted in e or quoted in _pruned(e)]
        if limit is not None:
            found = found[:limit] if first is not None else found[-limit:]
        return found


def _pruned(entry: bytes) -> bytes:
    """Return the part of an entry that lists the pruned ids."""
    return entry.partition(b'"gone":[')[2].partition(b"]")[0]
