"""How arguments are read: the parser that all verbs look alike by, and the options that several of them share.

One flag means the same everywhere. It must know no verb.
"""

from __future__ import annotations

import argparse

from claimdag_client.cli.render.text import size_of_terminal
from claimdag_client.cli.session import Session, UsageError
from claimdag_client.cli.streams import as_path, flush, write
from claimdagd.limits import ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    Container = argparse._ActionsContainer  # a parser, or a group of options in one


class _Help(argparse.RawDescriptionHelpFormatter):
    """Told its width, argparse does not import shutil and all compressors for it, which it else does at each start."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(size_of_terminal()[0], 120) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Paragraphs of a description are wrapped; examples, which are indented, are left whole."""
        from textwrap import fill

        paragraphs = text.split("\n\n")
        return "\n\n".join(part if "\n " in part else fill(" ".join(part.split()), width) for part in paragraphs)


class Parser(argparse.ArgumentParser):
    """argparse, whose complaints are raised instead of printed with a usage text."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print the help; argparse would drop it without a word if it cannot be written."""
        write(message)
        flush()


def make_parser(verb: str, about: str, examples: Sequence[str]) -> Parser:
    """A parser with the look of all verbs: what it does, options, examples, and the options of the place."""
    parser = Parser(
        prog=f"claimdag {verb}",
        description=about,
        epilog="\n  ".join(("examples:" if len(examples) > 1 else "example:", *examples)) if examples else None,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    where = parser.add_argument_group("which daemon")
    where.add_argument("--socket", metavar="PATH", type=as_path, default=argparse.SUPPRESS, help="its socket")
    where.add_argument("--dir", metavar="DIR", type=as_path, default=argparse.SUPPRESS, help="its directory")
    where.add_argument(
        "--no-start", action="store_true", default=argparse.SUPPRESS, help="do not start one where none listens"
    )
    return parser


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
