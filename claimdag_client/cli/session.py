"""What every verb is made of: a Command (its options, its examples, what it does) and the Session that it acts in.

It must know no verb, and it must not import argparse: that costs a small verb more than its round trip.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

from claimdag_client._transport.connection import Connection, Place
from claimdag_client.cli.render.text import Paint, json_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from typing import Any

    from claimdag_client.cli.parsing import Parser

DONE, REFUSED, USAGE, NOTHING_RUNNABLE, NOTHING_PENDING, UNREACHABLE = 0, 1, 2, 3, 4, 69


class UsageError(Exception):
    """The command line itself is wrong; nothing was asked of the daemon."""


class Failed(Exception):
    """The verb could not do it, for a reason of this side: a file that cannot be read, faults in a plan."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class Command:
    """One verb. `options` adds its arguments to a parser, None: it takes --json alone. `run` acts: the exit status."""

    def __init__(
        self,
        run: Callable[[argparse.Namespace, Session], int],
        options: Callable[[Parser], None] | None = None,
        *,
        about: str,
        examples: Sequence[str],
        starts: bool = True,
    ) -> None:
        self.run = run
        self.options = options
        self.about = about
        self.examples = examples
        #: Whether it may start a daemon where none listens.
        self.starts = starts

    def parser(self, verb: str) -> Parser:
        """The parser of this verb, built when it is needed."""
        from claimdag_client.cli.parsing import add_json, make_parser

        parser = make_parser(verb, self.about, self.examples)
        (self.options or add_json)(parser)
        return parser

    def read(self, verb: str, arguments: Sequence[str]) -> Any:
        """The arguments as a namespace. UsageError when they are wrong; SystemExit after --help."""
        if self.options is None and all(argument == "--json" for argument in arguments):
            return SimpleNamespace(json=bool(arguments))
        return self.parser(verb).parse_intermixed_args([*arguments])


class Session:
    """One run of one verb: the connection, made at the first question, and where the answers are written."""

    def __init__(self, verb: str, place: Place) -> None:
        self.verb = verb
        self.place = place
        self.paint = Paint(sys.stdout)
        #: The node that the command line is about, for what is said of a refusal.
        self.named: str | None = None
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        """The connection to the daemon, which is started where none listens unless that was forbidden."""
        if self._connection is None:
            self._connection = self.place.connect(client=f"claimdag {self.verb}")
        return self._connection

    def connect_running(self) -> Connection:
        """Return the connection to a daemon that listens already; none is started."""
        if self._connection is None:
            self._connection = self.place.connect(client=f"claimdag {self.verb}", start=False)
        return self._connection

    def ask(self, op: str, /, **fields: Any) -> dict[str, Any]:
        """The `ok` of an op; fields that are None are not sent."""
        return self.connection.ask({"op": op, **{name: value for name, value in fields.items() if value is not None}})

    def node_id(self, text: str) -> str:
        """A whole id: a bare number is one of the graph that the daemon serves."""
        if text.isascii() and text.isdigit():
            return f"{self.connection.graph}-{int(text)}"
        return text

    def say(self, line: str = "") -> None:
        """Write a line, clean already, for the reader."""
        sys.stdout.write(line + "\n")

    def say_json(self, value: object) -> None:
        """Write one object as a line of JSON, for a program."""
        sys.stdout.write(json_line(value) + "\n")

    def note(self, line: str) -> None:
        """Write a line, clean already, beside the output."""
        sys.stderr.write(f"claimdag: {self.verb}: {line}\n")

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
