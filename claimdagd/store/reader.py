"""Reads a state back from its files: the snapshot, then the journal over it.

One reader for two callers, who differ in what they do about a fault: `RaiseFaults` refuses the state at the first one,
a salvage collects them all and takes the rest. Nothing here writes, and no line is repaired by guessing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol
from zlib import crc32

import msgspec

from claimdagd.limits import LEDGER_ENTRIES_MAX, ONCE_TOKENS_MAX
from claimdagd.model import Node, Status, is_id
from claimdagd.store.entry import NULL, JournalHeader, Record, decode_entry, decode_journal_header, decode_number
from claimdagd.store.errors import CorruptState, UnknownFormat, UnreadableState
from claimdagd.store.files import Files
from claimdagd.store.framing import FORMAT, LineReader, crc_ok, holds_more_than_a_line
from claimdagd.store.journal import JOURNAL, Layout
from claimdagd.store.snapshot import (
    SNAPSHOT,
    Footer,
    SnapshotHeader,
    decode_footer,
    decode_header,
    decode_node,
    decode_remembered,
)

UNREADABLE = (msgspec.MsgspecError, RecursionError, ValueError)


@dataclass(slots=True)
class Recovered:
    """A state as it was last written, and what the Store needs to go on with it.

    `tag` is empty as long as nothing has named the graph. `next_number` is the next id number to mint. `once` maps
    tokens to the JSON of their replies, oldest first. `ledger` are the last journal lines, without newlines, oldest
    first. `notes` are sentences for a person. `at` is the Unix time of the last entry, or of the snapshot if that is
    later; 0 for a graph that is new. `layout` is None if a journal has to be begun; `salvaged` says that the whole
    state has to be written first.
    """

    tag: str = ""
    seq: int = 0
    next_number: int = 1
    nodes: dict[str, Node] = field(default_factory=dict)
    capacities: dict[str, int] = field(default_factory=dict)
    paused: tuple[str | None, ...] = ()
    once: dict[str, bytes] = field(default_factory=dict)
    ledger: list[bytes] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    at: float = 0.0
    snapshot_bytes: int = 0
    snapshot_seq: int = 0
    layout: Layout | None = None
    salvaged: bool = False


class Faults(Protocol):
    """What is done about a fault: raise, or note it and return, so that the reader goes on after it."""

    #: Whether an entry may speak of nodes that are missing.
    tolerant: bool

    def line(self, path: str, number: int, line: bytes, reason: str) -> None:
        """Line `number` cannot be taken."""

    def file(self, path: str, number: int | None, reason: str) -> None:
        """Something is wrong with the file, or missing before line `number`, and no line is left out for it."""


class RaiseFaults:
    """Refuse the state at the first fault."""

    tolerant = False

    def line(self, path: str, number: int, line: bytes, reason: str) -> None:
        raise CorruptState(path, number, reason)

    def file(self, path: str, number: int | None, reason: str) -> None:
        raise CorruptState(path, number, reason)


def load(files: Files, directory: str) -> Recovered | None:
    """Return the state in `directory`, or None if there are no files of one. Raises StateError."""
    return StateReader(files, directory, RaiseFaults()).read()


class StateReader:
    """Reads the two files of one directory once. `entries` counts what was applied from the journal."""

    def __init__(self, files: Files, directory: str, faults: Faults) -> None:
        self._files = files
        self._directory = directory
        self._faults = faults
        self._state = Recovered()
        self._prefix = ""
        self._header: SnapshotHeader | None = None
        self._footer: Footer | None = None
        self._last: int | None = None
        self._ledger: deque[bytes] = deque(maxlen=LEDGER_ENTRIES_MAX)
        self.entries = 0

    def read(self) -> Recovered | None:
        """Return the state, or None if there are no files of one. Raises UnreadableState, UnknownFormat, and faults."""
        try:
            names = set(self._files.listdir(self._directory))
        except OSError as exc:
            raise UnreadableState(self._directory, exc) from exc
        if SNAPSHOT not in names and JOURNAL not in names:
            return None
        if SNAPSHOT in names:
            if JOURNAL not in names:
                self._faults.file(f"{self._directory}/{JOURNAL}", None, "the journal of the snapshot is missing")
            self._read_snapshot(LineReader(self._files, f"{self._directory}/{SNAPSHOT}"))
        if JOURNAL in names:
            self._read_journal(LineReader(self._files, f"{self._directory}/{JOURNAL}"))
        return self._state

    def _lines(self, reader: LineReader) -> Iterator[list[bytes]]:
        try:
            yield from reader.batches()
        except OSError as exc:
            raise UnreadableState(reader.path, exc) from exc

    def _name_graph(self, tag: str) -> None:
        self._state.tag = tag
        self._prefix = tag + "-"

    def _is_foreign(self, node_id: str) -> bool:
        """Return whether an id is of another graph, or none; the first one names the graph if no header did."""
        if not is_id(node_id):
            return True
        if not self._prefix:
            self._name_graph(node_id[:4])
        return not node_id.startswith(self._prefix)

    def _foreign(self, node_id: str) -> str:
        return f"{node_id} is of another graph than {self._state.tag}, or no id"

    # ------------------------------------------------------------------------------------------------------ snapshot

    def _read_snapshot(self, reader: LineReader) -> None:
        path, faults = reader.path, self._faults
        number = total = 0
        for lines in self._lines(reader):
            for line in lines:
                number += 1
                if number == 1:
                    check_format(path, line)
                if not crc_ok(line):
                    which = "the checksum of the header" if number == 1 else "the checksum"
                    faults.line(path, number, line, f"{which} does not match")
                else:
                    self._take_snapshot_line(path, number, line, total)
                if number == 1 and self._header is None:
                    faults.file(path, 1, "not the header of a snapshot")
                total = crc32(b"\n", crc32(line, total))
        header, footer = self._header, self._footer
        if reader.rest:
            why = "the snapshot is cut short" if footer is None else "bytes follow the last line"
            faults.line(path, number + 1, reader.rest, why)
        elif footer is None:
            faults.file(path, number + 1, "the snapshot is cut short" if reader.size else "the file is empty")
        if header is not None and header.nodes != len(self._state.nodes):
            faults.file(path, None, f"{len(self._state.nodes)} of its {header.nodes} nodes verify")
        self._state.snapshot_bytes = reader.size

    def _take_snapshot_line(self, path: str, number: int, line: bytes, total: int) -> None:
        """Take a line whose checksum matches; `total` is the checksum of all lines before it."""
        if self._footer is not None:
            self._faults.file(path, number, "lines follow the last line")
        try:
            if line.startswith(b'{"id":'):
                node = decode_node(line)
                if self._is_foreign(node.id):
                    self._faults.line(path, number, line, self._foreign(node.id))
                else:
                    self._state.nodes[node.id] = node
            elif line.startswith(b'{"once":'):
                remembered = decode_remembered(line)
                self._state.once[remembered.once] = bytes(remembered.reply)
            elif number == 1:
                self._take_header(decode_header(line))
            else:
                self._take_footer(path, number, decode_footer(line), total)
        except UNREADABLE as exc:
            self._faults.line(path, number, line, f"not a line of a snapshot: {exc}")

    def _take_header(self, header: SnapshotHeader) -> None:
        state = self._state
        self._header = header
        self._name_graph(header.graph)
        state.seq = state.snapshot_seq = header.seq
        state.next_number, state.capacities, state.at = header.next, header.capacities, header.at
        state.paused = header.paused

    def _take_footer(self, path: str, number: int, footer: Footer, total: int) -> None:
        state, header = self._state, self._header
        self._footer = footer
        if footer.sum != f"{total:08x}":
            self._faults.file(path, number, "the checksum of the whole file does not match")
        counts = footer.nodes, footer.once
        promised = None if header is None or header.seq != footer.seq else (header.nodes, header.once)
        if counts != promised or counts != (len(state.nodes), len(state.once)):
            self._faults.file(path, number, "lines are missing or double")
        state.seq = state.snapshot_seq = footer.seq
        state.next_number = max(state.next_number, footer.next)

    # ------------------------------------------------------------------------------------------------------- journal

    def _read_journal(self, reader: LineReader) -> None:
        path, faults, state = reader.path, self._faults, self._state
        layout: Layout | None = None
        number = offset = 0
        for lines in self._lines(reader):
            for line in lines:
                number += 1
                offset += len(line) + 1
                if number == 1:
                    header = self._journal_header(path, line)
                    if header is not None:
                        if header.graph != state.tag:
                            reason = f"the journal is of graph {header.graph}, the snapshot of {state.tag}"
                            faults.file(path, 1, reason)
                            return
                        layout = Layout(header.seq, header.next, offset)
                elif not crc_ok(line):
                    faults.line(path, number, line, "the checksum does not match")
                elif self._take_line(path, number, line) and layout is not None:
                    layout.ends.append(offset)
                    self._ledger.append(line)
        if not number:
            faults.file(path, 1, "the header is cut short" if reader.size else "the file is empty")
        if reader.rest:
            self._take_torn(path, number + 1, reader.rest)
        if self._last is not None and self._last < state.snapshot_seq:
            reason = f"the journal ends with entry {self._last}, before the snapshot's {state.snapshot_seq}"
            faults.file(path, number + 1, reason)
        state.layout = layout
        state.ledger = list(self._ledger)

    def _journal_header(self, path: str, line: bytes) -> JournalHeader | None:
        """Return the header, and note what is missing before its journal; None if it was left out."""
        check_format(path, line)
        if not crc_ok(line):
            self._faults.line(path, 1, line, "the checksum of the header does not match")
            return None
        try:
            header = decode_journal_header(line)
        except UNREADABLE as exc:
            self._faults.line(path, 1, line, f"not the header of a journal: {exc}")
            return None
        state = self._state
        if not state.tag:
            self._name_graph(header.graph)
        if header.graph == state.tag:
            self._last = header.seq
            state.next_number = max(state.next_number, header.next)
            if header.seq > state.seq:
                self._faults.file(path, 1, missing(state.seq + 1, header.seq))
                state.seq = header.seq
        return header

    def _take_line(self, path: str, number: int, line: bytes) -> bool:
        """Take one entry, or only count it if the snapshot holds it; return False if it was left out."""
        last, state, faults = self._last, self._state, self._faults
        try:
            # What the snapshot holds already is kept for the log alone.
            record = None if last is not None and last < state.snapshot_seq else decode_entry(line)
            seq = decode_number(line) if record is None else record.seq
            if record is None and seq > state.snapshot_seq:
                record = decode_entry(line)
        except UNREADABLE as exc:
            faults.line(path, number, line, f"not an entry of a journal: {exc}")
            return False
        if last is not None and seq != last + 1:
            if seq <= last:
                faults.line(path, number, line, f"entry {seq} stands after entry {last}")
                return False
            faults.file(path, number, missing(last + 1, seq - 1))
        self._last = seq
        if record is not None and seq > state.snapshot_seq:
            reason = self._apply(record)
            if reason:
                faults.line(path, number, line, reason)
                return False
            self.entries += 1
        return True

    def _take_torn(self, path: str, number: int, rest: bytes) -> None:
        if self._faults.tolerant or number == 1:
            self._faults.line(path, number, rest, "cut short")
        elif holds_more_than_a_line(rest):
            self._faults.line(path, number, rest, "the newline after the last entry is not one")
        else:
            self._state.notes.append(
                f"{path}, line {number}: the last line was cut short ({len(rest)} bytes); it was never answered and is"
                " dropped"
            )

    def _apply(self, record: Record) -> str:
        """Put back what an entry says. Return "", or why it cannot be taken."""
        state = self._state
        nodes = state.nodes
        for node in record.nodes:
            if self._is_foreign(node.id):
                return self._foreign(node.id)
        # A snapshot that does not tell its age may be newer than the entry.
        ageless = self._header is None and self._footer is None and state.snapshot_bytes
        for node in record.nodes:
            if not (ageless and _is_newer(nodes.get(node.id), node)):
                nodes[node.id] = node
        if (record.flips or record.gone) and (reason := self._apply_to_known(record)):
            return reason
        if record.capacity:
            state.capacities.update(record.capacity)
        if record.paused is not None:
            state.paused = tuple(record.paused)
        if record.once is not None:
            _remember(state, record.once, bytes(record.reply))
        state.seq, state.next_number = max(state.seq, record.seq), max(state.next_number, record.next)
        state.at = max(state.at, record.at)
        return ""

    def _apply_to_known(self, record: Record) -> str:
        """Put back derived statuses and prune. Return "", or which node is missing."""
        nodes = self._state.nodes
        for status, ids in record.flips.items():
            for node_id in ids:
                old = nodes.get(node_id)
                if old is not None:
                    nodes[node_id] = with_status(old, status)
                elif not self._faults.tolerant:
                    return f"the entry changes {node_id}, which does not exist"
        for node_id in record.gone:
            if nodes.pop(node_id, None) is None and not self._faults.tolerant:
                return f"the entry prunes {node_id}, which does not exist"
        return ""


def _is_newer(known: Node | None, node: Node) -> bool:
    return known is not None and known.updated_at > node.updated_at


def missing(first: int, last: int) -> str:
    """Return the sentence for entries that are missing."""
    return (
        f"entry {first} is missing before it" if first == last else f"entries {first} to {last} are missing before it"
    )


def with_status(node: Node, status: Status) -> Node:
    """Return the node with another derived status."""
    return msgspec.structs.replace(node, status=status)


def _remember(state: Recovered, token: str, reply: bytes) -> None:
    """Keep the reply, of the last ONCE_TOKENS_MAX tokens."""
    if reply == NULL:
        return
    state.once.pop(token, None)
    state.once[token] = reply
    while len(state.once) > ONCE_TOKENS_MAX:
        del state.once[next(iter(state.once))]


class _Format(msgspec.Struct):
    format: int


_decode_format = msgspec.json.Decoder(_Format).decode


def check_format(path: str, line: bytes) -> None:
    """Raise UnknownFormat if a header names a format that this version does not read."""
    try:
        number = _decode_format(line).format
    except UNREADABLE:
        return  # no header at all: the reader says so
    # A newer format may have other checksums. But if ours fits once the number is ours, the number itself is damaged.
    ours = line.replace(b'"format":%d' % number, b'"format":%d' % FORMAT, 1)
    if number != FORMAT and (crc_ok(line) or (number > FORMAT and not crc_ok(ours))):
        raise UnknownFormat(path, number, FORMAT)
