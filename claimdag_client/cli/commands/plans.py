"""Verbs that make many nodes at once: submit FILE (our own plan format) and import beads FILE. All or nothing."""

from __future__ import annotations

import sys
import time

from claimdag_client._transport.connection import Refused, encode
from claimdag_client.cli.parsing import Parser, add_actor, add_json, add_once
from claimdag_client.cli.render.text import clean, counted
from claimdag_client.cli.session import DONE, Command, Failed, Session
from claimdag_client.importers import beads, plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from typing import Any

#: Work that is over sooner needs no progress line.
PATIENCE_S = 1.0


class Progress:
    """A line on the terminal that says what takes so long, once it takes longer than a second; nothing elsewhere."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._written_at = 0.0
        self._shown = False
        self._wanted = sys.stderr.isatty()
        self.doing = ""

    def tick(self) -> None:
        """Called often while something goes on."""
        if not self._wanted:
            return
        now = time.monotonic()
        if now - self._begun >= PATIENCE_S and now - self._written_at >= 0.1:
            sys.stderr.write(f"\r\x1b[K{self.doing} ... {now - self._begun:.0f} s")
            sys.stderr.flush()
            self._written_at = now
            self._shown = True

    def clear(self) -> None:
        """Take the line away, before anything else is written."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False


def _read_file(path: str) -> bytes:
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as exc:
        raise Failed(f"{path}: {exc.strerror}") from None


def _submit_nodes(
    session: Session, nodes: Sequence[dict[str, Any]], args: argparse.Namespace, progress: Progress
) -> list[str]:
    """Submit, and the ids in the order of `nodes`."""
    request = {"op": "submit", "nodes": nodes}
    for name in ("actor", "once"):
        if getattr(args, name) is not None:
            request[name] = getattr(args, name)
    line = encode(request)
    connection = session.connection
    progress.doing = f"submitting {counted(len(nodes), 'node')}"
    connection.send_line(line)
    connection.settimeout(0.2)
    try:
        while True:
            try:
                answer = connection.receive()
            except TimeoutError:
                progress.tick()
                continue
            if "event" not in answer:
                break
    finally:
        connection.settimeout(None)
        progress.clear()
    if "error" in answer:
        raise Refused(answer["error"])
    ids: list[str] = answer["ok"]["ids"]
    return ids


# ------------------------------------------------------------------------------------------------------ submit


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
        text = _read_file(args.file)
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
        ids = _submit_nodes(session, taken.nodes, args, progress)
    except Refused as exc:
        raise _placed(exc, taken.places) from None
    for node, node_id in zip(taken.nodes, ids, strict=True):
        if args.json:
            session.say_json({"ref": node.get("ref"), "id": node_id})
        else:
            session.say(clean(node_id))
    return DONE


def _placed(refused: Refused, places: Sequence[str]) -> Refused:
    """The refusal, with each fault under its place in the file instead of its number in the submission."""
    faults = refused.details.get("faults") or []
    placed = []
    for fault in faults:
        index = fault.get("index", -1)
        placed.append({**fault, "index": places[index], "ref": None} if 0 <= index < len(places) else fault)
    return Refused({**refused.error, **({"faults": placed} if placed else {})})


def _say_nodes(nodes: Iterable[dict[str, Any]], args: argparse.Namespace, session: Session) -> None:
    count = 0
    for node in nodes:
        count += 1
        if args.json:
            session.say_json(node)
    if not args.json:
        session.say(f"{counted(count, 'node')} would be created")


# ------------------------------------------------------------------------------------------------------ import


def _import_options(parser: Parser) -> None:
    parser.add_argument("format", metavar="FORMAT", choices=("beads",), help="whose export it is: beads")
    parser.add_argument("file", metavar="FILE", help="the export, JSON lines; - reads standard input")
    parser.add_argument("--all", action="store_true", help="take closed issues as work to do as well")
    parser.add_argument("--skip-bad", action="store_true", help="go on without what is faulty")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and create nothing")
    parser.add_argument("--verbose", action="store_true", help="say of each line what is left out, without a fault")
    add_actor(parser, "who says so, for the ledger")
    add_once(parser)
    add_json(parser)


def _import(args: argparse.Namespace, session: Session) -> int:
    progress = Progress()
    progress.doing = f"reading {clean(args.file)}"
    export = beads.read(_read_file(args.file).split(b"\n"), closed=args.all, tick=progress.tick)
    progress.clear()
    for fault in export.faults:
        without = f"; going on without {fault.without}" if args.skip_bad else ""
        session.note(clean(f"{args.file}: {fault}{without}"))
    _say_notes(export, args, session)
    if export.faults and not args.skip_bad:
        raise Failed(
            f"{args.file}: {counted(len(export.faults), 'fault')}, nothing was created",
            remedy="mend the export, or go on without what is faulty: --skip-bad",
        )
    nodes = export.nodes()
    if args.dry_run:
        _say_nodes(nodes, args, session)
        return DONE
    if not nodes:
        closed = export.left_out().get("closed", 0)
        session.note(f"nothing to do in it{f'; {closed} closed issues are taken with --all' if closed else ''}")
        return DONE
    try:
        ids = _submit_nodes(session, nodes, args, progress)
    except Refused as exc:
        raise _placed(exc, [f"of line {issue.line}" for issue in export.taken]) from None
    if args.json:
        for node, node_id in zip(nodes, ids, strict=True):
            session.say_json({"ref": node["ref"], "id": node_id})
    else:
        session.say(_told(export, nodes, ids))
    return DONE


def _say_notes(export: beads.Export, args: argparse.Namespace, session: Session) -> None:
    for note in export.notes if args.verbose else ():
        session.note(clean(f"note: {args.file}: {note}"))
    if export.notes and not args.verbose:
        sorts = "; ".join(f"{count} {sort}" for sort, count in export.noted().items())
        session.note(f"note: {clean(args.file)}: {sorts} (--verbose: each by its line)")


def _told(export: beads.Export, nodes: Sequence[dict[str, Any]], ids: Sequence[str]) -> str:
    groups = sum(node.get("kind", "task") != "task" for node in nodes)
    edges = sum(len(node.get("deps", ())) for node in nodes)
    text = f"{counted(len(ids), 'node')}, {clean(ids[0])} to {clean(ids[-1])}: "
    text += f"{counted(groups, 'group')}, {counted(edges, 'dependency', 'dependencies')}"
    left_out = export.left_out()
    if left_out:
        text += "; left out: " + ", ".join(f"{count} {clean(reason)}" for reason, count in left_out.items())
    return text


VERBS = {
    "submit": Command(
        _submit,
        _submit_options,
        about="Create the nodes of a plan, all of them or none. Prints their ids in the order of the plan.",
        examples=["claimdag submit plan.yaml", "claimdag submit - --format json < plan.json"],
    ),
    "import": Command(
        _import,
        _import_options,
        about=(
            "Create nodes from an issue tracker's export, all of them or none: epics become goals, blocks an order, "
            "parent-child the parent, estimated minutes the cost, priorities 0 to 4 become 20, 10, 0, -10 and -20. "
            "Open issues are taken; what is not taken counts as met. An epic with nothing to do under it is work "
            "itself, a task. Every fault is reported by line before anything is created."
        ),
        examples=[
            "claimdag import beads .beads/issues.jsonl",
            "claimdag import beads export.jsonl --all --skip-bad",
            "bd export | claimdag import beads - --dry-run",
        ],
    ),
}
