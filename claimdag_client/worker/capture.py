"""What a command writes: read from its pipes, shown, and kept in a file. Inside a supervisor; no event loop.

`work` gives a command one pipe for both streams, so that their order is kept, and shows whole lines with the node's id
before them. `run` shows every byte as it came on the stream that it came on, and uses one pipe only if its own two
streams lead to the same place. The command never waits for the file. It waits for a slow reader of `run`, as it would
without a pipe between; `work` leaves out of what it shows, with a mark, what a slow reader does not take.
"""

from __future__ import annotations

import os
import select
import time

from claimdag_client.worker.output_file import OutputWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ_BYTES = 1 << 16
#: So much can be written to a pipe that polls as writable, without waiting.
SHOWN_AT_ONCE_BYTES = select.PIPE_BUF
#: What waits to be shown before `run` reads no more, and before `work` leaves out.
UNSHOWN_MAX_BYTES = 1 << 16
UNSHOWN_LINES_MAX_BYTES = 1 << 20
#: How long a command's end waits until its lines are shown.
SHOW_S = 1.0
#: A line longer than this is shown in pieces, and of the last line so much is remembered.
LINE_MAX_BYTES = 4096
#: How much of a pipe is read after the command's end, if a process that was left keeps writing.
DRAIN_MAX_BYTES = 1 << 22


class _Stream:
    """One pipe of the command, and the descriptor on which it is shown."""

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self.target: int | None = target
        self.unshown = bytearray()
        self.line = bytearray()
        self.left_out = 0
        #: The poll watches the source; it does not while too much waits to be shown.
        self.watched = True
        self.ended = False


