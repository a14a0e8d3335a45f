"""How nodes end and come back: own results, roll-up, cascades, cancel, reopen, archive (law 3.9, 3.11, 3.15, 3.17).

Everything here goes through the choke point; whether a request is allowed is checked by the verb functions at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from claimdagd.core.graph import OPEN, Graph, replace
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import ON_ANY, ON_OUTCOME, Vertex
from claimdagd.limits import ERROR_MAX_BYTES
from claimdagd.model import TERMINAL, Outcome, Status
from claimdagd.wire import Code

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A dep: who waits, on whom, and the bits of the edge.
StandingEdge: TypeAlias = tuple[Vertex, Vertex, int]

_STATUS = {Outcome.DONE: Status.DONE, Outcome.FAILED: Status.FAILED, Outcome.CANCELLED: Status.CANCELLED}
#: On the path of every completion, where an enum's own attribute costs as much as a call.
_DONE, _COMPLETING, _FAILED = Outcome.DONE, Status.COMPLETING, Status.FAILED
_BAD = frozenset({Outcome.FAILED, Outcome.CANCELLED})
_NOT_DONE = frozenset({Status.FAILED, Status.CANCELLED})


def check_error(verb: str, error: str | None) -> None:
    """At most 1,024 bytes of UTF-8."""
    if error is not None:
        size = len(error.encode())
        if size > ERROR_MAX_BYTES:
            raise Refusal(
                Code.BAD_REQUEST, f"{verb}: error is {size} bytes, at most {ERROR_MAX_BYTES} are taken", field="error"
            )


class Cascade:
    """One ending and all that follows from it: what waits on it, what stands under it, what it decides above.

    `first` is the first node that ended failed or cancelled, and becomes the cause of whatever is cancelled; without it
    the first that is met. Followed from a list, never by recursion: a chain may be as long as the graph.
    """

    def __init__(self, graph: Graph, first: Vertex | None = None) -> None:
        self._graph = graph
        self._first = first
        self._ended: list[Vertex] = []
        self._waiting: list[Vertex] = []

    def run(self) -> None:
        """Follow it to its end."""
        while self._ended or self._waiting:
            # Ends first: a group whose last child has ended is decided by its children, whatever it waited on itself.
            if self._ended:
                self._end(self._ended.pop())
            else:
                self._cancel_waiting(self._waiting.pop())

    def end_own(
        self, v: Vertex, outcome: Outcome, *, error: str | None = None, summary: str | None = None, moved: int = 0
    ) -> None:
        """Set the result of `v`'s own work: it is completing while a child is open, else it ends.

        `moved` is by how much its generation moves.
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
                gen=record.gen + moved,
                lease=None,
                bound=False,
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

    def left(self, p: Vertex) -> None:
        """A child of `p` went elsewhere: those that stay may be all terminal."""
        if p.children if p.group else p.record.status is Status.COMPLETING:
            self._roll_up(p)

    def ended(self, v: Vertex) -> None:
        """`v` was made terminal: follow from there."""
        self._ended.append(v)

    def waiting(self, x: Vertex) -> None:
        """`x` waits on what failed."""
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
        """`v`'s own result is no good: descendants that waited for that result are cancelled."""
        self._waiting.extend(x for x, edge in (v.dependents or {}).items() if edge & ON_OUTCOME and not edge & ON_ANY)

    def _cancel_waiting(self, x: Vertex) -> None:
        """What waits on a failure, or stands under it, is cancelled unless work on it has begun.

        A group is nobody's work: what has not started of it is cancelled, what has runs on, and that decides it.
        """
        if x.record.status in TERMINAL:
            return
        if x.group and x.open_children:
            self._waiting.extend(x.children or ())
        elif x.group or x.record.status in OPEN:
            self.end_own(x, Outcome.CANCELLED)

    def _roll_up(self, p: Vertex) -> None:
        """The last child of `p` is terminal: a completing node and an open group are decided now."""
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


def end_own(
    graph: Graph, v: Vertex, outcome: Outcome, *, error: str | None = None, summary: str | None = None, moved: int = 0
) -> None:
    """Set the result of `v`'s own work, with all that follows."""
    cascade = Cascade(graph)
    cascade.end_own(v, outcome, error=error, summary=summary, moved=moved)
    cascade.run()


