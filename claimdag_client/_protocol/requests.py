"""Every request that a client may make, with the type of its reply. No I/O; both clients are built on it.

Arguments left out are not sent, so the daemon's defaults and refusals are the only ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from claimdagd import wire
from claimdagd.model import LEASE_MAX_S, Dep

T = TypeVar("T")

DepLike = str | Dep | Mapping[str, Any]


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


#: An argument that is not given; None means null.
UNSET: Any = _Unset()


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """A request, and how its `ok` becomes the result. `fields` are those of the wire, without rid and once."""

    op: str
    fields: dict[str, Any]
    reply: Any
    finish: Callable[[Any], T]


def _same(reply: Any) -> Any:
    return reply


def _request(op: str, reply: Any, finish: Callable[[Any], Any] = _same, /, **fields: Any) -> Request[Any]:
    return Request(op, {k: v for k, v in fields.items() if v is not None and v is not UNSET}, reply, finish)


def _dep(dep: DepLike) -> Any:
    if isinstance(dep, str):
        return {"on": dep}
    return msgspec.to_builtins(dep) if isinstance(dep, Dep) else dict(dep)


def _node_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    given = {k: v for k, v in fields.items() if v is not UNSET}
    if "deps" in given:
        given["deps"] = [_dep(dep) for dep in given["deps"]]
    return given


def seconds(value: float | None) -> float | None:
    """Return a duration as the wire takes it: infinity becomes the longest lease."""
    return None if value is None else min(value, LEASE_MAX_S)


def ping() -> Request[float]:
    """Return the daemon's clock, in Unix seconds."""
    return _request("ping", dict[str, float], lambda ok: ok["now"])


def upsert(
    id: str | None = None,
    *,
    kind: str = UNSET,
    status: str = UNSET,
    role: str = UNSET,
    parent: str | None = UNSET,
    summary: str = UNSET,
    cost: float = UNSET,
    priority: int = UNSET,
    needs: Mapping[str, int] = UNSET,
    deps: Iterable[DepLike] = UNSET,
    max_attempts: int | None = UNSET,
    retries: int = UNSET,
    retry_delay: float = UNSET,
    not_before: float | None = UNSET,
    actor: str | None = None,
) -> Request[wire.NodeView]:
    """Create a node, or change the given fields of node `id`; return the node after that.

    A dep may be a plain id, which waits for that node to be done.
    """
    request = _request("upsert", wire.NodeView, id=id, actor=actor)
    request.fields.update(
        _node_fields(
            {
                "kind": kind,
                "status": status,
                "role": role,
                "parent": parent,
                "summary": summary,
                "cost": cost,
                "priority": priority,
                "needs": needs,
                "deps": deps,
                "max_attempts": max_attempts,
                "retries": retries,
                "retry_delay": retry_delay,
                "not_before": not_before,
            }
        )
    )
    return request


def submit(
    nodes: Iterable[Mapping[str, Any]],
    *,
    returns: Iterable[str] | None = None,
    actor: str | None = None,
    capacities: Mapping[str, int] | None = None,
    dry_run: bool | None = None,
) -> Request[tuple[str, ...]]:
    """Create many nodes or none. Each is a mapping of upsert's fields and a `ref` that parent and deps may name.

    Returns the new ids, of the refs in `returns` in their order, else of all. Refused with every fault at once.
    `capacities` are set in the same step. With `dry_run` everything is checked and nothing is changed.
    """
    request = _request(
        "submit",
        wire.Ids,
        lambda ok: ok.ids,
        actor=actor,
        nodes=[_node_fields(node) for node in nodes],
        capacities=None if capacities is None else dict(capacities),
        dry_run=dry_run,
    )
    if returns is not None:
        request.fields["return"] = [*returns]
    return request


def get(id: str) -> Request[wire.NodeView]:
    """Return one node."""
    return _request("get", wire.NodeView, id=id)


def why(id: str) -> Request[wire.WhyOk]:
    """Return why a node has its status: typed reasons, and a text."""
    return _request("why", wire.WhyOk, id=id)


def list_nodes(
    *,
    terminal: bool = False,
    archived: bool = False,
    all: bool = False,
    status: str | None = None,
    under: str | None = None,
    assignee: str | None = None,
) -> Request[tuple[wire.NodeView, ...]]:
    """Return nodes, newest first; unfinished ones unless the arguments ask for more."""
    flags = {k: True for k, v in {"terminal": terminal, "archived": archived, "all": all}.items() if v}
    return _request("list", wire.Nodes, lambda ok: ok.nodes, status=status, under=under, assignee=assignee, **flags)


