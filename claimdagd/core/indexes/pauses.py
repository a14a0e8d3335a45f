"""What is paused: the whole graph, or subtrees; and the ready nodes held back until it resumes."""

from __future__ import annotations

from claimdagd.core.indexes.links import is_ancestor, subtree
from claimdagd.core.state import Vertex, scope_ids


class Pauses:
    """The paused scopes, in the order of their pauses; None among them stands for the whole graph.

    A ready node below a paused root is in no queue: it is `held_back`. A pause of the whole graph moves no node.

    Args:
        requeue: the ready nodes that the ready queue is to file anew.
    """

    def __init__(self, requeue: dict[Vertex, None]) -> None:
        self._requeue = requeue
        self.scopes: tuple[Vertex | None, ...] = ()
        self.everything = False
        self.roots: dict[Vertex, None] = {}
        self.held_back: dict[Vertex, None] = {}

    def set(self, scopes: tuple[Vertex | None, ...]) -> None:
        """Pause exactly `scopes`. It costs the subtrees that are paused now and were not, and what is held back."""
        before, self.roots = self.roots, {v: None for v in scopes if v is not None}
        self.scopes, self.everything = scopes, None in scopes
        if self.roots.keys() != before.keys():
            self._requeue.update(self.held_back)
            self.held_back.clear()
            for root in self.roots.keys() - before.keys():
                self._requeue.update((v, None) for v in subtree(root) if v.queue_entry is not None)

    def hold_back(self, v: Vertex) -> bool:
        """Hold the ready node `v` back if a root above it is paused; return whether it is."""
        if self.root_of(v) is None:
            self.held_back.pop(v, None)
            return False
        self.held_back[v] = None
        return True

    def root_of(self, v: Vertex) -> Vertex | None:
        """Return the nearest paused node among `v` and its ancestors, or None."""
        x: Vertex | None = v
        while x is not None and x not in self.roots:
            x = x.parent
        return x

    def holds(self, v: Vertex) -> bool:
        """Return whether a claim of `v` is held back."""
        return self.everything or (bool(self.roots) and self.root_of(v) is not None)

    def reason(self, v: Vertex) -> tuple[str | None, str]:
        """Return what pause holds `v` back, the id of its scope or None for the whole graph, and that in words."""
        root = None if self.everything else self.root_of(v)
        if root is None:
            return None, f"{v.record.id} waits: the graph is paused; resume lets it go"
        scope = root.record.id
        return scope, f"{v.record.id} waits: {scope} is paused; resume --under {scope} lets it go"

    def held_back_count(self, under: Vertex | None) -> int:
        """Return how many ready nodes are held back, of all or of a subtree."""
        if under is None:
            return len(self.held_back)
        return sum(v is under or is_ancestor(under, v) for v in self.held_back)

    def ids(self) -> list[str | None]:
        """Return the paused scopes as the wire and the journal spell them."""
        return scope_ids(self.scopes)
