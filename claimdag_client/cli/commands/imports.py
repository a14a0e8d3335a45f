"""The verb import: nodes from an issue tracker's export, all of them or none."""

from __future__ import annotations

import time

from claimdag_client.cli.commands.submission import Progress, pieces_of, placed, submit_nodes
from claimdag_client.cli.parsing import Parser, add_actor, add_json, add_once
from claimdag_client.cli.render.text import clean, counted
from claimdag_client.cli.session import DONE, Command, Failed, Session
from claimdag_client.errors import Refused
from claimdag_client.importers.beads import BeadsImporter
from claimdag_client.importers.interface import Options
from claimdag_client.importers.resolve import Resolved, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

#: Of what is held back, so many are told one by one without --verbose.
HELD_SHOWN = 20


def _import_options(parser: Parser) -> None:
    parser.add_argument("format", metavar="FORMAT", choices=("beads",), help="whose export it is: beads")
    parser.add_argument("file", metavar="FILE", help="the export; - reads standard input")
    parser.add_argument("--all", action="store_true", help="take closed issues as work to do as well")
    parser.add_argument(
        "--skip-bad", action="store_true", help="go on without what is faulty; what that leaves in doubt is held back"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and create nothing")
    parser.add_argument("--keep-holders", action="store_true", help="hold back what somebody has in hand there")
    parser.add_argument("--verbose", action="store_true", help="tell each row that is held back or left out")
    add_actor(parser, "who says so, for the ledger")
    add_once(parser)
    add_json(parser)


def _import(args: argparse.Namespace, session: Session) -> int:
    progress = Progress()
    options = Options(now=time.time(), closed=args.all, keep_holders=args.keep_holders, tick=progress.tick)
    draft = BeadsImporter().read(pieces_of(args.file, progress), options)
    found = resolve(draft, progress.tick)
    progress.clear()
    _tell_faults(found, args, session)
    nodes = found.nodes()
    if args.dry_run:
        _say_nodes(nodes, args, session)
        return DONE
    if not nodes:
        closed = found.left_out().get("closed", 0)
        session.note(f"nothing to do in it{f'; {closed} closed issues are taken with --all' if closed else ''}")
        return DONE
    try:
        ids = submit_nodes(session, nodes, args, progress)
    except Refused as exc:
        raise placed(exc, [f"of {item.place}" for item in found.items.values()]) from None
    if args.json:
        for node, node_id in zip(nodes, ids, strict=True):
            session.say_json({"ref": node["ref"], "id": node_id})
    else:
        session.say(_told(found, nodes, ids))
    return DONE


def _tell_faults(found: Resolved, args: argparse.Namespace, session: Session) -> None:
    """Tell everything at once: faults, what is held, notes. Failed if there are faults and --skip-bad is not given."""
    draft = found.draft
    for fault in draft.faults:
        without = f"; going on without {fault.without}" if args.skip_bad else ""
        session.note(clean(f"{args.file}: {fault}{without}"))
    shown = len(draft.held) if args.verbose else HELD_SHOWN
    for held in draft.held[:shown]:
        session.note(clean(f"{args.file}: {held}"))
    if len(draft.held) > shown:
        session.note(f"and {len(draft.held) - shown} more are held (--verbose: each by its place)")
    for note in draft.notes if args.verbose else ():
        session.note(clean(f"note: {args.file}: {note}"))
    if draft.notes and not args.verbose:
        sorts = "; ".join(f"{count} {sort}" for sort, count in found.noted().items())
        session.note(f"note: {clean(args.file)}: {sorts} (--verbose: each by its place)")
    if draft.faults and not args.skip_bad:
        raise Failed(
            f"{args.file}: {counted(len(draft.faults), 'fault')}, nothing was created",
            remedy="mend the file, or go on without what is faulty: --skip-bad",
        )


def _say_nodes(nodes: Sequence[dict[str, Any]], args: argparse.Namespace, session: Session) -> None:
    for node in nodes if args.json else ():
        session.say_json(node)
    if not args.json:
        session.say(f"{counted(len(nodes), 'node')} would be created")


def _told(found: Resolved, nodes: Sequence[dict[str, Any]], ids: Sequence[str]) -> str:
    groups = sum(node.get("kind", "task") != "task" for node in nodes)
    edges = sum(len(node.get("deps", ())) for node in nodes)
    held = sum("status" in node for node in nodes)
    text = f"{counted(len(ids), 'node')}, {clean(ids[0])} to {clean(ids[-1])}: "
    text += f"{counted(groups, 'group')}, {counted(edges, 'dependency', 'dependencies')}"
    if held:
        text += f", {held} held"
    left_out = found.left_out()
    if left_out:
        text += "; left out: " + ", ".join(f"{count} {clean(reason)}" for reason, count in left_out.items())
    return text


VERBS = {
    "import": Command(
        _import,
        _import_options,
        about=(
            "Create nodes from an issue tracker's export, all of them or none: epics become goals, molecules "
            "molecules, blocks an order, parent-child the parent, estimated minutes the cost, priorities 0 to 4 become "
            "20, 10, 0, -10 and -20. What is closed or deleted counts as met. What the tracker would not offer comes "
            "as blocked, with the reason at the end of its summary: status blocked, deferred or of the project's own, "
            "put off, pinned, a template, ephemeral, an open gate, an unknown type, and what waits on anything that is "
            "not known to be finished. What somebody has in hand there (in_progress, hooked) is offered here, or held "
            "with --keep-holders. Every fault is reported by its line before anything is created."
        ),
        examples=[
            "claimdag import beads .beads/issues.jsonl",
            "claimdag import beads export.jsonl --all --skip-bad",
            "bd export | claimdag import beads - --dry-run",
        ],
    ),
}
