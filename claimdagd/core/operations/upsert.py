"""The operation upsert: a new node, or other fields of one.

The checks that need the new shape run after it is applied. The caller undoes a refused request, so nothing of it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from claimdagd.core.cycles import cycle_among, cycle_through
from claimdagd.core.graph import OPEN, Graph, replace
from claimdagd.core.indexes.links import has_started, is_ancestor, subtree
from claimdagd.core.lookup import find
from claimdagd.core.operations.cascade import cancel_if_dep_failed, existing_edges, on_child_moved_away
from claimdagd.core.operations.checks import (
    check_askable,
    check_needs,
    check_not_terminal,
    check_parent,
    check_still,
    check_summary,
    is_still,
    plain_deps,
    refuse_cycle,
    refuse_waiting_on_itself,
)
from claimdagd.core.operations.insert import insert, parent_of
from claimdagd.core.operations.prune import make_room
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import GROUPS, TERMINAL, Dep, Kind, Status
from claimdagd.waitgraph import GATE, START, dep_edges, parent_edges
from claimdagd.wire import Code, Upsert

if TYPE_CHECKING:
    from claimdagd.waitgraph import Edge

_OP = "upsert"
#: The fields whose change is to be checked against the rest of the graph.
_SHAPING = frozenset({"parent", "deps", "kind", "needs"})


def upsert(graph: Graph, r: Upsert) -> Vertex:
    """Create a node (no id) or change the fields that are named."""
    return create(graph, r) if r.id is None else update(graph, r, r.id)


def create(graph: Graph, r: Upsert) -> Vertex:
    """Add a node. It is cancelled at once if a dep of it has failed already."""
    v = insert(graph, _OP, r, parent_of(r), plain_deps(_OP, r.deps or ()))
    nodes = cycle_among([v])
    if nodes is not None:
        refuse_cycle(_OP, nodes)
    if v.record.needs:
        check_needs(graph, _OP, v)
    # Before the deps are judged: what that ends was live work when room was looked for, and is still to be seen.
    make_room(graph, _OP)
    cancel_if_dep_failed(graph, [v])
    return v


def update(graph: Graph, r: Upsert, node_id: str) -> Vertex:
    """Change the fields that are named. What a claim stands on does not move under it."""
    v = find(graph, _OP, node_id)
    check_not_terminal(_OP, v)
    fields = _changed_fields(graph, v, r)
    if any(getattr(v.record, name) != value for name, value in fields.items()):
        _Change(graph, v, fields).apply()
    return v


def _changed_fields(graph: Graph, v: Vertex, r: Upsert) -> dict[str, Any]:
    """Return the fields that `r` names with their new values, each checked by itself."""
    record = v.record
    fields: dict[str, Any] = {}
    if not isinstance(r.summary, UnsetType):
        check_summary(_OP, r.summary)
        fields["summary"] = r.summary
    for name in ("role", "cost", "priority", "max_attempts", "retries", "retry_delay"):
        value = getattr(r, name)
        if value is not UNSET:
            fields[name] = value
    if not isinstance(r.not_before, UnsetType):
        fields["not_before"] = r.not_before or UNSET
    if not isinstance(r.status, UnsetType):
        fields["status"] = _new_status(v, r.status)
    if not isinstance(r.kind, UnsetType) and r.kind is not record.kind:
        _check_kind(v, r.kind)
        fields["kind"] = r.kind
    if not isinstance(r.parent, UnsetType) and r.parent != record.parent:
        fields["parent"] = _new_parent(graph, v, r.parent)
    if not isinstance(r.deps, UnsetType):
        deps = plain_deps(_OP, r.deps)
        if {d.on: d.when for d in deps} != {d.on: d.when for d in record.deps}:
            check_still(_OP, v, "deps")
            _check_targets(graph, v, deps)
            fields["deps"] = deps
    if not isinstance(r.needs, UnsetType) and r.needs != record.needs:
        check_still(_OP, v, "needs")
        if record.grants:
            raise Refusal(
                Code.BAD_STATUS, f"{_OP}: {record.id} holds units; its needs do not move under them", id=record.id
            )
        fields["needs"] = r.needs
    return fields


class _Change:
    """New values of some fields of a node: applied, and then checked for what they do to the graph."""

    def __init__(self, graph: Graph, v: Vertex, fields: dict[str, Any]) -> None:
        self.graph = graph
        self.v = v
        self.fields = fields
        self.moves = "parent" in fields
        #: Whether edges may come that are not named by `deps`: from the parent, or because an ancestor is a group now.
        self.bends = self.moves or "kind" in fields

    def apply(self) -> None:
        """Replace the record, and refuse if the new shape has a cycle or needs that can never be met."""
        graph, v, fields = self.graph, self.v, self.fields
        if fields.keys().isdisjoint(_SHAPING):
            graph.reshape(v, replace(v.record, **fields, updated_at=graph.wall))
            return
        by_rank = graph.ranks_reliable() if fields.keys() == {"deps"} else False
        known = set(self._dep_edges())
        affected = subtree(v) if self.moves else [v]
        existing = existing_edges(affected)
        old_parent = v.parent
        graph.reshape(v, replace(v.record, **fields, updated_at=graph.wall))
        if self.bends or "deps" in fields:
            self._check_cycles(known, by_rank)
        if self.moves or "needs" in fields:
            for x in subtree(v):
                if x.record.needs and x.record.status not in TERMINAL:
                    check_needs(graph, _OP, x)
        if self.moves or "deps" in fields:
            cancel_if_dep_failed(graph, affected, existing)
        if self.moves and old_parent is not None:
            on_child_moved_away(graph, old_parent)

    def _dep_edges(self) -> list[Edge[Vertex]]:
        return [edge for x in (subtree(self.v) if self.bends else [self.v]) for edge in dep_edges(x)]

    def _check_cycles(self, known: set[Edge[Vertex]], by_rank: bool) -> None:
        v = self.v
        new = [edge for edge in self._dep_edges() if edge not in known]
        if self.bends:
            new += parent_edges(v)
            if v.group and "kind" in self.fields:
                new.append(((v, START), (v, GATE)))
        for edge in new:
            nodes = cycle_through(edge, by_rank=by_rank)
            if nodes is not None:
                refuse_cycle(_OP, nodes)


def _new_status(v: Vertex, status: Status) -> Status:
    record = v.record
    check_askable(_OP, status)
    if not v.group and record.status not in OPEN:
        raise Refusal(
            Code.BAD_STATUS,
            f"{_OP}: {record.id} is {record.status}; its status moves by release, complete or cancel",
            id=record.id,
        )
    if status is Status.BLOCKED:
        return Status.BLOCKED
    return Status.TODO if record.status is Status.BLOCKED else record.status


def _check_kind(v: Vertex, kind: Kind) -> None:
    if (kind in GROUPS) is v.group:
        return
    if has_started(v) or v.record.outcome is not None or any(x.record.grants for x in subtree(v)):
        raise Refusal(
            Code.BAD_STATUS,
            f"{_OP}: {v.record.id} has started; work and group do not turn into each other then",
            id=v.record.id,
        )


def _new_parent(graph: Graph, v: Vertex, parent: str | None) -> str | None:
    if not is_still(v):
        raise Refusal(
            Code.BAD_STATUS, f"{_OP}: {v.record.id} is {v.record.status}; its parent stays while it is", id=v.record.id
        )
    for x in subtree(v):
        if x.record.grants:
            raise Refusal(
                Code.BAD_STATUS,
                f"{_OP}: {x.record.id} holds units; the parent of {v.record.id} stays until it ends",
                id=x.record.id,
            )
    if parent is None:
        return None
    p = find(graph, _OP, parent)
    check_parent(_OP, p)
    if p is v or is_ancestor(v, p):
        way = [p]
        while way[-1] is not v:
            above = way[-1].parent
            assert above is not None
            way.append(above)
        refuse_cycle(_OP, [v, *reversed(way[:-1]), v] if len(way) > 1 else [v, v])
    return p.record.id


def _check_targets(graph: Graph, v: Vertex, deps: tuple[Dep, ...]) -> None:
    """Refuse a dep on `v` itself or on an unknown id. One on a pruned node that stays named is met, and kept."""
    kept = {d.on for d in v.record.deps}
    for d in deps:
        if d.on == v.record.id:
            refuse_waiting_on_itself(_OP, v.record.id)
        if d.on not in kept:
            find(graph, _OP, d.on)
