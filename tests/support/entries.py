"""A plain encoder of journal entries: any field, encoded or not, and slow. The service has a quick one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

import msgspec
from msgspec import Raw

from claimdagd.model import Node
from claimdagd.store.framing import with_crc


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One mutation, to be written. `nodes` are the changed nodes as they are after, encoded already (Raw) or not."""

    seq: int
    at: float
    op: str
    actor: str | None = None
    nodes: Sequence[Raw | Node] = ()
    flips: Mapping[str, Sequence[str]] = {}
    gone: Sequence[str] = ()
    capacity: dict[str, int] | None = None
    once: str | None = None
    reply: Raw | None = None
    next: int


def encode_entry(entry: Entry) -> bytes:
    """Return the whole journal line, with newline and checksum."""
    if not isfinite(entry.at):
        raise ValueError(f"an entry at {entry.at} could not be read back")
    return with_crc(msgspec.json.encode(entry))
