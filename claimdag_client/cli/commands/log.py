"""The verb log: entries of the ledger, for people and programs."""

from __future__ import annotations

from claimdag_client.cli.parsing import Parser, add_json, add_node, optional_node_of
from claimdag_client.cli.render.text import clean, clock, cut, some
from claimdag_client.cli.session import DONE, Command, Session, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

    from claimdag_client.cli.render.text import Paint


def entry_lines(entry: Mapping[str, Any], paint: Paint) -> list[str]:
    """One entry as a person reads it: when, who, what; and what became of each node it changed."""
    from claimdag_client.cli.render.node import coloured, sign

    who = f" by {clean(entry['actor'])}" if entry.get("actor") else ""
    head = f"{entry.get('seq', '?'):>6}  {clock(entry.get('at'))}  {paint(clean(entry.get('op', '?')), 'bold')}{who}"
    nodes = entry.get("nodes") or []
    lines = []
    if len(nodes) == 1 and not entry.get("flips"):
        lines.append(f"{head}  {_node(nodes[0], paint)}")
    else:
        lines.append(head + (f"  {len(nodes)} nodes" if len(nodes) > 1 else ""))
        lines.extend(f"        {_node(node, paint)}" for node in nodes)
    for status, ids in (entry.get("flips") or {}).items():
        lines.append(f"        {sign(status, paint)} {some(ids, 8)} {coloured(clean(status), status, paint)}")
    for name, units in (entry.get("capacity") or {}).items():
        lines.append(f"        {clean(name)}: {clean(units)} {'unit' if units == 1 else 'units'}")
    if entry.get("gone"):
        lines.append(f"        pruned: {some(entry['gone'], 8)}")
    if not any(entry.get(part) for part in ("nodes", "flips", "capacity", "gone")):
        # It is there for its token alone: asked again, it is answered the same.
        lines[0] += "  nothing changed"
    return lines


def _node(node: Mapping[str, Any], paint: Paint) -> str:
    from claimdag_client.cli.render.node import coloured, sign

    status = str(node.get("status", "?"))
    words = [sign(status, paint), clean(node.get("id", "?")), coloured(clean(status), status, paint)]
    words.append(f"gen {clean(node.get('gen', '?'))}")
    if node.get("assignee"):
        words.append(f"held by {clean(node['assignee'])}")
    if node.get("cause"):
        words.append(f"because of {clean(node['cause'])}")
    if node.get("error"):
        words.append(f"({clean(node['error'])})")
    if node.get("summary"):
        words.append(cut(clean(node["summary"]), 60, unicode=paint.unicode))
    return " ".join(words)


def _log_options(parser: Parser) -> None:
    add_node(parser, "only what concerns this node")
    parser.add_argument("--from", dest="from_seq", type=int, metavar="SEQ", help="from this entry on")
    parser.add_argument("--limit", type=int, metavar="N", help="at most so many entries")
    add_json(parser)


def _log(args: argparse.Namespace, session: Session) -> int:
    if args.limit is not None and args.limit < 1:
        raise UsageError("--limit: at least 1")
    fields: dict[str, Any] = {"from": args.from_seq, "limit": args.limit, "id": optional_node_of(args, session)}
    entries = session.ask("log", **fields)["entries"]
    for entry in entries:
        if args.json:
            session.say_json(entry)
        else:
            for line in entry_lines(entry, session.paint):
                session.say(line)
    return DONE


VERBS = {
    "log": Command(
        _log,
        _log_options,
        about="The ledger: every change that is still kept, oldest first.",
        examples=["claimdag log --limit 20", "claimdag log 7q2f-1", "claimdag log --from 120 --json"],
    ),
}
