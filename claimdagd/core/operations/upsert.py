"""The verbs that shape the graph one node at a time: upsert, link, unlink, capacity.

They check in full before they refuse or after they applied, and a refusal is undone by the caller: nothing of a refused
request stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from claimdagd.core.graph import OPEN, Graph, replace
from claimdagd.core.operations import prune
from claimdagd.core.operations.lifecycle import judge, left, standing_edges
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.core.waitgraph import (
    END,
    GATE,
    OWN,
    START,
    Edge,
    cycle_among,
    cycle_through,
    edges_of_place,
    edges_onto,
)
from claimdagd.limits import SUMMARY_MAX_BYTES
from claimdagd.model import GROUPS, TERMINAL, Dep, Kind, Node, Outcome, Role, Status, is_id
from claimdagd.wire import Code, Link, NodeFields, SetCapacity, Unlink, Upsert

if TYPE_CHECKING:
    from collections.abc import Iterable

_ASKABLE = {Status.TODO, Status.READY, Status.BLOCKED}


def find(graph: Graph, verb: str, node_id: str) -> Vertex:
    """The vertex with this id; refused with not_found, in words that say what kind of id it is not."""
    v = graph.vertices.get(node_id)
    if v is not None:
        return v
    if not is_id(node_id):
        what = f"{node_id!r} is not an id; an id reads {graph.tag}-N"
    elif not node_id.startswith(graph.tag + "-"):
        what = f"{node_id} is of another session's graph; this one's ids read {graph.tag}-N"
    else:
        what = f"no node {node_id}"
    raise Refusal(Code.NOT_FOUND, f"{verb}: {what}", id=node_id)


def check_summary(verb: str, summary: str) -> None:
    """At most 4,096 bytes of UTF-8."""
    size = len(summary) if summary.isascii() else len(summary.encode())
    if size > SUMMARY_MAX_BYTES:
        raise Refusal(
            Code.BAD_REQUEST, f"{verb}: summary is {size} bytes, at most {SUMMARY_MAX_BYTES} are taken", field="summary"
        )


def plain_deps(verb: str, deps: Iterable[Dep]) -> tuple[Dep, ...]:
    """Deps with repeats dropped; the same target both ways is refused."""
    seen: dict[str, Dep] = {}
    for d in deps:
        known = seen.setdefault(d.on, d)
        if known.when is not d.when:
            raise Refusal(
                Code.BAD_REQUEST,
                f"{verb}: dep on {d.on} is named as after_ok and as after_any; name it once",
                field="deps",
            )
    return tuple(seen.values())


def refuse_cycle(verb: str, nodes: list[Vertex]) -> None:
    """Refused with the cycle's path in the message."""
    ids = [v.record.id for v in nodes]
    raise Refusal(Code.CYCLE, f"{verb}: cycle {' -> '.join(ids)} (each waits on the one before it)", path=ids)


# ------------------------------------------------------------------------------------------------------------- upsert


def upsert(graph: Graph, r: Upsert) -> Vertex:
    """Create a node (no id) or change the fields that are named."""
    return create(graph, r) if r.id is None else change(graph, r)


def create(graph: Graph, r: Upsert) -> Vertex:
    """A new node, judged at once: onto work already failed it is cancelled, onto work already done it is met."""
    v = insert(graph, "upsert", r, parent_of(r), plain_deps("upsert", r.deps or ()))
    nodes = cycle_among([v])
    if nodes is not None:
        refuse_cycle("upsert", nodes)
    if v.record.needs:
        check_needs(graph, "upsert", v)
    # Before it is judged: what that ends was live work when room was looked for, and is still to be seen.
    prune.make_room(graph, "upsert")
    judge(graph, [v])
    return v


def parent_of(r: NodeFields | Upsert) -> str | None:
    """The parent that a request names, or None."""
    return None if isinstance(r.parent, UnsetType) else r.parent


