"""The commands that do one thing with one node or with several, in one step: all of them or none.

With one node each is the request that scripts have always made, and prints what that prints.
"""

from __future__ import annotations

from claimdag_client.cli.command import Command, fields_of, results_of, show
from claimdag_client.cli.render.text import clean
from claimdag_client.cli.session import DONE, Session, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

_HOLDER = "who holds it: any other actor is refused"
_HELD = {"some": "", "actor": _HOLDER, "gen": "", "lease": "", "bound": "", "once": "", "json": ""}
_MOVED = {"some": "", "actor": "", "gen": "", "once": "", "json": ""}
_SCOPE = "only what is this node or below it, with"
#: How many of the last lines of a command's output stand below its node.
OUTPUT_LINES = 5
#: The flag that stands for the ids, by the command.
_INSTEAD = {"reopen": "failed", "archive": "all_done", "cancel": "under"}


def _several(args: Namespace, session: Session) -> int:
    verb = session.verb
    fields = fields_of(COMMANDS[verb], args, session)
    _check(args, verb)
    if verb == "archive":
        under = fields.pop("under", None)
        if args.all_done:
            done = session.ask("list", status="done", under=under)["nodes"]
            if not done:
                return DONE
            fields["ids"] = [node["id"] for node in done]
    _show(args, session, session.ask(verb, **fields))
    return DONE


def _each(args: Namespace, session: Session) -> int:
    """Look at one node after the other; nothing is shown if one of them is refused."""
    command = COMMANDS[session.verb]
    answers = []
    for node_id in dict.fromkeys(map(session.node_id, args.ids)):
        session.named = node_id
        answers.append(session.ask(session.verb, id=node_id))
    for ok in answers:
        show(command, ok, args, session)
        if not args.json:
            _show_output(str(ok["id"]), session)
    return DONE


def _show_output(node_id: str, session: Session) -> None:
    """Show the last lines that the command of a node wrote, if any are kept; they are text here, and act on nothing."""
    from claimdag_client import outputs
    from claimdag_client.cli.render.text import cut, room_for

    session.doing = "reading the output"
    place = session.place
    attempt, lines = outputs.last_lines(outputs.output_directory(place.directory, place.socket), node_id, OUTPUT_LINES)
    if lines:
        paint = session.paint
        session.say(f"  {paint('output', 'dim')}    of attempt {attempt}, its end (claimdag output {clean(node_id)})")
        session.say_all(f"    {cut(clean(line), room_for(paint, 4), unicode=paint.unicode)}" for line in lines)


def _check(args: Namespace, verb: str) -> None:
    """Refuse a command that names its nodes in no way, or in two."""
    instead = _INSTEAD.get(verb)
    given = instead is not None and bool(getattr(args, instead))
    spelt = {"failed": "--failed", "all_done": "--done", "under": "--under"}.get(instead or "", "")
    if given and args.ids:
        raise UsageError(f"{spelt} stands for the IDs: name the one or the others")
    if not given and not args.ids:
        raise UsageError("which node? name its ID" + (f", or say {spelt}" if spelt else ""))
    if not given and getattr(args, "under", None) is not None:
        raise UsageError(f"--under goes with {spelt}")


def _show(args: Namespace, session: Session, ok: dict[str, Any]) -> None:
    from claimdag_client.cli.render import answers

    command = COMMANDS[session.verb]
    for each in results_of(ok):
        if args.json:
            session.say_json(each)
            continue
        named = f"{clean(each['id'])} " if "results" in ok and "id" in each else ""
        session.say_all(named + line for line in getattr(answers, command.show)(each, session.paint))


COMMANDS: dict[str, Command] = {
    "get": Command(
        run=_each, flags={"some": "nodes: their ids, or the numbers in them", "json": ""}, needs=("some",), show="page",
        about="Show every field of a node, or of several one after the other, and the end of what its command wrote.",
        examples=("claimdag get 7q2f-1", "claimdag get 3 4"),
    ),
    "why": Command(
        run=_each, flags={"some": "nodes: their ids, or the numbers in them", "json": ""}, needs=("some",), show="why",
        about="Say why a node, or each of several, has its status, and what to do about it; with the end of what its "
        "command wrote.",
        examples=("claimdag why 7q2f-2",),
    ),
    "renew": Command(
        run=_several, needs=("some",), flags={**_HELD, "pid": ""}, show="lease",
        about="Move the deadline of a claim: its lease starts anew. Prints gen=N expires_in=S.",
        examples=("claimdag renew 7q2f-1 --actor alice --gen 2", "claimdag renew 7q2f-1 --gen 2 --lease 1h"),
    ),
    "running": Command(
        run=_several, needs=("some",), flags=_HELD, show="lease",
        about="Say that the work on a claimed node has begun. Renews the lease too. Prints gen=N expires_in=S.",
        examples=("claimdag running 7q2f-1 --actor alice --gen 2",),
    ),
    "release": Command(
        run=_several, needs=("some",), flags={**_MOVED, "actor": _HOLDER}, show="gen",
        about="Hand a claimed node back, for any worker to claim. Prints gen=N.",
        examples=("claimdag release 7q2f-1 --actor alice --gen 2",),
    ),
    "reopen": Command(
        run=_several, flags={**_MOVED, "failed": "", "under": f"{_SCOPE} --failed"}, show="gen",
        about=(
            "Bring finished nodes back, with what was cancelled because of them. Prints gen=N; of several nodes each "
            "with its id. --failed brings back all that failed."
        ),
        examples=("claimdag reopen 7q2f-1", "claimdag reopen 3 4 5", "claimdag reopen --failed --under 7"),
    ),
    "archive": Command(
        run=_several, flags={**_MOVED, "all_done": "", "under": f"{_SCOPE} --done"}, show="gen",
        about=(
            "Hide finished nodes from the list, with --done all that are done. Prints gen=N; of several nodes each "
            "with its id."
        ),
        examples=("claimdag archive 7q2f-1", "claimdag archive --done"),
    ),
    "unarchive": Command(
        run=_several, needs=("some",), flags=_MOVED, show="gen",
        about="Show an archived node again. Prints gen=N.",
        examples=("claimdag unarchive 7q2f-1",),
    ),
    "cancel": Command(
        run=_several, show="ids",
        flags={"some": "nodes: each and everything under it is ended, held or not",
               "under": "what is unfinished of this node and below it, be it nothing", "error": "", "actor": "",
               "once": "", "json": ""},
        about=(
            "End nodes and everything under them, held nodes too: all of them in one step, or none. Prints the ids of "
            "all that was cancelled."
        ),
        examples=('claimdag cancel 7q2f-1 --error "not wanted any more"', "claimdag cancel 3 4 5"),
    ),
}  # fmt: skip
