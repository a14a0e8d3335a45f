"""The command log: what the ledger still has, of one node or since a moment."""

from __future__ import annotations

from claimdag_client.cli.command import Command, fields_of, show
from claimdag_client.cli.session import DONE, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace


def _log(args: Namespace, session: Session) -> int:
    fields = fields_of(COMMANDS["log"], args, session)
    if args.since is not None:
        # The daemon counts entries, and knows none of the reader's times.
        limit = fields.pop("limit", None)
        found = [entry for entry in session.ask("log", **fields)["entries"] if entry["at"] >= args.since]
        if limit is not None:
            found = found[:limit] if args.from_seq is not None else found[-limit:]
        ok = {"entries": found}
    else:
        ok = session.ask("log", **fields)
    show(COMMANDS["log"], ok, args, session)
    return DONE


COMMANDS: dict[str, Command] = {
    "log": Command(
        run=_log, show="log", rows="entries",
        flags={"id": "only what concerns this node", "from": "", "since": "", "entries": "", "json": ""},
        about="Show the ledger: every change that is still kept, oldest first, and how long ended work had taken.",
        examples=(
            "claimdag log --limit 20", "claimdag log 7q2f-1", "claimdag log --since 15m",
            "claimdag log --from 120 --json",
        ),
    ),
}  # fmt: skip
