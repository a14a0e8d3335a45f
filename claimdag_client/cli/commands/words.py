"""The commands that people type by hand: add, done, fail, rm. Each stands for requests that other commands make too."""

from __future__ import annotations

from claimdag_client.cli.command import Command, fields_of, naming, results_of
from claimdag_client.cli.render.text import clean
from claimdag_client.cli.session import DONE, Session, UsageError
from claimdag_client.cli.streams import STANDARD_INPUT, read_text
from claimdag_client.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable
    from typing import Any


# --------------------------------------------------------------------------------------------------------- add


def _add(args: Namespace, session: Session) -> int:
    summaries = _summaries(args.summaries)
    fields = fields_of(COMMANDS["add"], args, session)
    request: dict[str, Any] = {name: fields.pop(name) for name in ("actor", "once") if name in fields}
    if args.under is not None:
        fields["parent"] = session.node_id(args.under)
        del fields["under"]
    if args.need:
        fields["needs"] = dict(args.need)
    if args.wait_for:
        fields["deps"] = [
            {"on": session.node_id(on)} | ({} if when is None else {"when": when}) for on, when in args.wait_for
        ]
    if len(summaries) == 1:
        nodes = [session.put({"op": "upsert", **fields, "summary": summaries[0], **request})]
    else:
        drafts = [{**fields, "summary": summary} for summary in summaries]
        ids = session.put({"op": "submit", "nodes": drafts, **request})["ids"]
        nodes = [{"id": node_id, **draft} for node_id, draft in zip(ids, drafts, strict=True)]
    for node in nodes:
        if args.json:
            session.say_json(node)
        else:
            session.say(clean(node["id"]))
    return DONE


def _summaries(given: Iterable[str]) -> list[str]:
    """Return the summaries named; for - those on standard input, one a line."""
    found: list[str] = []
    for text in given:
        lines = read_text(STANDARD_INPUT).splitlines() if text == STANDARD_INPUT else [text]
        found += [line for line in map(str.strip, lines) if line]
    if not found:
        raise UsageError("SUMMARY is missing: it must be text, or - with one summary a line on standard input")
    return found


# ------------------------------------------------------------------------------------------------ done, fail, rm


def _end(args: Namespace, session: Session) -> int:
    from claimdag_client.cli.render.answers import completed

    fields: dict[str, Any] = {"actor": args.actor}
    if session.verb == "fail":
        fields |= {"status": "failed", "error": args.error}
    for each in results_of(session.ask("complete", **naming(args.ids, session), **fields)):
        if args.json:
            session.say_json(each)
        else:
            session.say_all(completed(each, session.paint))
    return DONE


def _remove(args: Namespace, session: Session) -> int:
    named = list(dict.fromkeys(map(session.node_id, args.ids)))
    ended = _cancel_unfinished(named, args, session)
    removed = list(dict.fromkeys(each for node_id in named for each in (node_id, *ended.get(node_id, ()))))
    session.ask("archive", **naming(removed, session), actor=args.actor)
    if args.json:
        for node_id in named:
            session.say_json({"ids": list(dict.fromkeys([node_id, *ended.get(node_id, ())]))})
    else:
        for each in removed:
            session.say(clean(each))
    return DONE


def _cancel_unfinished(ids: list[str], args: Namespace, session: Session) -> dict[str, list[str]]:
    """Cancel in one step those that are unfinished; return what each ended."""
    while ids:
        try:
            ok = session.ask("cancel", **naming(ids, session), error=args.error, actor=args.actor)
        except Refused as refused:
            finished = {fault["id"] for fault in refused.faults} if len(ids) > 1 else set(ids)
            if refused.code != "terminal" or not finished & set(ids):
                raise
            ids = [node_id for node_id in ids if node_id not in finished]
        else:
            return {node_id: each["ids"] for node_id, each in zip(ids, results_of(ok), strict=True)}
    return {}


COMMANDS = {
    "add": Command(
        run=_add,
        needs=("summaries",),
        flags={
            "summaries": "", "wait_for": "", "under": "the node it is part of", "kind": "", "node_role": "",
            "cost": "", "priority": "", "need": "", "actor": "who says so, for the ledger", "once": "", "json": "",
        },
        about=(
            "Create a node for each SUMMARY, all of them or none, with the same flags. Prints their ids. With - the "
            "summaries are read from standard input, one a line."
        ),
        examples=(
            'claimdag add "write the parser"',
            'claimdag add "test it" "document it" --after 1 --under 7',
            "cat todo.txt | claimdag add -",
        ),
    ),
    "done": Command(
        run=_end,
        needs=("ids",),
        flags={"ids": "", "actor": "who holds them: any other actor is refused", "json": ""},
        about=(
            "End nodes as done, all of them in one step, or none. Prints each with what that made ready. `complete` "
            "has more flags."
        ),
        examples=("claimdag done 7q2f-1", "claimdag done 3 4 5"),
    ),
    "fail": Command(
        run=_end,
        needs=("ids",),
        flags={
            "ids": "", "error": "what went wrong", "actor": "who holds them: any other actor is refused", "json": "",
        },
        about=(
            "End nodes as failed, all of them in one step, or none. What waits for one of them to be done is "
            "cancelled."
        ),
        examples=('claimdag fail 7q2f-1 --error "does not compile"',),
    ),
    "rm": Command(
        run=_remove,
        needs=("ids",),
        flags={"ids": "nodes: each and everything under it goes", "error": "", "actor": "", "json": ""},
        about=(
            "Cancel nodes and everything under them, then archive them: `list --all` still shows them, and `reopen` "
            "brings them back. Prints the ids."
        ),
        examples=("claimdag rm 7q2f-1", "claimdag rm 3 4"),
    ),
}  # fmt: skip
