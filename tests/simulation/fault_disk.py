"""Disks that fail on purpose: a file layer that breaks the Nth operation, and a disk in memory that outlives a process.

Both speak the store's Files protocol. Deterministic: no clock, no chance; what is to go wrong is said beforehand.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from claimdagd.store.files import FileIdentity, Files

T = TypeVar("T")

How = Literal["fail", "short", "tear", "kill", "kill_torn", "kill_after"]
#: What changes a disk, and so can be counted and broken. "any" counts them all together.
CHANGING = ("create", "write", "fsync", "truncate", "rename", "link", "unlink", "mkdir")


class Killed(BaseException):
    """The process died at this operation. Not an Exception: nothing in the project may survive it.

    What is left of the process in memory may still be cleaned up by the interpreter that plays it: to that the disk
    answers EIO, and does nothing.
    """


@dataclass(frozen=True)
class Fault:
    """What goes wrong at the `nth` (from 1) operation `op`, and, if persistent, at every one from there on.

    fail        nothing is done; OSError
    short       a write takes half of the bytes and says so; any other operation fails
    tear        a write takes half of the bytes, then OSError; any other operation is done, then OSError all the same
    kill        the process dies before the operation, kill_after: after it, kill_torn: half-way through a write
    """

    op: str
    nth: int
    how: How = "fail"
    persistent: bool = False
    code: int = errno.ENOSPC


class FaultyFiles:
    """A file layer over another one that goes wrong as told. `counts` tells how often each operation was asked for."""

    def __init__(self, inner: Files, *faults: Fault) -> None:
        self.inner = inner
        self.faults = list(faults)
        self.counts: Counter[str] = Counter()
        #: How many operations went wrong.
        self.struck = 0
        self.dead = False

    def arm(
        self, op: str, how: How = "fail", *, nth: int = 1, persistent: bool = False, code: int = errno.ENOSPC
    ) -> None:
        """Let the `nth` operation from now on go wrong."""
        self.faults.append(Fault(op, self.counts[op] + nth, how, persistent, code))

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.faults.clear()

    def _struck(self, op: str) -> Fault | None:
        self._alive()
        self.counts[op] += 1
        self.counts["any"] += 1
        for fault in self.faults:
            if fault.op in (op, "any"):
                count = self.counts[fault.op]
                if count == fault.nth or (fault.persistent and count > fault.nth):
                    self.struck += 1
                    return fault
        return None

    def _do(self, op: str, action: Callable[[], T]) -> T:
        fault = self._struck(op)
        if fault is None:
            return action()
        if fault.how in ("kill", "kill_torn"):
            self.dead = True
            raise Killed
        if fault.how in ("fail", "short"):
            raise OSError(fault.code, os.strerror(fault.code))
        if fault.how == "kill_after":
            try:
                action()
            finally:
                self.dead = True
                raise Killed
        action()
        raise OSError(fault.code, os.strerror(fault.code))

    def write(self, fd: int, data: bytes) -> int:
        fault = self._struck("write")
        if fault is None:
            return self.inner.write(fd, data)
        half = data[: len(data) // 2]
        if fault.how in ("short", "tear", "kill_torn") and half:
            self.inner.write(fd, half)
        if fault.how == "kill_after":
            self.inner.write(fd, data)
        if fault.how.startswith("kill"):
            self.dead = True
            raise Killed
        if fault.how == "short":
            return len(half)
        raise OSError(fault.code, os.strerror(fault.code))

    def create(self, path: str) -> int:
        made: list[int] = []

        def make() -> int:
            made.append(self.inner.create(path))
            return made[0]

        try:
            return self._do("create", make)
        except OSError:
            for fd in made:  # the file is there, and nobody was told of the descriptor
                self.inner.close(fd)
            raise

    def fsync(self, fd: int) -> None:
        self._do("fsync", lambda: self.inner.fsync(fd))

    def sync_directory(self, path: str) -> None:
        self._do("fsync", lambda: self.inner.sync_directory(path))

    def truncate(self, fd: int, size: int) -> None:
        self._do("truncate", lambda: self.inner.truncate(fd, size))

    def rename(self, source: str, target: str) -> None:
        self._do("rename", lambda: self.inner.rename(source, target))

    def link(self, source: str, target: str) -> None:
        self._do("link", lambda: self.inner.link(source, target))

    def unlink(self, path: str) -> None:
        self._do("unlink", lambda: self.inner.unlink(path))

    def mkdir(self, path: str) -> None:
        self._do("mkdir", lambda: self.inner.mkdir(path))

    # What only looks is let through, unless the process is dead.

    def _alive(self) -> Files:
        if self.dead:
            raise OSError(errno.EIO, "the process is dead")
        return self.inner

    def open_read(self, path: str) -> int:
        return self._alive().open_read(path)

    def open_append(self, path: str) -> int:
        return self._alive().open_append(path)

    def close(self, fd: int) -> None:
        if not self.dead:
            self.inner.close(fd)

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        return self._alive().read_at(fd, size, offset)

    def size(self, fd: int) -> int:
        return self._alive().size(fd)

    def same(self, path: str, fd: int) -> bool:
        return self._alive().same(path, fd)

    def identity(self, fd: int) -> FileIdentity:
        return self._alive().identity(fd)

    def identity_at(self, path: str) -> FileIdentity | None:
        return self._alive().identity_at(path)

    def intact(self, path: str, identity: FileIdentity, size: int) -> bool:
        return self._alive().intact(path, identity, size)

    def listdir(self, path: str) -> list[str]:
        return self._alive().listdir(path)


class _File:
    __slots__ = ("data", "flushed", "unreadable")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.flushed = b""
        self.unreadable = False


class Disk:
    """A disk in memory. It holds one directory tree and outlives the processes that use it.

    kill()        the process is gone: its descriptors are void, and all that it wrote is there
    cut_power()   the machine is gone: what was not flushed may be there or not, as told
    `capacity` is how many bytes fit, None for no limit: a write takes what fits, the next one gets ENOSPC. A file that
    lost its last name and its last descriptor gives its room back.
    """

    def __init__(self, *directories: str) -> None:
        self._names: dict[str, _File] = {}
        self._flushed_names: dict[str, _File] = {}
        # What happened to names since they were flushed: it reaches the disk in this order, as far as it does.
        self._name_changes: list[tuple[str, _File | None]] = []
        self._directories = set(directories)
        self._open: dict[int, _File] = {}
        self._next_fd = 1000
        self.capacity: int | None = None

    # ------------------------------------------------------------------------------------------ what befalls it

    def kill(self) -> None:
        """The process that used the disk is gone."""
        self._open.clear()

    def cut_power(self, *, name_changes_kept: int = 0, data_kept: bool = False) -> None:
        """The machine is gone. Keep the first so many unflushed changes of names, and unflushed data or not."""
        names = dict(self._flushed_names)
        for path, file in self._name_changes[:name_changes_kept]:
            if file is None:
                names.pop(path, None)
            else:
                names[path] = file
        self._names = names
        self._open.clear()
        self._name_changes.clear()
        for file in names.values():
            if not data_kept:
                file.data = bytearray(file.flushed)
            file.flushed = bytes(file.data)
        self._flushed_names = dict(names)

    @property
    def unflushed_names(self) -> int:
        """How many changes of names a power cut could undo."""
        return len(self._name_changes)

    def copy(self) -> Disk:
        """The same disk, as no process has it open."""
        twin = Disk(*self._directories)
        files = {id(f): f for f in [*self._names.values(), *self._flushed_names.values()]}
        files.update({id(f): f for _, f in self._name_changes if f is not None})
        twins: dict[int, _File] = {}
        for key, file in files.items():
            twins[key] = _File(bytes(file.data))
            twins[key].flushed, twins[key].unreadable = file.flushed, file.unreadable
        twin._names = {path: twins[id(f)] for path, f in self._names.items()}
        twin._flushed_names = {path: twins[id(f)] for path, f in self._flushed_names.items()}
        twin._name_changes = [(path, twins[id(f)] if f is not None else None) for path, f in self._name_changes]
        return twin

    def contents(self) -> dict[str, bytes]:
        """Every file's bytes, by path."""
        return {path: bytes(file.data) for path, file in self._names.items()}

    def put(self, path: str, data: bytes) -> None:
        """Set a file's bytes from outside, as damage does."""
        self._names[path] = _File(data)

    def make_unreadable(self, path: str) -> None:
        """Opening the file fails from now on."""
        self._names[path].unreadable = True

    @property
    def used(self) -> int:
        """How many bytes the files take up."""
        return sum(
            len(file.data) for file in {id(f): f for f in [*self._names.values(), *self._open.values()]}.values()
        )

    @property
    def open_files(self) -> int:
        """How many descriptors are open."""
        return len(self._open)

    # ------------------------------------------------------------------------------------------ the Files protocol

    def _file(self, fd: int) -> _File:
        try:
            return self._open[fd]
        except KeyError:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None

    def _find(self, path: str) -> _File:
        try:
            return self._names[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    def _descriptor(self, file: _File) -> int:
        self._next_fd += 1
        self._open[self._next_fd] = file
        return self._next_fd

    def _name(self, path: str, file: _File | None) -> None:
        if file is None:
            del self._names[path]
        else:
            self._names[path] = file
        self._name_changes.append((path, file))

    def open_read(self, path: str) -> int:
        file = self._find(path)
        if file.unreadable:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return self._descriptor(file)

    def open_append(self, path: str) -> int:
        return self.open_read(path)

    def create(self, path: str) -> int:
        if path in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if os.path.dirname(path) not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        file = _File()
        self._name(path, file)
        return self._descriptor(file)

    def close(self, fd: int) -> None:
        self._file(fd)
        del self._open[fd]

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(self._file(fd).data[offset : offset + size])

    def write(self, fd: int, data: bytes) -> int:
        file = self._file(fd)
        if self.capacity is not None:
            data = data[: max(0, self.capacity - self.used)]
            if not data:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        file.data += data
        return len(data)

    def fsync(self, fd: int) -> None:
        file = self._file(fd)
        file.flushed = bytes(file.data)

    def truncate(self, fd: int, size: int) -> None:
        file = self._file(fd)
        del file.data[size:]
        file.data.extend(bytes(size - len(file.data)))

    def size(self, fd: int) -> int:
        return len(self._file(fd).data)

    def same(self, path: str, fd: int) -> bool:
        return self._names.get(path) is self._file(fd)

    def identity(self, fd: int) -> FileIdentity:
        return 0, id(self._file(fd))

    def identity_at(self, path: str) -> FileIdentity | None:
        if path in self._directories:
            return 1, hash(path)
        file = self._names.get(path)
        return None if file is None else (0, id(file))

    def intact(self, path: str, identity: FileIdentity, size: int) -> bool:
        file = self._names.get(path)
        return file is not None and identity[1] == id(file) and len(file.data) == size and not file.unreadable

    def rename(self, source: str, target: str) -> None:
        file = self._find(source)
        self._names[target] = file
        del self._names[source]
        self._name_changes.append((target, file))
        self._name_changes.append((source, None))

    def link(self, source: str, target: str) -> None:
        file = self._find(source)
        if target in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        self._name(target, file)

    def unlink(self, path: str) -> None:
        self._find(path)
        self._name(path, None)

    def mkdir(self, path: str) -> None:
        if path in self._directories:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._directories.add(path)

    def listdir(self, path: str) -> list[str]:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        known = [*self._names, *self._directories]
        return sorted(os.path.basename(p) for p in known if os.path.dirname(p) == path and p != path)

    def sync_directory(self, path: str) -> None:
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._flushed_names = dict(self._names)
        self._name_changes.clear()
