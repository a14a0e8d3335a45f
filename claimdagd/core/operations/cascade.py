"""How an end spreads: own results, roll-up of parents, and cascades (law 3.8, 3.11, 3.12, 3.13, 3.15)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import UNSET

from claimdagd.core.graph import OPEN, Graph, replace
from claimdagd.core.state import Vertex
from claimdagd.model import TERMINAL, Outcome, Status
from claimdagd.waitgraph import ON_ANY, ON_OUTCOME

#: A dep: who waits, on whom, and the bits of the edge.
ExistingEdge: TypeAlias = tuple[Vertex, Vertex, int]

_STATUS = {Outcome.DONE: Status.DONE, Outcome.FAILED: Status.FAILED, Outcome.CANCELLED: Status.CANCELLED}
#: On the path of every completion, where an enum's own attribute costs as much as a call.
_DONE, _COMPLETING, _FAILED = Outcome.DONE, Status.COMPLETING, Status.FAILED
_BAD = frozenset({Outcome.FAILED, Outcome.CANCELLED})
_NOT_DONE = frozenset({Status.FAILED, Status.CANCELLED})


class Cascade:
    """One end and all that follows from it: for dependents, for the nodes below, and for the parents above.

    Followed by a list, never by recursion: a chain may be as long as the graph.

    Args:
        graph: the graph.
        first: the cause of each cancellation; if None, the first node that the cascade finds failed or cancelled.
    """

    def __init__(self, graph: Graph, first: Vertex | None = None) -> None:
        self._graph = graph
        self._first = first
        self._ended: list[Vertex] = []
        self._waiting: list[Vertex] = []

    def run(self) -> None:
        """Follow the cascade to its end."""
        while self._ended or self._waiting:
            # Ends first: a group whose last child has ended is decided by them, not by what it waited on.
            if self._ended:
                self._end(self._ended.pop())
            else:
                self._cancel_waiting(self._waiting.pop())

    def set_outcome(
        self, v: Vertex, outcome: Outcome, *, error: str | None = None, summary: str | None = None, bump_gen: int = 0
    ) -> None:
        """Set the result of `v`'s own work: `v` is completing while a child is open, else it ends (law 3.11).

        Args:
            v: the node.
            outcome: its result.
            error: its error.
            summary: its new summary, or None to keep it.
            bump_gen: by how much its generation moves.
        """
        graph, record = self._graph, v.record
        status = _COMPLETING
        if not v.open_children:
            status = _STATUS[outcome]
            if v.children and outcome is _DONE and not v.group and any(c.record.status is _FAILED for c in v.children):
                status = _FAILED
        over = status in TERMINAL
        if outcome in _BAD or status is _FAILED:
            self._note(v)
        graph.put(
            v,
            replace(
                record,
                status=status,
                outcome=None if v.group else outcome,
                summary=record.summary if summary is None else summary,
                error=error,
                cause=self._first.record.id if self._first is not None and v is not self._first else None,
                assignee=None,
                gen=record.gen + bump_gen,
                lease=None,
                bound=False,
                pid=UNSET,
                pid_start=UNSET,
                grants=() if over else record.grants,
                updated_at=graph.wall,
                finished_at=graph.wall if over else None,
            ),
            None,
        )
        if over:
            self._ended.append(v)
        elif outcome in _BAD:
            self._cascade_own(v)
            self._waiting.extend(v.children or ())

    def _note(self, v: Vertex) -> None:
        if self._first is None:
            self._first = v

    def child_moved_away(self, p: Vertex) -> None:
        """Decide `p`, which has lost a child, if the children that stay are all terminal."""
        if p.children if p.group else p.record.status is Status.COMPLETING:
            self._roll_up(p)

    def ended(self, v: Vertex) -> None:
        """Follow from `v`, which is terminal now."""
        self._ended.append(v)

    def waiting(self, x: Vertex) -> None:
        """Cancel `x`, which waits on a failed node."""
        self._waiting.append(x)

    def _end(self, v: Vertex) -> None:
        if v.record.outcome in _BAD:
            self._cascade_own(v)
        if v.record.status in _NOT_DONE and v.dependents:
            self._waiting.extend(x for x, edge in v.dependents.items() if not edge & (ON_ANY | ON_OUTCOME))
        p = v.parent
        if p is not None and not p.open_children:
            self._roll_up(p)

    def _cascade_own(self, v: Vertex) -> None:
        """Cancel the descendants of `v` that wait for its own result, which is not done."""
        self._waiting.extend(x for x, edge in (v.dependents or {}).items() if edge & ON_OUTCOME and not edge & ON_ANY)

    def _cancel_waiting(self, x: Vertex) -> None:
        """Cancel `x`, which waits on a failure or is below one, unless work on it has begun (law 3.15).

        Of a group, what has not started is cancelled; what has started runs on, and decides the group.
        """
        if x.record.status in TERMINAL:
            return
        if x.group and x.open_children:
            self._waiting.extend(x.children or ())
        elif x.group or x.record.status in OPEN:
            self.set_outcome(x, Outcome.CANCELLED)

    def _roll_up(self, p: Vertex) -> None:
        """Decide `p`, whose children are all terminal, if it is a completing node or an open group (law 3.12, 3.13)."""
        record = p.record
        if record.status in TERMINAL:
            return
        children = p.children or {}
        failed = any(c.record.status is Status.FAILED for c in children)
        cause = record.cause
        if p.group:
            final = Status.FAILED if failed else Status.DONE
            if all(c.record.status is Status.CANCELLED for c in children):
                final = Status.CANCELLED
                cause = self._first.record.id if self._first is not None else None
        elif record.status is not Status.COMPLETING:
            return
        elif record.outcome is Outcome.DONE:
            final = Status.FAILED if failed else Status.DONE
        else:
            assert record.outcome is not None
            final = _STATUS[record.outcome]
        if final is not Status.DONE:
            self._note(p)
        wall = self._graph.wall
        self._graph.put(p, replace(record, status=final, cause=cause, grants=(), updated_at=wall, finished_at=wall))
        self._ended.append(p)


def set_outcome(
    graph: Graph,
    v: Vertex,
    outcome: Outcome,
    *,
    error: str | None = None,
    summary: str | None = None,
    bump_gen: int = 0,
) -> None:
    """Set the result of `v`'s own work, with all that follows. See `Cascade.set_outcome`."""
    cascade = Cascade(graph)
    cascade.set_outcome(v, outcome, error=error, summary=summary, bump_gen=bump_gen)
    cascade.run()


