"""The snapshot file: the whole state in one file that shows whether it is whole.

A header, a line for each node, a line for each remembered answer, and a footer with the counts and the checksum of
all before it. This module makes the lines and reads them; putting the file in place is the Store's work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated
from zlib import crc32

import msgspec
from msgspec import Meta, Raw

from claimdagd.model import Node
from claimdagd.store.entry import Count, Tag
from claimdagd.store.framing import FORMAT, with_crc

SNAPSHOT = "snapshot.jsonl"
#: How many nodes are written without a turn of the loop between: half a millisecond's work. With 1,024 every request
#: that comes meanwhile waits three times as long; with fewer the turns begin to cost more than the writing.
SLICE = 256


class SnapshotHead(msgspec.Struct, frozen=True):
    """What a snapshot holds besides nodes and answers: the state is as it was after entry `seq`, written then.

    `at` is the time in Unix seconds of that last entry or of the writing; `next` is the next id number to mint.
    """

    graph: str
    seq: int
    at: float
    next: int
    capacities: dict[str, int] = {}
    #: The paused scopes, None for the whole graph.
    paused: Sequence[str | None] = ()


class SnapshotHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The first line. `nodes` and `once` count the lines to come; `paused` is there only if something is paused."""

    format: int
    graph: Tag
    seq: Count
    at: float
    next: Annotated[int, Meta(ge=1)]
    capacities: dict[str, Count]
    paused: tuple[str | None, ...] = ()
    nodes: Count
    once: Count


class Remembered(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first answer to a request that carried the token `once`."""

    once: str
    reply: Raw


class Footer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line; `sum` is the CRC-32, in hexadecimal, of all bytes of the file before this line.

    `seq` and `next` are at both ends of the file: a salvage that misjudged them would let ids come twice.
    """

    seq: Count
    next: Annotated[int, Meta(ge=1)]
    nodes: Count
    once: Count
    sum: str


class _SealedHeader(SnapshotHeader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    crc: str


class _SealedRemembered(Remembered, frozen=True, forbid_unknown_fields=True):
    crc: str


class _SealedFooter(Footer, frozen=True, forbid_unknown_fields=True):
    crc: str


_encode = msgspec.json.Encoder().encode
# Each of these takes a line whose checksum was verified, and raises msgspec.MsgspecError or RecursionError.
decode_header = msgspec.json.Decoder(_SealedHeader).decode
decode_node = msgspec.json.Decoder(Node).decode
decode_remembered = msgspec.json.Decoder(_SealedRemembered).decode
decode_footer = msgspec.json.Decoder(_SealedFooter).decode


def encode_snapshot(head: SnapshotHead, nodes: Sequence[Node], once: Sequence[tuple[str, bytes]]) -> Iterator[bytes]:
    """Yield the bytes of the file, in blocks of at most SLICE lines."""
    header = SnapshotHeader(
        format=FORMAT, graph=head.graph, seq=head.seq, at=head.at, next=head.next, capacities=head.capacities,
        paused=tuple(head.paused), nodes=len(nodes), once=len(once),
    )  # fmt: skip
    block = with_crc(_encode(header))
    total = crc32(block)
    yield block
    for start in range(0, len(nodes), SLICE):
        block = b"".join([with_crc(_encode(node)) for node in nodes[start : start + SLICE]])
        total = crc32(block, total)
        yield block
    for start in range(0, len(once), SLICE):
        part = once[start : start + SLICE]
        block = b"".join([with_crc(_encode(Remembered(token, Raw(reply)))) for token, reply in part])
        total = crc32(block, total)
        yield block
    yield with_crc(_encode(Footer(head.seq, head.next, len(nodes), len(once), f"{total:08x}")))
