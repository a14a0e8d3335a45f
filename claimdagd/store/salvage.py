"""Gets a state out of damaged files: keeps the originals, takes what verifies, says what was left out.

What was lost may have minted ids, moved generations and numbered entries. So all three jump ahead by more than the
lost part can have used, and no claim is kept: ids are never reused, generations never go
back, and a holder from before is fenced. Files that cannot be read, or are of another format, are not damaged: they are
refused here too, before anything is written.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from datetime import UTC, datetime

from claimdagd.model import number_of
from claimdagd.store.errors import CorruptState, StorageError
from claimdagd.store.files import Files, unlink_quietly, write_all
from claimdagd.store.framing import CHUNK
from claimdagd.store.journal import JOURNAL, TEMPORARY
from claimdagd.store.reader import Recovered, StateReader
from claimdagd.store.repair import NAMED_MAX, repair
from claimdagd.store.snapshot import SNAPSHOT

#: How far ids, generations and entry numbers jump, besides one for every LOST_BYTES that did not verify.
MARGIN = 1_000_000
LOST_BYTES = 64


class CollectFaults:
    """Leave out what does not verify, and remember it for the notes."""

    tolerant = True

    def __init__(self) -> None:
        self.lost_bytes = 0
        self._left_out: dict[str, list[str]] = {}

    def line(self, path: str, number: int, line: bytes, reason: str) -> None:
        """Leave out a line."""
        self._left_out.setdefault(path, []).append(f"{path}, line {number}: left out, {reason}")
        self.lost_bytes += len(line)

    def file(self, path: str, number: int | None, reason: str) -> None:
        """Note what is missing."""
        where = path if number is None else f"{path}, line {number}"
        self._left_out.setdefault(path, []).append(f"{where}: {reason}")

    def notes(self) -> list[str]:
        """Return what was left out of each file, in sentences, the first ones one by one."""
        told: list[str] = []
        for path, faults in self._left_out.items():
            told.extend(faults[:NAMED_MAX])
            if len(faults) > NAMED_MAX:
                told.append(f"{path}: {len(faults) - NAMED_MAX} more faults are not listed")
        return told


def salvage_state(
    files: Files, directory: str, damage: CorruptState, *, new_tag: Callable[[], str], at: float
) -> Recovered:
    """Return what can be had from `directory`, whose files raised `damage`; the originals are kept aside.

    Nothing else is written here: the Store puts the salvaged state in their place. Raises StateError if a file cannot
    be read or is of another format, and StorageError if the originals cannot be kept.
    """
    faults = CollectFaults()
    reader = StateReader(files, directory, faults)
    state = reader.read() or Recovered()
    state.notes = [
        damage.what,
        f"the files as they were are kept in {keep_originals(files, directory, at)}",
        *faults.notes(),
        f"{directory}/{JOURNAL}: {reader.entries} entries are taken",
    ]
    _leap_ahead(state, faults.lost_bytes, new_tag)
    state.at = max(state.at, at)
    state.ledger, state.layout, state.salvaged = [], None, True
    state.snapshot_bytes = state.snapshot_seq = 0
    return state


def _leap_ahead(state: Recovered, lost_bytes: int, new_tag: Callable[[], str]) -> None:
    """Number everything on from beyond what the lost part can have used, and hand back every claim."""
    margin = MARGIN + lost_bytes // LOST_BYTES
    top_gen = max((node.gen for node in state.nodes.values()), default=1)
    top_number = max(map(number_of, state.nodes), default=0)
    gen = top_gen + margin
    state.notes.extend(repair(state.nodes, gen))
    if not state.tag:
        state.tag, state.seq, state.next_number = new_tag(), 0, 1
        state.notes.append(f"nothing verifies: the graph begins anew as {state.tag}")
        return
    state.seq += margin
    state.next_number = max(state.next_number, top_number + 1) + margin
    state.notes.append(
        f"{len(state.nodes)} nodes are salvaged. What was lost cannot be known, so every claim is handed back,"
        f" every generation is now {gen}, ids go on from {state.tag}-{state.next_number} and entries from"
        f" {state.seq + 1}; answers to `once` tokens and pauses in the lost part are forgotten, and the log begins anew"
    )


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
        unlink_quietly(files, target)
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
