"""The wait graph of nodes by name: which dependencies close a cycle in a file, and in which layer a node is drawn.

The rule itself is in `claimdagd.waitgraph`. Pure; knows nothing of files or of the daemon.
"""

from __future__ import annotations

from claimdagd.waitgraph import END, GATE, RESULT, START, components, path, plain_nodes, points_of, waiters, waits_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from claimdagd.waitgraph import PlainNode, Point

    Edge = tuple[str, str]


class WaitGraph:
    """Nodes by name, with the dependencies added so far.

    Args:
        parents: each name with that of its parent; they must be a forest. Parents that are not a name are ignored.
        groups: the names of the groups.
    """

    def __init__(self, parents: Mapping[str, str | None], groups: Collection[str]) -> None:
        self.nodes = plain_nodes(parents, groups)

    def add(self, waiting: str, on: str) -> None:
        """Let `waiting` depend on `on`. Cycles are not looked for."""
        self.nodes[waiting].add_dep(self.nodes[on])

    def above(self, name: str) -> list[str]:
        """Return the ancestors of a node, nearest first."""
        return [node.name for node in self.nodes[name].above()]

    def way(self, waiting: str, on: str, within: Callable[[Point[PlainNode]], bool] | None = None) -> list[str] | None:
        """Return the cycle that a dependency of `waiting` on `on` would close, in words, or None.

        It begins and ends with `waiting`.
        """
        start = (self.nodes[waiting], START)
        target = self.nodes[on]
        found = path([start], [(target, self.nodes[waiting].milestone_of(target))], keep_ahead=within)
        if found is None:
            return None
        words = [_label(start)]
        for point in reversed(found):
            if (point[1] is not GATE or point[0].group) and _label(point) != words[-1]:
                words.append(_label(point))
        return words if len(words) > 1 else [*words, *words]

    def closing_cycles(
        self, edges: Sequence[Edge], tick: Callable[[], None] = lambda: None
    ) -> list[tuple[int, list[str]]]:
        """Add `edges` (who waits, on whom) in turn, except those that close a cycle.

        Returns the positions of those, each with its cycle.
        """
        nodes = self.nodes
        for waiting, on in edges:
            self.add(waiting, on)
        points = [point for node in nodes.values() for point in points_of(node)]
        component = {point: n for n, found in enumerate(components(points, waits_on)) for point in found}
        suspects = []
        for position, (waiting, on) in enumerate(edges):
            awaited = (nodes[on], nodes[waiting].milestone_of(nodes[on]))
            if component[nodes[waiting], START] == component[awaited]:
                suspects.append(position)
        for position in suspects:
            waiting, on = edges[position]
            nodes[waiting].remove_dep(nodes[on])
        faults = []
        for position in suspects:
            tick()
            waiting, on = edges[position]
            own = component[nodes[waiting], START]
            cycle = self.way(waiting, on, lambda point, own=own: component[point] == own)  # type: ignore[misc]
            if cycle is None:
                self.add(waiting, on)
            else:
                faults.append((position, cycle))
        return faults

    def layers(self) -> dict[str, tuple[int, int]]:
        """Return the layer of each node, from 0: one past the layers of all work that it waits on, and its place in it.

        A group takes no layer of its own: it is drawn where it ends, in the layer of what waits on it, at an earlier
        place. Nodes in a cycle, which no daemon gives, are in layer 0.
        """
        points = [point for node in self.nodes.values() for point in points_of(node)]
        layer = dict.fromkeys(points, (0, 0))
        open_waits = {point: sum(1 for _ in waits_on(point)) for point in points}
        due = [point for point, count in open_waits.items() if not count]
        while due:
            point = due.pop()
            node, milestone = point
            for waiter in waiters(point):
                after = layer[point]
                if not node.group and milestone is START and waiter == (node, RESULT):
                    after = (after[0] + 1, 0)
                elif node.group and milestone is END:
                    after = (after[0], after[1] + 1)
                layer[waiter] = max(layer[waiter], after)
                open_waits[waiter] -= 1
                if not open_waits[waiter]:
                    due.append(waiter)
        return {name: layer[node, END if node.group else START] for name, node in self.nodes.items()}


def _label(point: Point[PlainNode]) -> str:
    """Return a point in words. The start and the end of a group are far apart; of work, its name says enough."""
    node, milestone = point
    if not node.group:
        return node.name
    return f"{node.name}'s end" if milestone is END else f"{node.name}'s start"
