"""Reading a state back from its files: the snapshot, then the journal over it; refusing whatever does not verify.

Nothing here writes, and nothing is repaired by guessing: a torn last line is dropped and said, all else is Damaged.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from zlib import crc32

import msgspec

from claimdagd.limits import LEDGER_ENTRIES_MAX, ONCE_TOKENS_MAX
from claimdagd.model import Node, Status, is_id
from claimdagd.store.entry import NULL, JournalHeader, Record, decode_entry, decode_journal_header, decode_number
from claimdagd.store.errors import Damaged
from claimdagd.store.files import Files
from claimdagd.store.framing import FORMAT, LineReader, holds_more_than_a_line, sealed
from claimdagd.store.journal import JOURNAL, Layout
from claimdagd.store.snapshot import (
    SNAPSHOT,
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

    `next_number` is the next id number to mint. `once` maps tokens to the JSON of their replies, oldest first.
    `ledger` are the last journal lines, without newlines, oldest first. `notes` are sentences for a person. `at` is
    the Unix time of the last entry, or of the snapshot if that is later; 0 for a graph that is new. `layout` is None
    where a journal has to be begun; `salvaged` says that the whole state has to be written first.
    """

    tag: str
    seq: int
    next_number: int
    nodes: dict[str, Node]
    capacities: dict[str, int]
    once: dict[str, bytes] = field(default_factory=dict)
    ledger: list[bytes] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    at: float = 0.0
    snapshot_bytes: int = 0
    snapshot_seq: int = 0
    layout: Layout | None = None
    salvaged: bool = False


def load(files: Files, directory: str) -> Recovered | None:
    """The state in `directory`, or None where there are no files of one."""
    try:
        names = set(files.listdir(directory))
    except OSError as exc:
        raise Damaged(directory, None, f"unreadable: {exc.strerror}") from exc
    snapshot, journal = f"{directory}/{SNAPSHOT}", f"{directory}/{JOURNAL}"
    if JOURNAL not in names:
        if SNAPSHOT not in names:
            return None
        raise Damaged(journal, None, "the journal that belongs to the snapshot is missing")
    state = read_snapshot(files, snapshot) if SNAPSHOT in names else None
    return replay(files, journal, state)


# ----------------------------------------------------------------------------------------------------------- snapshot


def read_snapshot(files: Files, path: str) -> Recovered:
    """The state that a snapshot holds, every line of it verified."""
    reader = LineReader(files, path)
    number = 0
    try:
        state, number, finished = _snapshot_lines(reader)
    except OSError as exc:
        raise Damaged(path, None, f"unreadable: {exc.strerror or exc}") from exc
    if reader.rest:
        reason = "bytes follow the last line" if finished else "the snapshot is cut short"
        raise Damaged(path, number + 1, reason)
    if state is None or not finished:
        raise Damaged(path, number + 1, "the snapshot is cut short" if reader.size else "the file is empty")
    state.snapshot_bytes = reader.size
    return state


def _snapshot_lines(reader: LineReader) -> tuple[Recovered | None, int, bool]:
    path = reader.path
    state: Recovered | None = None
    nodes: dict[str, Node] = {}
    once: dict[str, bytes] = {}
    prefix = ""
    number = seq = last_node = last_once = 0
    total = 0
    finished = False
    for lines in reader.batches():
        for line in lines:
            number += 1
            if number == 1:
                header = snapshot_header(path, line)
                state = Recovered(header.graph, header.seq, header.next, nodes, header.capacities, once)
                state.at, state.snapshot_seq = header.at, header.seq
                prefix, seq = header.graph + "-", header.seq
                last_node = 1 + header.nodes
                last_once = last_node + header.once
            elif not sealed(line):
                raise Damaged(path, number, "the checksum does not match")
            else:
                try:
                    if number <= last_node:
                        node = decode_node(line)
                        nodes[node.id] = node
                        if not node.id.startswith(prefix) or not is_id(node.id):
                            raise Damaged(path, number, f"{node.id} is of another graph than {prefix[:-1]}, or no id")
                    elif number <= last_once:
                        remembered = decode_remembered(line)
                        once[remembered.once] = bytes(remembered.reply)
                    elif finished:
                        raise Damaged(path, number, "lines follow the last line")
                    else:
                        footer = decode_footer(line)
                        if footer.sum != f"{total:08x}" or number != last_once + 1:
                            raise Damaged(path, number, "the checksum of the whole file does not match")
                        if footer.nodes != len(nodes) or footer.once != len(once) or footer.seq != seq:
                            raise Damaged(path, number, "lines are missing or double")
                        finished = True
                except UNREADABLE as exc:
                    raise Damaged(path, number, f"not a line of a snapshot: {exc}") from exc
            total = crc32(b"\n", crc32(line, total))
    return state, number, finished


def snapshot_header(path: str, line: bytes) -> SnapshotHeader:
    """The first line of a snapshot."""
    check_format(path, line)
    try:
        return decode_header(line)
    except UNREADABLE as exc:
        raise Damaged(path, 1, f"not the header of a snapshot: {exc}") from exc


# ------------------------------------------------------------------------------------------------------------ journal


