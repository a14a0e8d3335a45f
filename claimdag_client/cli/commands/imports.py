"""The command import: nodes of what is planned elsewhere. A second import of a file brings the graph up to it."""

from __future__ import annotations

import gc
import os
import time

from claimdag_client.cli.command import Command
from claimdag_client.cli.commands.import_steps import REFUSED, perform, submit_new, tell
from claimdag_client.cli.commands.submission import Progress, pieces_of
from claimdag_client.cli.render.text import clean, counted
from claimdag_client.cli.session import DONE, Failed, Session, UsageError
from claimdag_client.errors import ClaimdagError, Unreachable
from claimdag_client.importers import registry
from claimdag_client.importers.interface import Options
from claimdag_client.importers.matching import NEW, Comparison, compare
from claimdag_client.importers.resolve import Resolved, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from claimdag_client.importers.interface import Importer

#: Of what is held back, so many are told one by one without --verbose.
HELD_SHOWN = 20
#: With --watch the file is looked at so often, in seconds.
LOOK_S = 0.5


def _import(args: argparse.Namespace, session: Session) -> int:
    if len(args.words) > 2:
        raise UsageError("too many words: import [SOURCE] FILE")
    args.file = args.words[-1]
    source = args.words[0] if len(args.words) == 2 else None
    if source is None and args.file in registry.OURS and not os.path.exists(args.file):
        raise UsageError(f"which file? import {args.file} FILE, or - for standard input")
    if source is not None and source not in registry.names():
        raise UsageError(f"there is no source {source}: it is one of {', '.join(registry.names())}")
    if args.watch and args.file == "-":
        raise UsageError("standard input cannot be watched: name a file")
    if not args.watch:
        return _once(source, args, session)
    while True:
        before = _state_of(args.file)
        try:
            _once(source, args, session)
        except (Failed, ClaimdagError) as exc:
            session.note(clean(f"{exc}; waiting until {args.file} changes"))
        session.deliver()
        # A daemon may leave, or be started again, before the file changes.
        session.close()
        while _state_of(args.file) == before:
            time.sleep(LOOK_S)


