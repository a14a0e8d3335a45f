"""Requests about several nodes in one step, whole or not at all. Refused, the error's `faults` name each (law 10.6).

Each takes ids as the request for one node takes an id. The result is a tuple: for each node in order what that gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from claimdag_client._protocol.requests import Request, seconds
from claimdagd import wire


def _many(op: str, reply: Any, /, *, ids: Iterable[str] | None = None, **fields: Any) -> Request[Any]:
    given = {name: value for name, value in fields.items() if value is not None}
    if ids is not None:
        given["ids"] = [ids] if isinstance(ids, str) else [*ids]
    return Request(op, given, dict[str, tuple[reply, ...]], _cancelled if op == "cancel" else _results)


def _results(ok: dict[str, Any]) -> Any:
    return ok["results"]


def _cancelled(ok: dict[str, tuple[wire.Ids, ...]]) -> tuple[tuple[str, ...], ...]:
    return tuple(each.ids for each in ok["results"])


def renew_many(
    ids: Iterable[str], *, actor: str | None = None, lease: float | None = None, bound: bool | None = None
) -> Request[tuple[wire.Held, ...]]:
    """Renew the leases of several claims, or of none if one of them is not held."""
    return _many("renew", wire.Held, ids=ids, actor=actor, lease=seconds(lease), bound=bound)


def running_many(
    ids: Iterable[str], *, actor: str | None = None, lease: float | None = None, bound: bool | None = None
) -> Request[tuple[wire.Held, ...]]:
    """Mark several claimed nodes as running, or none; this renews their leases too."""
    return _many("running", wire.Held, ids=ids, actor=actor, lease=seconds(lease), bound=bound)


def release_many(ids: Iterable[str], *, actor: str | None = None) -> Request[tuple[wire.Moved, ...]]:
    """Release several claimed nodes, or none."""
    return _many("release", wire.Moved, ids=ids, actor=actor)


def reopen_many(ids: Iterable[str], *, actor: str | None = None) -> Request[tuple[wire.Moved, ...]]:
    """Reopen several finished nodes, or none, with the nodes that their ends had cancelled."""
    return _many("reopen", wire.Moved, ids=ids, actor=actor)


def reopen_failed(*, under: str | None = None, actor: str | None = None) -> Request[tuple[wire.Moved, ...]]:
    """Reopen all that failed, with the nodes that this had cancelled; with `under` only in that subtree.

    Returns those that had failed by themselves; none is no error.
    """
    return _many("reopen", wire.Moved, failed=True, under=under, actor=actor)


def archive_many(ids: Iterable[str], *, actor: str | None = None) -> Request[tuple[wire.Moved, ...]]:
    """Hide several finished nodes from the default list, or none."""
    return _many("archive", wire.Moved, ids=ids, actor=actor)


def unarchive_many(ids: Iterable[str], *, actor: str | None = None) -> Request[tuple[wire.Moved, ...]]:
    """Show several archived nodes in the default list again, or none."""
    return _many("unarchive", wire.Moved, ids=ids, actor=actor)


def complete_many(
    ids: Iterable[str],
    *,
    status: str | None = None,
    error: str | None = None,
    actor: str | None = None,
    final: bool | None = None,
) -> Request[tuple[wire.Completed, ...]]:
    """End several nodes as done, failed or cancelled, or none; return each, with the ids that it made ready."""
    return _many("complete", wire.Completed, ids=ids, status=status, error=error, actor=actor, final=final)


def cancel_many(
    ids: Iterable[str], *, error: str | None = None, actor: str | None = None
) -> Request[tuple[tuple[str, ...], ...]]:
    """Cancel several subtrees, or none; return for each the ids that it ended, none if another had ended it already."""
    return _many("cancel", wire.Ids, ids=ids, error=error, actor=actor)


def cancel_under(
    under: str, *, error: str | None = None, actor: str | None = None
) -> Request[tuple[tuple[str, ...], ...]]:
    """Cancel what is unfinished of a subtree, be it nothing; return the ids as `cancel_many` does."""
    return _many("cancel", wire.Ids, under=under, error=error, actor=actor)
