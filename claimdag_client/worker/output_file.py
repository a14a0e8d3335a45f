"""The file of one attempt, bounded by leaving out its middle, and the thread that writes it.

The command must never wait for the disk: what the disk does not take in time is left out, and a mark says how much.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections import deque

from claimdag_client.outputs import mark_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: What waits for the disk at most.
QUEUED_MAX_BYTES = 4 << 20
#: How long the end of a command waits for the disk.
CLOSE_S = 2.0
LIMIT_MIN_BYTES = 4096


class OutputFile:
    """One file: its first half is kept, and as much of what came last as fits. Locked while it is open."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._limit = limit = max(limit, LIMIT_MIN_BYTES)
        self._head = limit // 2
        self._tail = limit // 4
        self._left_out = 0
        self._unwritten = 0
        self._size = 0
        self._descriptor = self._create(path)

    def _create(self, path: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o600)
        os.fchmod(descriptor, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor

    def write(self, data: bytes) -> None:
        """Append. What cannot be written is counted, and the count is written once there is room again."""
        for start in range(0, len(data), self._tail):
            piece = data[start : start + self._tail]
            try:
                if self._unwritten:
                    self._append(b"\n[claimdag: %d bytes could not be written]\n" % self._unwritten)
                    self._unwritten = 0
                self._append(piece)
            except OSError:
                self._unwritten += len(piece)

    def _append(self, data: bytes) -> None:
        if self._size + len(data) > self._limit:
            self._leave_out()
        written = 0
        while written < len(data):
            written += os.write(self._descriptor, data[written:])
        self._size += written

    def _leave_out(self) -> None:
        """Replace the file by one without the middle, for readers at one stroke."""
        head = os.pread(self._descriptor, self._head, 0)
        tail = os.pread(self._descriptor, self._tail, self._size - self._tail)
        left_out = self._left_out + self._size - len(head) - len(tail)
        if self._left_out:
            left_out -= len(mark_of(self._left_out))
        content = head + mark_of(left_out) + tail
        temporary = f"{self._path}.new"
        descriptor = self._create(temporary)
        try:
            os.write(descriptor, content)
            os.rename(temporary, self._path)
        except OSError:
            os.close(descriptor)
            os.unlink(temporary)
            raise
        os.close(self._descriptor)
        self._descriptor, self._size, self._left_out = descriptor, len(content), left_out

    def close(self) -> None:
        """Let followers know that nothing more comes."""
        os.close(self._descriptor)


class OutputWriter:
    """A thread that writes one file after another."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._file: OutputFile | None = None
        self._changed = threading.Condition()
        #: What waits for the disk: bytes, or a step to be made between them.
        self._queue: deque[bytes | Callable[[], None]] = deque()
        self._queued_bytes = 0
        self._left_out = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    self._changed.wait()
                item = self._queue.popleft()
                left_out = self._left_out if self._file is not None else 0
                self._left_out -= left_out
                if isinstance(item, bytes):
                    self._queued_bytes -= len(item)
            if left_out and self._file is not None:  # marked where it is missing
                self._file.write(b"\n[claimdag: %d bytes left out: the disk is too slow]\n" % left_out)
            if not isinstance(item, bytes):
                item()
            elif self._file is not None:
                self._file.write(item)

    def _put(self, item: bytes | Callable[[], None]) -> None:
        with self._changed:
            self._queue.append(item)
            self._changed.notify()

    def open(self, path: str) -> None:
        """Begin a file. If it cannot be made, nothing is kept."""

        def make() -> None:
            try:
                self._file = OutputFile(path, self._limit)
            except OSError:
                self._file = None

        self._put(make)

    def write(self, data: bytes) -> None:
        """Hand over what the command wrote; never waits. The oldest that the disk has not taken makes room."""
        with self._changed:
            self._queue.append(data)
            self._queued_bytes += len(data)
            if self._queued_bytes > QUEUED_MAX_BYTES:
                self._make_room()
            self._changed.notify()

    def _make_room(self) -> None:
        kept: deque[bytes | Callable[[], None]] = deque()
        for item in self._queue:
            if isinstance(item, bytes) and self._queued_bytes > QUEUED_MAX_BYTES:
                self._queued_bytes -= len(item)
                self._left_out += len(item)
            else:
                kept.append(item)
        self._queue = kept

    def close(self) -> None:
        """End the file, once it is written or the disk has had its time."""
        done = threading.Event()

        def end() -> None:
            if self._file is not None:
                self._file.close()
                self._file = None
            done.set()

        self._put(end)
        done.wait(CLOSE_S)