def standing_edges(nodes: Iterable[Vertex]) -> frozenset[StandingEdge]:
    """Every dep of `nodes` as it is now, for `judge` to leave alone."""
    return frozenset(
        (v, t, t.dependents[v]) for v in nodes for t in v.dep_on if t is not None and t.dependents is not None
    )


def left(graph: Graph, p: Vertex) -> None:
    """A child of `p` was moved elsewhere, and it may be decided now."""
    if not p.open_children:
        cascade = Cascade(graph)
        cascade.left(p)
        cascade.run()


def judge(graph: Graph, nodes: Iterable[Vertex], standing: frozenset[StandingEdge] = frozenset()) -> None:
    """Edges are judged when they are added: onto work already failed, the node is cancelled at once.

    Those that stood before are not: a reopened node waits for what failed, whatever else it is made to wait on.
    """
    for v in nodes:
        if v.record.status in TERMINAL or v.record.outcome is not None:
            continue
        culprit = failed_dep(v, standing)
        if culprit is not None:
            cascade = Cascade(graph, culprit)
            cascade.waiting(v)
            cascade.run()


def failed_dep(v: Vertex, standing: frozenset[StandingEdge] = frozenset()) -> Vertex | None:
    """The first dep of `v`, other than the standing ones, that can never be met as things stand."""
    if not v.unmet:
        return None
    for t in v.dep_on:
        if t is None or t.dependents is None:
            continue
        edge = t.dependents[v]
        if edge & ON_ANY or (v, t, edge) in standing:
            continue
        if edge & ON_OUTCOME:
            if t.record.outcome in _BAD:
                return t
        elif t.record.status in _NOT_DONE:
            return t
    return None


# --------------------------------------------------------------------------------------------------------------- cancel


def cancel(graph: Graph, v: Vertex, error: str | None) -> list[str]:
    """End the whole subtree, held nodes too; then what waits on any of it. Ids in the order they ended, `v` first."""
    verb = "cancel"
    check_error(verb, error)
    if v.record.status in TERMINAL:
        raise Refusal(
            Code.TERMINAL, f"{verb}: {v.record.id} is {v.record.status} already", id=v.record.id, status=v.record.status
        )
    unfinished = [x for x in graph.subtree(v) if x.record.status not in TERMINAL]
    for x in reversed(unfinished):
        record = x.record
        graph.put(
            x,
            replace(
                record,
                status=Status.CANCELLED,
                outcome=None if x.group else Outcome.CANCELLED,
                cause=v.record.id if x is not v else None,
                error=error if x is v else None,
                gen=record.gen + 1 if graph.is_live(x) else record.gen,
                assignee=None,
                lease=None,
                bound=False,
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
    return list(dict.fromkeys([x.record.id for x in unfinished] + more))


# --------------------------------------------------------------------------------------------------------------- reopen


def reopen(graph: Graph, v: Vertex) -> None:
    """Bring a terminal node back, with whatever its ending had cancelled; terminal ancestors are open again."""
    if v.record.status not in TERMINAL:
        raise Refusal(Code.NOT_TERMINAL, f"reopen: {v.record.id} is {v.record.status}, not finished", id=v.record.id)
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
    for x in back:
        _bring_back(graph, x)
    for p in above:
        if p not in back:
            _lift(graph, p)
    for x in sorted(back):
        if x is not v and x.record.status not in TERMINAL and x.record.outcome is None:
            culprit = failed_dep(x)
            if culprit is not None:
                cascade = Cascade(graph, culprit)
                cascade.waiting(x)
                cascade.run()


def _bring_back(graph: Graph, x: Vertex) -> None:
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
            archived=False,
            assignee=None,
            started_at=None,
            finished_at=None,
            updated_at=graph.wall,
        ),
        None,
    )


def _lift(graph: Graph, p: Vertex) -> None:
    """A terminal ancestor of work that came back waits for it again; the grants it once held are gone."""
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


# -------------------------------------------------------------------------------------------------------------- archive


def set_archived(graph: Graph, verb: str, v: Vertex, archived: bool) -> None:
    """Hide a terminal node from the default list, or show it again; the generation moves."""
    if v.record.status not in TERMINAL:
        raise Refusal(Code.NOT_TERMINAL, f"{verb}: {v.record.id} is {v.record.status}, not finished", id=v.record.id)
    record = v.record
    graph.put(v, replace(record, archived=archived, gen=record.gen + 1, updated_at=graph.wall))
