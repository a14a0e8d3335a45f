"""The wait graph (law 3.6, 3.7): which milestone of which node waits on which, and what follows from that for cycles.

Each node has three milestones: its start, its own result, its end. start(n) waits on end(d) of each dep d (on result(d)
if d is an ancestor of n) and on the deps of every group above n; result(n) waits on start(n); end(n) waits on result(n)
and on the end of each child. GATE is a shorthand for "the starts of the groups above": one edge a node instead of one
for each group above it.

The rule is written over the attributes of `WaitNode`, which the vertices of the core have. Others, who have names and
records, build `PlainNode`s. Pure, and without any import that a command line would have to wait for.
"""

from __future__ import annotations

from enum import IntEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
    from typing import Protocol, Self, TypeAlias, TypeVar

    class WaitNode(Hashable, Protocol):
        """What the rule looks at."""

        @property
        def group(self) -> bool: ...
        @property
        def parent(self) -> Self | None: ...
        @property
        def children(self) -> Iterable[Self] | None: ...
        @property
        def dep_on(self) -> Sequence[Self | None]:
            """The targets of the deps; None for one that is gone."""

        @property
        def outcome_deps(self) -> Collection[Self] | None:
            """Those targets whose own result is waited for: they are ancestors, and not groups."""

        @property
        def dependents(self) -> Mapping[Self, int] | None:
            """Who waits on this node, each with the bits of its edge."""

    N = TypeVar("N", bound=WaitNode)
    K = TypeVar("K", bound=Hashable)
    Point: TypeAlias = tuple[N, "Milestone"]
    #: The second point waits on the first.
    Edge: TypeAlias = tuple[Point[N], Point[N]]

#: Bits of an ordering edge: `after_any`, and an edge onto an ancestor's own result.
ON_ANY = 1
ON_OUTCOME = 2


class Milestone(IntEnum):
    """The milestones of a node, and the shorthand GATE."""

    START = 0
    RESULT = 1
    END = 2
    GATE = 3


START, RESULT, END, GATE = Milestone


# ------------------------------------------------------------------------------------------------------- the edges


def waiters(point: Point[N]) -> Iterator[Point[N]]:
    """Yield the points that wait on `point` directly."""
    v, milestone = point
    if milestone is END:
        if v.parent is not None:
            yield (v.parent, END)
        for x, edge in (v.dependents or {}).items():
            if not edge & ON_OUTCOME:
                yield (x, START)
    elif milestone is START:
        yield (v, RESULT)
        if v.group:
            yield (v, GATE)
    elif milestone is RESULT:
        yield (v, END)
        for x, edge in (v.dependents or {}).items():
            if edge & ON_OUTCOME:
                yield (x, START)
    else:
        for c in v.children or ():
            yield (c, START)
            if not c.group:
                yield (c, GATE)


def waits_on(point: Point[N]) -> Iterator[Point[N]]:
    """Yield the points that `point` waits on directly."""
    v, milestone = point
    if milestone is END:
        yield (v, RESULT)
        for c in v.children or ():
            yield (c, END)
    elif milestone is RESULT or (milestone is GATE and v.group):
        yield (v, START)
    else:
        if milestone is START:
            for t in v.dep_on:
                if t is not None:
                    yield (t, awaited_milestone(v, t))
        if v.parent is not None:
            yield (v.parent, GATE)


def awaited_milestone(v: N, target: N) -> Milestone:
    """Return which milestone of `target` a dep of `v` on it waits for."""
    return RESULT if v.outcome_deps is not None and target in v.outcome_deps else END


def dep_edges(v: N) -> list[Edge[N]]:
    """Return the edges by which `v` waits on its deps."""
    return [((t, awaited_milestone(v, t)), (v, START)) for t in v.dep_on if t is not None]


def parent_edges(v: N) -> list[Edge[N]]:
    """Return the edges that `v` has because of its parent."""
    p = v.parent
    if p is None:
        return []
    edges: list[Edge[N]] = [((v, END), (p, END)), ((p, GATE), (v, START))]
    if not v.group:
        edges.append(((p, GATE), (v, GATE)))
    return edges


def points_of(v: N) -> list[Point[N]]:
    """Return every point of a node."""
    return [(v, START), (v, RESULT), (v, END), (v, GATE)]


# ---------------------------------------------------------------------------------------------------- the searches


def path(
    sources: Iterable[Point[N]],
    targets: Iterable[Point[N]],
    *,
    keep_ahead: Callable[[Point[N]], bool] | None = None,
    keep_behind: Callable[[Point[N]], bool] | None = None,
) -> list[Point[N]] | None:
    """Return points from one of `sources` to one of `targets`, each waiting on the one before it, or None.

    Searches from both ends and stops when the smaller side is exhausted, so an edge at the rim of the graph is cheap.

    Args:
        sources: where a path may begin.
        targets: where a path may end.
        keep_ahead: whether a point that waits on a source can be part of a path; None if that is not known.
        keep_behind: the same of a point that a target waits on.
    """
    ahead: dict[Point[N], Point[N] | None] = dict.fromkeys(sources)
    behind: dict[Point[N], Point[N] | None] = dict.fromkeys(targets)
    for point in ahead:
        if point in behind:
            return [point]
    front, back = list(ahead), list(behind)
    while front and back:
        if len(front) <= len(back):
            front, met = _widen(front, waiters, ahead, behind)
            if keep_ahead is not None:
                front = list(filter(keep_ahead, front))
        else:
            back, met = _widen(back, waits_on, behind, ahead)
            if keep_behind is not None:
                back = list(filter(keep_behind, back))
        if met is not None:
            return [*reversed(_trail(met, ahead)), *_trail(met, behind)[1:]]
    return None


