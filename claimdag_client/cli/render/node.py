"""How a node looks to a person: its sign and colour, its line in a list, its page. Pure text from a view's dict."""

from __future__ import annotations

from claimdag_client.cli.render.text import (
    Paint,
    clean,
    clean_lines,
    clock,
    columns_of,
    cut,
    duration,
    fold,
    number,
    pad,
    room_for,
    some,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    View = Mapping[str, Any]

#: status: (sign, sign in ASCII, colours)
SIGNS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "todo": ("·", ".", ("dim",)),
    "ready": ("○", "o", ("cyan",)),
    "blocked": ("⊘", "!", ("yellow",)),
    "claimed": ("◐", "@", ("blue",)),
    "running": ("◉", "*", ("blue", "bold")),
    "completing": ("◌", "~", ("magenta",)),
    "done": ("✓", "+", ("green",)),
    "failed": ("✗", "x", ("red",)),
    "cancelled": ("∅", "-", ("dim",)),
}


#: A column of a table is not cut below this.
COLUMN_MIN = 4


def sign(status: str, paint: Paint) -> str:
    """Return the one-character sign of a status, painted."""
    nice, plain, colours = SIGNS.get(status, ("?", "?", ()))
    return paint(nice if paint.unicode else plain, *colours)


def coloured(text: str, status: str, paint: Paint) -> str:
    """Return a clean text in the colour of a status."""
    return paint(text, *SIGNS.get(status, ("", "", ()))[2])


def dep_text(dep: View) -> str:
    """Return a dependency as the command line takes it: ID or ID:after_any."""
    when = dep.get("when", "after_ok")
    return clean(dep.get("on", "?")) + ("" if when == "after_ok" else f":{clean(when)}")


def waits_for(node: View) -> str:
    """Return what a node waits on, in a few words; empty when it waits on nothing."""
    waiting = node.get("waiting_on") or {}
    words = []
    deps = waiting.get("deps") or ()
    if deps:
        words.append("on " + some([dep_text(dep) for dep in deps]))
    for lack in waiting.get("resources") or ():
        lender = lack.get("lender")
        free = lack.get("free", 0)
        of = f"what {clean(lender)} holds" if lender else f"{number(free)} free"
        words.append(f"for {number(lack.get('units', 1))} of {clean(lack.get('resource', '?'))} ({of})")
    return ", ".join(words)


def remarks(node: View) -> list[str]:
    """Return what is worth saying of a node beside its summary, each in a few words."""
    words = []
    if node.get("kind") not in (None, "task"):
        words.append(clean(node["kind"]))
    if node.get("role") not in (None, "unset"):
        words.append(f"for {clean(node['role'])}")
    if node.get("priority"):
        words.append(f"priority {number(node['priority'])}")
    if node.get("assignee"):
        words.append(clean(node["assignee"]))
        if node.get("quiet") is not None:
            words.append(f"quiet {duration(node['quiet'])}")
    if node.get("archived"):
        words.append("archived")
    if node.get("error"):
        words.append(clean(node["error"]))
    return words


