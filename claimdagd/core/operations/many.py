"""Many at once: one operation on each of several nodes, in one mutation, whole or not at all (law 10.6, 10.7).

It knows the names that a request may carry and how to run an operation for each; what is done with one node is for the
operation. A node that another one of the same request has brought there already (a dependent cancelled by a cascade,
say) is no fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from claimdagd.core.graph import Graph
from claimdagd.core.indexes.links import subtree
from claimdagd.core.lookup import scope_root
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import TERMINAL, Node, Outcome, Status
from claimdagd.wire import Archive, Cancel, Code, Complete, Release, Renew, Reopen, Running, Unarchive

ById: TypeAlias = Renew | Running | Release | Reopen | Archive | Unarchive | Complete | Cancel
T = TypeVar("T")

replace = msgspec.structs.replace


def names_one(r: Any) -> bool:
    """Return whether `r` names one node by `id`, and nothing else."""
    if r.ids or r.id is UNSET:
        return False
    return not (type(r) is Reopen and (r.failed or r.under is not None)) and not (
        type(r) is Cancel and r.under is not None
    )


def nodes_named(graph: Graph, r: Any) -> tuple[str, ...]:
    """Return the ids of the nodes that `r` is about, in order. Refuses a request that names them in no way or in two.

    `failed` means all that failed by itself, in the scope or in the whole graph; `under` of a cancel, that subtree.
    """
    op = str(type(r).__struct_config__.tag)
    failed = isinstance(r, Reopen) and r.failed
    under = r.under if isinstance(r, Reopen | Cancel) else None
    ways = [name for name, given in (("id", r.id is not UNSET), ("ids", bool(r.ids)), ("failed", failed)) if given]
    if under is not None and not failed:
        if isinstance(r, Reopen):
            raise Refusal(Code.BAD_REQUEST, f"{op}: under goes with failed", field="under", accepted="failed: true too")
        ways.append("under")
    if not ways:
        accepted = "a text"
        raise Refusal(
            Code.BAD_REQUEST, f"{op}: id is missing; it must be {accepted}, or ids given", field="id", accepted=accepted
        )
    if len(ways) > 1:
        message = f"{op}: {' and '.join(ways)} are given; it takes one of them"
        raise Refusal(Code.BAD_REQUEST, message, field=ways[-1], accepted="one of them")
    if isinstance(r, Complete) and r.next is not None:
        raise Refusal(Code.BAD_REQUEST, f"{op}: next goes with id, not with ids", field="next", accepted="id")
    root = scope_root(graph, op, under)
    if failed:
        return tuple(v.record.id for v in _failed(graph.vertices.values() if root is None else subtree(root)))
    if root is not None:
        return () if root.record.status in TERMINAL else (root.record.id,)
    return tuple(r.ids)


def _failed(scope: Iterable[Vertex]) -> list[Vertex]:
    """Return what failed by itself, parents first: a group, or a node whose child failed, comes back with that child.

    A parent comes before its children, which would else only bring it back to wait for them. A group without children
    has failed by hand.
    """

    def by_itself(v: Vertex) -> bool:
        return not v.children if v.group else v.record.outcome is Outcome.FAILED

    found = [v for v in scope if v.record.status is Status.FAILED and by_itself(v)]
    return sorted(found, key=lambda v: (_height(v), v.number))


def _height(v: Vertex) -> int:
    above, p = 0, v.parent
    while p is not None:
        above, p = above + 1, p.parent
    return above


def run(
    graph: Graph, r: ById, ids: tuple[str, ...], one: Callable[[Any], T], as_it_is: Callable[[Vertex], T]
) -> list[T]:
    """Do `one` with the request for each id; return what each gave, in the order of the ids.

    Refuses with every fault in `faults`: {index, id, code, message}; nothing is done then.
    """
    results: dict[int, T] = {}
    faults: dict[int, dict[str, Any]] = {}
    named = {node_id: graph.vertices[node_id] for node_id in ids if node_id in graph.vertices}
    before = {v: (v.record, v.lease) for v in named.values()}
    for index in _order(r, ids, named):
        node_id = ids[index]
        try:
            results[index] = one(_for_one(r, node_id))
        except Refusal as refusal:
            v = named.get(node_id)
            if v is not None and _brought_there(r, v, before[v][0], refusal):
                results[index] = as_it_is(v)
            else:
                faults[index] = {"index": index, "id": node_id, "code": refusal.code, "message": refusal.message}
        graph.derive_statuses()
    if faults:
        if isinstance(r, Renew | Running):
            # A renewal is no step of the mutation, so no rollback knows of it.
            for v, (_, lease) in before.items():
                if v.lease is not None and lease is not None:
                    graph.set_lease(v, lease)
        raise _refusal([faults[index] for index in sorted(faults)])
    return [results[index] for index in range(len(ids))]


def _order(r: ById, ids: tuple[str, ...], named: dict[str, Vertex]) -> Iterable[int]:
    """Return the order in which the ids are gone through: of those to complete, what is below another comes first.

    A group is decided by its children, and a failure would cancel those that have not begun.
    """
    if type(r) is not Complete:
        return range(len(ids))
    return sorted(range(len(ids)), key=lambda index: -_height(named[ids[index]]) if ids[index] in named else 0)


def _for_one(r: ById, node_id: str) -> ById:
    """Return the request for one node."""
    match r:
        case Reopen():
            return replace(r, id=node_id, ids=(), failed=False, under=None)
        case Cancel():
            return replace(r, id=node_id, ids=(), under=None)
        case _:
            return replace(r, id=node_id, ids=())


def _brought_there(r: ById, v: Vertex, before: Node, refusal: Refusal) -> bool:
    """Return whether this very request has ended, or reopened, `v` with another node, so that no more is to be done."""
    ended = before.status in TERMINAL
    if isinstance(r, Reopen):
        return refusal.code is Code.NOT_TERMINAL and ended and v.record.status not in TERMINAL
    open_before = not ended and before.outcome is None
    return isinstance(r, Complete | Cancel) and refusal.code is Code.TERMINAL and open_before


def _refusal(faults: list[dict[str, Any]]) -> Refusal:
    code = faults[0]["code"] if len({fault["code"] for fault in faults}) == 1 else Code.BAD_REQUEST
    more = f" (and {len(faults) - 1} more faults)" if len(faults) > 2 else " (and 1 more fault)" if faults[1:] else ""
    return Refusal(code, f"{faults[0]['message']}{more}", faults=faults)
