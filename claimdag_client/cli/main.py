"""`claimdag`: the command line. Reads what stands before the verb, imports that verb alone, and says what went wrong.

Every verb of this front asks over the daemon's socket and holds no state. It must stay light: what a verb does not
need is not imported. Exit status: 0 done, 1 refused, 2 usage, 3 nothing runnable, 4 nothing pending, 69 no daemon.
"""

from __future__ import annotations

import os
import sys

from claimdag_client._transport.connection import ClaimdagError, Malformed, Place, Refused, Unreachable
from claimdag_client.cli.commands import ALIASES, GROUPS, MODULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; its exit status."""
    _ready_the_streams()
    try:
        status = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough; nothing may be written at the interpreter's end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
    except OSError as exc:
        # Reading and connecting have their own words: what is left is an output that cannot be written.
        sys.stderr.write(f"claimdag: {exc.strerror or exc}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    return status


def _ready_the_streams() -> None:
    """Let no text fail to be written for its characters, nor for a stream that the caller closed."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _run(argv: list[str]) -> int:
    place = Place(start=os.environ.get("CLAIMDAG_NO_START", "0") in ("", "0"))
    try:
        rest = _read_place(argv, place)
    except ValueError as exc:
        return _complain("", str(exc), "claimdag --help", 2)
    if not rest:
        sys.stderr.write(_help())
        return 2
    named, *arguments = rest
    if named in ("-h", "--help", "help"):
        if named == "help" and arguments:
            return _run_verb(arguments[0], ["--help"], place)
        sys.stdout.write(_help())
        return 0
    if named in ("-V", "--version"):
        from claimdagd import __version__

        sys.stdout.write(f"claimdag {__version__}\n")
        return 0
    return _run_verb(named, arguments, place)


def _read_place(argv: list[str], place: Place) -> list[str]:
    """Take the options before the verb into `place`; what is left begins with the verb. ValueError says what is odd."""
    index = 0
    while index < len(argv) and argv[index].startswith("--"):
        name, equals, value = argv[index].partition("=")
        if name == "--no-start" and not equals:
            place.start = False
        elif name in ("--socket", "--dir"):
            if not equals:
                index += 1
                if index == len(argv):
                    raise ValueError(f"{name} needs a path")
                value = argv[index]
            if name == "--socket":
                place.socket_path = value
            else:
                place.directory = value
        elif name in ("--help", "--version"):
            break
        else:
            raise ValueError(f"unknown option {name}")
        index += 1
    return argv[index:]


def _run_verb(named: str, arguments: list[str], place: Place) -> int:
    verb = ALIASES.get(named, named)
    module = MODULES.get(verb)
    if module is None:
        return _unknown(named)
    try:
        if ":" in module:
            return _run_foreign(module, arguments, place)
        return _run_command(verb, f"claimdag_client.cli.commands.{module}", arguments, place)
    except Refused as exc:
        return _report_refusal(verb, exc)
    except ClaimdagError as exc:
        # Unreachable has its own status; a line that cannot be sent is the caller's mistake.
        status = 69 if isinstance(exc, Unreachable) else 2 if isinstance(exc, Malformed) else 1
        return _complain(verb, exc.message, exc.remedy, status)


def _run_foreign(module: str, arguments: list[str], place: Place) -> int:
    """A verb that reads its own arguments."""
    from importlib import import_module

    from claimdag_client.cli.session import UsageError

    path, _, function = module.partition(":")
    try:
        return int(getattr(import_module(path), function)(arguments, place))
    except UsageError as exc:
        verb = function.removeprefix("main_")
        return _complain(verb, str(exc), f"claimdag {verb} --help", 2)


def _run_command(verb: str, module: str, arguments: list[str], place: Place) -> int:
    from importlib import import_module

    from claimdag_client.cli.session import Command, Failed, Session, UsageError

    command: Command = import_module(module).VERBS[verb]
    session = Session(verb, place)
    try:
        args = command.read(verb, arguments)
        place.socket_path = getattr(args, "socket", place.socket_path)
        place.directory = getattr(args, "dir", place.directory)
        place.start = place.start and command.starts and not getattr(args, "no_start", False)
        return command.run(args, session)
    except UsageError as exc:
        return _complain(verb, str(exc), f"claimdag {verb} --help", 2)
    except Failed as exc:
        return _complain(verb, str(exc), exc.remedy, 1)
    except Refused as exc:
        if session.named is not None:
            exc.details.setdefault("id", session.named)
        raise
    except SystemExit as exc:  # argparse, after --help
        return int(exc.code or 0)
    finally:
        session.close()


def _report_refusal(verb: str, refused: Refused) -> int:
    from claimdag_client.cli.refusals import explain, status_of

    what, _, message = refused.message.partition(": ")
    if not message:
        what, message = verb, refused.message
    details, remedy = explain(refused)
    status = _complain(what, message, "", status_of(refused.code))
    from claimdag_client.cli.render.text import clean

    for line in details:
        sys.stderr.write(f"  {clean(line)}\n")
    if remedy:
        sys.stderr.write(f"  next: {clean(remedy)}\n")
    return status


def _complain(verb: str, message: str, remedy: str, status: int) -> int:
    from claimdag_client.cli.render.text import clean

    place = f"{clean(verb)}: " if verb else ""
    sys.stderr.write(f"claimdag: {place}{clean(message)}\n")
    if remedy:
        sys.stderr.write(f"  next: {clean(remedy)}\n")
    return status


def _unknown(named: str) -> int:
    from difflib import get_close_matches

    close = get_close_matches(named, [*MODULES, *ALIASES], 1)
    return _complain(
        "", f"there is no verb {named!r}", f"claimdag {close[0]} --help" if close else "claimdag --help", 2
    )


def _help() -> str:
    lines = [
        "usage: claimdag [--socket PATH] [--dir DIR] [--no-start] VERB ...",
        "",
        "Hand out the work of one session: who is on what, what is unblocked, what is finished.",
        "Without a daemon listening, one is started; it leaves by itself when it is idle and empty.",
    ]
    for heading, verbs in GROUPS:
        lines += ["", f"{heading}:"]
        lines += [f"  {verb:18}{about}" for verb, (_, about) in verbs.items()]
    lines += [
        "",
        "A first minute:",
        '  claimdag upsert --summary "write the parser"      prints the id, such as 7q2f-1',
        '  claimdag upsert --summary "test it" --dep 1       a bare number names a node of this graph',
        "  claimdag next --actor alice                       prints id=7q2f-1 gen=2",
        "  claimdag complete 1 --gen 2                       and 7q2f-2 is ready",
        "",
        "Exit status: 0 done, 1 refused, 2 wrong use, 3 nothing runnable now, 4 nothing pending, 69 no daemon.",
        "Each verb has more to say: claimdag VERB --help",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
