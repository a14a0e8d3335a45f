"""The command upsert: create a node, or change one."""

from __future__ import annotations

from time import time

from claimdag_client.cli.command import Command, fields_of
from claimdag_client.cli.render.text import clean
from claimdag_client.cli.session import DONE, Session, UsageError
from claimdag_client.cli.streams import STANDARD_INPUT, read_text
from claimdag_client.cli.values import NULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any


def _upsert(args: Namespace, session: Session) -> int:
    request: dict[str, Any] = {"op": "upsert", **fields_of(COMMANDS["upsert"], args, session)}
    if args.summary == STANDARD_INPUT:
        request["summary"] = read_text(STANDARD_INPUT).rstrip("\n")
    # These may be null, which is different from not given.
    if args.parent is not None:
        request["parent"] = None if args.parent is NULL else session.node_id(args.parent)
    if args.max_attempts is not None:
        request["max_attempts"] = None if args.max_attempts is NULL else args.max_attempts
    if args.begin_in is not None and args.begin_at is not None:
        raise UsageError("--in and --at say both when it begins: give one")
    if args.begin_in is not None:
        request["not_before"] = time() + args.begin_in
    if args.begin_at is not None:
        request["not_before"] = args.begin_at
    request |= _sets(args, session)
    node = session.put(request)
    if args.json:
        session.say_json(node)
    else:
        session.say(clean(node["id"]))
    return DONE


def _sets(args: Namespace, session: Session) -> dict[str, Any]:
    """Return needs and deps, which a request replaces as a whole."""
    for given, none in (("need", "no_needs"), ("dep", "no_deps")):
        if getattr(args, given) and getattr(args, none):
            raise UsageError(f"--{given} and --{none.replace('_', '-')} contradict each other")
    fields: dict[str, Any] = {}
    if args.need or args.no_needs:
        fields["needs"] = needs = dict(args.need or ())
        if len(needs) < len(args.need or ()):
            raise UsageError("--need: a resource is given twice")
    if args.dep or args.no_deps:
        fields["deps"] = [
            {"on": session.node_id(on)} | ({} if when is None else {"when": when}) for on, when in args.dep or ()
        ]
    return fields


COMMANDS = {
    "upsert": Command(
        run=_upsert,
        flags={
            "id": "the node to change; without it one is created", "kind": "", "set_status": "", "node_role": "",
            "parent": "", "summary": "", "cost": "", "priority": "", "need": "", "dep": "", "no_needs": "",
            "no_deps": "", "max_attempts": "", "retries": "", "retry_delay": "", "begin_in": "", "begin_at": "",
            "actor": "who says so, for the ledger", "once": "", "json": "",
        },
        about="Create a node, or change the fields given of one that exists. Prints its id.",
        examples=(
            'claimdag upsert --summary "write the parser" --role implementor --cost 600',
            'claimdag upsert --summary "test it" --dep 7q2f-1 --need browser=1',
            "claimdag upsert 7q2f-2 --status blocked",
            "claimdag upsert 7q2f-2 --at 18:30",
        ),
    ),
}  # fmt: skip
