"""Whether an edge of the wait graph, or nodes just added, close a cycle. Looks at a graph in which they are already."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from claimdagd.core.state import Vertex
from claimdagd.waitgraph import END, GATE, awaited_milestone, find_cycle, nodes_of_cycle, path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from claimdagd.waitgraph import Edge, Point


def rank_bound(point: Point[Vertex]) -> float:
    """Return no less than how much unfinished work lies from `point` on."""
    v, milestone = point
    if milestone is END:
        return v.blevel_end
    return math.inf if v.group or milestone is GATE else v.blevel_start


def cycle_through(edge: Edge[Vertex], *, by_rank: bool = False) -> list[Vertex] | None:
    """Return the nodes of a cycle that `edge` closes, or None.

    Args:
        edge: an edge that is in the graph already.
        by_rank: whether the ranks are up to date except for new edges, and no finished node waits on an unfinished one.
            Then the rank never grows along a path, so a point with a lower rank than the target is on no path.
    """
    before, after = edge
    way = _path_by_rank(after, before) if by_rank else path([after], [before])
    return nodes_of_cycle(way) if way is not None else None


def _path_by_rank(source: Point[Vertex], target: Point[Vertex]) -> list[Point[Vertex]] | None:
    least, most = target[0].blevel_end, rank_bound(source)
    if least > most:
        return None
    return path(
        [source],
        [target],
        keep_ahead=(lambda point: rank_bound(point) >= least) if least else None,
        keep_behind=(lambda point: point[0].blevel_end <= most) if most < math.inf else None,
    )


def cycle_among(new: list[Vertex]) -> list[Vertex] | None:
    """Return the nodes of a cycle through any of the vertices just added, or None.

    Old nodes wait on new ones only by way of a parent's end; unless such a path leads back to what a new node waits on,
    the search keeps to the new nodes.
    """
    fresh = set(new)
    out: dict[Point[Vertex], None] = {}
    into: dict[Point[Vertex], None] = {}
    for v in new:
        p = v.parent
        if p is not None and p not in fresh:
            out[(p, END)] = None
            into[(p, GATE)] = None
        for t in v.dep_on:
            if t is not None and t not in fresh:
                into[(t, awaited_milestone(v, t))] = None
    if not out and _waits_on_older_only(new, fresh):
        return None
    leads_back = bool(out) and any(map(_may_wait, into)) and path(out, into) is not None
    points = find_cycle(new, None if leads_back else fresh)
    return nodes_of_cycle(points) if points is not None else None


def _waits_on_older_only(new: Iterable[Vertex], fresh: set[Vertex]) -> bool:
    """Return whether every new node waits on lower numbers only, and none is below another new one."""
    return all(v.parent not in fresh and all(t is None or t.number < v.number for t in v.dep_on) for v in new)


def _may_wait(point: Point[Vertex]) -> bool:
    """Return whether `point` waits on any old node at all; a gate does if a group above has deps."""
    v, milestone = point
    if milestone is not GATE:
        return True
    g: Vertex | None = v if v.group else v.gating_group
    while g is not None:
        if g.record.deps:
            return True
        g = g.gating_group
    return False