def ready(
    *, role: str | None = None, slack: float | None = None, strict: bool | None = None, under: str | None = None
) -> Request[tuple[wire.NodeView, ...]]:
    """Return the ready nodes in the order claim_next takes them; each says whether it is `runnable` now."""
    return _request("ready", wire.Nodes, lambda ok: ok.nodes, role=role, slack=slack, strict=strict, under=under)


def claim(
    id: str,
    *,
    actor: str,
    gen: int | None = None,
    lease: float | None = None,
    bound: bool = True,
    pid: int | None = None,
) -> Request[wire.Claimed]:
    """Claim node `id`. The client renews the claim in the background until it ends.

    `lease` is in seconds. A `bound` claim goes back within the daemon's grace if this process dies, and one with
    a `pid` if that process ends; then the lease is 4 hours unless it is given. The async client returns what can be
    awaited for the Claim, or entered with `async with`.
    """
    return _request("claim", wire.Claimed, id=id, actor=actor, gen=gen, lease=seconds(lease), bound=bound, pid=pid)


def claim_next(
    actor: str,
    *,
    role: str | None = None,
    slack: float | None = None,
    strict: bool | None = None,
    lease: float | None = None,
    bound: bool = True,
    pid: int | None = None,
    wait: float | None = None,
    under: str | None = None,
) -> Request[wire.Claimed]:
    """Claim the best node that can run, like `claim`; `wait` seconds for there to be one (math.inf: indefinitely).

    With `under` only that node and what is below it.
    Raises NothingRunnable or NothingPending.
    """
    return _request(
        "claim_next",
        wire.Claimed,
        actor=actor,
        role=role,
        slack=slack,
        strict=strict,
        lease=seconds(lease),
        bound=bound,
        pid=pid,
        wait=seconds(wait),
        under=under,
    )


def renew(
    id: str,
    *,
    actor: str | None = None,
    gen: int | None = None,
    lease: float | None = None,
    bound: bool | None = None,
    pid: int | None = None,
) -> Request[wire.Held]:
    """Renew the lease of a claim; `bound` binds the claim to this connection, `pid` to a process."""
    return _request("renew", wire.Held, id=id, actor=actor, gen=gen, lease=seconds(lease), bound=bound, pid=pid)


def running(
    id: str, *, actor: str | None = None, gen: int | None = None, lease: float | None = None, bound: bool | None = None
) -> Request[wire.Held]:
    """Mark a claimed node as running; this renews its lease too."""
    return _request("running", wire.Held, id=id, actor=actor, gen=gen, lease=seconds(lease), bound=bound)


def release(id: str, *, actor: str | None = None, gen: int | None = None) -> Request[wire.Moved]:
    """Release a claimed node: it is ready again."""
    return _request("release", wire.Moved, id=id, actor=actor, gen=gen)


def reopen(id: str, *, actor: str | None = None, gen: int | None = None) -> Request[wire.Moved]:
    """Reopen a finished node, with the nodes that its end had cancelled."""
    return _request("reopen", wire.Moved, id=id, actor=actor, gen=gen)


def archive(id: str, *, actor: str | None = None, gen: int | None = None) -> Request[wire.Moved]:
    """Hide a finished node from the default list."""
    return _request("archive", wire.Moved, id=id, actor=actor, gen=gen)


def unarchive(id: str, *, actor: str | None = None, gen: int | None = None) -> Request[wire.Moved]:
    """Show an archived node in the default list again."""
    return _request("unarchive", wire.Moved, id=id, actor=actor, gen=gen)


def complete(
    id: str,
    *,
    status: str | None = None,
    summary: str | None = None,
    error: str | None = None,
    actor: str | None = None,
    gen: int | None = None,
    final: bool | None = None,
) -> Request[wire.Completed]:
    """End a node as done, failed or cancelled; return it, with the ids that this made ready.

    A failure with retries left hands the node back, to be tried again later, unless it is `final`.
    """
    return _request(
        "complete",
        wire.Completed,
        id=id,
        status=status,
        summary=summary,
        error=error,
        actor=actor,
        gen=gen,
        final=final,
    )


