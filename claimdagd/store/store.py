"""The state of one graph on disk: what the service appends to, and what takes its snapshots.

Synchronous and deterministic: no clock, no chance, no loop. In `process` mode what was written survives the daemon's
death; in `fsync` mode what was flushed by sync() survives the machine's.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Literal

from claimdagd.model import Node
from claimdagd.store.errors import StorageError
from claimdagd.store.files import Files, write_all
from claimdagd.store.journal import JOURNAL, TEMPORARY, Journal, Step, blocking, forget, let_go, make_new
from claimdagd.store.reader import Recovered
from claimdagd.store.snapshot import SNAPSHOT, SnapshotHead, encode_snapshot

#: Of the entries that a snapshot holds, the new journal keeps no more than this for the log.
LEDGER_BYTES = 4 * 1024 * 1024

Durability = Literal["process", "fsync"]


class Store:
    """Opens what `recover` read: removes left-overs and a torn tail, begins a journal where there is none.

    Raises StorageError where that cannot be done. The caller holds the directory's lock.
    """

    def __init__(self, files: Files, directory: str, durability: Durability, recovered: Recovered) -> None:
        self._files = files
        self._directory = directory
        self._path = f"{directory}/{SNAPSHOT}"
        self._durable = durability == "fsync"
        self._graph = recovered.tag
        self._at_work = False
        # How often entries were taken back: a snapshot must not hold one of them.
        self._undone = 0
        self._snapshot_seq = recovered.snapshot_seq
        #: Bytes of the snapshot in place; 0 without one.
        self.snapshot_bytes = recovered.snapshot_bytes
        self._journal = Journal(files, directory, graph=recovered.tag, durable=self._durable)
        for name in (SNAPSHOT, JOURNAL):
            forget(files, f"{directory}/{name}{TEMPORARY}")
        try:
            self._open(recovered)
        except (OSError, StorageError) as exc:
            self._journal.close()
            if isinstance(exc, OSError):
                raise StorageError.of(directory, exc) from exc
            raise

    def _open(self, recovered: Recovered) -> None:
        if recovered.salvaged:
            # Snapshot first: with the old journal beside it that is damage still, never a smaller graph.
            head = SnapshotHead(recovered.tag, recovered.seq, recovered.at, recovered.next_number, recovered.capacities)
            for _ in self._write(head, list(recovered.nodes.values()), list(recovered.once.items()), 0):
                pass
        if recovered.layout is None:
            self._journal.create(recovered.seq, recovered.next_number)
        else:
            self._journal.open(recovered.layout)

    @property
    def seq(self) -> int:
        """The number of the last entry written."""
        return self._journal.seq

    @property
    def flushed(self) -> int:
        """fsync mode: the number of the last entry that is known to be on disk."""
        return self._journal.flushed

    @property
    def broken(self) -> bool:
        """A failed write could not be taken back yet; the next append tries again before anything else."""
        return self._journal.broken

    @property
    def journal_bytes(self) -> int:
        """Bytes of the journal."""
        return self._journal.size

    def append(self, lines: Sequence[bytes]) -> None:
        """Write whole journal lines in one go. On StorageError none of them is in the file, and the next may work."""
        if lines:
            self._journal.append(lines)

    def sync(self) -> None:
        """fsync mode: flush everything written by now; blocks, so call it in a thread. See Journal.sync."""
        self._journal.sync()

    def mark(self) -> int:
        """The place that undo_to goes back to."""
        return self._journal.seq

    def undo_to(self, mark: int) -> None:
        """Drop the entries after `mark` (`flushed` is the one to take after a failed sync). See Journal.undo_to."""
        if mark < self._snapshot_seq:
            raise ValueError(f"entry {mark} is in the snapshot already, which holds all up to {self._snapshot_seq}")
        self._undone += 1
        self._journal.undo_to(mark)

    def snapshot(
        self, head: SnapshotHead, nodes: Iterable[Node], once: Iterable[tuple[str, bytes]], *, ledger: int = 0
    ) -> Generator[Step, None, int]:
        """Write a snapshot of the state after entry head.seq, then restart the journal with the entries after it.

        `nodes` are all that there were at head.seq. A sequence is read slice by slice as the generator is driven, and
        may be newer by then: the entries after head.seq are replayed over them. It yields None for a turn of the loop,
        or a Blocking call which the caller may make in a thread and may as well ignore. It returns the bytes of the
        snapshot. `ledger`: how many entries before head.seq the new journal keeps, for the log, as far as they are not
        too large to be read at every start. StorageError: nothing is lost, the files before stand, and appends go on.
        One at a time.
        """
        if not self._journal.base <= head.seq <= self.seq:
            raise ValueError(f"a snapshot at {head.seq} of a journal of {self._journal.base + 1} to {self.seq}")
        if not isinstance(nodes, Sequence):
            nodes = list(nodes)
        return self._snapshot(head, nodes, list(once), ledger, self._undone)

    def _snapshot(
        self, head: SnapshotHead, nodes: Sequence[Node], once: list[tuple[str, bytes]], ledger: int, undone: int
    ) -> Generator[Step, None, int]:
        if self._at_work:
            raise RuntimeError("a snapshot is being written already")
        self._at_work = True
        try:
            yield from self._write(head, nodes, once, undone)
            yield from self._journal.restart(self._journal.base_before(head.seq, ledger, LEDGER_BYTES), head.next)
        except OSError as exc:
            raise StorageError.of(self._path, exc) from exc
        finally:
            self._at_work = False
        return self.snapshot_bytes

    def _write(
        self, head: SnapshotHead, nodes: Sequence[Node], once: list[tuple[str, bytes]], undone: int
    ) -> Generator[Step]:
        """Put a snapshot in place; the journal still reaches back before it, which recovery allows for.

        It is given up if entries were taken back since `undone`, for it may hold them.
        """
        temporary = self._path + TEMPORARY
        held = self._hold_old()

        def release() -> None:
            while held:
                let_go(self._files, held.pop())

        fd, size = -1, 0
        try:
            fd = make_new(self._files, temporary)
            for block in encode_snapshot(head, nodes, once):
                write_all(self._files, fd, block)
                size += len(block)
                yield None
            if self._durable:
                yield from blocking(lambda: self._files.fsync(fd))
                if self._at_work and self._journal.flushed < self.seq:
                    # The nodes may be of any entry up to now, and a mutation is on disk whole or not at all.
                    yield from blocking(self._journal.sync)
            if self._undone != undone:
                raise StorageError(self._path, "entries were taken back while the snapshot was written")
            self._files.rename(temporary, self._path)
            temporary = ""
            self.snapshot_bytes, self._snapshot_seq = size, head.seq
            if self._durable:
                # The new journal must not come to stand on disk before the snapshot that it follows.
                yield from blocking(lambda: self._files.sync_directory(self._directory))
            yield from blocking(release)
        finally:
            if fd >= 0:
                let_go(self._files, fd)
            if temporary:
                forget(self._files, temporary)
            release()

    def _hold_old(self) -> list[int]:
        """Keep the old snapshot open, so that its room is given back by close() in a thread and not by rename()."""
        try:
            return [self._files.open_read(self._path)]
        except OSError:
            return []

    def close(self) -> None:
        """Close the files; nothing is flushed."""
        self._journal.close()
