"""What one accepted request changed: for the journal, for those who wait, and to undo it. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from claimdagd.core.state import Lease, Vertex, scope_ids
from claimdagd.model import TERMINAL, Node, Status

#: Paused scopes, None among them for the whole graph.
Paused: TypeAlias = "tuple[Vertex | None, ...]"
#: One step: the vertex, its record and lease before, and whether the change is derived. No vertex: the capacity of the
#: resource named, with the units configured before; or the paused scopes before and after.
Step: TypeAlias = "tuple[Vertex | None, Node | str | Paused | None, Lease | int | Paused | None, bool]"

READY = Status.READY


class Mutation(msgspec.Struct):
    """The steps in `undo_log` are undone in reverse; `number_before` is the id number that was next before them."""

    undo_log: list[Step]
    number_before: int
    #: Vertices whose record changed in itself, in the order of first change.
    nodes: Sequence[Vertex]
    #: Derived changes of status of other nodes: status to ids.
    status_changes: dict[str, list[str]]
    #: Ids of nodes that were pruned.
    pruned: Sequence[str]
    #: The resources whose capacity was set, with the units; or None.
    capacity: dict[str, int] | None
    #: Ids of work that was not ready before and is now.
    made_ready: Sequence[str]
    #: Nodes that this made terminal.
    ended: Sequence[Vertex]
    #: Nodes whose bypass count changed: vertex, count before, and place among the starved before.
    bypasses: Sequence[tuple[Vertex, int, int]]
    #: Whether it moved a lease that belongs to a connection.
    ends_bound_claim: bool
    #: The ids of the paused scopes after it, None for the whole graph; or None if no pause changed.
    paused: list[str | None] | None = None

    def __bool__(self) -> bool:
        return bool(
            self.nodes or self.status_changes or self.pruned or self.capacity is not None or self.paused is not None
        )


def summarize(undo_log: list[Step], number_before: int, capacity_of: Callable[[str], int]) -> Mutation:
    """Return the mutation that the steps of `undo_log` make up, without its bypasses."""
    count = len(undo_log)
    if count > 2:
        single = len({step[0] for step in undo_log}) == count
    else:
        single = count < 2 or undo_log[0][0] is not undo_log[1][0]
    nodes, ended, made_ready, pruned = [], [], [], []
    status_changes: dict[str, list[str]] = {}
    settings: list[tuple[Any, Any]] = []
    ends_bound_claim = False
    for v, old, lease, derived in undo_log if single else _one_step_each(undo_log):
        if v is None:
            settings.append((old, lease))
            continue
        if lease is not None and lease.conn is not None:  # type: ignore[union-attr]
            ends_bound_claim = True
        record = v.record
        if not v.present:
            if old is not None:
                pruned.append(record.id)
            continue
        status = record.status
        was = old.status if old is not None else None  # type: ignore[union-attr]
        if not derived:
            nodes.append(v)
        if status is was:
            continue
        if derived:
            status_changes.setdefault(status, []).append(record.id)
        elif status in TERMINAL and was not in TERMINAL:
            ended.append(v)
        if status is READY and not v.group:
            made_ready.append(record.id)
    capacity, paused = _settings(settings, capacity_of) if settings else (None, None)
    return Mutation(
        undo_log,
        number_before,
        nodes,
        status_changes,
        pruned,
        capacity,
        made_ready,
        ended,
        (),
        ends_bound_claim,
        paused,
    )


def _settings(
    settings: list[tuple[Any, Any]], capacity_of: Callable[[str], int]
) -> tuple[dict[str, int] | None, list[str | None] | None]:
    """Return the capacities that were set and the scopes paused last, each None if there are none."""
    capacity = {old: capacity_of(old) for old, _ in settings if isinstance(old, str)}
    pauses = [after for old, after in settings if isinstance(old, tuple)]
    return capacity or None, scope_ids(pauses[-1]) if pauses else None


def _one_step_each(undo_log: list[Step]) -> list[Step]:
    """Merge the steps of each node, or of each resource, into one, from its first record to its last.

    A merged step is derived if all of them were, and its lease is one that belongs to a connection, if any does.
    """
    steps: dict[Vertex | Node | str | Paused | None, Step] = {}
    for step in undo_log:
        v, was, lease, derived = step
        key = was if v is None else v
        known = steps.get(key)
        if known is not None:
            _, old, before, all_derived = known
            belongs = before is not None and before.conn is not None  # type: ignore[union-attr]
            step = (v, old, before if belongs else lease, all_derived and derived)
        steps[key] = step
    return list(steps.values())