def insert(graph: Graph, verb: str, r: NodeFields | Upsert, parent: str | None, deps: tuple[Dep, ...]) -> Vertex:
    """Add a node with the fields of `r`, todo or blocked; `deps` stand already. The caller judges it."""
    p = find(graph, verb, parent) if parent is not None else None
    if p is not None:
        check_parent(verb, p)
    vertices = graph.vertices
    node_id = f"{graph.tag}-{graph.next_number}"
    own: list[Dep] = []
    for d in deps:
        if d.on == node_id:
            raise Refusal(Code.CYCLE, f"{verb}: a node cannot wait on itself", path=[d.on, d.on])
        t = vertices.get(d.on)
        if t is None:
            find(graph, verb, d.on)
        else:
            own.append(d if d.on is t.record.id else Dep(t.record.id, d.when))
    summary = r.summary or ""
    check_summary(verb, summary)
    status = r.status
    if isinstance(status, UnsetType):
        status = Status.TODO
    elif status not in _ASKABLE:
        raise refuse_status(verb, status)
    graph.next_number += 1
    return graph.add(
        Node(
            id=node_id,
            kind=r.kind or Kind.TASK,
            role=r.role or Role.UNSET,
            status=Status.BLOCKED if status is Status.BLOCKED else Status.TODO,
            summary=summary,
            parent=p.record.id if p is not None else None,
            deps=tuple(own),
            needs=r.needs or {},
            cost=r.cost or 1.0,
            priority=r.priority or 0,
            max_attempts=r.max_attempts or None,
            created_at=graph.wall,
            updated_at=graph.wall,
        )
    )


def refuse_status(verb: str, status: Status) -> Refusal:
    """A status that nobody may ask for by upsert."""
    way = {
        Status.CLAIMED: "claim",
        Status.RUNNING: "running",
        Status.COMPLETING: "complete",
        Status.DONE: "complete",
        Status.FAILED: "complete --status failed",
        Status.CANCELLED: "cancel",
    }[status]
    return Refusal(
        Code.BAD_STATUS, f"{verb}: status {status} is not asked for here (todo, ready or blocked are); use {way}"
    )


def check_parent(verb: str, p: Vertex) -> None:
    """Whether a node may come to stand under `p`."""
    if p.record.status in TERMINAL:
        raise Refusal(
            Code.TERMINAL, f"{verb}: parent {p.record.id} is {p.record.status}; reopen it first", id=p.record.id
        )
    if p.record.outcome is not None and p.record.outcome is not Outcome.DONE:
        raise Refusal(
            Code.BAD_STATUS,
            f"{verb}: parent {p.record.id} has {p.record.outcome} and takes no new children",
            id=p.record.id,
        )


def check_needs(graph: Graph, verb: str, v: Vertex) -> None:
    """Refuse needs that can never be met: above the capacity, or above what the ancestor has that lends them."""
    for resource, units in v.record.needs.items():
        a = v.resource_ancestor
        while a is not None and resource not in a.record.needs:
            a = a.resource_ancestor
        if a is not None:
            has = a.record.needs[resource]
            if units > has:
                raise Refusal(
                    Code.WOULD_NOT_RUN,
                    f"{verb}: {v.record.id} needs {units} of {resource}, but {a.record.id} above it lends only {has}",
                    id=v.record.id,
                    resource=resource,
                )
            continue
        capacity = graph.resources.capacity(resource)
        if units > capacity:
            hint = "" if resource in graph.resources.configured else "; unconfigured is 1, set another with capacity"
            raise Refusal(
                Code.WOULD_NOT_RUN,
                f"{verb}: {v.record.id} needs {units} of {resource}, whose capacity is {capacity}{hint}",
                id=v.record.id,
                resource=resource,
            )


