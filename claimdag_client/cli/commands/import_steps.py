"""Does the steps of an import at the daemon, and tells them as a table."""

from __future__ import annotations

from claimdag_client.cli.commands.submission import placed, submit_nodes
from claimdag_client.cli.render.text import clean, counted, cut, size_of_terminal
from claimdag_client.cli.session import Failed
from claimdag_client.errors import Refused
from claimdag_client.importers.matching import CANCEL, DONE, KEEP, NEW, SAME, UPDATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from claimdag_client.cli.commands.submission import Progress
    from claimdag_client.cli.session import Session
    from claimdag_client.importers.matching import Comparison, Step
    from claimdag_client.importers.resolve import Resolved

REFUSED = "refused"


def perform(comparison: Comparison, args: argparse.Namespace, session: Session, progress: Progress) -> None:
    """Do every step: new nodes first, all or none, then updates, then what ends. A refused step says so in `why`."""
    ids = submit_new(comparison.of(NEW), args, session, progress)
    todo = comparison.of(UPDATE)
    while todo:
        # An update may be refused for an edge that another one is about to take away: those are tried again.
        refused = [step for step in todo if not _do(step, session, args, "upsert", **_with_ids(step.fields, ids))]
        if len(refused) == len(todo):
            break
        todo = refused
    for step in todo:
        step.action = REFUSED
    for action, op in ((DONE, "complete"), (CANCEL, "cancel")):
        for step in comparison.of(action):
            if not _do(step, session, args, op):
                step.action = REFUSED


def submit_new(
    steps: Sequence[Step], args: argparse.Namespace, session: Session, progress: Progress, *, dry_run: bool = False
) -> dict[str, str]:
    """Submit the new nodes, or only try to. Returns the id of each key, and sets it in its step."""
    if not steps:
        return {}
    try:
        ids = submit_nodes(session, [step.fields for step in steps], args, progress, dry_run=dry_run)
    except Refused as exc:
        raise placed(exc, [f"of {step.place}" for step in steps]) from None
    if len(ids) != len(steps):
        raise Failed("the token of --once was used for another import", remedy="choose another one")
    if dry_run:
        return {}
    for step, node_id in zip(steps, ids, strict=True):
        step.id = node_id
    return {step.key: node_id for step, node_id in zip(steps, ids, strict=True)}


def _do(step: Step, session: Session, args: argparse.Namespace, op: str, **fields: Any) -> bool:
    try:
        session.ask(op, id=step.id, actor=None if op == "complete" else args.actor, **fields)
    except Refused as exc:
        step.why = str(exc)
        return False
    return True


def _with_ids(fields: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """Return the fields of an update with the ids of new nodes in place of their keys."""
    found = dict(fields)
    if "parent" in found:
        found["parent"] = ids.get(found["parent"], found["parent"])
    if "deps" in found:
        found["deps"] = [{**dep, "on": ids.get(dep["on"], dep["on"])} for dep in found["deps"]]
    return found


def tell(comparison: Comparison, found: Resolved, args: argparse.Namespace, session: Session) -> None:
    """Write the table: one row for each step that is not about a row that is as it was, and the counts."""
    if args.json:
        for step in comparison.steps:
            row = {"ref": step.key, "id": step.id, "action": step.action}
            session.say_json({**row, **step.fields} if args.dry_run and step.action == NEW else row)
        return
    rows = [step for step in comparison.steps if step.action != SAME or args.verbose]
    width = max((len(step.id or "-") for step in rows), default=0)
    columns = size_of_terminal()[0] if session.paint.tty else 10_000
    for step in rows:
        why = f"  ({step.why})" if step.why else ""
        line = clean(f"{step.action:<7}  {step.id or '-':<{width}}  {step.summary}{why}")
        session.say(cut(line, columns, unicode=session.paint.unicode))
    session.say(_counts(comparison, found, dry_run=args.dry_run))


def _counts(comparison: Comparison, found: Resolved, *, dry_run: bool) -> str:
    new = comparison.of(NEW)
    parts = []
    if new or not comparison.steps:
        text = counted(len(new), "node") + (" would be created" if dry_run else "")
        if new and not dry_run:
            text += f", {clean(str(new[0].id))} to {clean(str(new[-1].id))}"
        groups = sum(step.fields.get("kind", "task") != "task" for step in new)
        edges = sum(len(step.fields.get("deps", ())) for step in new)
        held = sum("status" in step.fields for step in new)
        text += f": {counted(groups, 'group')}, {counted(edges, 'dependency', 'dependencies')}"
        parts.append(text + (f", {held} held" if held else ""))
    words = {UPDATE: "updated", DONE: "finished", CANCEL: "cancelled", KEEP: "kept", SAME: "as they were",
             REFUSED: "refused"}  # fmt: skip
    for action, word in words.items():
        count = len(comparison.of(action))
        if count:
            parts.append(f"{count} {word}")
    left_out = found.left_out()
    if left_out:
        parts.append("left out: " + ", ".join(f"{count} {clean(reason)}" for reason, count in left_out.items()))
    return "; ".join(parts)
