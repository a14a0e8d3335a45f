"""`claimdag run` and `claimdag work`: a command run under a claim, for one node or for node after node.

The command runs in a process group of its own while the claim is renewed; its exit status completes the node. Its whole
tree of processes ends with the claim, before the node is completed or handed back. What the node says (its summary)
reaches the command in its environment and is never run.
"""

from __future__ import annotations

import argparse
import os

from claimdag_client import outputs
from claimdag_client._transport.endpoint import Endpoint
from claimdag_client._transport.transport import connect
from claimdag_client.cli.foreign import COMMANDS
from claimdag_client.cli.parsing import check_needs, parser_of, settle_all
from claimdag_client.cli.session import UsageError
from claimdag_client.worker.process_group import Supervisors
from claimdag_client.worker.supervisor import Settings
from claimdagd.descriptors import hold_standard_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from claimdag_client.worker.output_keeper import OutputKeeper


def main_run(argv: Sequence[str], place: Endpoint) -> int:
    """Run `claimdag run`. Returns the exit status."""
    args, command = _parse("run", argv)
    # A terminal is handed on to the command, which may need it.
    args.captured = args.capture or not (args.no_capture or os.isatty(1) or os.isatty(2))
    supervisors = _start_supervisors(args, command, 1, lines=False)
    try:
        place.take(args)
        with connect(place, client="claimdag run") as connection:
            id = _full_id(args.id, connection.graph)
        from claimdag_client.worker.pool import run_one

        return run_one(place, id, command, supervisors, _keeper(args, place), final_exit=args.final_exit,
                       actor=args.actor, lease=args.lease,
                       gen=args.gen)  # fmt: skip
    finally:
        supervisors.close()


def _full_id(text: str, graph: str) -> str:
    """Return the whole id: a bare number means a node of this graph."""
    return f"{graph}-{int(text)}" if text.isascii() and text.isdigit() else text


def main_work(argv: Sequence[str], place: Endpoint) -> int:
    """Run `claimdag work`. Returns the exit status."""
    args, command = _parse("work", argv)
    args.captured = not args.no_capture
    supervisors = _start_supervisors(args, command, args.workers, lines=True)
    try:
        place.take(args)
        with connect(place, client="claimdag work") as connection:
            under = None if args.under is None else _full_id(args.under, connection.graph)
        from claimdag_client.worker.pool import work

        actors = [args.actor] if args.workers == 1 else [f"{args.actor}/{n}" for n in range(1, args.workers + 1)]
        return work(place, actors, command, supervisors, _keeper(args, place), final_exit=args.final_exit,
                    role=args.role, slack=args.slack,
                    strict=args.strict, under=under, lease=args.lease, until_empty=args.until_empty)  # fmt: skip
    finally:
        supervisors.close()


def _parse(verb: str, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the options, and the command after `--`."""
    shape = COMMANDS[verb]
    parser = parser_of(verb, shape)
    # --actor may stand in the environment, so argparse would call it optional here.
    usage = parser.format_usage().removeprefix("usage: ").rstrip().replace("[--actor NAME]", "--actor NAME")
    parser.usage = f"{usage} -- COMMAND [ARGUMENT ...]"
    arguments = [*argv]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    args = parser.parse_args(arguments[:at])
    command = arguments[at + 1 :]
    settle_all(args, shape.flags)
    check_needs(args, shape.needs)
    if not command:
        raise UsageError("which command? it goes after --, as in: -- make test")
    return args, command


def _start_supervisors(args: argparse.Namespace, command: list[str], count: int, *, lines: bool) -> Supervisors:
    """Fork the supervisors, before there is a thread or an event loop."""
    hold_standard_streams()
    settings = Settings(
        command, kill_after_s=args.kill_after, keep_stdin=count == 1, leave_daemons=args.leave_daemons,
        output_max=args.output_max, lines=lines,
    )  # fmt: skip
    return Supervisors.start(settings, count)


def _keeper(args: argparse.Namespace, place: Endpoint) -> OutputKeeper:
    from claimdag_client.worker.output_keeper import OutputKeeper

    directory = outputs.output_directory(place.directory, place.socket) if args.captured else ""
    return OutputKeeper(directory, args.output_total)