class Capture:
    """The output of one command after another."""

    def __init__(self, poll: select.poll, limit: int, *, lines: bool) -> None:
        self.kept_bytes = 0
        self._poll = poll
        self._limit = limit
        self._lines = lines
        self._merged = lines or _same_file(1, 2)
        self._writer: OutputWriter | None = None
        self._path = ""
        self._label = b""
        self._streams: list[_Stream] = []
        self._sinks: list[int] = []
        self._recent = b""

    # ------------------------------------------------------------------------------------------- begin and end

    def begin(self, path: str, label: bytes) -> tuple[int, int]:
        """Return the descriptors of the command's standard output and error."""
        self._path, self._label, self._recent, self.kept_bytes = path, label, b"", 0
        for target in (1,) if self._merged else (1, 2):
            source, sink = os.pipe()
            os.set_blocking(source, False)
            self._streams.append(_Stream(source, target))
            self._sinks.append(sink)
            self._poll.register(source, select.POLLIN)
        return self._sinks[0], self._sinks[-1]

    def begun(self) -> None:
        """Leave the command's ends to the command."""
        for sink in self._sinks:
            os.close(sink)
        self._sinks.clear()

    def finish(self, wait: Callable[[float | None], bool]) -> bytes:
        """Read and show the rest. Returns the last line that was not blank.

        Args:
            wait: waits for any event at most so many seconds; False once there is no more time to wait.
        """
        for stream in self._streams:
            self._drain(stream)
        until = time.monotonic() + SHOW_S if self._lines else None
        while any(stream.unshown for stream in self._streams):
            left = None if until is None else until - time.monotonic()
            if (left is not None and left <= 0) or not wait(left):
                break
        for stream in self._streams:
            self._close(stream)
        self._streams.clear()
        if self.kept_bytes and self._writer is not None:
            self._writer.close()
        lines = [line for line in self._recent.splitlines() if line.strip()]
        return lines[-1] if lines else b""

    def _drain(self, stream: _Stream) -> None:
        left = DRAIN_MAX_BYTES
        while not stream.ended and left > 0 and (count := self._read(stream)):
            left -= count
        if self._lines and stream.line:
            stream.line += b"\n"
            self._show_lines(stream)

    def _close(self, stream: _Stream) -> None:
        self._stop_watching(stream)
        if stream.unshown and stream.target is not None:
            self._poll.unregister(stream.target)
        os.close(stream.source)

    # --------------------------------------------------------------------------------------------------- events

    def ready(self, descriptor: int) -> None:
        """Serve a descriptor of this capture that the poll reported."""
        for stream in self._streams:
            if descriptor == stream.source:
                self._read(stream)
            elif descriptor == stream.target and stream.unshown:
                self._flush(stream)

    def _read(self, stream: _Stream) -> int:
        """Read once. Returns how many bytes came."""
        try:
            data = os.read(stream.source, READ_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            stream.ended = True
            self._stop_watching(stream)
            return 0
        self._keep(data)
        if stream.target is not None:
            if self._lines:
                stream.line += data
                self._show_lines(stream)
            else:
                self._show(stream, data)
                if len(stream.unshown) > UNSHOWN_MAX_BYTES:
                    self._stop_watching(stream)
        return len(data)

    def _keep(self, data: bytes) -> None:
        if self._writer is None:
            self._writer = OutputWriter(self._limit)
        if not self.kept_bytes:
            # Not before: a command that writes nothing costs no file.
            self._writer.open(self._path)
        self._writer.write(data)
        self.kept_bytes += len(data)
        if data.strip():
            self._recent = (self._recent + data)[-LINE_MAX_BYTES:]

    def _stop_watching(self, stream: _Stream) -> None:
        if stream.watched:
            stream.watched = False
            self._poll.unregister(stream.source)

    # --------------------------------------------------------------------------------------------------- showing

    def _show_lines(self, stream: _Stream) -> None:
        whole, newline, rest = stream.line.rpartition(b"\n")
        if not newline and len(rest) < LINE_MAX_BYTES:
            return
        if not newline:
            whole, rest = rest, bytearray()
        stream.line = bytearray(rest)
        shown = b"".join(map(self._labelled, bytes(whole).split(b"\n")))
        if len(stream.unshown) + len(shown) > UNSHOWN_LINES_MAX_BYTES:
            stream.left_out += len(shown)
            return
        if stream.left_out:
            shown = b"%s [claimdag: %d bytes not shown]\n" % (self._label, stream.left_out) + shown
            stream.left_out = 0
        self._show(stream, shown)

    def _labelled(self, line: bytes) -> bytes:
        """Return a line with the node's id before it, unless the command put it there itself."""
        return line + b"\n" if line.startswith(self._label) else b"%s %s\n" % (self._label, line)

    def _show(self, stream: _Stream, data: bytes) -> None:
        if stream.target is None:
            return
        if not stream.unshown:
            try:
                self._poll.register(stream.target, select.POLLOUT)
            except OSError:
                stream.target = None
                return
        stream.unshown += data

    def _flush(self, stream: _Stream) -> None:
        """Write what can be written without waiting, whole lines if there are lines."""
        assert stream.target is not None
        size = min(len(stream.unshown), SHOWN_AT_ONCE_BYTES)
        if self._lines:
            size = stream.unshown.rfind(b"\n", 0, size) + 1 or size
        try:
            written = os.write(stream.target, stream.unshown[:size])
        except BlockingIOError:
            return
        except OSError:
            self._give_up(stream)
            return
        del stream.unshown[:written]
        if not stream.unshown:
            self._poll.unregister(stream.target)
        if not (stream.watched or stream.ended) and len(stream.unshown) <= UNSHOWN_MAX_BYTES // 2:
            stream.watched = True
            self._poll.register(stream.source, select.POLLIN)

    def _give_up(self, stream: _Stream) -> None:
        """Show no more: the reader has gone."""
        if stream.target is not None:
            self._poll.unregister(stream.target)
        stream.target = None
        stream.unshown.clear()
        if not self._lines:
            # The command is told as it would be by its own stream: by a pipe without a reader.
            self._stop_watching(stream)
            stream.ended = True
            null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            os.dup2(null, stream.source, inheritable=False)
            os.close(null)


def _same_file(first: int, second: int) -> bool:
    one, other = os.fstat(first), os.fstat(second)
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
