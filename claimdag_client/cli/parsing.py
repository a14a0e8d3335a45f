"""How arguments are read: the parser of a command, its help, and a wrong use told as flag, value and what it takes.

It must know no verb.
"""

from __future__ import annotations

import argparse
import os

from claimdag_client.cli import values
from claimdag_client.cli.flags import ACTOR_VARIABLE, FLAGS, Flag
from claimdag_client.cli.render.text import cut, size_of_terminal
from claimdag_client.cli.session import UsageError
from claimdag_client.cli.streams import as_path, flush, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, NoReturn

    from claimdag_client.cli.command import Command

#: More of a wrong value than this is not shown.
VALUE_SHOWN = 60
#: What is said if a flag is missing that has words of its own for it.
_MISSING = {
    "id": "which node? name its ID",
    "ids": "which node? name its ID",
    "some": "which node? name its ID",
    "actor": f"--actor is missing: name who does it with --actor NAME, or set {ACTOR_VARIABLE}",
}
#: Where --help lists the flags of a command that belong to another flag.
_WITH_NEXT = "with --next, in the same step"


class _Help(argparse.RawDescriptionHelpFormatter):
    """Told its width, argparse does not import shutil and all compressors for it, which it else does at each start."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(size_of_terminal()[0], 120) - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap the paragraphs of a description; examples, which are indented, are left whole."""
        from textwrap import fill

        paragraphs = text.split("\n\n")
        return "\n\n".join(part if "\n " in part else fill(" ".join(part.split()), width) for part in paragraphs)


class Parser(argparse.ArgumentParser):
    """argparse, whose complaints are raised instead of printed with a usage text."""

    #: What --help and complaints call each flag, and what it takes, by its spelling.
    takes: dict[str, str]

    def error(self, message: str) -> NoReturn:
        raise UsageError(self._in_our_words(message))

    def _in_our_words(self, message: str) -> str:
        named, _, complaint = message.removeprefix("argument ").partition(": ")
        flag = named.split("/")[0]
        if message.startswith("argument ") and flag in self.takes:
            takes = self.takes[flag]
            return f"{flag}: a value is missing: it must be {takes}" if takes else f"{flag}: it takes no value"
        if message.startswith("the following arguments are required: "):
            missing = [name.strip() for name in complaint.split(",")]
            return "; ".join(f"{name} is missing: it must be {self.takes.get(name, 'given')}" for name in missing)
        if message.startswith("unrecognized arguments: "):
            from difflib import get_close_matches

            unknown = complaint or message.partition(": ")[2]
            first = unknown.split()[0].partition("=")[0]
            close = get_close_matches(first, self.takes, 1) if first.startswith("-") else []
            return f"unknown argument: {unknown}" + (f"; the nearest is {close[0]}" if close else "")
        return message

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print the help; argparse would drop it without a word if it cannot be written."""
        write(message)
        flush()


def make_parser(verb: str, about: str, examples: Sequence[str]) -> Parser:
    """Make a parser with the look of all verbs: what it does, options, examples, and the options of the place."""
    parser = Parser(
        prog=f"claimdag {verb}",
        description=about,
        epilog="\n  ".join(("examples:" if len(examples) > 1 else "example:", *examples)) if examples else None,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.takes = {"--socket": "a path", "--dir": "a path", "--graph": "a name", "--no-start": "", "--help": ""}
    where = parser.add_argument_group("which daemon")
    where.add_argument("--socket", metavar="PATH", type=as_path, default=argparse.SUPPRESS, help="its socket")
    where.add_argument("--dir", metavar="DIR", type=as_path, default=argparse.SUPPRESS, help="its directory")
    where.add_argument("--graph", metavar="NAME", default=argparse.SUPPRESS, help="the graph of that name")
    where.add_argument(
        "--no-start", action="store_true", default=argparse.SUPPRESS, help="do not start one if none listens"
    )
    return parser


def add_flags(parser: Parser, flags: Mapping[str, str], needs: Iterable[str] = ()) -> None:
    """Add flags of the catalogue by their names, each with its own help or, if that is "", the catalogue's."""
    group: argparse._ActionsContainer = parser
    for name, about in flags.items():
        flag = FLAGS[name]
        _add(group, flag, about or flag.about, needed=name in needs)
        parser.takes.update(dict.fromkeys(flag.names, flag.value.takes if flag.value else ""))
        if name == "next":
            group = parser.add_argument_group(_WITH_NEXT)


