"""The header and the entries of a journal, each entry one mutation with every changed node as it is after.

Replay puts these nodes back and never runs the op again. This module encodes and decodes; it does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from zlib import crc32

import msgspec
from msgspec import Meta, Raw

from claimdagd.model import Node, Status
from claimdagd.store.framing import FORMAT, with_crc

Tag = Annotated[str, Meta(pattern=r"^[0-9a-z]{4}\Z")]
Count = Annotated[int, Meta(ge=0)]
NULL = b"null"
_NO_EXTRAS = b'"capacity":null,"once":null,"reply":null,'


class JournalHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line: the entries that follow are numbered `seq` + 1 and on, and mint ids from `next` on or later."""

    format: int
    graph: Tag
    seq: Count
    next: Annotated[int, Meta(ge=1)]


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One mutation, as read back. Every field is always written, so every field is required, but for `paused`."""

    seq: Count
    at: float
    op: str
    actor: str | None
    nodes: list[Node]
    flips: dict[Status, list[str]]
    gone: list[str]
    capacity: dict[str, Count] | None
    once: str | None
    reply: Raw
    #: The scopes paused from then on, null for the whole graph; only in an entry that changes them.
    paused: list[str | None] | None = None
    next: Annotated[int, Meta(ge=1)]
    crc: str


class _Numbered(msgspec.Struct, gc=False):
    seq: Count


class _SealedHeader(JournalHeader, frozen=True, forbid_unknown_fields=True):
    crc: str


_encode = msgspec.json.Encoder().encode
_decode_record = msgspec.json.Decoder(Record).decode
_decode_number = msgspec.json.Decoder(_Numbered).decode
_decode_header = msgspec.json.Decoder(_SealedHeader).decode


def entry_line(
    seq: int,
    at: float,
    op: str,
    actor: str | None,
    nodes: Sequence[bytes],
    flips: dict[str, list[str]] | None,
    gone: Sequence[str],
    capacity: dict[str, int] | None,
    once: str | None,
    reply: bytes | None,
    next_number: int,
    paused: Sequence[str | None] | None = None,
) -> bytes:
    """Return a whole journal line, newline and checksum included. This is on the path of every request.

    `nodes` are the changed nodes as they are after, `flips` the other nodes whose derived status changed, by their new
    status, `gone` the nodes pruned; `capacity` holds only the resources that changed, `reply` is the `ok` object that
    the token `once` gets again, `paused` the paused scopes if they changed, and `next_number` the next id number to
    mint. `nodes` and `reply` are JSON already; `at` is finite, `op` an op's name and `actor` a name, which need no
    escaping.
    """
    head = b'{"seq":%d,"at":%b,"op":"%b","actor":%b,"nodes":[%b],"flips":%b,"gone":%b,%b%b"next":%d' % (
        seq,
        _encode(at),
        op.encode(),
        b'"%b"' % actor.encode() if actor is not None else NULL,
        b",".join(nodes),
        _encode(flips) if flips else b"{}",
        _encode(gone) if gone else b"[]",
        _NO_EXTRAS
        if capacity is None and once is None
        else b'"capacity":%b,"once":%b,"reply":%b,'
        % (_encode(capacity), _encode(once), NULL if reply is None else reply),
        b"" if paused is None else b'"paused":%b,' % _encode(paused),
        next_number,
    )
    return b'%b,"crc":"%08x"}\n' % (head, crc32(head))


def decode_entry(line: bytes) -> Record:
    """Decode an entry of a line whose checksum was verified; raises msgspec.MsgspecError or RecursionError."""
    return _decode_record(line)


def decode_number(line: bytes) -> int:
    """Decode only the seq of an entry, four times as fast as decode_entry. Raises as decode_entry does."""
    return _decode_number(line).seq


def encode_journal_header(graph: str, seq: int, next_number: int) -> bytes:
    """Encode the first line of a journal whose entries follow `seq`."""
    return with_crc(_encode(JournalHeader(FORMAT, graph, seq, next_number)))


def decode_journal_header(line: bytes) -> JournalHeader:
    """Decode a header of a line whose checksum was verified; raises msgspec.MsgspecError or RecursionError."""
    return _decode_header(line)
