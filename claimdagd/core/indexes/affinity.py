"""Whom ready work is for: the choice among the first entries of each role (law 5.4). Pure, no state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from claimdagd.core.state import Entry
from claimdagd.model import Role

#: Roles that suit everybody.
BROAD: Final = (Role.UNSET, Role.GENERAL)


def first(entries: Iterable[Entry | None]) -> Entry | None:
    """Return the smallest entry, or None if there is none."""
    return min((e for e in entries if e is not None), default=None)


def by_affinity(best: Entry, slack: float, heads: tuple[Entry | None, ...]) -> Entry:
    """Return the first of `heads`, best affinity first, of the highest priority and within slack of the deepest."""
    for entry in heads:
        if entry is not None and entry[0] == best[0] and -entry[1] >= -best[1] - slack:
            return entry
    raise AssertionError("the best is within slack of itself")


def in_affinity_order(ready: Sequence[Entry], role: Role, slack: float, strict: bool) -> list[Entry]:
    """Return entries, given in claim order, in the order in which a worker of `role` takes them."""
    classes: tuple[list[Entry], list[Entry], list[Entry]] = ([], [], [])
    for e in reversed(ready):
        r = e[3].record.role
        if r is role:
            classes[0].append(e)
        elif r in BROAD:
            classes[1].append(e)
        elif not strict:
            classes[2].append(e)
    order = []
    while any(classes):
        heads = tuple(c[-1] if c else None for c in classes)
        best = first(heads)
        assert best is not None
        taken = by_affinity(best, slack, heads)
        next(c for c in classes if c and c[-1] is taken).pop()
        order.append(taken)
    return order
