"""The verb submit: all nodes of a plan file, or none of them."""

from __future__ import annotations

from claimdag_client._transport.connection import Refused
from claimdag_client.cli.commands.submission import Progress, placed, read_file, submit_nodes
from claimdag_client.cli.parsing import Parser, add_actor, add_json, add_once
from claimdag_client.cli.render.text import clean, counted
from claimdag_client.cli.session import DONE, Command, Failed, Session
from claimdag_client.importers import plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import Any


def _submit_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a plan in .json, .yaml or .toml; - reads standard input")
    parser.add_argument("--format", choices=plan.FORMATS, help="of standard input, or of a file with another ending")
    parser.add_argument("--dry-run", action="store_true", help="check its form, and create nothing")
    add_actor(parser, "who says so, for the ledger")
    add_once(parser)
    add_json(parser)


def _submit(args: argparse.Namespace, session: Session) -> int:
    progress = Progress()
    form = args.format or ("json" if args.file == "-" else None)
    try:
        form = form or plan.format_of(args.file)
        text = read_file(args.file)
        progress.doing = "reading the plan"
        # A dry run asks no daemon, so it leaves bare numbers as they are.
        taken = plan.read(text, form, str if args.dry_run else session.node_id)
    except plan.BadPlan as exc:
        progress.clear()
        if len(exc.faults) > 1:
            for fault in exc.faults:
                session.note(f"{clean(args.file)}: {clean(fault)}")
        raise Failed(f"{args.file}: {exc}", remedy=exc.remedy) from None
    if args.dry_run:
        _say_nodes(taken.nodes, args, session)
        return DONE
    for resource, units in taken.capacities.items():
        session.ask("capacity", resource=resource, units=units, actor=args.actor)
    try:
        ids = submit_nodes(session, taken.nodes, args, progress)
    except Refused as exc:
        raise placed(exc, taken.places) from None
    for node, node_id in zip(taken.nodes, ids, strict=True):
        if args.json:
            session.say_json({"ref": node.get("ref"), "id": node_id})
        else:
            session.say(clean(node_id))
    return DONE


def _say_nodes(nodes: Iterable[dict[str, Any]], args: argparse.Namespace, session: Session) -> None:
    count = 0
    for node in nodes:
        count += 1
        if args.json:
            session.say_json(node)
    if not args.json:
        session.say(f"{counted(count, 'node')} would be created")


VERBS = {
    "submit": Command(
        _submit,
        _submit_options,
        about="Create the nodes of a plan, all of them or none. Prints their ids in the order of the plan.",
        examples=["claimdag submit plan.yaml", "claimdag submit - --format json < plan.json"],
    ),
}
