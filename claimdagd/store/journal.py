"""Writes the journal file: append with exact restore, group flush, rollback, and rotation by rename.

One rule holds for every method: if something fails, the file is as it was or is marked `broken`, and then nothing is
appended until a later call has repaired it. The open descriptor, not the name, is the truth: a journal that lost its
name is written again from the descriptor.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from threading import Lock

from claimdagd.store.entry import encode_journal_header
from claimdagd.store.errors import StorageError
from claimdagd.store.files import FileIdentity, Files, close_quietly, create_temp, unlink_quietly, write_all
from claimdagd.store.framing import CHUNK
from claimdagd.store.steps import Step, blocking

JOURNAL = "journal.jsonl"
TEMPORARY = ".tmp"


def no_ends() -> array[int]:
    """Return an empty table of byte offsets."""
    return array("Q")


@dataclass(slots=True)
class Layout:
    """Where the entries of a journal file are: the first is `base` + 1, and entry base+1+i ends before byte ends[i].

    `next_number` is the next id number by the header.
    """

    base: int
    next_number: int
    header_bytes: int
    ends: array[int] = field(default_factory=no_ends)

    @property
    def size(self) -> int:
        """The bytes up to the end of the last whole entry."""
        return self.ends[-1] if self.ends else self.header_bytes

    @property
    def seq(self) -> int:
        """The number of the last entry."""
        return self.base + len(self.ends)

    def end_of(self, seq: int) -> int:
        """Return the offset behind entry `seq`, which may be `base`."""
        return self.ends[seq - self.base - 1] if seq > self.base else self.header_bytes


class Journal:
    """One journal file, open for appending.

    `flushed` is the last entry known to be on disk in fsync mode; in process mode it means nothing.
    """

    def __init__(self, files: Files, directory: str, *, graph: str, durable: bool) -> None:
        self._files = files
        self._directory = directory
        self.path = f"{directory}/{JOURNAL}"
        self._graph = graph
        self._durable = durable
        self._layout = Layout(0, 1, 0)
        self._fd = -1
        #: What tells the file from every other one.
        self.identity: FileIdentity = (0, 0)
        self.broken = False
        # The bytes of entries before the last are no longer in the file: it can only be begun anew.
        self.lost = False
        self.flushed = 0
        # Incremented when the file, or what was copied out of it, is no longer valid.
        self._epoch = 0
        # Incremented when entries are dropped: another entry may get the number of one whose flush is under way.
        self._undone = 0
        # A flush runs in a thread: its descriptor is closed only after it.
        self._lock = Lock()
        self._flushing = 0
        self._retired: list[int] = []
        self._names_unflushed = False

    @property
    def seq(self) -> int:
        """The number of the last entry."""
        return self._layout.seq

    @property
    def base(self) -> int:
        """The number of the entry before the first one in the file."""
        return self._layout.base

    @property
    def size(self) -> int:
        """The bytes in the file."""
        return self._layout.size

    def base_before(self, seq: int, entries: int, size_bytes: int) -> int:
        """Return the base of a journal that begins at most so many entries, and so many bytes, before entry `seq`."""
        base, end = max(self.base, seq - entries), self._layout.end_of(seq)
        while end - self._layout.end_of(base) > size_bytes:
            base += 1
        return base

    def open(self, layout: Layout) -> None:
        """Open the file that recovery read, and cut what follows the last whole entry."""
        try:
            self._fd = self._files.open_append(self.path)
            if self._files.size(self._fd) != layout.size:
                self._files.truncate(self._fd, layout.size)
            if self._durable:
                # What the last daemon wrote and never flushed is about to be shown to clients.
                self._files.fsync(self._fd)
                self._files.sync_directory(self._directory)
        except OSError as exc:
            raise StorageError.of(self.path, exc) from exc
        self._layout = layout
        self.identity = self._files.identity(self._fd)
        self.flushed = layout.seq

    def create(self, seq: int, next_number: int) -> None:
        """Begin a journal without entries, in place of any file of its name; the first entry will be `seq` + 1."""
        before, self._layout = self._layout, Layout(seq, next_number, 0)
        self._epoch += 1  # a rotation that waits for its turn has lost its temporary file to this one
        try:
            for _ in self.rotate(seq, next_number):
                pass
        except BaseException:
            self._layout = before
            raise

    @property
    def intact(self) -> bool:
        """Whether the name still leads to this file, and the file has the size that this journal wrote."""
        return self._files.intact(self.path, self.identity, self.size)

    def count(self, lines: Sequence[bytes]) -> None:
        """Number lines without writing them: the journal is lost, and a snapshot will hold the state after them."""
        end = self.size
        for line in lines:
            end += len(line)
            self._layout.ends.append(end)

    def rewrite(self) -> None:
        """Write the file anew under its name from the open descriptor. Raises StorageError."""
        try:
            if self._files.size(self._fd) != self.size:
                self.lost = True
                raise StorageError(self.path, "another program changed what was written to it")
            self.broken = True
            self._rewrite()
        except OSError as exc:
            if self.broken:
                raise StorageError.of(self.path, exc) from exc

    def forget_after(self, seq: int) -> None:
        """Drop the entries after `seq`, from the file too if it holds them, whether or not it has its name."""
        try:
            whole, end = self._files.size(self._fd) == self.size, self._layout.end_of(seq)
            del self._layout.ends[seq - self.base :]
            if whole:
                self._files.truncate(self._fd, end)
        except OSError:
            self.broken = True

    def append(self, lines: Sequence[bytes]) -> bool:
        """Write whole lines, numbered on from `seq`, in one go; return whether the file is `intact` after that.

        On StorageError none of them is in the file. ValueError is a bug of the caller: a journal whose lines do not
        follow each other cannot be read.
        """
        layout = self._layout
        seq = layout.base + len(layout.ends)
        for line in lines:
            seq += 1
            if not line.startswith(b'{"seq":%d,' % seq) or not line.endswith(b"}\n"):
                raise ValueError(f"not journal entry {seq}: {line[:80]!r}")
        if self.broken:
            self.repair()
            layout = self._layout
        # Broken until the write has succeeded, also if an exception of any kind ends this function.
        self.broken = True
        try:
            write_all(self._files, self._fd, lines[0] if len(lines) == 1 else b"".join(lines))
        except OSError as exc:
            try:
                self.repair()
            except StorageError:
                pass  # stays broken: a later call tries again
            raise StorageError.of(self.path, exc) from exc
        self.broken = False
        ends = layout.ends
        end = ends[-1] if ends else layout.header_bytes
        for line in lines:
            end += len(line)
            ends.append(end)
        return self._files.intact(self.path, self.identity, end)

    def repair(self) -> None:
        """Restore the file to its whole entries: cut it, or write it again under its name."""
        try:
            if not self._cut():
                self._rewrite()
        except OSError as exc:
            if not self.broken:
                return  # only the new name is not flushed yet: the next sync() does it
            raise StorageError.of(self.path, exc) from exc

    def _cut(self) -> bool:
        try:
            if not self._files.same(self.path, self._fd) or self._is_short():
                return False
            self._files.truncate(self._fd, self.size)
            if self._durable:
                self._files.fsync(self._fd)
        except OSError:
            return False
        self.broken = False
        return True

    def _is_short(self) -> bool:
        """Note whether another program has cut the file: to extend it would put zeros in place of the entries."""
        self.lost = self._files.size(self._fd) < self.size
        return self.lost

    def _rewrite(self) -> None:
        if self._is_short():
            raise StorageError(self.path, "the journal is shorter than what was written to it")
        self._epoch += 1  # a rotation that waits for its turn has lost its temporary file to this one
        for _ in self.rotate(self.base, self._layout.next_number):
            pass

    def undo_to(self, seq: int) -> None:
        """Drop the entries after `seq`, whose flush failed. They are dropped even on StorageError.

        Without the error the file is as it was before them; with it the journal is broken until repaired.
        """
        if not self.base <= seq <= self.seq:
            raise ValueError(f"entry {seq} is not in the journal, which holds {self.base + 1} to {self.seq}")
        with self._lock:
            del self._layout.ends[seq - self.base :]
            self._undone += 1
        self._epoch += 1
        self.broken = True
        self.repair()

    def sync(self) -> None:
        """Flush all entries written by now. Blocks; may run in a thread beside every other method.

        After a StorageError the entries after `flushed` may or may not be on disk: undo them.
        """
        with self._lock:
            fd, target, undone = self._fd, self.seq, self._undone
            self._flushing += 1
        try:
            self._files.fsync(fd)
            self._sync_names()
        except OSError as exc:
            # A rotation meanwhile may have flushed these entries in the new file.
            if self.flushed < target:
                raise StorageError.of(self.path, exc) from exc
        else:
            self._flushed_to(target, undone)
        finally:
            with self._lock:
                self._flushing -= 1
            self._close_retired()

    def _flushed_to(self, seq: int, undone: int) -> None:
        """Record that `seq` is durable, unless entries were rolled back since the flush began."""
        with self._lock:
            if self._undone == undone:
                self.flushed = max(self.flushed, seq)

    def _sync_names(self) -> None:
        """Flush the directory: until then a power cut may take a new journal with its entries."""
        if self._names_unflushed:
            self._names_unflushed = False
            try:
                self._files.sync_directory(self._directory)
            except OSError:
                self._names_unflushed = True
                raise

    def rotate(self, base: int, next_number: int) -> Generator[Step]:
        """Put a new file that begins after entry `base` in place, by rename; appends may go on between the steps.

        On error the old file stays in use; if that is uncertain, `broken` is set.
        """
        layout = self._layout
        temporary = self.path + TEMPORARY
        header = encode_journal_header(self._graph, base, next_number)
        shift = layout.end_of(base) - len(header)
        fd = create_temp(self._files, temporary)
        in_place = False
        try:
            write_all(self._files, fd, header)
            yield from self._copy_entries(fd, layout, base)
            self._names_unflushed = self._durable
            self._rename(temporary, fd)
            in_place = True
        finally:
            if not in_place:
                close_quietly(self._files, fd)
                unlink_quietly(self._files, temporary)
        ends = array("Q", [end - shift for end in layout.ends[base - layout.base :]])
        self._take_over(fd, Layout(base, next_number, len(header), ends))
        if self._durable:
            seq, undone = self.seq, self._undone
            yield from blocking(self._sync_names)
            self._flushed_to(seq, undone)
        yield from blocking(self._close_retired)

    def _copy_entries(self, fd: int, layout: Layout, base: int) -> Generator[Step]:
        """Copy the entries after `base`, those appended meanwhile too. After the last step nothing is left to copy."""
        epoch = self._epoch
        copied = layout.end_of(base)
        step = CHUNK
        while (left := layout.size - copied) > step:
            copied = self._copy(fd, copied, copied + step)
            yield None
            self._still(epoch)
            if layout.size - copied >= left:
                step *= 2  # appends outrun the copying: it would never end
        if self._durable:
            copied = self._copy(fd, copied, layout.size)
            yield from blocking(lambda: self._files.fsync(fd))
            self._still(epoch)
        # No turn of the loop from here to the rename: what is copied now is all there is.
        if copied < layout.size:
            self._copy(fd, copied, layout.size)
            if self._durable:
                self._files.fsync(fd)

    def _take_over(self, fd: int, layout: Layout) -> None:
        """Use the new file from now on."""
        self._layout = layout
        self.identity = self._files.identity(fd)
        self._epoch += 1
        self.broken = self.lost = False
        with self._lock:
            if self._fd >= 0:
                self._retired.append(self._fd)
            self._fd = fd

    def _copy(self, fd: int, start: int, end: int) -> int:
        while start < end:
            data = self._files.read_at(self._fd, min(CHUNK, end - start), start)
            if not data:
                raise StorageError(self.path, "the journal is shorter than what was written to it")
            write_all(self._files, fd, data)
            start += len(data)
        return end

    def _still(self, epoch: int) -> None:
        if self._epoch != epoch:
            raise StorageError(self.path, "the journal was rolled back or replaced while it was being copied")

    def _rename(self, temporary: str, fd: int) -> None:
        try:
            self._files.rename(temporary, self.path)
        except OSError:
            # Some systems report a failure after the fact. To go on with the wrong file would lose every entry.
            try:
                if self._files.same(self.path, fd):
                    return
            except OSError:
                self.broken = True
            raise

    def _close_retired(self) -> None:
        """Close the files that no flush in a thread uses any more. To free a large file takes long."""
        with self._lock:
            if self._flushing:
                return  # which does it when it is through
            retired, self._retired = self._retired, []
        for fd in retired:
            close_quietly(self._files, fd)

    def close(self) -> None:
        """Close the file; nothing is flushed."""
        with self._lock:
            if self._fd >= 0:
                self._retired.append(self._fd)
                self._fd = -1
        self._close_retired()
