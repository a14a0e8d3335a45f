"""The last state, read from the daemon's files without a daemon. It writes nothing and takes no lock.

The one place where the client uses code of the daemon's side: the store's reader and the core's views, so that an
offline list shows what the daemon would. Imported by `list --offline` only.
"""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

from claimdag_client._transport.endpoint import Endpoint
from claimdag_client.cli.render.text import clock, duration
from claimdagd.core.graph import Graph
from claimdagd.core.queries.views import encode_view, listed
from claimdagd.store.errors import StateError
from claimdagd.store.recovery import read_offline
from claimdagd.wire import List


class Unreadable(Exception):
    """There is no state there, or it cannot be read."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class OfflineState:
    """The state that was read: its directory, how old it is, and its graph."""

    def __init__(self, directory: str, age: str, notes: list[str], graph: Graph) -> None:
        self.directory = directory
        self.age = age
        self.notes = notes
        self._graph = graph

    def select(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the views that the daemon would give for the fields of a `list`, newest first. Raises Unreadable."""
        under = asked.get("under")
        if under is not None:
            under = f"{self._graph.tag}-{int(under)}" if under.isascii() and under.isdigit() else under
            if under not in self._graph.vertices:
                raise Unreadable(f"there is no node {under}", "claimdag list --all --offline shows what there is")
        request = msgspec.convert({**asked, "under": under}, List)
        # Leases run on the daemon's clock, so nothing is known of them here.
        unknown = {"quiet": None, "expires_in": None}
        return [msgspec.json.decode(encode_view(self._graph, v)) | unknown for v in listed(self._graph, request)]


def read(place: Endpoint) -> OfflineState:
    """Read the last whole state of the daemon at `place`. Raises Unreadable if there is none, or if it is damaged."""
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
    graph = Graph(found.state.tag)
    try:
        state = found.state
        graph.load(state.nodes, state.capacities, state.next_number, time.monotonic(), state.paused)
    except ValueError as exc:
        raise Unreadable(f"{directory}: {exc}", "keep a copy of the directory and report it") from None
    return OfflineState(directory, age, list(found.state.notes), graph)