def replay(files: Files, path: str, state: Recovered | None) -> Recovered:
    """Put the journal's entries over the snapshot's state, or over nothing where there was no snapshot."""
    reader = LineReader(files, path)
    try:
        state, layout, ledger = _journal_lines(reader, state)
    except OSError as exc:
        raise Damaged(path, None, f"unreadable: {exc.strerror or exc}") from exc
    number = len(layout.ends) + 2
    if reader.rest:
        if holds_more_than_a_line(reader.rest):
            raise Damaged(path, number, "the newline after the last entry is not one")
        state.notes.append(
            f"{path}, line {number}: the last line was cut short ({len(reader.rest)} bytes); it was never answered and"
            " is dropped"
        )
    if layout.seq < state.snapshot_seq:
        raise Damaged(
            path, number, f"the journal ends with entry {layout.seq}, before the snapshot's {state.snapshot_seq}"
        )
    state.layout = layout
    state.ledger = ledger
    return state


def _journal_lines(reader: LineReader, state: Recovered | None) -> tuple[Recovered, Layout, list[bytes]]:
    path = reader.path
    layout: Layout | None = None
    ledger: deque[bytes] = deque(maxlen=LEDGER_ENTRIES_MAX)
    offset = number = expected = snapshot_seq = 0
    for lines in reader.batches():
        for line in lines:
            number += 1
            offset += len(line) + 1
            if layout is None:
                header = journal_header(path, line)
                state = follows(path, header, state)
                layout = Layout(header.seq, header.next, offset)
                expected, snapshot_seq = header.seq, state.snapshot_seq
                continue
            if not sealed(line):
                raise Damaged(path, number, "the checksum does not match")
            expected += 1
            try:
                # What the snapshot holds already is kept for the log alone.
                record = decode_entry(line) if expected > snapshot_seq else None
                seq = decode_number(line) if record is None else record.seq
            except UNREADABLE as exc:
                raise Damaged(path, number, f"not an entry of a journal: {exc}") from exc
            if seq != expected:
                raise Damaged(path, number, f"entry {seq} stands where {expected} belongs: entries are missing")
            layout.ends.append(offset)
            ledger.append(line)
            if record is not None:
                assert state is not None
                reason = apply(state, record)
                if reason:
                    raise Damaged(path, number, reason)
    if layout is None or state is None:
        raise Damaged(path, 1, "the header is cut short" if reader.size else "the file is empty")
    return state, layout, list(ledger)


def journal_header(path: str, line: bytes) -> JournalHeader:
    """The first line of a journal."""
    check_format(path, line)
    try:
        return decode_journal_header(line)
    except UNREADABLE as exc:
        raise Damaged(path, 1, f"not the header of a journal: {exc}") from exc


def follows(path: str, header: JournalHeader, state: Recovered | None) -> Recovered:
    """The state that the journal goes on from; Damaged where it does not belong to it."""
    if state is None:
        if header.seq:
            raise Damaged(path, 1, f"the journal follows entry {header.seq}, and the snapshot up to it is missing")
        return Recovered(header.graph, 0, 1, {}, {})
    if header.graph != state.tag:
        raise Damaged(path, 1, f"the journal is of graph {header.graph}, the snapshot of {state.tag}")
    if header.seq > state.seq:
        raise Damaged(path, 1, f"entries {state.seq + 1} to {header.seq} are missing between snapshot and journal")
    return state


def apply(state: Recovered, record: Record) -> str:
    """Put back what an entry says. Returns "" or, having stopped half-way, what is wrong with it."""
    nodes = state.nodes
    prefix = state.tag + "-"
    for node in record.nodes:
        if not node.id.startswith(prefix) or not is_id(node.id):
            return f"{node.id} is of another graph than {state.tag}, or no id"
        nodes[node.id] = node
    for status, ids in record.flips.items():
        for node_id in ids:
            old = nodes.get(node_id)
            if old is None:
                return f"the entry changes {node_id}, which does not exist"
            nodes[node_id] = with_status(old, status)
    for node_id in record.gone:
        if nodes.pop(node_id, None) is None:
            return f"the entry prunes {node_id}, which does not exist"
    if record.capacity:
        state.capacities.update(record.capacity)
    if record.once is not None:
        remember(state.once, record.once, bytes(record.reply))
    state.seq, state.next_number = record.seq, record.next
    state.at = max(state.at, record.at)
    return ""


def with_status(node: Node, status: Status) -> Node:
    """The node, its derived status moved."""
    return msgspec.structs.replace(node, status=status)


def remember(once: dict[str, bytes], token: str, reply: bytes) -> None:
    """Keep the reply, of the last ONCE_TOKENS_MAX tokens."""
    if reply == NULL:
        return
    once.pop(token, None)
    once[token] = reply
    while len(once) > ONCE_TOKENS_MAX:
        del once[next(iter(once))]


# -------------------------------------------------------------------------------------------------------------- format


class _Format(msgspec.Struct):
    format: int


_decode_format = msgspec.json.Decoder(_Format).decode


def named_format(line: bytes) -> int | None:
    """The format that a header names, if it is none that this version reads."""
    try:
        number = _decode_format(line).format
    except UNREADABLE:
        return None
    return number if number != FORMAT else None


def check_format(path: str, line: bytes) -> None:
    """Raise Damaged unless the header is whole and of a format that this version reads."""
    number = named_format(line)
    if number is not None and number > FORMAT:
        reason = f"format {number} is newer than {FORMAT}, the newest that this claimdagd reads"
        raise Damaged(path, 1, reason)
    if not sealed(line):
        raise Damaged(path, 1, "the checksum of the header does not match")
    if number is not None:
        raise Damaged(path, 1, f"format {number} is unknown")
