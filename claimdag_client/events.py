"""What the daemon tells unasked: entries of the ledger as watchers get them, and the lines of a stream.

Typed records and a line framer; no I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from claimdagd.limits import ANSWER_MAX_BYTES
from claimdagd.model import Node


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One mutation, as journaled: `nodes` are all those it changed, each as it was after the change.

    `seq` counts up by one; `at` is Unix seconds; `flips` names nodes whose derived status changed beside them, by
    their new status; `gone` are the ids of pruned nodes; `paused` the scopes paused
    from then on, None for the whole graph, if that changed.
    """

    seq: int
    at: float = 0.0
    op: str = ""
    actor: str | None = None
    nodes: tuple[Node, ...] = ()
    flips: dict[str, tuple[str, ...]] = {}
    gone: tuple[str, ...] = ()
    capacity: dict[str, int] | None = None
    paused: tuple[str | None, ...] | None = None


class Message(msgspec.Struct, frozen=True):
    """One line from the daemon: an answer (`rid` with `ok` or `error`) or an `event`."""

    rid: str | int | None = None
    ok: msgspec.Raw = msgspec.Raw()
    error: dict[str, Any] | None = None
    event: msgspec.Raw = msgspec.Raw()


class Lines:
    """Cuts a stream of bytes into lines, without their newlines."""

    def __init__(self, limit_bytes: int = ANSWER_MAX_BYTES) -> None:
        self._rest = bytearray()
        #: How long a line may become.
        self.limit_bytes = limit_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes. Raises ValueError if one grows past the limit."""
        if b"\n" not in data:
            self._rest += data
            if len(self._rest) > self.limit_bytes:
                raise ValueError("a line without end")
            return []
        lines = (bytes(self._rest) + data).split(b"\n")
        self._rest = bytearray(lines.pop())
        return lines


decode_message = msgspec.json.Decoder(Message).decode
decode_event = msgspec.json.Decoder(Event).decode
