"""The files that keep what commands wrote: where they are, how they are read and followed, and which ones go.

One file for each attempt at a node, `DIR/output/ID.ATTEMPT.log`. It is bounded: what is left out of the middle is
replaced by a mark that counts it. Whoever writes a file holds a lock on it until the attempt has ended. Nobody but the
worker's side writes or removes them: the daemon knows no commands. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat

from claimdagd import paths
from claimdagd.descriptors import above_standard_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator

READ_BYTES = 1 << 16
_NAME = re.compile(r"([0-9a-z]{4}-[0-9]{1,18})\.([0-9]{1,9})\.log")
#: Escape sequences of terminals: what sets colours, moves the cursor or names the window.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
#: How far back the last lines of a file are looked for.
LAST_BYTES = 1 << 14
_MARK = re.compile(rb"\n\[claimdag: ([0-9]+) bytes left out\]\n")


class Mark:
    """Where bytes were left out: the offset and length of the mark, and how many bytes it stands for."""

    __slots__ = ("left_out", "length", "offset")

    def __init__(self, offset: int, length: int, left_out: int) -> None:
        self.offset = offset
        self.length = length
        self.left_out = left_out


def output_directory(directory: str | None, socket: str) -> str:
    """Return the directory of the output files of the daemon at `socket`.

    It is beside the socket, unless the caller named the daemon's directory or the socket has a place of its own.
    """
    if directory is None:
        beside, name = os.path.split(socket)
        directory = beside if name == "sock" else None
    return os.path.join(paths.choose_directory(directory, os.environ, os.getuid()), "output")


def file_name(id: str, attempt: int) -> str:
    """Return the name of the file of one attempt."""
    return f"{id}.{attempt}.log"


def make_output_directory(path: str) -> None:
    """Make the directory for output files. Raises OSError, also if it is not this user's own."""
    paths.make_directory(path)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise NotADirectoryError(20, "it is not a directory of this user", path)


def mark_of(left_out: int) -> bytes:
    """Return the mark that stands for so many bytes."""
    return b"\n[claimdag: %d bytes left out]\n" % left_out


def find_mark(data: bytes) -> Mark | None:
    """Return the first mark in the content of a file."""
    found = _MARK.search(data)
    return found and Mark(found.start(), found.end() - found.start(), int(found[1]))


def attempts_of(directory: str, id: str) -> list[int]:
    """Return the attempts at a node whose output is kept, in order."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    found = (_NAME.fullmatch(name) for name in names)
    return sorted(int(match[2]) for match in found if match and match[1] == id)


def open_output(directory: str, id: str, attempt: int) -> int:
    """Open a file for reading. Raises OSError."""
    path = os.path.join(directory, file_name(id, attempt))
    return above_standard_streams(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK))


def without_escapes(data: bytes) -> str:
    """Return what a command wrote as text without a terminal's escape sequences; other controls are left in it."""
    return _ESCAPES.sub("", data.decode(errors="replace"))


def last_lines(directory: str, id: str, count: int) -> tuple[int, list[str]]:
    """Return the last attempt at a node whose output is kept, and its last lines that are not blank; 0 if none is.

    Of a line that was written over, as progress bars are, what was written last is returned.
    """
    attempts = attempts_of(directory, id)
    if not attempts:
        return 0, []
    try:
        descriptor = open_output(directory, id, attempts[-1])
        try:
            size = os.fstat(descriptor).st_size
            data = os.pread(descriptor, LAST_BYTES, max(0, size - LAST_BYTES))
        finally:
            os.close(descriptor)
    except OSError:
        return 0, []  # It was removed in the meantime.
    if size > LAST_BYTES:
        # Its first line may be half of one.
        data = data.partition(b"\n")[2] or data
    lines = [line.rstrip().rpartition("\r")[2] for line in without_escapes(data).split("\n")]
    return attempts[-1], [line for line in lines if line.strip()][-count:]


def being_written(descriptor: int) -> bool:
    """Tell whether the attempt that writes this file still runs."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


class Follower:
    """Reads one file from its first byte on while it grows, over the replacements that leave out its middle."""

    def __init__(self, directory: str, id: str, attempt: int) -> None:
        self._where = (directory, id, attempt)
        self._descriptor = open_output(directory, id, attempt)
        self._offset = 0
        #: How many bytes the command had written up to here, those left out included.
        self._written = 0
        self._seen_mark = False

    def read(self) -> Iterator[bytes]:
        """Give everything that was written since the last call."""
        while True:
            replaced = self._replacement()
            yield from self._read_rest()
            if replaced is None:
                return
            os.close(self._descriptor)
            self._descriptor = replaced
            content = os.pread(replaced, os.fstat(replaced).st_size, 0)
            mark = find_mark(content)
            if mark is None:
                return
            tail = mark.offset + mark.length
            self._offset = self._written - mark.left_out + mark.length
            if self._offset < tail:
                yield mark_of(tail - self._offset)
                self._offset = tail
                self._written = mark.offset + mark.left_out

    def ended(self) -> bool:
        """Tell whether nothing more will be written. Everything that was is given by one further `read`."""
        return not being_written(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def _replacement(self) -> int | None:
        try:
            descriptor = open_output(*self._where)
        except OSError:
            return None  # It was removed: what was open can still be read.
        if os.path.sameopenfile(descriptor, self._descriptor):
            os.close(descriptor)
            return None
        return descriptor

    def _read_rest(self) -> Iterator[bytes]:
        first = self._offset == 0
        while data := os.pread(self._descriptor, READ_BYTES if not first else 1 << 30, self._offset):
            self._offset += len(data)
            self._written += len(data)
            if first and (mark := find_mark(data)) is not None:
                self._written += mark.left_out - mark.length
            first = False
            yield data


def sweep(directory: str, known: Container[str], total_bytes: int) -> None:
    """Remove the files of nodes that are not known any more, then the oldest until the rest fits `total_bytes`."""
    kept: list[tuple[float, int, str]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match is None:
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if match[1] in known:
                kept.append((found.st_mtime, found.st_size, entry.path))
            else:
                _remove_if_ended(entry.path)
    excess = sum(size for _, size, _ in kept) - total_bytes
    for _, size, path in sorted(kept):
        if excess <= 0:
            break
        if _remove_if_ended(path):
            excess -= size


def _remove_if_ended(path: str) -> bool:
    try:
        descriptor = above_standard_streams(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK))
        try:
            if being_written(descriptor):
                return False
        finally:
            os.close(descriptor)
        os.unlink(path)
    except OSError:
        return False
    return True
