"""Making a graph of salvaged nodes whole enough to be loaded: they may be of different moments.

Each change errs to the side of doing work again rather than taking it for done, and is told. No I/O.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from claimdagd.model import GROUPS, LIVE, TERMINAL, Node, Outcome, Status

#: How many ids, or lines, are named in a note before the rest is counted.
NAMED_MAX = 20
_START, _OWN, _END, _GATE = range(4)
_Moment = tuple[str, int]


def mend(nodes: dict[str, Node], gen: int) -> list[str]:
    """Mend `nodes` in place, all at generation `gen` and nobody holding any; returns sentences about what changed.

    Work that waits is set ready: whoever loads a state lets the dependencies decide.
    """
    notes: Counter[str] = Counter()
    for node_id, node in nodes.items():
        status = node.status
        if status in LIVE and node.kind not in GROUPS:
            notes["claims are handed back"] += 1
        if status is Status.TODO or status in LIVE:
            status = Status.READY
        nodes[node_id] = replace(node, gen=gen, status=status, assignee=None, lease=None, bound=False, grants=())
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
    """Every parent exists, and no node is its own ancestor."""
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
    """Above unfinished work nothing is finished; and nothing waits for children that are all finished."""
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
    """The dependencies, as (before, after), that lie on or between circles of the wait graph.

    Moments that wait on nothing left, or that nothing left waits on, are peeled off; what stays is circles and what
    lies between them.
    """
    waits_on: dict[_Moment, set[_Moment]] = {}
    waiters: dict[_Moment, set[_Moment]] = {}
    for node in nodes.values():
        for after, before in _edges(node, nodes):
            waits_on.setdefault(after, set()).add(before)
            waiters.setdefault(before, set()).add(after)
    for ahead, behind in ((waits_on, waiters), (waiters, waits_on)):
        free = [moment for moment in behind if moment not in ahead]
        while free:
            gone = free.pop()
            for moment in behind.pop(gone, ()):
                left = ahead.get(moment)
                if left is not None:
                    left.discard(gone)
                    if not left:
                        del ahead[moment]
                        free.append(moment)
    return [
        (before[0], after[0])
        for after, targets in waits_on.items()
        if after[1] == _START
        for before in targets
        if before[1] in (_OWN, _END)
    ]


def _edges(node: Node, nodes: dict[str, Node]) -> Iterator[tuple[_Moment, _Moment]]:
    """The wait graph's edges of a node, as (what waits, what it waits on).

    A GATE stands for the starts of the groups above: one edge a node instead of one for each group.
    """
    me = node.id
    yield (me, _END), (me, _OWN)
    yield (me, _OWN), (me, _START)
    if node.kind in GROUPS:
        yield (me, _GATE), (me, _START)
    if node.parent is not None:
        yield (node.parent, _END), (me, _END)
        yield (me, _START), (node.parent, _GATE)
        if node.kind not in GROUPS:
            yield (me, _GATE), (node.parent, _GATE)
    if node.deps:
        above = set()
        parent = node.parent
        while parent is not None:
            if nodes[parent].kind not in GROUPS:
                above.add(parent)
            parent = nodes[parent].parent
        for dep in node.deps:
            if dep.on in nodes:
                yield (me, _START), (dep.on, _OWN if dep.on in above else _END)
