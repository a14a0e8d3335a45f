"""The operations cancel, reopen, archive and unarchive (law 3.9, 3.16, 3.17, 3.18)."""

from __future__ import annotations

from msgspec import UNSET

from claimdagd.core.graph import Graph, replace
from claimdagd.core.indexes.links import subtree
from claimdagd.core.lookup import find
from claimdagd.core.operations.cascade import Cascade, failed_dep
from claimdagd.core.operations.checks import check_error, check_gen, check_terminal
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import TERMINAL, Outcome, Status
from claimdagd.waitgraph import ON_ANY
from claimdagd.wire import Archive, Cancel, Code, Reopen, Unarchive


def cancel(graph: Graph, r: Cancel) -> tuple[Vertex, list[str]]:
    """Cancel the whole subtree, held nodes too, and then everything that waits on any of it (law 3.16).

    Returns the node and all ids in the order in which they ended, the node's own first.
    """
    op = "cancel"
    v = find(graph, op, r.id)
    check_error(op, r.error)
    if v.record.status in TERMINAL:
        raise Refusal(
            Code.TERMINAL, f"{op}: {v.record.id} is {v.record.status} already", id=v.record.id, status=v.record.status
        )
    unfinished = [x for x in subtree(v) if x.record.status not in TERMINAL]
    for x in reversed(unfinished):
        record = x.record
        graph.put(
            x,
            replace(
                record,
                status=Status.CANCELLED,
                outcome=None if x.group else Outcome.CANCELLED,
                cause=v.record.id if x is not v else None,
                error=r.error if x is v else None,
                gen=record.gen + 1 if graph.is_live(x) else record.gen,
                assignee=None,
                lease=None,
                bound=False,
                pid=UNSET,
                pid_start=UNSET,
                grants=(),
                updated_at=graph.wall,
                finished_at=graph.wall,
            ),
            None,
        )
    cascade = Cascade(graph, v)
    for x in unfinished:
        for y, edge in (x.dependents or {}).items():
            if not edge & ON_ANY:
                cascade.waiting(y)
    cascade.ended(v)
    mark = graph.mark()
    cascade.run()
    more = [x.record.id for x in graph.changed_since(mark) if x.record.status is Status.CANCELLED]
    return v, list(dict.fromkeys([x.record.id for x in unfinished] + more))


def reopen(graph: Graph, r: Reopen) -> Vertex:
    """Bring a terminal node back, with everything that its end had cancelled. Its terminal ancestors are open again.

    Law 3.17.
    """
    op = "reopen"
    v = find(graph, op, r.id)
    check_gen(op, v, r.gen)
    check_terminal(op, v)
    back, above = _reopened_with(graph, v)
    for x in back:
        _restore(graph, x)
    for p in above:
        if p not in back:
            _reopen_ancestor(graph, p)
    for x in sorted(back):
        if x is not v and x.record.status not in TERMINAL and x.record.outcome is None:
            culprit = failed_dep(x)
            if culprit is not None:
                cascade = Cascade(graph, culprit)
                cascade.waiting(x)
                cascade.run()
    return v


def _reopened_with(graph: Graph, v: Vertex) -> tuple[dict[Vertex, None], dict[Vertex, None]]:
    """Return the nodes that come back with `v`, itself first, and the terminal ancestors of them all."""
    caused = graph.caused
    back: dict[Vertex, None] = dict.fromkeys([v, *caused.get(v.record.id, ())])
    above: dict[Vertex, None] = {}
    queue = list(back)
    for x in queue:
        p = x.parent
        while p is not None and p.record.status in TERMINAL and p not in above:
            above[p] = None
            for y in caused.get(p.record.id, ()):
                if y not in back:
                    back[y] = None
                    queue.append(y)
            p = p.parent
    return back, above


def _restore(graph: Graph, x: Vertex) -> None:
    """Put a terminal node back to todo, at the next generation."""
    record = x.record
    graph.put(
        x,
        replace(
            record,
            status=Status.TODO,
            gen=record.gen + 1,
            outcome=None,
            error=None,
            cause=None,
            failures=UNSET,
            archived=False,
            assignee=None,
            started_at=None,
            finished_at=None,
            updated_at=graph.wall,
        ),
        None,
    )


def _reopen_ancestor(graph: Graph, p: Vertex) -> None:
    """Let a terminal ancestor of reopened work wait for it again, without the grants that it once held (law 3.18)."""
    record = p.record
    status = Status.TODO if p.group else Status.COMPLETING
    graph.put(
        p,
        replace(
            record,
            status=status,
            outcome=None if p.group else record.outcome,
            cause=None if p.group else record.cause,
            error=None if p.group else record.error,
            archived=False,
            finished_at=None,
            updated_at=graph.wall,
        ),
    )


def archive(graph: Graph, r: Archive | Unarchive) -> Vertex:
    """Hide a terminal node from the default list, or show it again. The generation moves (law 2.14)."""
    archived = isinstance(r, Archive)
    op = "archive" if archived else "unarchive"
    v = find(graph, op, r.id)
    check_gen(op, v, r.gen)
    check_terminal(op, v)
    record = v.record
    graph.put(v, replace(record, archived=archived, gen=record.gen + 1, updated_at=graph.wall))
    return v
