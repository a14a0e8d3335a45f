"""A bar on a terminal: how much of some nodes, and of all work under them, is done, running, failed.

Knows the statuses from one listing and the events after it. It must write nothing but its own line.
"""

from __future__ import annotations

import time

from claimdag_client.cli.render.text import cut, size_of_terminal
from claimdagd.limits import GROUPS, LIVE, TERMINAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, TextIO

    from claimdag_client.cli.render.text import Paint

#: No more often than this, in seconds, is the line written anew.
PAUSE_S = 0.05
BAR_COLUMNS = 30


class Progress:
    """The bar. `know` the nodes, be `told` events, `draw`, and `clear` at the end."""

    def __init__(self, stream: TextIO, paint: Paint) -> None:
        self._stream = stream
        self._paint = paint
        self._status: dict[str, str] = {}
        self._parent: dict[str, str | None] = {}
        self._groups: set[str] = set()
        self._ids: list[str] = []
        self._drawn_at = 0.0
        self._shown = ""

    def know(self, nodes: Iterable[Mapping[str, Any]], ids: list[str]) -> None:
        """Take in all nodes as they are, and those that are waited for; none means all."""
        nodes = list(nodes)
        self._ids = ids or [str(node["id"]) for node in nodes if node.get("parent") is None]
        for node in nodes:
            self._put(node)

    def told(self, entry: Mapping[str, Any]) -> None:
        """Take in an entry of the ledger. Pruned nodes were finished and still count."""
        for node in entry.get("nodes") or ():
            self._put(node)
        for status, ids in (entry.get("flips") or {}).items():
            for id in ids:
                self._status[id] = status

    def _put(self, node: Mapping[str, Any]) -> None:
        id = str(node.get("id"))
        self._status[id] = str(node.get("status"))
        self._parent[id] = node.get("parent")
        if node.get("kind") in GROUPS:
            self._groups.add(id)

    def counts(self) -> tuple[int, int, int, int]:
        """Count the work: done, all, running, failed or cancelled. A group counts only if it has no children."""
        wanted = set(self._ids)
        parents = {parent for parent in self._parent.values() if parent is not None}
        statuses = [
            status
            for id, status in self._status.items()
            if self._under(id, wanted) and (id not in self._groups or (id in wanted and id not in parents))
        ]
        done = statuses.count("done")
        running = sum(status in LIVE for status in statuses)
        failed = sum(status in TERMINAL for status in statuses) - done
        return done, len(statuses), running, failed

    def _under(self, id: str | None, wanted: set[str]) -> bool:
        while id is not None:
            if id in wanted:
                return True
            id = self._parent.get(id)
        return False

    def draw(self) -> None:
        """Show the bar as things stand, if it has changed."""
        now = time.monotonic()
        if now - self._drawn_at < PAUSE_S or not self._ids:
            return
        self._drawn_at = now
        line = self._line(*self.counts())
        if line != self._shown:
            self._shown = line
            self._stream.write(f"\r{line}\x1b[K")
            self._stream.flush()

    def _line(self, done: int, all: int, running: int, failed: int) -> str:
        paint, unicode = self._paint, self._paint.unicode
        words = f" {done} of {all} done, {running} running, {failed} failed"
        columns = size_of_terminal()[0] - 1
        room = max(0, min(BAR_COLUMNS, columns - len(words) - 2))
        good = done * room // max(all, 1)
        bad = min(room - good, -(-failed * room // max(all, 1)))
        full, empty = ("█", "·") if unicode else ("#", ".")
        lost = full if unicode else "x"
        bar = paint(full * good, "green") + paint(lost * bad, "red") + empty * (room - good - bad)
        return f"[{bar}]{words}" if room else cut(words.strip(), columns, unicode=unicode)

    def clear(self) -> None:
        """Leave the line as it was found."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = ""