def _add(group: argparse._ActionsContainer, flag: Flag, about: str, *, needed: bool) -> None:
    if flag.value is None:
        # A switch that is a field of the request is left out of it if it is not given.
        default = None if flag.field else False
        group.add_argument(*flag.names, dest=flag.dest, action="store_true", default=default, help=about)
    elif flag.positional:
        needed = needed and len(flag.names) == 1
        nargs = ("+" if needed else "*") if flag.many else None if needed else "?"
        group.add_argument(flag.dest, metavar=flag.names[0], nargs=nargs, type=_reader(flag), help=about)
        for name in flag.names[1:]:
            group.add_argument(
                name, dest=f"{flag.dest}_option", type=_reader(flag), help=argparse.SUPPRESS,
                action="append" if flag.many else "store",
            )  # fmt: skip
    else:
        group.add_argument(
            *flag.names, dest=flag.dest, metavar=flag.metavar, type=_reader(flag), help=about,
            action="append" if flag.many else "store", default=flag.default,
        )  # fmt: skip


def _reader(flag: Flag, spelling: str = "") -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = flag.value
        assert value is not None
        try:
            return value.convert(text)
        except values.ExplainedError as exc:
            raise UsageError(f"{spelling or flag.shown} {text}: {exc}") from None
        except ValueError:
            # Out of argparse's way, which would hide the value.
            shown = cut(text, VALUE_SHOWN) or "''"
            raise UsageError(f"{spelling or flag.shown} {shown}: it must be {value.takes}") from None

    return read


def parser_of(verb: str, command: Command) -> Parser:
    """Return the parser of a command."""
    parser = make_parser(verb, command.about, command.examples)
    add_flags(parser, command.flags, command.needs)
    return parser


def read(verb: str, command: Command, arguments: Sequence[str]) -> argparse.Namespace:
    """Read the arguments of a command. Raises UsageError if they are wrong, and SystemExit after --help."""
    parser = parser_of(verb, command)
    if "--help" in arguments or "-h" in arguments:
        _show_needs(parser, command)
    args = parser.parse_intermixed_args([*arguments])
    settle_all(args, command.flags)
    check_needs(args, command.needs)
    return args


def settle_all(args: argparse.Namespace, names: Iterable[str]) -> None:
    """Fill in the flags of those names from their other spellings and their environment variables."""
    for name in names:
        _settle(args, FLAGS[name])


def _settle(args: argparse.Namespace, flag: Flag) -> None:
    other = getattr(args, f"{flag.dest}_option", None)
    given = getattr(args, flag.dest)
    if other is not None and flag.many:
        setattr(args, flag.dest, [*(given or ()), *other])
    elif other is not None:
        if given is not None and given != other:
            raise UsageError(f"two nodes are named, {given} and {other}")
        setattr(args, flag.dest, other)
    elif given is None and flag.environ and os.environ.get(flag.environ):
        setattr(args, flag.dest, _reader(flag, flag.environ)(os.environ[flag.environ]))


def check_needs(args: argparse.Namespace, needs: Iterable[str]) -> None:
    """Refuse a command of which something is missing."""
    for name in needs:
        flag = FLAGS[name]
        if getattr(args, flag.dest) in (None, []):
            takes = flag.value.takes if flag.value else ""
            raise UsageError(_MISSING.get(name, f"{flag.shown} is missing: it must be {takes}"))


def _show_needs(parser: Parser, command: Command) -> None:
    """Let the usage text show what must be given without brackets, though a variable may stand for it."""
    needed = [FLAGS[name] for name in command.needs]
    usage = parser.format_usage().removeprefix("usage: ").rstrip()
    for flag in needed:
        if not flag.positional:
            usage = usage.replace(f"[{flag.shown} {flag.metavar}]", f"{flag.shown} {flag.metavar}")
    parser.usage = usage.replace("%", "%%")
