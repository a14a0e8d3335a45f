"""Which events of the ledger a watcher has seen, over any number of connections. Standard library only; no I/O."""

from __future__ import annotations

from claimdag_client.errors import GraphChanged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The codes that end a watch whose missed events the ledger still holds: subscribe again.
RESUMABLE = frozenset({"lagged", "shutting_down"})


class Subscription:
    """A position in the ledger of one graph.

    For each connection: send `request`, pass the seq of its answer to `begin`, then each event's seq to `accept`.

    Args:
        from_seq: The first entry wanted; None: from the first connection's present on.
        under: Only entries that changed this node or a node below it.
    """

    def __init__(self, from_seq: int | None = None, under: str | None = None) -> None:
        self._under = under
        #: The seq of the next event; None until it is known.
        self.next = from_seq
        self.graph: str | None = None

    def request(self, graph: str) -> dict[str, Any]:
        """Return the `watch` request for a connection to `graph`. Raises GraphChanged if it was another before."""
        if self.graph not in (None, graph):
            raise GraphChanged(self.graph or "", graph)
        request: dict[str, Any] = {"op": "watch"}
        if self.next is not None:
            request["from"] = self.next
        if self._under is not None:
            request["under"] = self._under
        return request

    def begin(self, graph: str, seq: int) -> None:
        """Note that `graph` accepted the request, with `seq` as its last entry."""
        self.graph = graph
        if self.next is None:
            self.next = seq + 1

    def restart(self) -> None:
        """Go on with another graph, from its first entry."""
        self.graph, self.next = None, 1

    def accept(self, seq: int) -> bool:
        """Return whether the event `seq` is new, and go past it."""
        if self.next is not None and seq < self.next:
            return False
        self.next = seq + 1
        return True
