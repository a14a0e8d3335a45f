"""How an entry of the ledger is shown to a person. Pure text from the entry as it was journaled."""

from __future__ import annotations

from claimdag_client.cli.render.text import clean, clock, cut, duration, paused_text, some

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from claimdag_client.cli.render.text import Paint


def entry_lines(entry: Mapping[str, Any], paint: Paint) -> list[str]:
    """Return one entry as a person reads it: when, who, what; and what became of each node it changed."""
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
    if entry.get("paused") is not None:
        lines.append(f"        {paused_text(entry['paused']) or 'nothing is paused'}")
    if entry.get("gone"):
        lines.append(f"        pruned: {some(entry['gone'], 8)}")
    if entry.get("paused") is None and not any(entry.get(part) for part in ("nodes", "flips", "capacity", "gone")):
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
    if took := _took(node):
        words.append(took)
    if node.get("cause"):
        words.append(f"because of {clean(node['cause'])}")
    if node.get("error"):
        words.append(f"({clean(node['error'])})")
    if node.get("summary"):
        words.append(cut(clean(node["summary"]), 60, unicode=paint.unicode))
    return " ".join(words)


def _took(node: Mapping[str, Any]) -> str:
    """Return how long a node that has ended took, or when one that failed is tried again; else nothing."""
    began, ended = node.get("started_at"), node.get("finished_at")
    if ended is not None:
        return f"after {duration(max(0.0, ended - began))}" if began is not None else ""
    at, changed = node.get("not_before"), node.get("updated_at")
    if not node.get("failures") or at is None or changed is None or at <= changed:
        return ""
    return f"again in {duration(at - changed)}"
