"""The daemon's log: one line each on stderr. Must never stop or slow the daemon, and says nothing per request."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

LEVELS = ("debug", "info", "warning", "error")
#: syslog's numbers, which journald reads from a line's start (sd-daemon(3)).
_PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}


class OneLine(logging.Formatter):
    """A record as one line, whatever is in it: a traceback's newlines become `\\n`, other control characters `?`."""

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


def configure(level: str, environ: Mapping[str, str] = os.environ) -> None:
    """Send the log to stderr in the form that suits what stderr is: the journal, a terminal, or a file."""
    if environ.get("JOURNAL_STREAM") == _identity(sys.stderr.fileno() if sys.stderr else -1):
        style = "journal"
    else:
        style = "terminal" if sys.stderr and sys.stderr.isatty() else "file"
    # A log that cannot be written (a closed stderr, a full disk) is no reason to print about it, nor to stop.
    logging.raiseExceptions = False
    handler: logging.Handler = logging.StreamHandler() if sys.stderr else logging.NullHandler()
    handler.setFormatter(OneLine(style))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("claimdagd").setLevel(level.upper())


def _identity(fd: int) -> str:
    try:
        found = os.fstat(fd)
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"