def complete_and_next(
    id: str,
    *,
    status: str | None = None,
    summary: str | None = None,
    error: str | None = None,
    actor: str,
    gen: int,
    role: str | None = None,
    slack: float | None = None,
    strict: bool | None = None,
    lease: float | None = None,
    bound: bool = True,
    pid: int | None = None,
    under: str | None = None,
) -> Request[wire.Completed]:
    """End a node and claim the best one that can run then, in one request."""
    following = {
        "role": role, "slack": slack, "strict": strict, "lease": seconds(lease), "bound": bound, "pid": pid,
        "under": under,
    }  # fmt: skip
    given = {k: v for k, v in following.items() if v is not None}
    return _request(
        "complete", wire.Completed, id=id, status=status, summary=summary, error=error, actor=actor, gen=gen, next=given
    )


def cancel(id: str, *, error: str | None = None, actor: str | None = None) -> Request[tuple[str, ...]]:
    """Cancel a whole subtree, held nodes too; return the ids, `id` first."""
    return _request("cancel", wire.Ids, lambda ok: ok.ids, id=id, error=error, actor=actor)


def reclaim(*, lease: float | None = None, actor: str | None = None) -> Request[tuple[str, ...]]:
    """Reclaim nodes whose holder was quiet for `lease` seconds, else for its own lease; return the ids."""
    return _request("reclaim", wire.Ids, lambda ok: ok.ids, lease=seconds(lease), actor=actor)


def link(before: str, after: str, *, when: str | None = None, actor: str | None = None) -> Request[wire.NodeView]:
    """Let `after` wait on `before`; return the node `after`."""
    return _request("link", wire.NodeView, before=before, after=after, when=when, actor=actor)


def unlink(before: str, after: str, *, when: str | None = None, actor: str | None = None) -> Request[wire.NodeView]:
    """Remove the edge from `before` to `after`; return the node `after`."""
    return _request("unlink", wire.NodeView, before=before, after=after, when=when, actor=actor)


def resources() -> Request[tuple[wire.ResourceView, ...]]:
    """Return every resource: its capacity, the units used, their holders, and the nodes that wait."""
    return _request("resources", wire.ResourcesOk, lambda ok: ok.resources)


def capacity(resource: str, units: int, *, actor: str | None = None) -> Request[wire.ResourceView]:
    """Set the capacity of a resource."""
    return _request("capacity", wire.ResourceView, resource=resource, units=units, actor=actor)


def pause(*, under: str | None = None, actor: str | None = None) -> Request[tuple[str | None, ...]]:
    """Pause the graph, or the subtree `under`: nothing new is claimed there, and what is held goes on.

    Returns the scopes that are paused then, None for the whole graph. It outlives a restart of the daemon.
    """
    return _request("pause", wire.PausedOk, lambda ok: ok.paused, under=under, actor=actor)


def resume(*, under: str | None = None, actor: str | None = None) -> Request[tuple[str | None, ...]]:
    """Lift the pause of the graph, or of `under`, and no other; return the scopes that are paused still."""
    return _request("resume", wire.PausedOk, lambda ok: ok.paused, under=under, actor=actor)


def wait(*ids: str, timeout: float | None = None, under: str | None = None) -> Request[tuple[wire.NodeView, ...]]:
    """Wait until all of these nodes are finished, and return them. Raises Timeout after `timeout` seconds.

    `under` is one of them: it ends with everything below it. Without any, wait for all work that is unfinished now.
    """
    return _request("wait", wire.Nodes, lambda ok: ok.nodes, ids=ids or None, timeout=seconds(timeout), under=under)


def log(
    *, from_: int | None = None, limit: int | None = None, id: str | None = None
) -> Request[tuple[dict[str, Any], ...]]:
    """Return entries of the ledger, as journaled."""
    request = _request("log", wire.LogOk, lambda ok: ok.entries, limit=limit, id=id)
    if from_ is not None:
        request.fields["from"] = from_
    return request


def stats(*, under: str | None = None) -> Request[dict[str, Any]]:
    """Return counts, of the subtree `under` if it is given, the uptime and the longest pauses."""
    return _request("stats", dict[str, Any], under=under)


def checkpoint() -> Request[wire.CheckpointOk]:
    """Write a snapshot now."""
    return _request("checkpoint", wire.CheckpointOk)


def shutdown() -> Request[dict[str, Any]]:
    """Tell the daemon to shut down."""
    return _request("shutdown", dict[str, Any])