def _state_of(path: str) -> tuple[int, int, int] | None:
    """Return what tells one state of a file from the next; None while it is not there."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _once(source: str | None, args: argparse.Namespace, session: Session) -> int:
    """Import the file as it is now."""
    progress = Progress()
    found = _read(source, args, session, progress)
    _tell_faults(found, args, session)
    if args.prune_missing:
        _check_prune(found, args)
    comparison = _compare(found, args, session)
    if comparison.is_of_another_list and not args.renamed:
        raise Failed(
            f"{args.file}: {comparison.renamed} of {comparison.matched} ids name other work here, so that nothing "
            "was done: is it another list?",
            remedy="import it --under a node of its own; if the titles did change: --renamed",
        )
    if args.dry_run:
        if session.connected:
            submit_new(comparison.of(NEW), args, session, progress, dry_run=True)
    else:
        perform(comparison, args, session, progress)
    if comparison.steps:
        tell(comparison, found, args, session)
    else:
        closed = sum(found.left_out().values())
        session.note(f"nothing to do in it{f'; {closed} finished or left out (--all takes these)' if closed else ''}")
    if comparison.missing and not args.prune_missing:
        missing = counted(len(comparison.missing), "unfinished node is", "unfinished nodes are")
        session.note(f"{missing} not in the file any more (--prune-missing cancels)")
    refused = comparison.of(REFUSED)
    if refused:
        raise Failed(f"{args.file}: {counted(len(refused), 'step was', 'steps were')} refused")
    return DONE


def _read(source: str | None, args: argparse.Namespace, session: Session, progress: Progress) -> Resolved:
    pieces = pieces_of(args.file, progress)
    importer: Importer
    if source is None:
        head: list[bytes] = []
        for piece in pieces:
            head.append(piece)
            if sum(map(len, head)) >= registry.HEAD_BYTES:
                break
        guessed = registry.guessed(args.file, b"".join(head)[: registry.HEAD_BYTES])
        if guessed is None:
            raise Failed(
                f"{args.file}: it is not clear what it is",
                remedy=f"name the source before the file: {', '.join(registry.names())}",
            )
        session.note(clean(f"{args.file} is taken for {guessed.name}: {guessed.about}"))
        importer, pieces = guessed, _joined(head, pieces)
    else:
        importer = registry.named(source)
    options = Options(
        now=time.time(),
        closed=bool(args.all),
        keep_holders=args.keep_holders,
        guess=args.guess,
        tag=args.tag,
        reverse=args.reverse,
        tick=progress.tick,
    )
    # Every row lives on, so that looking for garbage among them only takes time.
    gc.disable()
    try:
        found = resolve(importer.read(pieces, options), progress.tick)
    finally:
        gc.enable()
    progress.clear()
    return found


def _joined(head: list[bytes], rest: Iterator[bytes]) -> Iterator[bytes]:
    yield from head
    yield from rest


def _compare(found: Resolved, args: argparse.Namespace, session: Session) -> Comparison:
    """Compare with the graph; a dry run where no daemon listens compares with an empty one."""
    if args.dry_run or not found.items:
        # Neither is a reason to start a daemon.
        try:
            session.connect_running()
        except Unreachable:
            if args.dry_run:
                session.note("no daemon listens: nothing to compare it with")
            return compare(found, [])
    under = None if args.under is None else session.node_id(args.under)
    listing = session.ask("list", all=True, under=under)
    return compare(found, listing["nodes"], under=under, prune=args.prune_missing)


def _check_prune(found: Resolved, args: argparse.Namespace) -> None:
    """Raise Failed if what the file lacks says nothing of what is to be cancelled."""
    draft = found.draft
    if draft.owns is None and args.under is None:
        raise Failed(
            "nothing tells the nodes of this source from others, so that none was cancelled",
            remedy="import it --under a node of its own, and prune there",
        )
    if draft.faults:
        raise Failed(
            f"{args.file}: a row that cannot be read is not one that is gone, so that nothing was done",
            remedy="mend the file, or leave out --prune-missing",
        )
    if not (draft.items or draft.finished or draft.left_out):
        raise Failed(
            f"{args.file}: it has no rows, so that nothing was cancelled",
            remedy="look whether the export went wrong",
        )


def _tell_faults(found: Resolved, args: argparse.Namespace, session: Session) -> None:
    """Tell everything at once: faults, what is held, notes. Failed if there are faults and --skip-bad is not given."""
    draft = found.draft
    for fault in draft.faults:
        without = f"; going on without {fault.without}" if args.skip_bad else ""
        session.note(clean(f"{args.file}: {fault}{without}"))
    faulty = {fault.at for fault in draft.faults}
    held = [each for each in draft.held if each.at not in faulty]  # a fault says already what holds its row
    shown = len(held) if args.verbose else HELD_SHOWN
    for each in held[:shown]:
        session.note(clean(f"{args.file}: {each}"))
    if len(held) > shown:
        session.note(f"and {len(held) - shown} more are held (--verbose: each by its place)")
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


COMMANDS = {
    "import": Command(
        run=_import,
        needs=("source_and_file",),
        flags={
            "source_and_file": f"the source ({', '.join(registry.OURS)}; else guessed), and the file or -",
            "under": "put it all under this node, and look for its nodes there alone",
            "all": "take finished rows as work to do as well", "skip_bad": "", "dry_run": "", "keep_holders": "",
            "prune_missing": "", "renamed": "", "watch": "", "guess": "", "tag": "", "reverse": "",
            "verbose": "tell each row that is held back, left out or the same",
            "actor": "who says so, for the ledger", "once": "", "json": "",
        },
        about=(
            "Create nodes from what is planned elsewhere: an export of the beads tracker, issues of GitHub, a check "
            "list in Markdown, task-master's tasks.json, a graph in DOT, a table in CSV. Every fault is reported by "
            "its line before anything is done.\n\n"
            "A second import of the file updates what is unfinished here, adds what is new, and finishes what is "
            "finished there; a node is found by the id that its summary opens with. Nothing is cancelled without "
            "--prune-missing, and nothing is written to the tracker.\n\n"
            "What is finished there counts as met. What the tracker would not offer comes as blocked, with the reason "
            "at the end of its summary and in `claimdag why`; so does what waits on anything that is not known to be "
            "finished. What a person has in hand there (beads: in_progress, hooked; task-master: in-progress) is "
            "offered here, or held with --keep-holders."
        ),
        examples=(
            "claimdag import beads .beads/issues.jsonl",
            "claimdag import specs/001/tasks.md --dry-run",
            "gh issue list --json number,title,state,labels,parent,blockedBy | claimdag import github -",
        ),
    ),
}  # fmt: skip