def existing_edges(nodes: Iterable[Vertex]) -> frozenset[ExistingEdge]:
    """Return every dep of `nodes` as it is now, for `cancel_if_dep_failed` to leave alone."""
    return frozenset(
        (v, t, t.dependents[v]) for v in nodes for t in v.dep_on if t is not None and t.dependents is not None
    )


def on_child_moved_away(graph: Graph, p: Vertex) -> None:
    """Decide `p`, from which a child was moved away, if its other children are all terminal."""
    if not p.open_children:
        cascade = Cascade(graph)
        cascade.child_moved_away(p)
        cascade.run()


def cancel_if_dep_failed(
    graph: Graph, nodes: Iterable[Vertex], existing: frozenset[ExistingEdge] = frozenset()
) -> None:
    """Cancel those of `nodes` that have a new dep on a failed node: an edge is judged when it is added (law 3.8).

    The existing edges are left alone: a reopened node waits for a failed one, also with new deps beside it.
    """
    for v in nodes:
        if v.record.status in TERMINAL or v.record.outcome is not None:
            continue
        culprit = failed_dep(v, existing)
        if culprit is not None:
            cascade = Cascade(graph, culprit)
            cascade.waiting(v)
            cascade.run()


def failed_dep(v: Vertex, existing: frozenset[ExistingEdge] = frozenset()) -> Vertex | None:
    """Return the first target, by an edge that is not `existing`, whose dep cannot be met unless it is reopened."""
    if not v.unmet:
        return None
    for t in v.dep_on:
        if t is None or t.dependents is None:
            continue
        edge = t.dependents[v]
        if edge & ON_ANY or (v, t, edge) in existing:
            continue
        if edge & ON_OUTCOME:
            if t.record.outcome in _BAD:
                return t
        elif t.record.status in _NOT_DONE:
            return t
    return None
