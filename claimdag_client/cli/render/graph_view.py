"""What there is to draw of a graph: nodes, edges, who is under whom, and the critical path. From views; draws nothing.

An edge goes from what comes first to what waits on it. The critical path is the chain with the largest sum of cost
among what is unfinished.
"""

from __future__ import annotations

from claimdag_client.wait_graph import WaitGraph
from claimdagd.limits import GROUPS, TERMINAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    View = Mapping[str, Any]


class GraphView:
    """The nodes to draw, by id in the order of their creation; their edges and critical path."""

    def __init__(self, views: Iterable[View]) -> None:
        by_age = sorted(views, key=lambda view: number_in(view["id"]))
        self.nodes: dict[str, View] = {view["id"]: view for view in by_age}
        self.groups = {name for name, view in self.nodes.items() if view.get("kind") in GROUPS}
        self.parents = {name: view.get("parent") for name, view in self.nodes.items()}
        self.wait_graph = WaitGraph(self.parents, self.groups)
        #: (first, what waits on it, when), of nodes that are both drawn
        self.edges: list[tuple[str, str, str]] = []
        for name, view in self.nodes.items():
            for dep in view.get("deps") or ():
                if dep["on"] in self.nodes and dep["on"] != name:
                    self.edges.append((dep["on"], name, dep.get("when", "after_ok")))
                    self.wait_graph.add(name, dep["on"])
        self.critical = critical_path(self)

    def children(self, name: str | None) -> list[str]:
        """Return the children of a node; of None, the nodes whose parent is not drawn."""
        return self._by_parent().get(name, [])

    def walk(self) -> Iterator[tuple[str, str, int]]:
        """Walk the tree of parents: what to do, a name, and how deep it lies.

        A group is opened, stands as a node within itself, and is closed after what is under it. What is under work is
        no deeper than the work itself.
        """
        # With a stack, for the chain of parents may be longer than Python recurses.
        stack = [("node", name, 0) for name in reversed(self.children(None))]
        while stack:
            step, name, depth = stack.pop()
            inside = depth
            if step == "node" and name in self.groups:
                inside += 1
                yield "open", name, depth
                stack.append(("close", name, depth))
            if step == "node":
                yield "node", name, inside
                stack.extend(("node", child, inside) for child in reversed(self.children(name)))
            else:
                yield step, name, depth

    def _by_parent(self) -> dict[str | None, list[str]]:
        if not hasattr(self, "_children"):
            self._children: dict[str | None, list[str]] = {}
            for name, parent in self.parents.items():
                self._children.setdefault(parent if parent in self.nodes else None, []).append(name)
        return self._children


def number_in(node_id: str) -> int:
    """Return the N of TAG-N, by which nodes are told older from newer."""
    tail = node_id.rpartition("-")[2]
    return int(tail) if tail.isascii() and tail.isdigit() else 0


def critical_path(graph: GraphView) -> list[str]:
    """Return the unfinished work on the longest chain by cost, first to last, by the depths of the views."""
    waiters: dict[str, list[str]] = {}
    for first, then, _ in graph.edges:
        waiters.setdefault(first, []).append(then)
    depth = {
        name: float(view.get("depth") or 0)
        for name, view in graph.nodes.items()
        if view["status"] not in TERMINAL and name not in graph.groups
    }
    path: list[str] = []
    at = max(depth, key=lambda name: depth[name], default=None)
    while at is not None and at not in path:
        path.append(at)
        at = max(_after(at, graph, waiters, depth), key=lambda name: depth[name], default=None)
    # A chain of one says nothing.
    return path if len(path) > 1 else []


def _after(name: str, graph: GraphView, waiters: Mapping[str, list[str]], depth: Mapping[str, float]) -> set[str]:
    """Return the unfinished work that cannot start before the end of a node, by one edge."""
    found: set[str] = set()
    for ended in (name, *graph.wait_graph.above(name)):
        for waiter in waiters.get(ended, ()):
            if waiter in graph.groups:
                found.update(_work_under(waiter, graph, waiters, depth))
            elif waiter in depth and (ended == name or ended not in graph.wait_graph.above(waiter)):
                found.add(waiter)
    return {after for after in found if depth[after] < depth[name]}


def _work_under(
    group: str, graph: GraphView, waiters: Mapping[str, list[str]], depth: Mapping[str, float]
) -> Iterable[str]:
    """Yield the work that a gated group gates: what is under it or, if it is empty, what waits on it."""
    stack, seen = [group], {group}
    while stack:
        name = stack.pop()
        below = graph.children(name) or (waiters.get(name, []) if name in graph.groups else [])
        for other in below:
            if other not in seen:
                seen.add(other)
                stack.append(other)
                if other in depth:
                    yield other
