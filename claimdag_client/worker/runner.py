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
from claimdag_client.cli.parsing import Parser, add_flags, check_needs, make_parser, settle_all
from claimdag_client.cli.session import UsageError
from claimdag_client.worker.process_group import Supervisors
from claimdag_client.worker.supervisor import Settings
from claimdagd.descriptors import hold_standard_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from claimdag_client.worker.output_keeper import OutputKeeper

RUN_ABOUT = """Claim one node, run a command for it, and complete the node by the command's exit status.

The command finds CLAIMDAG_ID, CLAIMDAG_GEN, CLAIMDAG_SUMMARY and CLAIMDAG_SOCKET in its environment.
The exit status is the command's (128+n when signal n killed it); 126 or 127 when it cannot be started,
and the node is handed back. Told to stop (SIGTERM, SIGINT, SIGHUP) it ends the command, hands the node
back and exits with 128+n. Everything that the command started ends with the claim, in a session of its own too,
unless --leave-daemons says otherwise. What it writes is kept for `claimdag output ID`, unless it has the terminal.
With exit status 75 the node is tried again after its retry delay, whether it has retries or not; with 100 it fails at
once, even if retries are left."""

WORK_ABOUT = """Run a command for node after node, each claimed when the one before is finished.

As `claimdag run` for every node. It waits for work indefinitely; with --until-empty it ends with 0 once all
work is finished, failed or not, and with 3 where what is left needs a person. With -n N it
is N workers, NAME/1 to NAME/N. What the commands write is shown as lines with the node's id before
them, standard error too, and kept for `claimdag output ID`."""


def main_run(argv: Sequence[str], place: Endpoint) -> int:
    """Run `claimdag run`. Returns the exit status."""
    parser = make_parser("run", RUN_ABOUT, ["claimdag run --assignee alice 7q2f-17 -- make test"])
    args, command = _parse(parser, {"id": "", "gen": "", "capture": ""}, ("id",), argv)
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
    parser = make_parser(
        "work",
        WORK_ABOUT,
        [
            "claimdag work --assignee alice -- ./agent.sh",
            "claimdag work --assignee bot --role verifier -n 4 --until-empty -- make -C tests",
        ],
    )
    flags = {"role": "", "slack": "", "strict": "", "under": "only this node and what is below it",
             "workers": "", "until_empty": ""}  # fmt: skip
    args, command = _parse(parser, flags, (), argv)
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


def _parse(
    parser: Parser, flags: Mapping[str, str], needs: Sequence[str], argv: Sequence[str]
) -> tuple[argparse.Namespace, list[str]]:
    """Return the options, and the command after `--`."""
    lease = "seconds of quiet after which the node goes to another (also 90s, 15m)"
    flags = {**flags, "actor": "who works", "lease": lease, "kill_after": "", "leave_daemons": "",
             "final_exit": "", "no_capture": "", "output_max": "", "output_total": ""}  # fmt: skip
    add_flags(parser, flags, needs)
    # --actor may stand in the environment, so argparse would call it optional here.
    usage = parser.format_usage().removeprefix("usage: ").rstrip().replace("[--actor NAME]", "--actor NAME")
    parser.usage = f"{usage} -- COMMAND [ARGUMENT ...]"
    arguments = [*argv]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    args = parser.parse_args(arguments[:at])
    command = arguments[at + 1 :]
    settle_all(args, flags)
    check_needs(args, (*needs, "actor"))
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
