"""The last state, read from the daemon's files without a daemon. It writes nothing and takes no lock.

The one place where the client uses code of the daemon's side: the store's reader. Imported by `list --offline` alone.
"""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

from claimdag_client._transport.endpoint import Endpoint
from claimdag_client.cli.render.text import clock, duration
from claimdagd.model import TERMINAL, Node, number_of
from claimdagd.store.errors import StateError
from claimdagd.store.recovery import read_offline


class Unreadable(Exception):
    """There is no state there, or it cannot be read."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class OfflineState:
    """What was read: where, how old it is, and the nodes."""

    def __init__(self, directory: str, age: str, notes: list[str], nodes: dict[str, Node], tag: str) -> None:
        self.directory = directory
        self.age = age
        self.notes = notes
        self._nodes = nodes
        self._tag = tag

    def select(
        self,
        *,
        terminal: bool = False,
        archived: bool = False,
        every: bool = False,
        status: str | None = None,
        under: str | None = None,
        assignee: str | None = None,
    ) -> list[dict[str, Any]]:
        """The nodes that the daemon's list would give, newest first, without what is derived at the moment."""
        if under is not None and under.isascii() and under.isdigit():
            under = f"{self._tag}-{int(under)}"
        chosen = (
            node
            for node in self._nodes.values()
            if _shown(node, terminal=terminal, archived=archived, every=every, status=status)
            and (assignee is None or node.assignee == assignee)
            and (under is None or self._is_under(node, under))
        )
        return [
            msgspec.to_builtins(node)
            for node in sorted(chosen, key=lambda node: number_of(node.id), reverse=True)
        ]

    def _is_under(self, node: Node, under: str) -> bool:
        above = node.parent
        while above is not None and above != under:
            parent = self._nodes.get(above)
            above = None if parent is None else parent.parent
        return above is not None


def _shown(node: Node, *, terminal: bool, archived: bool, every: bool, status: str | None) -> bool:
    if status is not None:
        return node.status == status and (not node.archived or archived or every)
    if every or node.status not in TERMINAL:
        return True
    return archived if node.archived else terminal


def read(place: Endpoint) -> OfflineState:
    """Read the last whole state of the daemon at `place`. Unreadable where there is none, or it is damaged."""
    directory = place.state_directory
    try:
        if not os.path.isdir(directory):
            raise FileNotFoundError
        found = read_offline(directory, time.time())
    except FileNotFoundError:
        raise Unreadable(f"there is no state in {directory}", "name the daemon's directory with --dir") from None
    except StateError as exc:
        raise Unreadable(exc.what, exc.remedy) from None
    except OSError as exc:
        raise Unreadable(f"{directory}: {exc.strerror}", "name the daemon's directory with --dir") from None
    age = f"last written {duration(max(0.0, found.age))} ago, at {clock(found.at)}"
    return OfflineState(directory, age, list(found.state.notes), found.state.nodes, found.state.tag)
