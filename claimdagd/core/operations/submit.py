"""The operation submit: many nodes at once, whole or not at all, with every fault of the submission listed at once."""

from __future__ import annotations

import math
from typing import Any

from claimdagd.core.cycles import cycle_among
from claimdagd.core.graph import Graph, replace
from claimdagd.core.lookup import find
from claimdagd.core.operations.cascade import cancel_if_dep_failed
from claimdagd.core.operations.checks import check_needs, plain_deps
from claimdagd.core.operations.insert import insert, parent_of
from claimdagd.core.operations.prune import make_room
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import Dep
from claimdagd.wire import Code, Submit, SubmitNode

_OP = "submit"
#: So many cycles of one submission are listed.
_CYCLES_MAX = 100


def submit(graph: Graph, r: Submit) -> list[str]:
    """Add many nodes, whose parent and deps may name refs. Return their ids in the order asked for (law 8.6).

    Refuses with every fault of the submission listed in `faults`: {index, ref, code, message}.
    """
    return Submission(graph, r).run()


class Submission:
    """One submission on its way into the graph."""

    def __init__(self, graph: Graph, r: Submit) -> None:
        self._graph = graph
        self._request = r
        self._nodes = r.nodes
        self._first = graph.next_number
        self._faults: list[dict[str, Any]] = []
        self._index_of: dict[str, int] = {}
        #: The ids to come, by ref.
        self._id_of: dict[str, str] = {}
        self._made: list[Vertex] = []

    def run(self) -> list[str]:
        """Do all of it, or refuse."""
        self._set_capacities()
        self._resolve_refs()
        self._insert_all()
        self._check_returns()
        self._add_late_deps()
        self._check_cycles()
        self._check_needs()
        if self._faults:
            raise self._refusal()
        make_room(self._graph, _OP)
        cancel_if_dep_failed(self._graph, self._made)
        returns = self._request.returns
        if returns is not None:
            return [self._id_of[ref] for ref in returns]
        return [self._id(i) for i in range(len(self._nodes))]

    def _set_capacities(self) -> None:
        if self._request.dry_run and self._request.once is not None:
            raise Refusal(Code.BAD_REQUEST, f"{_OP}: dry_run takes no once, or the real submit would get this answer")
        for resource, units in (self._request.capacities or {}).items():
            if self._graph.resources.configured.get(resource) != units:
                self._graph.configure(resource, units)

    def _id(self, index: int) -> str:
        return f"{self._graph.tag}-{self._first + index}"

    def _fault(self, index: int | None, code: Code, message: str) -> None:
        ref = self._nodes[index].ref if index is not None else None
        self._faults.append({"index": index, "ref": ref, "code": code, "message": message})

    def _resolve_refs(self) -> None:
        for i, n in enumerate(self._nodes):
            if n.ref is None:
                continue
            if self._index_of.setdefault(n.ref, i) != i:
                self._fault(i, Code.BAD_REQUEST, f"{_OP}: ref {n.ref!r} is used twice")
            elif n.ref in self._graph.vertices:
                self._fault(i, Code.BAD_REQUEST, f"{_OP}: ref {n.ref!r} is the id of a node")
        self._id_of = {ref: self._id(i) for ref, i in self._index_of.items()}

    def _parents_first(self) -> list[int]:
        """Return the indexes of the nodes, each parent before its children. A cycle of parents is a fault."""
        order: list[int] = []
        state = [0] * len(self._nodes)
        for i in range(len(self._nodes)):
            chain = []
            j: int | None = i
            while j is not None and state[j] == 0:
                state[j] = 1
                chain.append(j)
                parent = parent_of(self._nodes[j])
                j = self._index_of.get(parent) if parent is not None else None
            if j is not None and state[j] == 1:
                names = [self._nodes[k].ref or str(k) for k in chain[chain.index(j) :]]
                self._fault(j, Code.CYCLE, f"{_OP}: cycle of parents {' -> '.join([*names, names[0]])}")
            order.extend(reversed(chain))
            for k in chain:
                state[k] = 2
        return order

    def _insert_all(self) -> None:
        """Add the nodes, each with those of its deps whose targets are in the graph by then."""
        graph = self._graph
        coming = set(self._id_of.values())
        for i in self._parents_first():
            n = self._nodes[i]
            parent = parent_of(n)
            if parent is not None:
                parent = self._id_of.get(parent, parent)
                if parent not in graph.vertices and parent in coming:
                    parent = None  # the parent's own fault is listed already
            deps = self._present_deps(i, n, coming)
            graph.next_number = self._first + i
            try:
                self._made.append(insert(graph, _OP, n, parent, deps))
            except Refusal as refusal:
                self._fault(i, refusal.code, refusal.message)
        graph.next_number = self._first + len(self._nodes)

    def _present_deps(self, index: int, n: SubmitNode, coming: set[str]) -> tuple[Dep, ...]:
        """Return those deps of a node whose targets are in the graph; the others follow when all nodes are."""
        if not n.deps:
            return ()
        id_of = self._id_of
        try:
            deps = plain_deps(_OP, [Dep(id_of[d.on], d.when) if d.on in id_of else d for d in n.deps])
        except Refusal as refusal:
            self._fault(index, refusal.code, refusal.message)
            return ()
        present: list[Dep] = []
        mine = self._id(index)
        for d in deps:
            if d.on == mine:
                self._fault(index, Code.CYCLE, f"{_OP}: {n.ref or mine} cannot wait on itself")
            elif d.on in self._graph.vertices:
                present.append(d)
            elif d.on not in coming:
                try:
                    find(self._graph, _OP, d.on)
                except Refusal as refusal:
                    message = f"{refusal.message}; a dep names a ref of this submission or an id"
                    self._fault(index, refusal.code, message)
        return tuple(present)

    def _check_returns(self) -> None:
        for ref in self._request.returns or ():
            if ref not in self._index_of:
                message = f"{_OP}: return names ref {ref!r}, which no node has"
                self._faults.append({"index": None, "ref": ref, "code": Code.NOT_FOUND, "message": message})

    def _add_late_deps(self) -> None:
        """Add the deps on nodes that come later in the submission."""
        graph, id_of = self._graph, self._id_of
        for v in self._made:
            named = self._nodes[v.number - self._first].deps or ()
            if len(v.record.deps) != len(named):
                full = {d.on: d for d in (Dep(id_of.get(d.on, d.on), d.when) for d in named)}
                deps = tuple(
                    Dep(graph.vertices[d.on].record.id, d.when)
                    for d in full.values()
                    if d.on in graph.vertices and d.on != v.record.id
                )
                if deps != v.record.deps:
                    graph.reshape(v, replace(v.record, deps=deps))

    def _check_cycles(self) -> None:
        """List every cycle: each one found is broken, so that the next is found. (All is undone with the refusal.)"""
        first = self._first
        for _ in range(_CYCLES_MAX):
            nodes = cycle_among(self._made)
            if nodes is None:
                return
            refs = {v.record.id: self._nodes[v.number - first].ref for v in nodes if v.number >= first}
            path = [refs.get(v.record.id) or v.record.id for v in nodes]
            index = next((v.number - first for v in nodes if v.number >= first), None)
            self._fault(index, Code.CYCLE, f"{_OP}: cycle {' -> '.join(path)} (each waits on the one before it)")
            if not self._break(nodes):
                return

    def _break(self, nodes: list[Vertex]) -> bool:
        """Take the deps within a cycle from one of its new nodes. Return whether there was one."""
        ids = {v.record.id for v in nodes}
        for v in nodes:
            kept = tuple(d for d in v.record.deps if d.on not in ids)
            if v.number >= self._first and kept != v.record.deps:
                self._graph.reshape(v, replace(v.record, deps=kept))
                return True
        return False

    def _check_needs(self) -> None:
        for v in self._made:
            if v.record.needs:
                try:
                    check_needs(self._graph, _OP, v)
                except Refusal as refusal:
                    self._fault(v.number - self._first, refusal.code, refusal.message)

    def _refusal(self) -> Refusal:
        faults = sorted(self._faults, key=lambda f: math.inf if f["index"] is None else f["index"])
        code = faults[0]["code"] if len({f["code"] for f in faults}) == 1 else Code.BAD_REQUEST
        more = f" (and {len(faults) - 1} more faults)" if len(faults) > 1 else ""
        detail: dict[str, Any] = {"faults": faults}
        return Refusal(code, f"{faults[0]['message']}{more}", **detail)
