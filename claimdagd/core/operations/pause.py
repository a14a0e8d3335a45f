"""The operations pause and resume: nothing new is claimed in a paused scope, and what is held goes on (law 10)."""

from __future__ import annotations

from claimdagd.core.graph import Graph
from claimdagd.core.lookup import scope_root
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.wire import Code, Pause, Resume


def pause(graph: Graph, r: Pause) -> list[str | None]:
    """Pause the whole graph or a subtree, unless it is paused; return the scopes paused then."""
    root = scope_root(graph, "pause", r.under)
    scopes = graph.pauses.scopes
    if root not in scopes:
        graph.set_paused((*scopes, root))
    return graph.pauses.ids()


def resume(graph: Graph, r: Resume) -> list[str | None]:
    """Lift the pause of the whole graph or of that subtree, if there is one; return the scopes paused still."""
    root = scope_root(graph, "resume", r.under)
    scopes = graph.pauses.scopes
    if root in scopes:
        graph.set_paused(tuple(v for v in scopes if v is not root))
    return graph.pauses.ids()


def check_not_paused(graph: Graph, op: str, v: Vertex) -> None:
    """Refuse with not_claimable if `v` is in a paused scope, and name the resume that lets it go."""
    pauses = graph.pauses
    if not pauses.holds(v):
        return
    scope, text = pauses.reason(v)
    raise Refusal(Code.NOT_CLAIMABLE, f"{op}: {text}", id=v.record.id, paused=scope)
