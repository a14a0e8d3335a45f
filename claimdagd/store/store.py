"""The state of one graph on disk: the journal that the service appends to, and the snapshots.

Synchronous and deterministic: no clock, no chance, no loop. In `process` mode what was written survives the death of
the daemon; in `fsync` mode what sync() flushed survives the death of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Literal

from claimdagd.model import Node
from claimdagd.store.errors import StorageError
from claimdagd.store.files import FileIdentity, Files, close_quietly, create_temp, unlink_quietly, write_all
from claimdagd.store.journal import JOURNAL, TEMPORARY, Journal
from claimdagd.store.reader import Recovered
from claimdagd.store.snapshot import SNAPSHOT, SnapshotHead, encode_snapshot
from claimdagd.store.steps import Step, blocking

#: Of the entries that a snapshot holds, the new journal keeps no more than this for the log.
LEDGER_BYTES = 4 * 1024 * 1024

#: What is added to the name of a file that another program put in the place of one of ours.
REPLACED = ".replaced"
CHANGED_BY_OTHERS = "a file of the state was removed or changed by another program"

#: The whole state: head, nodes and the remembered answers.
Memory = tuple[SnapshotHead, Sequence[Node], Iterable[tuple[str, bytes]]]
Durability = Literal["process", "fsync"]


class Store:
    """Keeps what `recover` read: removes left-overs and a torn tail, and begins a journal if there is none.

    Raises StorageError if it cannot. The caller holds the lock of the directory.
    """

    def __init__(self, files: Files, directory: str, durability: Durability, recovered: Recovered) -> None:
        self._files = files
        self._directory = directory
        self._path = f"{directory}/{SNAPSHOT}"
        self._durable = durability == "fsync"
        self._graph = recovered.tag
        self._at_work = False
        # How often entries were rolled back: a snapshot must not hold one of them.
        self._undone = 0
        self._snapshot_seq = recovered.snapshot_seq
        # Kept open: the system may give the identity of a closed file to another one.
        self._snapshot_fd = -1
        self._snapshot_identity: FileIdentity | None = None
        #: Returns the whole state after the last entry. From it files that another program took away are written again.
        self.memory: Callable[[], Memory] | None = None
        #: Called with a sentence about what was written again.
        self.on_repair: Callable[[str], None] = _ignore
        #: Bytes of the snapshot in place; 0 without one.
        self.snapshot_bytes = recovered.snapshot_bytes
        self._journal = Journal(files, directory, graph=recovered.tag, durable=self._durable)
        for name in (SNAPSHOT, JOURNAL):
            unlink_quietly(files, f"{directory}/{name}{TEMPORARY}")
        try:
            self._open(recovered)
        except (OSError, StorageError) as exc:
            self.close()
            if isinstance(exc, OSError):
                raise StorageError.of(directory, exc) from exc
            raise

    def _open(self, recovered: Recovered) -> None:
        self._directory_identity = self._files.identity_at(self._directory)
        if recovered.snapshot_bytes:
            self._snapshot_fd = self._files.open_read(self._path)
            self._snapshot_identity = self._files.identity(self._snapshot_fd)
        if recovered.salvaged:
            # Snapshot first: with the old journal beside it that is damage still, never a smaller graph.
            head = SnapshotHead(
                recovered.tag,
                recovered.seq,
                recovered.at,
                recovered.next_number,
                recovered.capacities,
                recovered.paused,
            )
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
        """The number of the last entry that is known to be on disk, in fsync mode."""
        return self._journal.flushed

    @property
    def broken(self) -> bool:
        """Whether a failed write could not be undone yet; the next append tries that first."""
        return self._journal.broken

    @property
    def journal_bytes(self) -> int:
        """The bytes of the journal."""
        return self._journal.size

    def append(self, lines: Sequence[bytes]) -> None:
        """Write whole journal lines in one go, and check that both files are as they were written.

        On StorageError none of the lines is in the file, and the next call may work.
        """
        if not lines:
            return
        journal = self._journal
        before = journal.seq
        if journal.broken:
            self._check_directory()  # the repair may make a file there
        intact = False
        if not journal.lost:
            try:
                intact = journal.append(lines)
            except StorageError:
                if not journal.lost:
                    raise
        if journal.lost:
            journal.count(lines)
        identity = self._snapshot_identity
        if intact and (identity is None or self._files.intact(self._path, identity, self.snapshot_bytes)):
            return
        try:
            self._put_right()
        except StorageError:
            journal.forget_after(before)
            raise

    def check(self) -> None:
        """Check that both files are as they were written, or write them again. Raises StorageError.

        The memory must hold no mutation that was not appended.
        """
        if self._journal.lost or not (self._journal.broken or self._intact()):
            self._put_right()

    def _intact(self) -> bool:
        identity = self._snapshot_identity
        return self._journal.intact and (
            identity is None or self._files.intact(self._path, identity, self.snapshot_bytes)
        )

    def _put_right(self) -> None:
        """Write again what another program removed, replaced, cut or closed: from the open journal, or from memory."""
        journal, path = self._journal, self._journal.path
        self._check_directory()
        try:
            self._set_aside(path, journal.identity)
            snapshot = self._snapshot_identity
            if snapshot is not None:
                self._set_aside(self._path, snapshot)
            if snapshot is None or self._files.intact(self._path, snapshot, self.snapshot_bytes):
                try:
                    journal.rewrite()
                except StorageError:
                    if not journal.lost:
                        raise
                else:
                    self.on_repair(f"{path}: {CHANGED_BY_OTHERS}; it was written anew, and nothing is lost")
                    return
            self._write_from_memory()
        except OSError as exc:
            raise StorageError.of(self._directory, exc) from exc

    def _write_from_memory(self) -> None:
        if self.memory is None:
            raise StorageError(self._directory, f"{CHANGED_BY_OTHERS}")
        head, nodes, once = self.memory()
        self._undone += 1  # a snapshot under way has lost its temporary file
        for _ in self._write(head, nodes, list(once), self._undone):
            pass
        self._journal.create(head.seq, head.next)
        self.on_repair(
            f"{self._directory}: {CHANGED_BY_OTHERS}; they were written anew from memory, and"
            f" nothing is lost but the log up to entry {head.seq}"
        )

    def _check_directory(self) -> None:
        if self._files.identity_at(self._directory) != self._directory_identity:
            raise StorageError(self._directory, "the directory is no longer this daemon's own")

    def _set_aside(self, path: str, ours: FileIdentity) -> None:
        """Rename a file that another program put in the place of one of ours."""
        found = self._files.identity_at(path)
        if found is not None and found != ours:
            self._files.rename(path, path + REPLACED)

    def sync(self) -> None:
        """Flush everything written by now, in fsync mode. Blocks, so call it in a thread. See Journal.sync."""
        self._journal.sync()

    def undo_to(self, mark: int) -> None:
        """Drop the entries after `mark`, which is `flushed` after a failed sync. See Journal.undo_to."""
        if mark < self._snapshot_seq:
            raise ValueError(f"entry {mark} is in the snapshot already, which holds all up to {self._snapshot_seq}")
        self._undone += 1
        self._journal.undo_to(mark)

    def snapshot(
        self, head: SnapshotHead, nodes: Iterable[Node], once: Iterable[tuple[str, bytes]], *, ledger: int = 0
    ) -> Generator[Step, None, int]:
        """Write a snapshot of the state after entry head.seq, then rotate the journal to the entries after it.

        `nodes` are all that there were at head.seq. A sequence is read slice by slice as the generator is driven, and
        may be newer by then: the entries after head.seq are replayed over them. It yields None for a turn of the loop,
        or a BlockingCall, which the caller may make in a thread or ignore. It returns the bytes of the
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
            yield from self._journal.rotate(self._journal.base_before(head.seq, ledger, LEDGER_BYTES), head.next)
        except OSError as exc:
            raise StorageError.of(self._path, exc) from exc
        finally:
            self._at_work = False
        return self.snapshot_bytes

    def _write(
        self, head: SnapshotHead, nodes: Sequence[Node], once: list[tuple[str, bytes]], undone: int
    ) -> Generator[Step]:
        """Put a snapshot in place; the journal still reaches back before it, which recovery allows for.

        It is given up if entries were rolled back since `undone`, because it may hold them.
        """
        temporary = self._path + TEMPORARY
        replaced: list[int] = []

        def release() -> None:
            while replaced:
                close_quietly(self._files, replaced.pop())

        fd = create_temp(self._files, temporary)
        try:
            size = yield from self._write_blocks(fd, head, nodes, once)
            if self._undone != undone:
                raise StorageError(self._path, "entries were rolled back while the snapshot was written")
            self._rename(temporary, fd)
            temporary = ""
            self.snapshot_bytes, self._snapshot_seq = size, head.seq
            self._snapshot_identity = self._files.identity(fd)
            if self._snapshot_fd >= 0:
                replaced.append(self._snapshot_fd)
            self._snapshot_fd, fd = fd, -1
            if self._durable:
                # The new journal must not be on disk before the snapshot that it follows.
                yield from blocking(lambda: self._files.sync_directory(self._directory))
            # To close the old one frees its room, which may take long.
            yield from blocking(release)
        finally:
            if fd >= 0:
                close_quietly(self._files, fd)
            if temporary:
                unlink_quietly(self._files, temporary)
            release()

    def _write_blocks(
        self, fd: int, head: SnapshotHead, nodes: Sequence[Node], once: list[tuple[str, bytes]]
    ) -> Generator[Step, None, int]:
        """Write the whole snapshot, and flush what must be on disk before it has its name; return its bytes."""
        size = 0
        for block in encode_snapshot(head, nodes, once):
            write_all(self._files, fd, block)
            size += len(block)
            yield None
        if self._durable:
            yield from blocking(lambda: self._files.fsync(fd))
            if self._at_work and self._journal.flushed < self.seq:
                # The nodes may be of any entry up to now, and a mutation is on disk whole or not at all.
                yield from blocking(self._journal.sync)
        return size

    def _rename(self, temporary: str, fd: int) -> None:
        try:
            self._files.rename(temporary, self._path)
        except OSError:
            # Some systems report a failure after the fact.
            if not self._files.same(self._path, fd):
                raise

    def close(self) -> None:
        """Close the files; nothing is flushed."""
        self._journal.close()
        if self._snapshot_fd >= 0:
            close_quietly(self._files, self._snapshot_fd)
            self._snapshot_fd = -1


def _ignore(_: str) -> None:
    pass
