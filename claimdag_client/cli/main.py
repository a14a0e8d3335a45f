"""`claimdag`: the command line. Reads what stands before the verb, imports that verb alone, and says what went wrong.

Every verb of this front asks over the daemon's socket and holds no state. It must stay light: what a verb does not
need is not imported. The exit statuses are those of `claimdag_client.cli.session`.
"""

from __future__ import annotations

import os
import sys

from claimdag_client._transport.endpoint import Endpoint
from claimdag_client.cli import streams
from claimdag_client.cli.commands import ALIASES, GROUPS, MODULES
from claimdag_client.errors import ClaimdagError, Malformed, Refused, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from claimdag_client.cli.command import Command
    from claimdag_client.cli.session import Session

DESCRIPTION = (
    "Hand out the work of one session: who is on what, what is unblocked, what is finished.",
    "Without a daemon listening, one is started; it leaves by itself when it is idle and empty.",
)
REPORT_TO = "the issue tracker of the claimdagd project"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    streams.prepare()
    try:
        status = _run(streams.decoded(sys.argv[1:] if argv is None else argv))
        streams.flush()
    except streams.OutputError as exc:
        return _report_output_error("", exc)
    except KeyboardInterrupt:
        return 130
    except Exception as exc:
        return _report_unexpected("", exc, "starting")
    return status


def _run(argv: list[str]) -> int:
    place = Endpoint(start=os.environ.get("CLAIMDAG_NO_START", "0") in ("", "0"))
    try:
        rest = _read_place(argv, place)
    except ValueError as exc:
        return _complain("", str(exc), "claimdag --help", 2)
    if not rest:
        streams.tell(_help())
        return 2
    named, *arguments = rest
    if named in ("-h", "--help", "help"):
        if named == "help" and arguments:
            return _run_verb(arguments[0], ["--help"], place)
        streams.write(_help())
        return 0
    if named == "__complete":  # asked by the scripts of `claimdag completion`
        from claimdag_client.cli.completion import candidates

        for word, about in candidates(arguments, place):
            streams.write(f"{word}\t{about}\n")
        return 0
    if named in ("-V", "--version"):
        from claimdagd import __version__

        streams.write(f"claimdag {__version__}\n")
        return 0
    return _run_verb(named, arguments, place)


def _read_place(argv: list[str], place: Endpoint) -> list[str]:
    """Take the options before the verb into `place`; what is left begins with the verb. ValueError says what is odd."""
    index = 0
    while index < len(argv) and argv[index].startswith("--"):
        name, equals, value = argv[index].partition("=")
        if name == "--no-start" and not equals:
            place.start = False
        elif name in ("--socket", "--dir", "--graph"):
            if not equals:
                index += 1
                if index == len(argv):
                    raise ValueError(f"{name} needs a {'name' if name == '--graph' else 'path'}")
                value = argv[index]
            if name == "--graph":
                place.graph = value
            elif name == "--socket":
                place.socket_path = streams.as_path(value)
            else:
                place.directory = streams.as_path(value)
        elif name in ("--help", "--version"):
            break
        else:
            raise ValueError(f"unknown option {name}")
        index += 1
    return argv[index:]


def _run_verb(named: str, arguments: list[str], place: Endpoint) -> int:
    verb = ALIASES.get(named, named)
    module = MODULES.get(verb)
    if module is None:
        return _unknown(named)
    from claimdag_client.cli.session import Failed, Session, UsageError

    session = Session(verb, place)
    place.on_silence = lambda text: session.note(text)
    try:
        if ":" in module:
            return _run_foreign(module, arguments, session)
        return _run_command(f"claimdag_client.cli.commands.{module}", arguments, session)
    except SystemExit as exc:  # argparse, after --help
        return int(exc.code or 0)
    except UsageError as exc:
        return _complain(verb, str(exc), f"claimdag {verb} --help", 2)
    except Failed as exc:
        return _complain(verb, str(exc), exc.remedy, 1)
    except Refused as exc:
        if session.named is not None:
            exc.details.setdefault("id", session.named)
        return _report_refusal(exc, session)
    except ClaimdagError as exc:
        # Unreachable has its own status; a line that cannot be sent is the caller's mistake.
        status = 69 if isinstance(exc, Unreachable) else 2 if isinstance(exc, Malformed) else 1
        return _complain(verb, exc.message, exc.remedy, status)
    except streams.InputError as exc:
        return _complain(verb, str(exc), "", 1)
    except streams.OutputError as exc:
        return _report_output_error(verb, exc, session)
    except KeyboardInterrupt:
        _report_undelivered(session)
        return 130
    except Exception as exc:
        return _report_unexpected(verb, exc, session.doing, session)
    finally:
        session.close()


def _run_foreign(module: str, arguments: list[str], session: Session) -> int:
    """Run a verb that reads its own arguments."""
    from importlib import import_module

    path, _, function = module.partition(":")
    session.doing = "running it"
    return int(getattr(import_module(path), function)(arguments, session.place))


def _run_command(module: str, arguments: list[str], session: Session) -> int:
    from importlib import import_module

    command: Command = import_module(module).COMMANDS[session.verb]
    args = _read(command, arguments, session)
    session.command, session.args = command, args
    place = session.place
    place.start = place.start and command.starts
    place.take(args)
    if (wait := getattr(args, "wait", None)) is not None:
        session.limit(wait)
    if command.run is not None:
        status = command.run(args, session)
    else:
        from claimdag_client.cli.command import ask

        status = ask(command, args, session)
    session.deliver()
    return status


