"""The verb submit: many nodes at once, whole or not at all, every fault of the submission listed at once."""

from __future__ import annotations

import math
from typing import Any

from claimdagd.core.graph import Graph, replace
from claimdagd.core.operations import prune
from claimdagd.core.operations.lifecycle import judge
from claimdagd.core.operations.upsert import check_needs, find, insert, parent_of, plain_deps
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.core.waitgraph import cycle_among
from claimdagd.model import Dep
from claimdagd.wire import Code, Submit, SubmitNode


def submit(graph: Graph, r: Submit) -> list[str]:
    """Many nodes at once, whole or not at all; parent and deps may name refs. Ids in the order asked for.

    Refused with every fault of the submission listed at once in `faults`: {index, ref, code, message}.
    """
    verb = "submit"
    if r.dry_run and r.once is not None:
        raise Refusal(Code.BAD_REQUEST, f"{verb}: dry_run takes no once, or the real submit would get this answer")
    for resource, units in (r.capacities or {}).items():
        if graph.resources.configured.get(resource) != units:
            graph.configure(resource, units)
    faults: list[dict[str, Any]] = []
    by_ref: dict[str, int] = {}

    def fault(i: int | None, code: Code, message: str) -> None:
        ref = r.nodes[i].ref if i is not None else None
        faults.append({"index": i, "ref": ref, "code": code, "message": message})

    for i, n in enumerate(r.nodes):
        if n.ref is not None and by_ref.setdefault(n.ref, i) != i:
            fault(i, Code.BAD_REQUEST, f"{verb}: ref {n.ref!r} is used twice")
        elif n.ref is not None and n.ref in graph.vertices:
            fault(i, Code.BAD_REQUEST, f"{verb}: ref {n.ref!r} is the id of a node")
    first = graph.next_number
    order = _parents_first(r.nodes, by_ref, fault)
    id_of = {ref: f"{graph.tag}-{first + i}" for ref, i in by_ref.items()}
    coming = set(id_of.values())
    made: list[Vertex] = []
    for i in order:
        parent = parent_of(r.nodes[i])
        if parent is not None:
            parent = id_of.get(parent, parent)
            if parent not in graph.vertices and parent in coming:
                parent = None  # its own fault is told already
        graph.next_number = first + i
        try:
            made.append(
                insert(
                    graph, verb, r.nodes[i], parent, _present_deps(graph, i, first, r.nodes[i], id_of, coming, fault)
                )
            )
        except Refusal as refusal:
            fault(i, refusal.code, refusal.message)
    graph.next_number = first + len(r.nodes)
    faults += [
        {
            "index": None,
            "ref": ref,
            "code": Code.NOT_FOUND,
            "message": f"{verb}: return names ref {ref!r}, which no node has",
        }
        for ref in r.returns or ()
        if ref not in by_ref
    ]
    _late_deps(graph, r.nodes, made, first, id_of)
    nodes = cycle_among(made)
    if nodes is not None:
        refs = {v.record.id: r.nodes[v.number - first].ref for v in nodes if v.number >= first}
        path = [refs.get(v.record.id) or v.record.id for v in nodes]
        index = next((v.number - first for v in nodes if v.number >= first), None)
        fault(index, Code.CYCLE, f"{verb}: cycle {' -> '.join(path)} (each waits on the one before it)")
    for v in made:
        if v.record.needs:
            try:
                check_needs(graph, verb, v)
            except Refusal as refusal:
                fault(v.number - first, refusal.code, refusal.message)
    if faults:
        faults.sort(key=lambda f: math.inf if f["index"] is None else f["index"])
        code = faults[0]["code"] if len({f["code"] for f in faults}) == 1 else Code.BAD_REQUEST
        more = f" (and {len(faults) - 1} more faults)" if len(faults) > 1 else ""
        detail: dict[str, Any] = {"faults": faults}
        raise Refusal(code, f"{faults[0]['message']}{more}", **detail)
    prune.make_room(graph, verb)
    judge(graph, made)
    return (
        [id_of[ref] for ref in r.returns]
        if r.returns is not None
        else [f"{graph.tag}-{first + i}" for i in range(len(r.nodes))]
    )


def _parents_first(nodes: tuple[SubmitNode, ...], by_ref: dict[str, int], fault: Any) -> list[int]:
    """The submission's indexes, each parent before its children; a parent cycle is a fault."""
    order: list[int] = []
    state = [0] * len(nodes)
    for i in range(len(nodes)):
        chain = []
        j: int | None = i
        while j is not None and state[j] == 0:
            state[j] = 1
            chain.append(j)
            parent = parent_of(nodes[j])
            j = by_ref.get(parent) if parent is not None else None
        if j is not None and state[j] == 1:
            names = [nodes[k].ref or str(k) for k in chain[chain.index(j) :]]
            fault(j, Code.CYCLE, f"submit: cycle of parents {' -> '.join([*names, names[0]])}")
        order.extend(reversed(chain))
        for k in chain:
            state[k] = 2
    return order


def _present_deps(
    graph: Graph, i: int, first: int, n: SubmitNode, id_of: dict[str, str], coming: set[str], fault: Any
) -> tuple[Dep, ...]:
    """Those deps of node `i` whose targets stand already; the others follow when all nodes do."""
    if not n.deps:
        return ()
    present: list[Dep] = []
    try:
        deps = plain_deps("submit", [Dep(id_of[d.on], d.when) if d.on in id_of else d for d in n.deps])
    except Refusal as refusal:
        fault(i, refusal.code, refusal.message)
        return ()
    mine = f"{graph.tag}-{first + i}"
    for d in deps:
        if d.on == mine:
            fault(i, Code.CYCLE, f"submit: {n.ref or mine} cannot wait on itself")
        elif d.on in graph.vertices:
            present.append(d)
        elif d.on not in coming:
            try:
                find(graph, "submit", d.on)
            except Refusal as refusal:
                fault(i, refusal.code, f"{refusal.message}; a dep names a ref of this submission or an id")
    return tuple(present)


def _late_deps(
    graph: Graph, nodes: tuple[SubmitNode, ...], made: list[Vertex], first: int, id_of: dict[str, str]
) -> None:
    """Deps on nodes that come later in the submission."""
    for v in made:
        named = nodes[v.number - first].deps or ()
        if len(v.record.deps) != len(named):
            full = {d.on: d for d in (Dep(id_of.get(d.on, d.on), d.when) for d in named)}
            deps = tuple(
                Dep(graph.vertices[d.on].record.id, d.when)
                for d in full.values()
                if d.on in graph.vertices and d.on != v.record.id
            )
            if deps != v.record.deps:
                graph.reshape(v, replace(v.record, deps=deps))
