"""What every verb is made of: a Command (its options, its examples, what it does) and the Session that it acts in.

Holds the options that several verbs share, so that one flag means the same everywhere. It must know no verb.
"""

from __future__ import annotations

import argparse
import sys

from claimdag_client.connection import Connection, Place
from claimdag_client.render import Paint, json_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

    Container = argparse._ActionsContainer  # a parser, or a group of options in one

DONE, REFUSED, USAGE, NOTHING_RUNNABLE, NOTHING_PENDING, UNREACHABLE = 0, 1, 2, 3, 4, 69

ROLES = ("unset", "explore", "architect", "implementor", "verifier", "orchestrator", "general")


class UsageError(Exception):
    """The command line itself is wrong; nothing was asked of the daemon."""


class Failed(Exception):
    """The verb could not do it, for a reason of this side: a file that cannot be read, faults in a plan."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class Parser(argparse.ArgumentParser):
    """argparse, whose complaints are raised instead of printed with a usage text."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


class Command:
    """One verb. `options` adds its arguments to a parser; `run` acts and returns the exit status."""

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
        parser = make_parser(verb, self.about, self.examples)
        if self.options is not None:
            self.options(parser)
        return parser


def make_parser(verb: str, about: str, examples: Sequence[str]) -> Parser:
    """A parser with the look of all verbs: what it does, options, examples, and the options of the place."""
    parser = Parser(
        prog=f"claimdag {verb}",
        description=about,
        epilog="\n  ".join(("examples:" if len(examples) > 1 else "example:", *examples)) if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    where = parser.add_argument_group("which daemon")
    where.add_argument("--socket", metavar="PATH", default=argparse.SUPPRESS, help="its socket")
    where.add_argument("--dir", metavar="DIR", default=argparse.SUPPRESS, help="its directory")
    where.add_argument(
        "--no-start", action="store_true", default=argparse.SUPPRESS, help="do not start one where none listens"
    )
    return parser


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


# ------------------------------------------------------------------------------------------------- shared options


def add_json(parser: Container) -> None:
    parser.add_argument("--json", action="store_true", help="JSON for programs, one object a line")


def add_node(parser: Parser, what: str = "the node") -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help=f"{what}: its id, or the number in it")
    parser.add_argument("--id", dest="id_option", metavar="ID", help=argparse.SUPPRESS)


def node_of(args: argparse.Namespace, session: Session) -> str:
    """The id that was named, positional or by --id."""
    named = optional_node_of(args, session)
    if named is None:
        raise UsageError("which node? name its ID")
    return named


def optional_node_of(args: argparse.Namespace, session: Session) -> str | None:
    """As node_of, where naming one is not needed."""
    if args.id is not None and args.id_option is not None and args.id != args.id_option:
        raise UsageError(f"two nodes are named, {args.id} and {args.id_option}")
    named = args.id if args.id is not None else args.id_option
    session.named = None if named is None else session.node_id(named)
    return session.named


def add_actor(parser: Container, what: str = "who does it", *, required: bool = False) -> None:
    parser.add_argument("--actor", "--assignee", dest="actor", metavar="NAME", required=required, help=what)


def add_gen(parser: Container) -> None:
    parser.add_argument("--gen", type=int, metavar="N", help="only if the node is at this generation")


def add_lease(parser: Container, what: str = "seconds until the claim ends by itself (also 90s, 15m, 2h)") -> None:
    parser.add_argument("--lease", type=seconds, metavar="S", help=what)


def add_choice(parser: Container) -> None:
    parser.add_argument("--role", metavar="ROLE", help=f"what this worker is best at: {', '.join(ROLES)}")
    parser.add_argument("--slack", type=float, metavar="COST", help="how far from the deepest a fitting role may be")
    parser.add_argument("--strict", action="store_true", default=None, help="nothing that is for another role")


def add_once(parser: Container) -> None:
    parser.add_argument("--once", metavar="TOKEN", help="asked again with the same token, the first answer is given")


def seconds(text: str) -> float:
    """A duration: seconds, or a number with s, m, h or d."""
    factor = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
    value = float(text) if factor is None else float(text[:-1]) * factor
    if not 0 <= value < float("inf"):
        raise ValueError(text)
    return value


def pairs(items: Sequence[str] | None, what: str) -> dict[str, int] | None:
    """R=U options as a dict; a bare R is one unit."""
    if items is None:
        return None
    found: dict[str, int] = {}
    for item in items:
        name, equals, units = item.partition("=")
        if not name or (equals and not units.isdigit()):
            raise UsageError(f"{what} {item}: it is NAME=UNITS, as in gpu=1")
        if name in found:
            raise UsageError(f"{what} {name} is given twice")
        found[name] = int(units) if equals else 1
    return found


def dep_of(text: str, node_id: Callable[[str], str]) -> dict[str, str]:
    """ID or ID:after_any as a dependency."""
    on, colon, when = text.rpartition(":")
    if not colon:
        return {"on": node_id(text)}
    if when not in ("after_ok", "after_any"):
        raise UsageError(f"dependency {text}: after the colon goes after_ok or after_any")
    return {"on": node_id(on), "when": when}


def held_line(ok: Mapping[str, Any]) -> str:
    """What renew and running say: the generation, and when to speak again."""
    return f"gen={ok['gen']} expires_in={ok['expires_in']:.0f}"
