"""The vocabulary: every question that a client may ask, with the type of its answer. No I/O; both clients stand on it.

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


#: An argument that is not given, where None means null.
UNSET: Any = _Unset()


@dataclass(frozen=True, slots=True)
class Ask(Generic[T]):
    """A request and how its `ok` becomes the result. `fields` are those of the wire, without rid and once."""

    op: str
    fields: dict[str, Any]
    reply: Any
    finish: Callable[[Any], T]


def _same(reply: Any) -> Any:
    return reply


def _ask(op: str, reply: Any, finish: Callable[[Any], Any] = _same, /, **fields: Any) -> Ask[Any]:
    return Ask(op, {k: v for k, v in fields.items() if v is not None and v is not UNSET}, reply, finish)


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
    """A duration as the wire takes it: infinity becomes the longest that it knows."""
    return None if value is None else min(value, LEASE_MAX_S)


def ping() -> Ask[float]:
    """The daemon's clock, in Unix seconds."""
    return _ask("ping", dict[str, float], lambda ok: ok["now"])


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
    actor: str | None = None,
) -> Ask[wire.NodeView]:
    """Create a node, or change the fields given of node `id`; the node as it is then.

    A dep may be a plain id, which waits for that node to be done.
    """
    ask = _ask("upsert", wire.NodeView, id=id, actor=actor)
    ask.fields.update(
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
            }
        )
    )
    return ask


def submit(
    nodes: Iterable[Mapping[str, Any]],
    *,
    returns: Iterable[str] | None = None,
    actor: str | None = None,
    capacities: Mapping[str, int] | None = None,
    dry_run: bool | None = None,
) -> Ask[tuple[str, ...]]:
    """Create many nodes or none: each a mapping of upsert's fields and `ref`, which parent and deps may name.

    Returns the new ids, of the refs in `returns` in their order, else of all. Refused with every fault at once.
    `capacities` are set in the same step. With `dry_run` everything is checked and nothing is changed.
    """
    ask = _ask(
        "submit",
        wire.Ids,
        lambda ok: ok.ids,
        actor=actor,
        nodes=[_node_fields(node) for node in nodes],
        capacities=None if capacities is None else dict(capacities),
        dry_run=dry_run,
    )
    if returns is not None:
        ask.fields["return"] = [*returns]
    return ask


def get(id: str) -> Ask[wire.NodeView]:
    """One node."""
    return _ask("get", wire.NodeView, id=id)


def why(id: str) -> Ask[wire.WhyOk]:
    """Why a node is as it is: typed reasons, and a text."""
    return _ask("why", wire.WhyOk, id=id)


def list_nodes(
    *,
    terminal: bool = False,
    archived: bool = False,
    all: bool = False,
    status: str | None = None,
    under: str | None = None,
    assignee: str | None = None,
) -> Ask[tuple[wire.NodeView, ...]]:
    """Nodes, newest first; live work unless asked for more."""
    flags = {k: True for k, v in {"terminal": terminal, "archived": archived, "all": all}.items() if v}
    return _ask("list", wire.Nodes, lambda ok: ok.nodes, status=status, under=under, assignee=assignee, **flags)


def ready(
    *, role: str | None = None, slack: float | None = None, strict: bool | None = None
) -> Ask[tuple[wire.NodeView, ...]]:
    """What could be claimed, in the order claim_next would take it; each says whether it is `runnable` now."""
    return _ask("ready", wire.Nodes, lambda ok: ok.nodes, role=role, slack=slack, strict=strict)


def claim(
    id: str, *, actor: str, gen: int | None = None, lease: float | None = None, bound: bool = True
) -> Ask[wire.Claimed]:
    """Claim node `id`; `lease` in seconds."""
    return _ask("claim", wire.Claimed, id=id, actor=actor, gen=gen, lease=seconds(lease), bound=bound)


def claim_next(
    actor: str,
    *,
    role: str | None = None,
    slack: float | None = None,
    strict: bool | None = None,
    lease: float | None = None,
    bound: bool = True,
    wait: float | None = None,
) -> Ask[wire.Claimed]:
    """Claim the best node that can run; `wait` seconds for there to be one (infinity: for good)."""
    return _ask(
        "claim_next",
        wire.Claimed,
        actor=actor,
        role=role,
        slack=slack,
        strict=strict,
        lease=seconds(lease),
        bound=bound,
        wait=seconds(wait),
    )


def renew(
    id: str, *, actor: str | None = None, gen: int | None = None, lease: float | None = None, bound: bool | None = None
) -> Ask[wire.Held]:
    """Move the deadline of a claim, and with `bound` make it this connection's."""
    return _ask("renew", wire.Held, id=id, actor=actor, gen=gen, lease=seconds(lease), bound=bound)


