"""The daemon's log: one line each on stderr. Must never stop or slow the daemon, and says nothing per request."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

LEVELS = ("debug", "info", "warning", "error")
#: syslog's numbers, which journald reads from a line's start (sd-daemon(3)).
_PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}

#: Lines of one kind that are written in one window; the rest are counted.
BURST: Final = 5
WINDOW_S: Final = 10.0
#: The most kinds that are distinguished at a time.
KINDS_MAX: Final = 256


class OneLine(logging.Formatter):
    """A record as one line, with any text in it: a traceback's newlines become `\\n`, other control characters `?`."""

    def __init__(self, style: str) -> None:
        super().__init__("%(message)s", "%Y-%m-%d %H:%M:%S")
        self._style_name = style

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record).replace("\n", "\\n")
        text = "".join(char if char.isprintable() else "?" for char in text)
        level = record.levelname
        match self._style_name:
            case "journal":
                return f"<{_PRIORITIES.get(level, 6)}>{text}"
            case "terminal":
                return f"claimdagd: {text}" if level == "INFO" else f"claimdagd: {level.lower()}: {text}"
            case _:
                return f"{self.formatTime(record, self.datefmt)} claimdagd[{record.process}] {level.lower()}: {text}"


class RepeatLimit(logging.Filter):
    """Lets the first few records of a kind through in each window, and counts the rest.

    A kind is a message's text before its arguments are put in. `report` says how many were left out, once the window
    is over.
    """

    def __init__(
        self, *, burst: int = BURST, window_s: float = WINDOW_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._burst = burst
        self._window_s = window_s
        self._clock = clock
        self._kinds: dict[tuple[int, str], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is to be written."""
        if record.levelno < logging.INFO or getattr(record, "is_report", False):
            return True
        kind_of = (record.levelno, record.getMessage() if record.msg == "%s" else str(record.msg))
        now = self._clock()
        kind = self._kinds.get(kind_of)
        if kind is None or (now >= kind.ends_at and not kind.left_out):
            if len(self._kinds) >= KINDS_MAX:
                self.report(everything=True)
            kind = self._kinds[kind_of] = _Kind(now + self._window_s)
        kind.written += 1
        if kind.written <= self._burst:
            return True
        kind.left_out += 1
        kind.last = record
        return False

    def report(self, *, everything: bool = False) -> None:
        """Log how many records were left out in each window that is over, or, if `everything`, in each so far."""
        now = self._clock()
        over = {key: kind for key, kind in self._kinds.items() if everything or now >= kind.ends_at}
        for key, kind in over.items():
            del self._kinds[key]
            if kind.last is not None:
                seconds = self._window_s + now - kind.ends_at
                logging.getLogger(kind.last.name).log(
                    kind.last.levelno,
                    "%d more in the last %.0f s: %s", kind.left_out, seconds, kind.last.getMessage(),
                    extra={"is_report": True},
                )  # fmt: skip


class _Kind:
    """One kind of message in its window, which `ends_at` (monotonic)."""

    __slots__ = ("ends_at", "last", "left_out", "written")

    def __init__(self, ends_at: float) -> None:
        self.ends_at = ends_at
        self.written = 0
        self.left_out = 0
        self.last: logging.LogRecord | None = None


def configure(level: str, environ: Mapping[str, str] = os.environ) -> RepeatLimit:
    """Send the log to stderr in the form that suits what stderr is: the journal, a terminal, or a file.

    Returns the limit on repeated lines, for the caller of its `report`.
    """
    if environ.get("JOURNAL_STREAM") == _identity(sys.stderr.fileno() if sys.stderr else -1):
        style = "journal"
    else:
        style = "terminal" if sys.stderr and sys.stderr.isatty() else "file"
    # A log that cannot be written (a closed stderr, a full disk) is no reason to print about it, nor to stop.
    logging.raiseExceptions = False
    handler: logging.Handler = logging.StreamHandler() if sys.stderr else logging.NullHandler()
    handler.setFormatter(OneLine(style))
    repeats = RepeatLimit()
    handler.addFilter(repeats)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("claimdagd").setLevel(level.upper())
    return repeats


def _identity(fd: int) -> str:
    try:
        found = os.fstat(fd)
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"
