"""Draws a graph on a terminal: layer below layer, one line a node, with rails from each node to what waits on it."""

from __future__ import annotations

from claimdag_client.cli.render.graph_view import GraphView, number_in
from claimdag_client.cli.render.node import coloured, sign
from claimdag_client.cli.render.text import Paint, clean, columns_of, cut, number, some

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: More rails than this beside each other cannot be followed by eye: then the names alone say what waits on what.
RAILS_MAX = 16
LABEL_MAX = 60


def text(graph: GraphView, paint: Paint) -> Iterable[str]:
    """Layers from first to last, one line a node, with rails from each node to those that wait on it.

    A rail begins where it turns down from a node, and turns in again to each node that waits on that; one that
    passes straight through another's line has nothing to do with it.
    """
    layer = graph.wait_graph.layers()
    order = sorted(graph.nodes, key=lambda name: (layer[name], number_in(name)))
    rails = _Rails(graph, order, unicode=paint.unicode).draw(order)
    critical = set(graph.critical)
    heads = columns_of([clean(name), clean(graph.nodes[name]["status"])] for name in order) or [0, 0]
    shown = -1
    for name, (passing, rail) in zip(order, rails, strict=True):
        if layer[name][0] != shown:
            shown = layer[name][0]
            yield f"{passing}{paint(f'layer {shown + 1}', 'dim')}"
        yield rail + _row(graph, name, heads, paint, critical=name in critical)
    if graph.critical:
        chain = " > ".join(map(clean, graph.critical))
        total = float(graph.nodes[graph.critical[0]].get("depth") or 0)
        yield ""
        yield f"{paint('critical path', 'bold', 'red')} (cost {number(total)}): {chain}"


def _row(graph: GraphView, name: str, widths: Sequence[int], paint: Paint, *, critical: bool) -> str:
    view = graph.nodes[name]
    status = view["status"]
    mark = ("★" if paint.unicode else "#") if critical else " "
    words = [
        paint(mark, "bold", "red") if critical else mark,
        sign(status, paint),
        paint(f"{clean(name):{widths[0]}}", *(("bold",) if critical else ())),
        coloured(f"{clean(status):{widths[1]}}", status, paint),
    ]
    facts = []
    if name in graph.groups:
        below = len(graph.children(name))
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


class _Rails:
    """The glyphs of rails, and the rails that are open at a row: the name that each comes from, or None."""

    def __init__(self, graph: GraphView, order: Sequence[str], *, unicode: bool) -> None:
        place = {name: row for row, name in enumerate(order)}
        self._waits_on: dict[str, set[str]] = {name: set() for name in order}
        #: The row of the last node that waits on each.
        self._last: dict[str, int] = {}
        for first, then, _ in graph.edges:
            # An edge against the order of the rows (onto the result of work above it) has no rail.
            if place[first] < place[then]:
                self._waits_on[then].add(first)
                self._last[first] = max(self._last.get(first, -1), place[then])
        self._open: list[str | None] = []
        self._rail, self._over = "│─" if unicode else "|-"
        # By (whether the line comes from the left, whether the rail comes from above, whether it goes on below).
        glyphs = "┌├└┬┼┴" if unicode else "++++++"
        ways = [(left, *updown) for left in (False, True) for updown in ((False, True), (True, True), (True, False))]
        self._glyphs = dict(zip(ways, glyphs, strict=True))

    def draw(self, order: Sequence[str]) -> list[tuple[str, str]]:
        """Return for each row the rails left of a line above it and of the row itself; "" if there are too many."""
        rows = [(list(self._open), self._row(row, name)) for row, name in enumerate(order)]
        count = len(self._open)
        if count > RAILS_MAX or not count:
            return [("", "")] * len(order)
        return [(self._passing(before, count), self._filled(cells, count)) for before, cells in rows]

    def _row(self, row: int, name: str) -> list[str | None]:
        """Return the cells of a row; None if only the line to the node may pass."""
        joined = {index for index, source in enumerate(self._open) if source in self._waits_on[name]}
        own = None
        if name in self._last:
            if None not in self._open:
                self._open.append(None)
            own = self._open.index(None)
        turning = joined if own is None else joined | {own}
        cells: list[str | None] = []
        for index, source in enumerate(self._open):
            if index in turning:
                from_left = index > min(turning)
                below = index == own or self._last[source or name] > row
                cells.append(self._glyphs[from_left, index != own, below])
            else:
                cells.append(None if source is None else self._rail)
        if own is not None:
            self._open[own] = name
        self._open = [None if source is None or self._last[source] <= row else source for source in self._open]
        return cells

    def _filled(self, cells: Sequence[str | None], count: int) -> str:
        drawn = ""
        line = " "
        for cell in [*cells, *[None] * (count - len(cells))]:
            if cell is not None and cell != self._rail:
                line = self._over
            drawn += (cell or line) + line
        return drawn

    def _passing(self, before: Sequence[str | None], count: int) -> str:
        return "".join("  " if source is None else f"{self._rail} " for source in before).ljust(2 * count)