def change(graph: Graph, r: Upsert) -> Vertex:
    """Change the fields named; what a claim stands on does not move under it."""
    verb = "upsert"
    assert r.id is not None
    v = find(graph, verb, r.id)
    record = v.record
    refuse_terminal(verb, v)
    fields: dict[str, Any] = {}
    if not isinstance(r.summary, UnsetType):
        check_summary(verb, r.summary)
        fields["summary"] = r.summary
    for name in ("role", "cost", "priority", "max_attempts"):
        value = getattr(r, name)
        if value is not UNSET:
            fields[name] = value
    if not isinstance(r.status, UnsetType):
        fields["status"] = _asked_status(v, r.status)
    if not isinstance(r.kind, UnsetType) and r.kind is not record.kind:
        _check_kind(graph, v, r.kind)
        fields["kind"] = r.kind
    if not isinstance(r.parent, UnsetType) and r.parent != record.parent:
        fields["parent"] = _new_parent(graph, v, r.parent)
    if not isinstance(r.deps, UnsetType):
        deps = plain_deps(verb, r.deps)
        if {d.on: d.when for d in deps} != {d.on: d.when for d in record.deps}:
            _check_still(v, "deps")
            fields["deps"] = _known_deps(graph, v, deps)
    if not isinstance(r.needs, UnsetType) and r.needs != record.needs:
        _check_still(v, "needs")
        if record.grants:
            raise Refusal(
                Code.BAD_STATUS, f"{verb}: {record.id} holds units; its needs do not move under them", id=record.id
            )
        fields["needs"] = r.needs
    if all(getattr(record, name) == value for name, value in fields.items()):
        return v
    by_depth = graph.ranks_reliable() if fields.keys() == {"deps"} else False
    known = {(t, e) for t, e in _edges(v)}
    below_known = _own_edges_below(graph, v) if "parent" in fields or "kind" in fields else {}
    standing = standing_edges(graph.subtree(v) if "parent" in fields else [v])
    old_parent = v.parent
    graph.reshape(v, replace(record, **fields, updated_at=graph.wall))
    if "parent" in fields or "deps" in fields or "kind" in fields:
        new = [edge for edge in edges_onto(v) if (edge.before[0], edge.before[1]) not in known]
        if "parent" in fields:
            new += edges_of_place(v)
        if v.group and "kind" in fields:
            new.append(Edge((v, START), (v, GATE)))
        if "kind" in fields:
            new += edges_of_place(v)
        for x, edges in (
            _own_edges_below(graph, v).items() if below_known or "parent" in fields or "kind" in fields else ()
        ):
            new += [e for e in edges if e not in below_known.get(x, ())]
        for edge in new:
            nodes = cycle_through(edge, by_depth=by_depth)
            if nodes is not None:
                refuse_cycle(verb, nodes)
    if "parent" in fields or "needs" in fields:
        for x in graph.subtree(v):
            if x.record.needs and x.record.status not in TERMINAL:
                check_needs(graph, verb, x)
    if "deps" in fields or "parent" in fields:
        judge(graph, graph.subtree(v) if "parent" in fields else [v], standing)
    if "parent" in fields and old_parent is not None:
        left(graph, old_parent)
    return v


def _edges(v: Vertex) -> list[tuple[Vertex, int]]:
    return [edge.before for edge in edges_onto(v)]


def _own_edges_below(graph: Graph, v: Vertex) -> dict[Vertex, list[Edge]]:
    return {x: edges_onto(x) for x in graph.subtree(v) if x.record.deps and x is not v}


def refuse_terminal(verb: str, v: Vertex) -> None:
    """Terminal is sticky: only reopen leaves it."""
    if v.record.status in TERMINAL:
        raise Refusal(
            Code.TERMINAL,
            f"{verb}: {v.record.id} is {v.record.status}; reopen it first",
            id=v.record.id,
            status=v.record.status,
        )


def _asked_status(v: Vertex, status: Status) -> Status:
    record = v.record
    if status not in _ASKABLE:
        raise refuse_status("upsert", status)
    if not v.group and record.status not in OPEN:
        raise Refusal(
            Code.BAD_STATUS,
            f"upsert: {record.id} is {record.status}; its status moves by release, complete or cancel",
            id=record.id,
        )
    if status is Status.BLOCKED:
        return Status.BLOCKED
    return Status.TODO if record.status is Status.BLOCKED else record.status


def _check_still(v: Vertex, what: str) -> None:
    if (not v.group and v.record.status not in OPEN) or v.record.outcome is not None:
        raise Refusal(
            Code.BAD_STATUS,
            f"upsert: {v.record.id} is {v.record.status}; {what} of a claim do not move under it",
            id=v.record.id,
        )


def _check_kind(graph: Graph, v: Vertex, kind: Kind) -> None:
    if (kind in GROUPS) is v.group:
        return
    if (
        graph.has_started(v)
        or v.record.outcome is not None
        or v.record.grants
        or any(x.record.grants for x in graph.subtree(v))
    ):
        raise Refusal(
            Code.BAD_STATUS,
            f"upsert: {v.record.id} has started; work and group do not turn into each other then",
            id=v.record.id,
        )


