"""Getting a state out of damaged files: keep the originals, take what verifies, say what was left out.

What was lost may have minted ids, moved generations and numbered entries. So all three jump ahead by more than the
lost part can have used, and nobody is taken to hold anything any more: ids are never reused, generations never go
back, and a holder from before is fenced. Reads with what replay.py reads with; mending the graph is in mend.py.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from claimdagd.model import Node, is_id, number_of
from claimdagd.store.entry import Record, decode_entry, decode_journal_header
from claimdagd.store.errors import Damaged, StorageError
from claimdagd.store.files import Files, write_all
from claimdagd.store.framing import CHUNK, FORMAT, LineReader, sealed
from claimdagd.store.journal import JOURNAL, TEMPORARY, forget
from claimdagd.store.reader import UNREADABLE, Recovered, named_format, remember, with_status
from claimdagd.store.repair import NAMED_MAX, mend
from claimdagd.store.snapshot import SNAPSHOT, decode_footer, decode_header, decode_node, decode_remembered

#: How far ids, generations and entry numbers jump, besides one for every LOST_BYTES that did not verify.
MARGIN = 1_000_000
LOST_BYTES = 64


@dataclass(slots=True)
class _Taken:
    """What verified so far, and what is known about the rest."""

    tag: str | None = None
    #: The entry up to which the snapshot holds everything; None without a header that says so.
    snapshot_seq: int | None = None
    seq: int = 0
    next_number: int = 1
    top_gen: int = 1
    at: float = 0.0
    nodes: dict[str, Node] = field(default_factory=dict)
    capacities: dict[str, int] = field(default_factory=dict)
    once: dict[str, bytes] = field(default_factory=dict)
    lost_bytes: int = 0
    notes: list[str] = field(default_factory=list)

    def foreign(self, node_id: str) -> bool:
        """Whether an id is of another graph, or none; the first one seen names the graph if no header did."""
        if not is_id(node_id):
            return True
        if self.tag is None:
            self.tag = node_id[:4]
        return node_id[:5] != self.tag + "-"

    def saw(self, node: Node) -> None:
        """Note how far ids and generations had come."""
        self.next_number = max(self.next_number, number_of(node.id) + 1)
        self.top_gen = max(self.top_gen, node.gen)


def salvage_state(files: Files, directory: str, damage: Damaged, *, new_tag: Callable[[], str], at: float) -> Recovered:
    """What can be had from `directory`, whose files raised `damage`; the originals are kept aside first.

    Nothing else is written here: the Store puts the salvaged state in their place. StorageError where the originals
    cannot be kept.
    """
    if damage.path == directory:
        raise damage
    taken = _Taken()
    taken.notes.append(str(damage).split(". Nothing was changed")[0])
    taken.notes.append(f"the files as they were are kept in {keep_originals(files, directory, at)}")
    names = files.listdir(directory)
    snapshot, journal = f"{directory}/{SNAPSHOT}", f"{directory}/{JOURNAL}"
    if SNAPSHOT in names:
        _take_snapshot(files, snapshot, taken)
    else:
        taken.notes.append(f"{snapshot}: there is none to read")
    if JOURNAL in names:
        _take_journal(files, journal, taken)
    else:
        taken.notes.append(f"{journal}: there is none to read")
    return _finish(taken, new_tag, at)


def _finish(taken: _Taken, new_tag: Callable[[], str], at: float) -> Recovered:
    margin = MARGIN + taken.lost_bytes // LOST_BYTES
    gen = taken.top_gen + margin
    taken.notes.extend(mend(taken.nodes, gen))
    known = taken.tag is not None
    state = Recovered(
        tag=taken.tag or new_tag(),
        seq=taken.seq + margin if known else 0,
        next_number=taken.next_number + margin if known else 1,
        nodes=taken.nodes,
        capacities=taken.capacities,
        once=taken.once,
        notes=taken.notes,
        at=max(taken.at, at),
        salvaged=True,
    )
    if known:
        state.notes.append(
            f"{len(state.nodes)} nodes are salvaged. What was lost cannot be known, so every claim is handed back,"
            f" every generation is now {gen}, ids go on from {state.tag}-{state.next_number} and entries from"
            f" {state.seq + 1}; answers to `once` tokens in the lost part are forgotten, and the log begins anew"
        )
    else:
        state.notes.append(f"nothing verifies: the graph begins anew as {state.tag}")
    return state


# ----------------------------------------------------------------------------------------------------- the originals


def keep_originals(files: Files, directory: str, at: float) -> str:
    """Keep the files in a new directory of their own, named by the time; returns its path."""
    stamp = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")
    base = kept = f"{directory}/salvage-{stamp}"
    number = 1
    try:
        while True:
            try:
                files.mkdir(kept)
                break
            except FileExistsError:
                number += 1
                kept = f"{base}-{number}"
        names = set(files.listdir(directory))
        for name in (SNAPSHOT, JOURNAL, SNAPSHOT + TEMPORARY, JOURNAL + TEMPORARY):
            if name in names:
                _keep(files, f"{directory}/{name}", f"{kept}/{name}")
        files.sync_directory(kept)
    except OSError as exc:
        raise StorageError.of(kept, exc) from exc
    return kept


def _keep(files: Files, source: str, target: str) -> None:
    """A second name for the file: its bytes are never written again, for the Store replaces it by rename.

    That works on a full disk and for a file that cannot be read. Where there are no hard links it is copied, and what
    cannot be copied either is moved.
    """
    try:
        files.link(source, target)
        return
    except OSError:
        pass
    try:
        _copy(files, source, target)
    except OSError as exc:
        forget(files, target)
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        files.rename(source, target)


def _copy(files: Files, source: str, target: str) -> None:
    fd = files.open_read(source)
    try:
        copy = files.create(target)
        try:
            offset = 0
            while chunk := files.read_at(fd, CHUNK, offset):
                write_all(files, copy, chunk)
                offset += len(chunk)
            files.fsync(copy)
        finally:
            files.close(copy)
    finally:
        files.close(fd)


# ------------------------------------------------------------------------------------------------------ what verifies


class _Lines:
    """The lines of a file that verify, with their numbers; remembers which do not, and never raises."""

    def __init__(self, files: Files, path: str) -> None:
        self._reader = LineReader(files, path)
        self.path = path
        self.left_out: list[tuple[int, str]] = []
        self.lost_bytes = 0
        self.newer = False

    def leave_out(self, number: int, line: bytes, reason: str) -> None:
        """Remember a line that is not taken."""
        self.left_out.append((number, reason))
        self.lost_bytes += len(line)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        number = 0
        reader = self._reader
        try:
            for lines in reader.batches():
                for line in lines:
                    number += 1
                    if not sealed(line):
                        self.leave_out(number, line, "the checksum does not match")
                    elif number == 1 and (named_format(line) or FORMAT) > FORMAT:
                        # Its lines may verify and yet mean something else.
                        self.newer = True
                        return
                    else:
                        yield number, line
        except OSError as exc:
            self.leave_out(number + 1, b"", f"unreadable from here on: {exc.strerror or exc}")
        if reader.rest:
            self.leave_out(number + 1, reader.rest, "cut short")

    def notes(self) -> list[str]:
        """What was left out, in sentences."""
        if self.newer:
            return [f"{self.path}: left out whole, its format is newer than this claimdagd reads"]
        notes = [f"{self.path}, line {number}: left out, {reason}" for number, reason in self.left_out[:NAMED_MAX]]
        if len(self.left_out) > NAMED_MAX:
            notes.append(f"{self.path}: {len(self.left_out) - NAMED_MAX} more lines are left out")
        return notes


def _take_snapshot(files: Files, path: str, taken: _Taken) -> None:
    lines = _Lines(files, path)
    promised: int | None = None
    finished = False
    for number, line in lines:
        try:
            if number == 1:
                header = decode_header(line)
                taken.tag, taken.snapshot_seq, taken.seq = header.graph, header.seq, header.seq
                taken.next_number, taken.capacities, taken.at = header.next, header.capacities, header.at
                promised = header.nodes
                continue
            if line.startswith(b'{"id":'):
                node = decode_node(line)
                if taken.foreign(node.id):
                    lines.leave_out(number, line, f"{node.id} is of another graph")
                    continue
                taken.nodes[node.id] = node
                taken.saw(node)
            elif line.startswith(b'{"once":'):
                remembered = decode_remembered(line)
                remember(taken.once, remembered.once, bytes(remembered.reply))
            else:
                footer = decode_footer(line)
                finished = True
                taken.snapshot_seq = taken.seq = footer.seq
                taken.next_number = max(taken.next_number, footer.next)
        except UNREADABLE as exc:
            lines.leave_out(number, line, f"not a line of a snapshot: {exc}")
    taken.lost_bytes += lines.lost_bytes
    taken.notes.extend(lines.notes())
    if promised is not None and promised != len(taken.nodes):
        taken.notes.append(f"{path}: {len(taken.nodes)} of its {promised} nodes verify")
    if not finished and not lines.newer:
        taken.notes.append(f"{path}: it has no last line, so more may be missing than is named here")


def _take_journal(files: Files, path: str, taken: _Taken) -> None:
    lines = _Lines(files, path)
    last: int | None = None
    count = 0
    for number, line in lines:
        try:
            if number == 1:
                header = decode_journal_header(line)
                if taken.tag is not None and header.graph != taken.tag:
                    taken.notes.append(f"{path}: left out whole, it is of graph {header.graph} and not {taken.tag}")
                    return
                taken.tag, last = header.graph, header.seq
                taken.next_number = max(taken.next_number, header.next)
                if header.seq > taken.seq:
                    taken.notes.append(f"{path}: entries {taken.seq + 1} to {header.seq} are missing before it")
                    taken.seq = header.seq
                continue
            record = decode_entry(line)
        except UNREADABLE as exc:
            lines.leave_out(number, line, f"not a line of a journal: {exc}")
            continue
        if last is not None and record.seq <= last:
            lines.leave_out(number, line, f"entry {record.seq} stands after entry {last}")
            continue
        if last is not None and record.seq > last + 1:
            missing = (
                f"entry {last + 1} is" if record.seq == last + 2 else f"entries {last + 1} to {record.seq - 1} are"
            )
            taken.notes.append(f"{path}, line {number}: {missing} missing before it")
        last = record.seq
        if any(taken.foreign(node.id) for node in record.nodes):
            lines.leave_out(number, line, "its nodes are of another graph")
        elif taken.snapshot_seq is None or record.seq > taken.snapshot_seq:
            _take_entry(taken, record)
            count += 1
    taken.lost_bytes += lines.lost_bytes
    taken.notes.extend(lines.notes())
    taken.notes.append(f"{path}: {count} entries are taken")


def _take_entry(taken: _Taken, record: Record) -> None:
    for node in record.nodes:
        old = taken.nodes.get(node.id)
        taken.saw(node)
        # A snapshot without its header may be newer than the entry.
        if taken.snapshot_seq is not None or old is None or node.updated_at >= old.updated_at:
            taken.nodes[node.id] = node
    for status, ids in record.flips.items():
        for node_id in ids:
            if node_id in taken.nodes:
                taken.nodes[node_id] = with_status(taken.nodes[node_id], status)
    for node_id in record.gone:
        taken.nodes.pop(node_id, None)
    if record.capacity:
        taken.capacities.update(record.capacity)
    if record.once is not None:
        remember(taken.once, record.once, bytes(record.reply))
    taken.seq = max(taken.seq, record.seq)
    taken.next_number = max(taken.next_number, record.next)
    taken.at = max(taken.at, record.at)
