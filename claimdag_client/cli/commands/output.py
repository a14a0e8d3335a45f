"""The command output: what the command of a node wrote under `run` or `work`, printed or followed."""

from __future__ import annotations

import os
import sys
import time

from claimdag_client import outputs
from claimdag_client.cli.command import Command
from claimdag_client.cli.session import DONE, Failed, Session
from claimdag_client.cli.streams import OutputError
from claimdagd.limits import TERMINAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

#: The pause between two looks at a file that is followed.
FOLLOW_S = 0.1
#: The pause between two questions whether a node that has no output yet has ended.
ASK_S = 0.5


def _output(args: argparse.Namespace, session: Session) -> int:
    id = session.node_id(args.id)
    session.named = id
    session.doing = "reading the output"
    directory = outputs.output_directory(session.place.directory, session.place.socket)
    attempt = args.attempt or _last_attempt(session, directory, id, wait=args.follow)
    if attempt is None:
        session.note(f"nothing of {id} is kept: it wrote nothing, ran with --no-capture, or is too long ago")
        return DONE
    try:
        follower = outputs.Follower(directory, id, attempt)
    except OSError as exc:
        raise Failed(f"attempt {attempt} at {id}: {exc.strerror}", remedy=f"claimdag get {id}") from None
    try:
        _print(follower.read())
        while args.follow and not follower.ended():
            time.sleep(FOLLOW_S)
            _print(follower.read())
        if args.follow:
            _print(follower.read())
    finally:
        follower.close()
    return DONE


def _last_attempt(session: Session, directory: str, id: str, *, wait: bool) -> int | None:
    """Return the last attempt of which output is kept, once there is one; None if there was none to keep."""
    while True:
        if kept := outputs.attempts_of(directory, id):
            return kept[-1]
        node = session.ask("get", id=id)
        if not wait or node["status"] in TERMINAL:
            if node["attempts"]:
                return None
            raise Failed(
                f"no output of {id} is kept",
                remedy="`claimdag run` and `claimdag work` keep it, on this machine and in the daemon's directory",
            )
        time.sleep(ASK_S)


def _print(pieces: Iterable[bytes]) -> None:
    """Write bytes as they are: a terminal acts on the escapes in them, as it would have without a file between."""
    try:
        sys.stdout.flush()
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(1, rest) :]
    except OSError as exc:
        raise OutputError(exc) from None


COMMANDS = {
    "output": Command(
        run=_output,
        about="Print what the command of a node wrote to standard output and error, as it came, bytes and all. "
        "A mark shows what was left out of the middle of a long output.",
        examples=["claimdag output 7q2f-17", "claimdag output 17 -f", "claimdag output 17 --attempt 1"],
        flags={"id": "", "follow": "", "attempt": ""},
        needs=("id",),
    )
}