def lines(nodes: Iterable[View], paint: Paint) -> Iterable[str]:
    """Yield one line for each node: sign, id, status, remarks, summary, in columns."""
    rows = [(clean(node["id"]), clean(node["status"]), "  ".join(remarks(node)), node) for node in nodes]
    ids, statuses, notes = columns_of(row[:3] for row in rows) or (0, 0, 0)
    notes = min(notes, 40 if paint.columns is None else max(8, paint.columns // 3))
    for node_id, status, note, node in rows:
        head = f"{node_id:{ids}}  "
        middle = f"{status:{statuses}}"
        note = note if paint.columns is None else cut(note, notes, unicode=paint.unicode)
        tail = (f"  {pad(note, notes)}" if notes else "") + f"  {clean(node.get('summary', ''))}"
        room = None if paint.columns is None else max(10, paint.columns - ids - statuses - 5)
        tail = cut(tail.rstrip(), room, unicode=paint.unicode)
        yield f"{sign(node['status'], paint)} {head}{coloured(middle, node['status'], paint)}{tail}"


def table(nodes: Iterable[View], fields: Sequence[str], paint: Paint) -> Iterable[str]:
    """Show fields of nodes in columns under their names. The widest columns are cut to what a screen has room for."""
    rows = [[name.upper() for name in fields], *([_cell(node, name) for name in fields] for node in nodes)]
    widths = columns_of(rows)
    if paint.columns is not None:
        widths = _narrowed(widths, paint.columns - 2 * (len(widths) - 1))
        rows = [
            [cut(cell, room, unicode=paint.unicode) for cell, room in zip(row, widths, strict=True)] for row in rows
        ]
    for index, row in enumerate(rows):
        line = "  ".join(pad(cell, room) for cell, room in zip(row, widths, strict=True)).rstrip()
        yield line if index else paint(line, "bold")


def _narrowed(widths: Sequence[int], room: int) -> list[int]:
    """Return widths that fit in so many columns together if each has a few, the widest having given the most."""
    narrowed = [*widths]
    excess = sum(narrowed) - room
    while excess > 0 and (widest := max(narrowed)) > COLUMN_MIN:
        # Down to the next narrower one at once, shared by all that are as wide.
        below = max((each for each in narrowed if each < widest), default=COLUMN_MIN)
        alike = [index for index, each in enumerate(narrowed) if each == widest]
        step = max(1, min(widest - max(below, COLUMN_MIN), -(-excess // len(alike))))
        for index in alike:
            narrowed[index] -= min(step, max(0, excess))
            excess -= step
    return narrowed


def _cell(node: View, name: str) -> str:
    value = node.get(name)
    if value is None:
        return "-"
    if name.endswith("_at"):
        return clock(value)
    if name in ("quiet", "expires_in"):
        return duration(value)
    return number(value) if isinstance(value, float) else clean(value)


def page(node: View, paint: Paint) -> Iterable[str]:
    """Yield all fields of a node, a line each, without the empty ones."""
    status = node["status"]
    yield f"{sign(status, paint)} {paint(clean(node['id']), 'bold')}  {coloured(clean(status), status, paint)}"
    for line in clean_lines(node.get("summary", "")) if node.get("summary") else ():
        yield from (f"  {part}" for part in fold(line, room_for(paint, 2)))
    facts: list[tuple[str, str]] = [("kind", clean(node.get("kind", "")))]
    if node.get("role") != "unset":
        facts.append(("role", clean(node.get("role", ""))))
    if node.get("parent"):
        facts.append(("parent", clean(node["parent"])))
    if node.get("deps"):
        facts.append(("after", ", ".join(map(dep_text, node["deps"]))))
    if node.get("needs"):
        facts.append(("needs", ", ".join(f"{clean(k)}={number(v)}" for k, v in node["needs"].items())))
    if waits := waits_for(node):
        facts.append(("waits", waits))
    if node.get("assignee"):
        facts.append(("holder", _holder(node)))
    if node.get("grants"):
        facts.append(("holds", ", ".join(map(_grant, node["grants"]))))
    facts.append(("gen", _attempts(node)))
    facts.append(("cost", f"{number(node.get('cost', 1))}, depth {number(node.get('depth', 0))}"))
    if node.get("priority"):
        facts.append(("priority", number(node["priority"])))
    if node.get("outcome"):
        facts.append(("outcome", clean(node["outcome"])))
    if node.get("cause"):
        facts.append(("cause", clean(node["cause"])))
    if node.get("error"):
        facts.append(("error", clean(node["error"])))
    if node.get("archived"):
        facts.append(("archived", "yes"))
    moments = ("created", "updated", "started", "finished")
    facts.extend((name, clock(node[f"{name}_at"])) for name in moments if node.get(f"{name}_at") is not None)
    for name, value in facts:
        for index, line in enumerate(fold(value, room_for(paint, 12))):
            label = f"{'' if index else name:9}"
            yield f"  {paint(label, 'dim')} {line}"


def _holder(node: View) -> str:
    words = [clean(node["assignee"])]
    if node.get("quiet") is not None:
        words.append(f"quiet {duration(node['quiet'])}")
    if node.get("expires_in") is not None:
        words.append(f"lease ends in {duration(node['expires_in'])}")
    if node.get("bound"):
        words.append("bound to its connection")
    if node.get("pid") is not None:
        words.append(f"for process {number(node['pid'])}")
    return ", ".join(words)


def _attempts(node: View) -> str:
    text = f"{number(node.get('gen', 0))}, attempts {number(node.get('attempts', 0))}"
    return text if node.get("max_attempts") is None else f"{text} of {number(node['max_attempts'])}"


def _grant(grant: View) -> str:
    text = f"{clean(grant.get('resource', '?'))}={number(grant.get('units', 1))}"
    return text if not grant.get("lender") else f"{text} of {clean(grant['lender'])}'s"