def running(
    id: str, *, actor: str | None = None, gen: int | None = None, lease: float | None = None, bound: bool | None = None
) -> Ask[wire.Held]:
    """Say that the work has begun; a renewal too."""
    return _ask("running", wire.Held, id=id, actor=actor, gen=gen, lease=seconds(lease), bound=bound)


def release(id: str, *, actor: str | None = None, gen: int | None = None) -> Ask[wire.Moved]:
    """Hand a claimed node back."""
    return _ask("release", wire.Moved, id=id, actor=actor, gen=gen)


def reopen(id: str, *, actor: str | None = None, gen: int | None = None) -> Ask[wire.Moved]:
    """Bring a finished node back, with what its end had cancelled."""
    return _ask("reopen", wire.Moved, id=id, actor=actor, gen=gen)


def archive(id: str, *, actor: str | None = None, gen: int | None = None) -> Ask[wire.Moved]:
    """Hide a finished node from the default list."""
    return _ask("archive", wire.Moved, id=id, actor=actor, gen=gen)


def unarchive(id: str, *, actor: str | None = None, gen: int | None = None) -> Ask[wire.Moved]:
    """Show it there again."""
    return _ask("unarchive", wire.Moved, id=id, actor=actor, gen=gen)


def complete(
    id: str,
    *,
    status: str | None = None,
    summary: str | None = None,
    error: str | None = None,
    actor: str | None = None,
    gen: int | None = None,
) -> Ask[wire.Completed]:
    """End a node: done, failed or cancelled, with what that made ready."""
    return _ask("complete", wire.Completed, id=id, status=status, summary=summary, error=error, actor=actor, gen=gen)


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
) -> Ask[wire.Completed]:
    """End a node and claim the best that can run then, in one request."""
    following = {"role": role, "slack": slack, "strict": strict, "lease": seconds(lease), "bound": bound}
    given = {k: v for k, v in following.items() if v is not None}
    return _ask(
        "complete", wire.Completed, id=id, status=status, summary=summary, error=error, actor=actor, gen=gen, next=given
    )


def cancel(id: str, *, error: str | None = None, actor: str | None = None) -> Ask[tuple[str, ...]]:
    """End a whole subtree as cancelled, held nodes too; the ids, `id` first."""
    return _ask("cancel", wire.Ids, lambda ok: ok.ids, id=id, error=error, actor=actor)


def reclaim(*, lease: float | None = None, actor: str | None = None) -> Ask[tuple[str, ...]]:
    """Take back claims quiet for `lease` seconds or more, else those past their own; the ids."""
    return _ask("reclaim", wire.Ids, lambda ok: ok.ids, lease=seconds(lease), actor=actor)


def link(before: str, after: str, *, when: str | None = None, actor: str | None = None) -> Ask[wire.NodeView]:
    """Let `after` wait on `before`; the node `after`."""
    return _ask("link", wire.NodeView, before=before, after=after, when=when, actor=actor)


def unlink(before: str, after: str, *, when: str | None = None, actor: str | None = None) -> Ask[wire.NodeView]:
    """Let `after` no longer wait on `before`; the node `after`."""
    return _ask("unlink", wire.NodeView, before=before, after=after, when=when, actor=actor)


def resources() -> Ask[tuple[wire.ResourceView, ...]]:
    """Every resource: capacity, what is used, by whom, and who waits."""
    return _ask("resources", wire.ResourcesOk, lambda ok: ok.resources)


def capacity(resource: str, units: int, *, actor: str | None = None) -> Ask[wire.ResourceView]:
    """Set how many units of a resource there are."""
    return _ask("capacity", wire.ResourceView, resource=resource, units=units, actor=actor)


def wait(*ids: str, timeout: float | None = None) -> Ask[tuple[wire.NodeView, ...]]:
    """The nodes, once all of them are finished; Timeout after `timeout` seconds."""
    return _ask("wait", wire.Nodes, lambda ok: ok.nodes, ids=ids, timeout=seconds(timeout))


def log(
    *, from_: int | None = None, limit: int | None = None, id: str | None = None
) -> Ask[tuple[dict[str, Any], ...]]:
    """Entries of the ledger, as journaled."""
    ask = _ask("log", wire.LogOk, lambda ok: ok.entries, limit=limit, id=id)
    if from_ is not None:
        ask.fields["from"] = from_
    return ask


def stats() -> Ask[dict[str, Any]]:
    """Counts, uptime, the longest pauses."""
    return _ask("stats", dict[str, Any])


def checkpoint() -> Ask[wire.CheckpointOk]:
    """Write a snapshot now."""
    return _ask("checkpoint", wire.CheckpointOk)


def shutdown() -> Ask[dict[str, Any]]:
    """Tell the daemon to leave."""
    return _ask("shutdown", dict[str, Any])
