"""The command complete: end a node, and with --next claim the next one in the same step."""

from __future__ import annotations

from claimdag_client.cli.command import Command, fields_of, results_of, show
from claimdag_client.cli.render.text import clean
from claimdag_client.cli.session import DONE, REFUSED, Session, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

#: The fields of the claim that follows, which `next` of the request holds.
_NEXT_FIELDS = ("role", "slack", "strict", "lease", "bound", "pid", "wait", "under")


def _complete(args: Namespace, session: Session) -> int:
    command = COMMANDS["complete"]
    chosen = {name: getattr(args, name) for name in _NEXT_FIELDS if getattr(args, name) is not None}
    if args.next and args.actor is None:
        raise UsageError("--next needs --actor: the name of who claims the next node")
    if args.next and len(set(args.ids)) > 1:
        raise UsageError("--next goes with one node, not with several")
    if chosen and not args.next:
        raise UsageError(f"--{next(iter(chosen))} is for --next")
    if "under" in chosen:
        chosen["under"] = session.node_id(chosen["under"])
    fields = {name: value for name, value in fields_of(command, args, session).items() if name not in _NEXT_FIELDS}
    ok = session.ask("complete", **fields, next=chosen if args.next else None)
    for each in results_of(ok):
        show(command, each, args, session)
    if not args.next or ok.get("next"):
        return DONE
    # The node is complete; the status says why nothing was claimed after it.
    from claimdag_client.cli.refusals import status_of

    code = str(ok.get("code") or "")
    message = (ok.get("next_error") or {}).get("message") or f"next: {code}"
    session.note(f"{clean(session.named)} is complete; {clean(message)}")
    return status_of(code) if code else REFUSED


COMMANDS = {
    "complete": Command(
        run=_complete, needs=("some",), show="completed",
        flags={
            "some": "", "outcome": "", "new_summary": "", "error": "what went wrong, of a failed or cancelled one",
            "actor": "who holds it: any other actor is refused; with --next, who claims that", "gen": "", "once": "",
            "final": "", "json": "", "next": "", "role": "", "slack": "", "strict": "", "lease": "", "bound": "",
            "pid": "", "wait": "",
            "under": "claim the next one only from this node and what is below it",
        },
        about=(
            "End nodes, held or not. Prints their status and what that made ready; with --next also id=ID gen=N of "
            "the next one, or exits with 3 or 4 if there is none. A failure cancels what waits for it to be done: "
            "`claimdag log --limit 1` names that."
        ),
        examples=(
            "claimdag complete 7q2f-1 --actor alice --gen 2",
            'claimdag complete 7q2f-1 --status failed --error "does not compile"',
            "claimdag complete 7q2f-1 --actor alice --gen 2 --next --role implementor",
        ),
    ),
}  # fmt: skip
