"""Draws a graph on a terminal: layer below layer, one line a node, with rails from each node to what waits on it."""

from __future__ import annotations

from claimdag_client.moments import layers
from claimdag_client.picture import Picture, number_in
from claimdag_client.render import Paint, clean, columns_of, cut, number, some
from claimdag_client.render_node import coloured, sign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: More rails than this beside each other cannot be followed by eye: then the names alone say what waits on what.
RAILS_MAX = 16
LABEL_MAX = 60


def text(picture: Picture, paint: Paint) -> Iterable[str]:
    """Layers from first to last, one line a node, with rails from each node to those that wait on it."""
    layer = layers(picture.moments, picture.groups)
    order = sorted(picture.nodes, key=lambda name: (layer[name], name in picture.groups, number_in(name)))
    rails = _rails(picture, order, paint)
    critical = set(picture.critical)
    heads = columns_of([clean(name), clean(picture.nodes[name]["status"])] for name in order) or [0, 0]
    shown = -1
    for name, rail in zip(order, rails, strict=True):
        if layer[name] != shown:
            shown = layer[name]
            # The rails that pass this line pass on.
            passing = _passing(rail, paint)
            yield f"{passing}{paint(f'layer {shown + 1}', 'dim')}"
        yield rail + _row(picture, name, heads, paint, critical=name in critical)
    if picture.critical:
        chain = " > ".join(map(clean, picture.critical))
        total = float(picture.nodes[picture.critical[0]].get("depth") or 0)
        yield ""
        yield f"{paint('critical path', 'bold', 'red')} (cost {number(total)}): {chain}"


def _row(picture: Picture, name: str, widths: Sequence[int], paint: Paint, *, critical: bool) -> str:
    view = picture.nodes[name]
    status = view["status"]
    mark = ("★" if paint.unicode else "#") if critical else " "
    words = [
        paint(mark, "bold", "red") if critical else mark,
        sign(status, paint),
        paint(f"{clean(name):{widths[0]}}", *(("bold",) if critical else ())),
        coloured(f"{clean(status):{widths[1]}}", status, paint),
    ]
    facts = []
    if name in picture.groups:
        below = len(picture.children(name))
        facts.append(f"{clean(view['kind'])} of {below}")
    if view.get("assignee"):
        facts.append(clean(view["assignee"]))
    after = [dep["on"] + ("?" if dep.get("when") == "after_any" else "") for dep in view.get("deps") or ()]
    if after:
        facts.append(f"after {some(after, 4)}")
    if view.get("parent"):
        facts.append(f"in {clean(view['parent'])}")
    tail = "  ".join(part for part in (cut(clean(view.get("summary", "")), LABEL_MAX), f"[{', '.join(facts)}]") if part)
    return " ".join([*words, tail if facts else cut(clean(view.get("summary", "")), LABEL_MAX)]).rstrip()


def _rails(picture: Picture, order: Sequence[str], paint: Paint) -> list[str]:
    """What stands left of each row: rails that begin at a node and turn in to each node that waits on it.

    ┬ begins a rail, ├ and ┘ (its last) lead from it to the right, to the node; other rails pass straight.
    """
    waits_on: dict[str, set[str]] = {name: set() for name in order}
    for first, then, _ in picture.edges:
        waits_on[then].add(first)
    place = {name: row for row, name in enumerate(order)}
    last: dict[str, int] = {}
    for then, firsts in waits_on.items():
        # An edge against the order of the rows (onto the result of work above) has no rail.
        firsts -= {first for first in firsts if place[first] >= place[then]}
        for first in firsts:
            last[first] = max(last.get(first, -1), place[then])
    begin, fork, end, rail, over, cross = "┬├└│─┼" if paint.unicode else "++`|-|"
    open_rails: list[str | None] = []
    rows: list[list[tuple[str, bool]]] = []
    for row, name in enumerate(order):
        joined = [index for index, source in enumerate(open_rails) if source in waits_on[name]]
        own: int | None = None
        if name in last:
            own = next((index for index, source in enumerate(open_rails) if source is None), len(open_rails))
            if own == len(open_rails):
                open_rails.append(None)
        leftmost = min([*joined, *([own] if own is not None else [])], default=None)
        cells: list[tuple[str, bool]] = []
        for index, source in enumerate(open_rails):
            reached = leftmost is not None and index > leftmost
            if index == own:
                cells.append((begin, True))
            elif index in joined:
                cells.append((end if last[source or ""] == row else fork, True))
            elif source is not None:
                cells.append((cross if reached and paint.unicode else rail, reached))
            else:
                cells.append((over if reached else " ", reached))
        rows.append(cells)
        if own is not None:
            open_rails[own] = name
        for index, source in enumerate(open_rails):
            if source is not None and last[source] <= row:
                open_rails[index] = None
    count = max(map(len, rows), default=0)
    if count > RAILS_MAX or not count:
        return [""] * len(order)
    return [_cells(cells, count, over) for cells in rows]


def _cells(cells: Sequence[tuple[str, bool]], count: int, over: str) -> str:
    """A row of rails: each cell, and whether the line goes on to its right."""
    goes_on = False
    drawn = ""
    for cell, reached in [*cells, *[("", False)] * (count - len(cells))]:
        goes_on = goes_on or reached
        drawn += (cell or (over if goes_on else " ")) + (over if goes_on else " ")
    return drawn


def _passing(rail: str, paint: Paint) -> str:
    """The rails of a row that were there before it, for the line above it."""
    passing = "├└│┼" if paint.unicode else "|`"
    return "".join(("│" if paint.unicode else "|") if cell in passing else " " for cell in rail) + (" " if rail else "")