def _read(command: Command, arguments: list[str], session: Session) -> Any:
    """Read the arguments; if only --json may come, without argparse, which costs more than a round trip."""
    if len(command.flags) == 1 and "json" in command.flags and all(each == "--json" for each in arguments):
        from types import SimpleNamespace

        return SimpleNamespace(json=bool(arguments))
    from claimdag_client.cli.parsing import read

    return read(session.verb, command, arguments)


def _report_output_error(verb: str, error: streams.OutputError, session: Session | None = None) -> int:
    """Tell that the answer could not be written, and what became of what the verb did."""
    streams.abandon_output()
    if error.reader_left and (session is None or not session.changes):
        return 141  # The reader has enough, as in `claimdag list | head`.
    _complain(verb, f"the answer could not be written to standard output: {error}", "", 74)
    if session is not None:
        _report_undelivered(session)
    return 74


def _report_undelivered(session: Session) -> None:
    if session.changes:
        from claimdag_client.cli.delivery import settle_undelivered

        for line in settle_undelivered(session):
            streams.tell(f"  {line}\n")


def _report_unexpected(verb: str, error: Exception, doing: str, session: Session | None = None) -> int:
    """Report an error of no known kind: what failed, what was going on, where to report it. No traceback."""
    if os.environ.get("CLAIMDAG_TRACEBACK", "0") not in ("", "0"):
        from traceback import format_exception

        streams.tell("".join(format_exception(error)))
    if isinstance(error, OSError):
        status = _report_system_error(verb, error, doing)
    else:
        from claimdagd import __version__

        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        where = "" if at is None else f" ({os.path.basename(at.tb_frame.f_code.co_filename)}, line {at.tb_lineno})"
        status = _complain(verb, f"unexpected {type(error).__name__}: {error}{where}", "", 70)
        streams.tell(
            f"  while: {doing}\n"
            f"  this is a fault of claimdag {__version__}: report it, with these lines, to {REPORT_TO};\n"
            f"  CLAIMDAG_TRACEBACK=1 shows more\n"
        )
    if session is not None:
        _report_undelivered(session)
    return status


def _report_system_error(verb: str, error: OSError, doing: str) -> int:
    try:
        os.getcwd()
    except OSError:
        # A relative path needs it, and the error names the path only.
        message = "the working directory is gone, so no path relative to it leads anywhere"
        return _complain(verb, message, "go to a directory that exists, or give absolute paths", 71)
    named = f"{error.filename}: " if error.filename else ""
    status = _complain(verb, f"{named}{error.strerror or error}", "", 71)
    streams.tell(f"  while: {doing}\n")
    return status


def _report_refusal(refused: Refused, session: Session) -> int:
    from claimdag_client.cli.refusals import explain, status_of, wrong_flags

    verb = session.verb
    if wrong := wrong_flags(refused, session):
        return _complain(verb, "; ".join(wrong), f"claimdag {verb} --help", 2)
    what, _, message = refused.message.partition(": ")
    if not message:
        what, message = verb, refused.message
    details, remedy = explain(refused)
    asked = refused.details.get("id") or next((fault.get("id") for fault in refused.faults), None) or ""
    if refused.code == "not_found" and session.is_of_another_graph(str(asked)):
        details = [*details, f"asked was graph {session.connection.graph_told} at {session.connection.path}"]
    status = _complain(what, message, "", status_of(refused.code))
    from claimdag_client.cli.render.text import clean

    for line in details:
        streams.tell(f"  {clean(line)}\n")
    if remedy:
        streams.tell(f"  next: {clean(remedy)}\n")
    return status


def _complain(verb: str, message: str, remedy: str, status: int) -> int:
    from claimdag_client.cli.render.text import clean

    place = f"{clean(verb)}: " if verb else ""
    streams.tell(f"claimdag: {place}{clean(message)}\n")
    if remedy:
        streams.tell(f"  next: {clean(remedy)}\n")
    return status


def _unknown(named: str) -> int:
    from claimdag_client.cli.near_words import meant_by

    meant = meant_by(named, [*MODULES, *ALIASES])
    return _complain("", f"there is no verb {named!r}", ", or ".join(meant) or "claimdag --help", 2)


def _help() -> str:
    lines = [
        "usage: claimdag [--graph NAME] [--socket PATH] [--dir DIR] [--no-start] VERB ...",
        "",
        *DESCRIPTION,
    ]
    for heading, verbs in GROUPS:
        lines += ["", f"{heading}:"]
        lines += [f"  {verb:18}{about}" for verb, (_, about) in verbs.items()]
    lines += [
        "",
        "A first minute:",
        '  claimdag add "write the parser"                   prints the id, such as 7q2f-1',
        '  claimdag add "test it" --after 1                  a bare number names a node of this graph',
        "  claimdag next --actor alice                       prints id=7q2f-1 gen=2",
        "  claimdag done 1                                   and 7q2f-2 is ready",
        "",
        "Exit status:",
        "  0 done; 1 refused, or not possible; 2 wrong use; 3 nothing runnable now; 4 nothing pending;",
        "  69 no daemon could be reached; 70 a fault of claimdag; 71 the operating system refused something;",
        "  74 the answer could not be written: what was claimed is given back, other changes are named.",
        "Each verb has more to say: claimdag VERB --help",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