def _new_parent(graph: Graph, v: Vertex, parent: str | None) -> str | None:
    verb = "upsert"
    if (not v.group and v.record.status not in OPEN) or v.record.outcome is not None:
        raise Refusal(
            Code.BAD_STATUS, f"{verb}: {v.record.id} is {v.record.status}; its parent stays while it is", id=v.record.id
        )
    for x in graph.subtree(v):
        if x.record.grants:
            raise Refusal(
                Code.BAD_STATUS,
                f"{verb}: {x.record.id} holds units; the parent of {v.record.id} stays until it ends",
                id=x.record.id,
            )
    if parent is None:
        return None
    p = find(graph, verb, parent)
    check_parent(verb, p)
    if p is v or graph.is_ancestor(v, p):
        way = [p]
        while way[-1] is not v:
            above = way[-1].parent
            assert above is not None
            way.append(above)
        refuse_cycle(verb, [v, *reversed(way[:-1]), v] if len(way) > 1 else [v, v])
    return p.record.id


def _known_deps(graph: Graph, v: Vertex, deps: tuple[Dep, ...]) -> tuple[Dep, ...]:
    # A dep on a pruned node that stays named is met and kept; a new one on an unknown id is refused.
    kept = {d.on for d in v.record.deps}
    for d in deps:
        if d.on == v.record.id:
            raise Refusal(Code.CYCLE, f"upsert: {v.record.id} cannot wait on itself", path=[v.record.id, v.record.id])
        if d.on not in kept:
            find(graph, "upsert", d.on)
    return deps


# --------------------------------------------------------------------------------------------------------- link, unlink


def link(graph: Graph, r: Link) -> Vertex:
    """`after` waits on `before`. An edge that stands already takes the new `when`."""
    verb = "link"
    before, after = find(graph, verb, r.before), find(graph, verb, r.after)
    refuse_terminal(verb, after)
    if before is after:
        raise Refusal(
            Code.CYCLE, f"{verb}: {after.record.id} cannot wait on itself", path=[after.record.id, after.record.id]
        )
    deps = after.record.deps
    known = next((d for d in deps if d.on == r.before), None)
    if known is not None and known.when is r.when:
        return after
    if (not after.group and after.record.status not in OPEN) or after.record.outcome is not None:
        raise Refusal(
            Code.BAD_STATUS,
            f"{verb}: {after.record.id} is {after.record.status}; deps of a claim do not move under it",
            id=after.record.id,
        )
    by_depth = graph.ranks_reliable()
    standing = standing_edges([after])
    new = Dep(before.record.id, r.when)
    deps = tuple(new if d is known else d for d in deps) if known is not None else (*deps, new)
    graph.reshape(after, replace(after.record, deps=deps, updated_at=graph.wall))
    if known is None:
        own = after.outcome_deps is not None and before in after.outcome_deps
        nodes = cycle_through(Edge((before, OWN if own else END), (after, START)), by_depth=by_depth)
        if nodes is not None:
            refuse_cycle(verb, nodes)
    judge(graph, [after], standing)
    return after


def unlink(graph: Graph, r: Unlink) -> Vertex:
    """`after` no longer waits on `before`."""
    verb = "unlink"
    after = find(graph, verb, r.after)
    refuse_terminal(verb, after)
    deps = after.record.deps
    kept = tuple(d for d in deps if d.on != r.before or (r.when is not None and d.when is not r.when))
    if len(kept) == len(deps):
        if r.before not in graph.vertices:
            find(graph, verb, r.before)
        kind = f" {r.when}" if r.when is not None else ""
        raise Refusal(Code.NOT_FOUND, f"{verb}: {r.after} has no dep{kind} on {r.before}", id=r.before)
    if (not after.group and after.record.status not in OPEN) or after.record.outcome is not None:
        raise Refusal(
            Code.BAD_STATUS,
            f"{verb}: {after.record.id} is {after.record.status}; deps of a claim do not move under it",
            id=after.record.id,
        )
    graph.reshape(after, replace(after.record, deps=kept, updated_at=graph.wall))
    return after


def set_capacity(graph: Graph, r: SetCapacity) -> str:
    """Set a resource's capacity; lowering it takes nothing from holders."""
    if graph.resources.configured.get(r.resource) != r.units:
        graph.configure(r.resource, r.units)
    return r.resource
