"""The Session that a command acts in, the errors that end a command, and the exit statuses.

It must know no verb, and it must not import argparse: that costs a small verb more than its round trip.
"""

from __future__ import annotations

import sys
import time

from claimdag_client._transport.endpoint import Endpoint
from claimdag_client._transport.patience import ANSWER_SLACK_S, SILENCE_LIMIT_S
from claimdag_client._transport.transport import Connection, connect
from claimdag_client.cli import streams
from claimdag_client.cli.render.text import Paint, fit, json_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from claimdag_client.cli.command import Command

DONE, REFUSED, USAGE, NOTHING_RUNNABLE, NOTHING_PENDING = 0, 1, 2, 3, 4
#: No daemon could be reached (EX_UNAVAILABLE).
UNREACHABLE = 69
#: A fault of claimdag itself (EX_SOFTWARE).
INTERNAL = 70
#: The operating system refused something that the command needs (EX_OSERR).
SYSTEM = 71
#: The answer could not be written to standard output (EX_IOERR).
UNDELIVERED = 74
#: Ended by an interrupt, or by a reader that left before it read all: as a shell counts SIGINT and SIGPIPE.
INTERRUPTED, READER_LEFT = 130, 141

#: Ops that change nothing: their answer may be lost.
READING_OPS = frozenset(
    ("get", "why", "list", "ready", "ping", "hello", "resources", "stats", "log", "watch", "wait", "shutdown")
)


class UsageError(Exception):
    """The command line itself is wrong. No request was sent."""


class Failed(Exception):
    """The command failed on the client's side: a file cannot be read, a plan has faults."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class Session:
    """One run of one command: its connection, made at the first request, and its output."""

    def __init__(self, verb: str, place: Endpoint) -> None:
        self.verb = verb
        self.place = place
        #: The command and its arguments, once they are read.
        self.command: Command | None = None
        self.args: Any = None
        self.paint = Paint(sys.stdout)
        #: The node that the command line is about, for what is said of a refusal.
        self.named: str | None = None
        #: What is going on, for the report of an unexpected error.
        self.doing = "reading the command line"
        #: What was changed and is not yet told: each request, and its answer.
        self.changes: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
        self._connection: Connection | None = None
        self._until: float | None = None
        self._limit_s = 0.0

    def is_of_another_graph(self, node_id: str) -> bool:
        """Return whether an id that was asked for is none of this graph's."""
        return self._connection is not None and not node_id.startswith(self._connection.graph + "-")

    @property
    def connection(self) -> Connection:
        """Return the connection to the daemon; one is started if none listens, unless --no-start is given."""
        if self._connection is None:
            self.doing = "connecting to the daemon"
            limit_s = SILENCE_LIMIT_S if self._until is None else self._time_left() + ANSWER_SLACK_S
            self._connection = connect(self.place, client=f"claimdag {self.verb}", limit_s=limit_s)
        return self._connection

    @property
    def connected(self) -> bool:
        """Say whether there is a connection already."""
        return self._connection is not None

    def connect_running(self) -> Connection:
        """Return the connection to a daemon that listens already; none is started."""
        if self._connection is None:
            self._connection = connect(self.place, client=f"claimdag {self.verb}", start=False)
        return self._connection

    def limit(self, seconds: float) -> None:
        """Let the whole command take `seconds`, connecting included, even if the daemon hangs."""
        self._limit_s = seconds
        self._until = time.monotonic() + seconds

    def _time_left(self) -> float:
        return 0.0 if self._until is None else max(0.0, self._until - time.monotonic())

    def _connecting_was_slow(self) -> bool:
        """Return whether the wait as given would end later than the user allowed."""
        return self._until is not None and self._time_left() < self._limit_s - ANSWER_SLACK_S / 2

    def ask(self, op: str, /, **fields: Any) -> dict[str, Any]:
        """Ask an op and return its `ok`. Fields that are None are not sent."""
        return self.put({"op": op, **{name: value for name, value in fields.items() if value is not None}})

    def put(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask a complete request and return its `ok`. A change is kept until it is delivered."""
        connection = self.connection
        if self._connecting_was_slow():
            # The time that connecting took is part of the time that the user allowed.
            if "wait" in request:
                request = {**request, "wait": self._time_left()}
            elif "wait" in (request.get("next") or {}):
                request = {**request, "next": {**request["next"], "wait": self._time_left()}}
        self.doing = f"asking the daemon: {request['op']}"
        ok = connection.ask(request)
        self.changed(request, ok)
        return ok

    def changed(self, request: Mapping[str, Any], ok: Mapping[str, Any]) -> None:
        """Keep what a request has changed, until `deliver`."""
        self.doing = "writing the answer"
        if request["op"] not in READING_OPS:
            self.changes.append((request, ok))

    def node_id(self, text: str) -> str:
        """Return a complete id: a bare number gets the tag of the graph that the daemon serves."""
        if text.isascii() and text.isdigit():
            return f"{self.connection.graph}-{int(text)}"
        return text

    def say(self, line: str = "") -> None:
        """Write a line, clean already, for the reader. Raises OutputError."""
        streams.write(line + "\n")

    def say_all(self, lines: Iterable[str]) -> None:
        """Write lines, clean already, for the reader. Raises OutputError."""
        for line in lines:
            streams.write(line + "\n")

    def say_rows(self, lines: Iterable[str]) -> None:
        """Write the lines of a list: on a terminal none is wider than it. Raises OutputError."""
        columns = self.paint.columns
        for line in lines:
            streams.write((line if columns is None else fit(line, columns, unicode=self.paint.unicode)) + "\n")

    def say_json(self, value: object) -> None:
        """Write one object as a line of JSON, for a program. Raises OutputError."""
        streams.write(json_line(value) + "\n")

    def deliver(self) -> None:
        """Flush standard output and forget the changes, which the reader knows then. Raises OutputError."""
        streams.flush()
        self.changes.clear()

    def note(self, line: str) -> None:
        """Write a line, clean already, to standard error."""
        streams.tell(f"claimdag: {self.verb}: {line}\n")

    def close(self) -> None:
        """Close the connection. The next question connects again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
