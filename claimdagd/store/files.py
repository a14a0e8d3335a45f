"""The file operations of the store as a protocol, so that a test or a simulator can use a disk of its own.

Every operation raises OSError as the system does. No other module of the store may import `os`, and none may read a
clock.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Protocol

from claimdagd.descriptors import above_standard_streams

#: Device and inode, or the numbers by which a disk of a test distinguishes its files.
FileIdentity = tuple[int, int]
OWNER_MAY = stat.S_IRUSR | stat.S_IWUSR


class Files(Protocol):
    """A disk. File descriptors are ints; paths are absolute strings."""

    def open_read(self, path: str) -> int:
        """Open a regular file for reading."""
        ...

    def open_append(self, path: str) -> int:
        """Open an existing regular file for reading and for appending (O_APPEND)."""
        ...

    def create(self, path: str) -> int:
        """Make a new file, mode 0600, for reading and appending; FileExistsError if there is one."""
        ...

    def close(self, fd: int) -> None: ...

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        """Return at most `size` bytes from `offset`; none at the end."""
        ...

    def write(self, fd: int, data: bytes) -> int:
        """Append `data` in one system call; the count may be short."""
        ...

    def fsync(self, fd: int) -> None:
        """Flush the data, and as much of the metadata as is needed to read it back."""
        ...

    def truncate(self, fd: int, size: int) -> None: ...

    def size(self, fd: int) -> int: ...

    def same(self, path: str, fd: int) -> bool:
        """Return whether `path` names the file that `fd` is open on."""
        ...

    def identity(self, fd: int) -> FileIdentity:
        """Return what tells the file that `fd` is open on from every other one."""
        ...

    def identity_at(self, path: str) -> FileIdentity | None:
        """Return the same of what has the name `path`, a directory or other thing included; None if nothing has."""
        ...

    def intact(self, path: str, identity: FileIdentity, size: int) -> bool:
        """Return whether `path` names that file, of `size` bytes, and its owner may read and write it."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def link(self, source: str, target: str) -> None: ...

    def unlink(self, path: str) -> None: ...

    def mkdir(self, path: str) -> None:
        """Make a directory, mode 0700."""
        ...

    def listdir(self, path: str) -> list[str]: ...

    def sync_directory(self, path: str) -> None:
        """Flush the names in a directory: what was renamed or made there."""
        ...


class OsFiles:
    """The real disk."""

    def open_read(self, path: str) -> int:
        return self._open(path, os.O_RDONLY)

    def open_append(self, path: str) -> int:
        return self._open(path, os.O_RDWR | os.O_APPEND)

    def _open(self, path: str, flags: int) -> int:
        # O_NONBLOCK: a pipe of that name must be refused, not waited for.
        fd = above_standard_streams(os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK))
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a regular file", path)
        return fd

    def create(self, path: str) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = above_standard_streams(os.open(path, flags, 0o600))
        try:
            os.fchmod(fd, 0o600)  # the umask may have taken permissions away
        except OSError:
            os.close(fd)
            raise
        return fd

    def close(self, fd: int) -> None:
        os.close(fd)

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        os.fdatasync(fd)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def same(self, path: str, fd: int) -> bool:
        try:
            return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
        except FileNotFoundError:
            return False

    def identity(self, fd: int) -> FileIdentity:
        found = os.fstat(fd)
        return found.st_dev, found.st_ino

    def identity_at(self, path: str) -> FileIdentity | None:
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def intact(self, path: str, identity: FileIdentity, size: int) -> bool:
        # On the path of every batch: one system call, and no more objects than it makes.
        try:
            found = os.lstat(path)
        except OSError:
            return False
        return (
            found.st_size == size
            and found.st_ino == identity[1]
            and found.st_dev == identity[0]
            and found.st_mode & OWNER_MAY == OWNER_MAY
        )

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        os.link(source, target, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        os.mkdir(path, 0o700)

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def write_all(files: Files, fd: int, data: bytes) -> None:
    """Append the whole of `data`: one write, and more only if the system took less.

    A short write means that the disk is nearly full; the next one writes the rest or raises the reason.
    """
    written = files.write(fd, data)
    while written < len(data):
        count = files.write(fd, data[written:])
        if count <= 0:
            raise OSError(errno.EIO, "the disk took no more bytes")
        written += count


def close_quietly(files: Files, fd: int) -> None:
    """Close a file that is no longer needed, and ignore errors."""
    try:
        files.close(fd)
    except OSError:
        pass


def create_temp(files: Files, path: str) -> int:
    """Make a new, empty file, in place of any left-over of that name."""
    try:
        return files.create(path)
    except FileExistsError:
        files.unlink(path)
        return files.create(path)


def unlink_quietly(files: Files, path: str) -> None:
    """Remove a temporary file, and ignore errors: the next start removes it."""
    try:
        files.unlink(path)
    except OSError:
        pass
