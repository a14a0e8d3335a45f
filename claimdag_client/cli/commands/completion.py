"""The command completion: the script by which a shell completes verbs, flags and ids."""

from __future__ import annotations

from claimdag_client.cli.command import Command
from claimdag_client.cli.session import DONE, Session
from claimdag_client.cli.streams import write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace


def _completion(args: Namespace, session: Session) -> int:
    from claimdag_client.cli.completion import SCRIPTS

    write(SCRIPTS[args.shell])
    return DONE


COMMANDS = {
    "completion": Command(
        run=_completion,
        needs=("shell",),
        flags={"shell": ""},
        about=(
            "Print a script for bash, zsh or fish that completes verbs, flags, values and the ids of unfinished nodes. "
            "Let the shell read it when it starts."
        ),
        examples=("claimdag completion bash >> ~/.bashrc", "claimdag completion fish | source"),
        starts=False,
    ),
}