def _widen(
    frontier: list[Point[N]],
    step: Callable[[Point[N]], Iterable[Point[N]]],
    mine: dict[Point[N], Point[N] | None],
    theirs: dict[Point[N], Point[N] | None],
) -> tuple[list[Point[N]], Point[N] | None]:
    found: list[Point[N]] = []
    for point in frontier:
        for n in step(point):
            if n not in mine:
                mine[n] = point
                if n in theirs:
                    return found, n
                found.append(n)
    return found, None


def _trail(point: Point[N] | None, came_from: dict[Point[N], Point[N] | None]) -> list[Point[N]]:
    trail = []
    while point is not None:
        trail.append(point)
        point = came_from[point]
    return trail


def find_cycle(starting: Iterable[N], within: Collection[N] | None = None) -> list[Point[N]] | None:
    """Return the points of a cycle that the start of one of `starting` leads to, or None.

    Args:
        starting: the nodes to begin at.
        within: if given, the only nodes to look at.
    """
    done: set[Point[N]] = set()
    trail: dict[Point[N], None] = {}
    for v in starting:
        root = (v, START)
        if root in done:
            continue
        walks = [(root, waiters(root))]
        trail[root] = None
        while walks:
            point, walk = walks[-1]
            for n in walk:
                if n in trail:
                    points = list(trail)
                    return points[points.index(n) :]
                if n not in done and (within is None or n[0] in within):
                    trail[n] = None
                    walks.append((n, waiters(n)))
                    break
            else:
                walks.pop()
                del trail[point]
                done.add(point)
    return None


def nodes_of_cycle(points: list[Point[N]]) -> list[N]:
    """Return the nodes that a cycle of points goes through; the first is the last too."""
    nodes: list[N] = []
    for v, _ in points:
        if not nodes or nodes[-1] is not v:
            nodes.append(v)
    if nodes[0] is not nodes[-1] or len(nodes) == 1:
        nodes.append(nodes[0])
    return nodes


def components(roots: Iterable[K], successors: Callable[[K], Iterable[K]]) -> list[list[K]]:
    """Return the strongly connected components of all that the roots lead to (Tarjan, without recursion)."""
    number: dict[K, int] = {}
    low: dict[K, int] = {}
    trail: dict[K, None] = {}
    found: list[list[K]] = []
    for root in roots:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        trail[root] = None
        walks: list[tuple[K, Iterator[K]]] = [(root, iter(successors(root)))]
        while walks:
            n, walk = walks[-1]
            for m in walk:
                if m not in number:
                    number[m] = low[m] = len(number)
                    trail[m] = None
                    walks.append((m, iter(successors(m))))
                    break
                if m in trail:
                    low[n] = min(low[n], number[m])
            else:
                walks.pop()
                if walks:
                    above = walks[-1][0]
                    low[above] = min(low[above], low[n])
                if low[n] == number[n]:
                    component = []
                    while n in trail:
                        component.append(trail.popitem()[0])
                    found.append(component)
    return found


def knotted(nodes: Iterable[N]) -> set[Point[N]]:
    """Return the points on cycles, and those between two cycles.

    Points that wait on nothing left, and points that nothing left waits on, are removed until none is to be had.
    """
    left = {point for v in nodes for point in points_of(v)}
    for before, after in ((waits_on, waiters), (waiters, waits_on)):
        count = {point: sum(n in left for n in before(point)) for point in left}
        free = [point for point, n in count.items() if not n]
        left.difference_update(free)
        while free:
            for n in after(free.pop()):
                if n in left:
                    count[n] -= 1
                    if not count[n]:
                        left.discard(n)
                        free.append(n)
    return left


# -------------------------------------------------------------------------------------------------- nodes by name


class PlainNode:
    """A node of a wait graph that is not, or not only, in a daemon."""

    __slots__ = ("children", "dep_on", "dependents", "group", "name", "outcome_deps", "parent")

    def __init__(self, name: str, group: bool) -> None:
        self.name = name
        self.group = group
        self.parent: PlainNode | None = None
        self.children: list[PlainNode] = []
        self.dep_on: list[PlainNode] = []
        self.outcome_deps: set[PlainNode] = set()
        self.dependents: dict[PlainNode, int] = {}

    def milestone_of(self, target: PlainNode) -> Milestone:
        """Return which milestone of `target` a dep of this node on it waits for."""
        return RESULT if target.children and not target.group and target in self.above() else END

    def add_dep(self, target: PlainNode) -> None:
        """Let this node wait on `target`. Cycles are not looked for."""
        if self not in target.dependents:
            on_result = self.milestone_of(target) is RESULT
            self.dep_on.append(target)
            target.dependents[self] = ON_OUTCOME if on_result else 0
            if on_result:
                self.outcome_deps.add(target)

    def remove_dep(self, target: PlainNode) -> None:
        """Undo `add_dep`."""
        if target.dependents.pop(self, None) is not None:
            self.dep_on.remove(target)
            self.outcome_deps.discard(target)

    def above(self) -> list[PlainNode]:
        """Return the ancestors, nearest first."""
        found = []
        parent = self.parent
        while parent is not None:
            found.append(parent)
            parent = parent.parent
        return found


def plain_nodes(parents: Mapping[str, str | None], groups: Collection[str]) -> dict[str, PlainNode]:
    """Return nodes by name, without deps.

    Args:
        parents: each name with that of its parent; they must be a forest. Parents that are not a name are ignored.
        groups: the names of the groups.
    """
    nodes = {name: PlainNode(name, name in groups) for name in parents}
    for name, parent in parents.items():
        if parent is not None and parent in nodes:
            nodes[name].parent = nodes[parent]
            nodes[parent].children.append(nodes[name])
    return nodes
