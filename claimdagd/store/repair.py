"""Repairs a graph of salvaged nodes so that it can be loaded: the nodes may be of different times.

Each change errs towards doing work again rather than taking it for done, and is reported. No I/O.
"""

from __future__ import annotations

from collections import Counter

from msgspec import UNSET
from msgspec.structs import replace

from claimdagd import waitgraph
from claimdagd.model import GROUPS, LIVE, TERMINAL, Node, Outcome, Status

#: How many ids, or lines, are named in a note before the rest is counted.
NAMED_MAX = 20


def repair(nodes: dict[str, Node], gen: int) -> list[str]:
    """Repair `nodes` in place, all at generation `gen` and held by no actor; return sentences about what changed.

    Work that waits is set ready: the dependencies decide when the state is loaded.
    """
    notes: Counter[str] = Counter()
    for node_id, node in nodes.items():
        status = node.status
        if status in LIVE and node.kind not in GROUPS:
            notes["claims are handed back"] += 1
        if status is Status.TODO or status in LIVE:
            status = Status.READY
        nodes[node_id] = replace(
            node, gen=gen, status=status, assignee=None, lease=None, bound=False, pid=UNSET, pid_start=UNSET, grants=()
        )
    _mend_parents(nodes, notes)
    _mend_ends(nodes, notes)
    for before, after in _circular(nodes):
        notes["dependencies that had come to form a circle are dropped"] += 1
        node = nodes[after]
        nodes[after] = replace(node, deps=tuple(dep for dep in node.deps if dep.on != before))
    told = [f"{what}: {count}" for what, count in notes.items()]
    open_work = (node for node in nodes.values() if node.status not in TERMINAL)
    early = [node.id for node in open_work if any(dep.on not in nodes for dep in node.deps)]
    if early:
        more = f" and {len(early) - NAMED_MAX} more" if len(early) > NAMED_MAX else ""
        told.append(f"dependencies on nodes that are lost count as met, those of: {', '.join(early[:NAMED_MAX])}{more}")
    return told


def _mend_parents(nodes: dict[str, Node], notes: Counter[str]) -> None:
    """Remove parents that do not exist, and circles of parents."""
    sound: set[str] = set()
    for start in list(nodes):
        chain: dict[str, None] = {}
        node = nodes[start]
        while node.id not in sound:
            chain[node.id] = None
            if node.parent is None:
                break
            if node.parent not in nodes or node.parent in chain:
                notes["nodes stand without the parent that they had"] += 1
                nodes[node.id] = replace(node, parent=None)
                break
            node = nodes[node.parent]
        sound.update(chain)


def _mend_ends(nodes: dict[str, Node], notes: Counter[str]) -> None:
    """Open finished nodes above unfinished work, and nodes that wait for children that are all finished."""
    open_below: set[str] = set()
    for node in list(nodes.values()):
        if node.status in TERMINAL:
            continue
        above = node.parent
        while above is not None and above not in open_below:
            open_below.add(above)
            parent = nodes[above]
            if parent.status in TERMINAL:
                notes["finished nodes are open again, for unfinished work stands under them"] += 1
                nodes[above] = _open_again(parent)
            above = parent.parent
    for node_id, node in nodes.items():
        if node.status is Status.COMPLETING and node_id not in open_below:
            notes["nodes are ready again, for what they were waiting to end with is gone"] += 1
            nodes[node_id] = replace(node, status=Status.READY, outcome=None, error=None, cause=None, started_at=None)


def _open_again(node: Node) -> Node:
    if node.kind in GROUPS:
        return replace(
            node, status=Status.RUNNING, outcome=None, error=None, cause=None, archived=False, finished_at=None
        )
    outcome = node.outcome or Outcome(node.status.value)
    return replace(node, status=Status.COMPLETING, outcome=outcome, archived=False, finished_at=None)


def _circular(nodes: dict[str, Node]) -> list[tuple[str, str]]:
    """Return the dependencies, as (before, after), that are on or between circles of the wait graph."""
    groups = {node.id for node in nodes.values() if node.kind in GROUPS}
    plain = waitgraph.plain_nodes({node.id: node.parent for node in nodes.values()}, groups)
    for node in nodes.values():
        for dep in node.deps:
            if dep.on in plain:
                plain[node.id].add_dep(plain[dep.on])
    knotted = waitgraph.knotted(plain.values())
    edges = [edge for node in plain.values() for edge in waitgraph.dep_edges(node)]
    return [(before[0].name, after[0].name) for before, after in edges if before in knotted and after in knotted]
