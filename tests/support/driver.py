"""The core as the tests of this directory drive it: requests in, answers or refusals out, time by hand.

The one place that knows the core's names, so that a test reads as a story in requests.
"""

from __future__ import annotations

from typing import Any

import msgspec

from claimdagd import wire
from claimdagd.core import apply as verbs
from claimdagd.core import invariants
from claimdagd.core.graph import Graph, Mutation
from claimdagd.core.lookup import scope_root
from claimdagd.core.queries import deadlock, explain, views
from claimdagd.core.queries.order import claim_order
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import Dep, Kind, Node, When

TAG = "t3st"


class Driver:
    """A graph with a clock of its own; `mutation` is what the last accepted request did."""

    def __init__(self, max_nodes: int = 4096, lease: float = 900.0, starvation: int = 100) -> None:
        self.graph = Graph(TAG, max_nodes=max_nodes, default_lease_s=lease, starvation=starvation)
        self.now = 0.0
        self.mutation: Mutation | None = None

    @property
    def wall(self) -> float:
        return 1_000_000.0 + self.now

    def apply(self, request: wire.Request) -> Any:
        """The answer as a caller would read it, or Refusal."""
        self.graph.now = self.now
        match request:
            case wire.Get():
                return self.view(request.id)
            case wire.Why():
                return explain.why(self.graph, self.graph.vertices[request.id])
            case wire.Ready():
                under = scope_root(self.graph, "ready", request.under)
                queue = claim_order(self.graph, request.role, request.slack, request.strict, under)
                return {"nodes": [{"id": v.record.id, "runnable": runnable} for v, runnable in queue]}
            case wire.Resources():
                return {"resources": msgspec.to_builtins(views.resources(self.graph))}
        result = self.perform(request)
        if result.many is not None:
            return {"results": [self.answer(request, each) for each in result.many]}
        return self.answer(request, result)

    def answer(self, request: wire.Request, result: verbs.Result) -> Any:
        """What a caller would read of a result."""
        match request:
            case wire.Complete():
                refusal = result.next_refusal
                return {
                    "node": self.shown(result.v),
                    "ready": list(result.ready),
                    "next": self.claimed(result.next) if result.next is not None else None,
                    "code": refusal.code if refusal is not None else None,
                }
            case wire.Claim() | wire.ClaimNext():
                return self.claimed(result.v)
            case wire.Renew() | wire.Running():
                return {key: value for key, value in self.claimed(result.v).items() if key != "node"}
            case wire.Release() | wire.Reopen() | wire.Archive() | wire.Unarchive():
                assert result.v is not None
                return {"id": result.v.record.id, "gen": result.v.record.gen}
            case wire.SetCapacity():
                return msgspec.to_builtins(views.resource_view(self.graph, result.name or ""))
            case wire.Pause() | wire.Resume():
                return {"paused": result.paused}
            case wire.Submit() | wire.Cancel() | wire.Reclaim():
                return {"ids": result.ids}
            case _:
                return self.shown(result.v)

    def perform(self, request: wire.Request) -> verbs.Result:
        """As `apply`, without a look at what came of it: what the core puts off stays put off."""
        result, self.mutation = verbs.apply_request(self.graph, request, self.now, self.wall)
        return result

    def shown(self, v: Vertex | None) -> dict[str, Any]:
        assert v is not None
        return dict(msgspec.json.decode(views.encode_view(self.graph, v)))

    def claimed(self, v: Vertex | None) -> dict[str, Any]:
        view = self.shown(v)
        return {"id": view["id"], "gen": view["gen"], "expires_in": view["expires_in"], "node": view}

    def expire(self) -> list[str]:
        """Hand back all that ran out, one mutation each; the ids in that order."""
        ids = []
        while (expired := verbs.expire(self.graph, self.now, self.wall)) is not None:
            ids.append(expired[0].record.id)
        return ids

    def begin_due(self) -> None:
        """Let the nodes begin whose time has come."""
        verbs.begin_due(self.graph, self.now, self.wall)

    def undo(self) -> None:
        assert self.mutation is not None
        self.graph.undo(self.mutation)

    def reloaded(self) -> Driver:
        """A driver of a graph that was loaded from this one's records."""
        graph = self.graph
        other = Driver(graph.max_nodes, graph.default_lease_s, graph.ready_queue.reservations.limit)
        other.now = self.now
        other.graph.start_times.judged = graph.start_times.judged
        other.graph.load(self.nodes(), self.capacities(), graph.next_number, self.now, graph.pauses.ids())
        return other

    def check(self) -> None:
        invariants.check(self.graph)

    def nodes(self) -> dict[str, Node]:
        return {node_id: v.record for node_id, v in self.graph.vertices.items()}

    def actors(self) -> set[str]:
        """Who holds a node."""
        return set(self.graph.by_assignee)

    def capacities(self) -> dict[str, int]:
        return dict(self.graph.resources.configured)

    def deadlocks(self) -> list[dict[str, Any]]:
        return deadlock.find_deadlocks(self.graph)

    def passes(self, node_id: str) -> int:
        """How often a waiting node was passed over."""
        return self.graph.vertices[node_id].bypass_count

    def view(self, node_id: str) -> dict[str, Any]:
        self.graph.now = self.now
        return self.shown(self.graph.vertices[node_id])

    # ------------------------------------------------------------------------------------------- short words for tests

    def add(self, *deps: str | Dep, under: str | None = None, **fields: Any) -> str:
        """A new node after `deps`; the id."""
        edges = tuple(dep if isinstance(dep, Dep) else Dep(dep) for dep in deps)
        return str(self.apply(wire.Upsert(deps=edges, parent=under, **fields))["id"])

    def goal(self, *deps: str | Dep, under: str | None = None, **fields: Any) -> str:
        return self.add(*deps, under=under, kind=Kind.GOAL, **fields)

    def claim(self, node_id: str, actor: str | None = None) -> Any:
        """Claim for an actor of the node's own, unless named."""
        return self.apply(wire.Claim(id=node_id, actor=actor or f"on-{node_id}"))

    def next(self, actor: str = "worker", **fields: Any) -> str:
        """The id that claim_next gave."""
        return str(self.apply(wire.ClaimNext(actor=actor, **fields))["id"])

    def complete(self, node_id: str, **fields: Any) -> Any:
        return self.apply(wire.Complete(id=node_id, **fields))

    def status(self, node_id: str) -> str:
        return str(self.nodes()[node_id].status)

    def grants(self, node_id: str) -> list[tuple[str, int, str | None]]:
        return sorted((grant.resource, grant.units, grant.lender) for grant in self.nodes()[node_id].grants)

    def used(self, resource: str) -> int:
        return views.resource_view(self.graph, resource).used

    def refused(self, request: wire.Request) -> Refusal:
        """The refusal of a request, which must have changed nothing."""
        before = self.nodes()
        refusal = self.refused_only(request)
        assert self.nodes() == before
        self.check()
        return refusal

    def refused_only(self, request: wire.Request) -> Refusal:
        """The refusal of a request, with nothing else looked at."""
        try:
            self.apply(request)
        except Refusal as refusal:
            return refusal
        raise AssertionError(f"accepted: {request}")


def after_any(target: str) -> Dep:
    return Dep(target, When.AFTER_ANY)
