"""Makes nodes for `submit` of a draft: parents, order, cycles, and what is held back for them. Pure.

Nothing becomes ready here that the file does not say is ready: a row whose order is at fault, or that waits on what is
not known to be finished, is blocked, with the reason at the end of its summary (law 17.1, 17.2, 17.5).
"""

from __future__ import annotations

from claimdag_client.importers.cycles import above, closing_cycles
from claimdag_client.importers.interface import HOLD, ON_FAILURE, Draft, Fault, Item
from claimdagd.limits import SUMMARY_MAX_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from claimdag_client.importers.interface import Dependency

#: Reasons of a held row take no more of its summary than this.
_REASONS_MAX_BYTES = 512


class Resolved:
    """The items that become nodes, and their order: for each the parent and the edges that are sound."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.items = draft.items
        self.parents: dict[str, str | None] = {}
        self.edges: dict[str, dict[str, str]] = {}
        #: What rows that are not finished are part of, whether it is finished itself or not.
        self.named_as_parent = {item.parent for item in draft.items.values()}

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes for `submit`, in the order of the file; each ref is the key of its item."""
        return [self.node(item) for item in self.items.values()]

    def node(self, item: Item) -> dict[str, Any]:
        """One item as a node of a submission."""
        node: dict[str, Any] = {"ref": item.key, "summary": summary_of(item)}
        if item.kind != "task":
            node["kind"] = item.kind
        if item.role is not None:
            node["role"] = item.role
        if item.holds:
            node["status"] = "blocked"
        if item.priority:
            node["priority"] = item.priority
        if item.cost is not None:
            node["cost"] = item.cost
        if item.needs:
            node["needs"] = item.needs
        if item.max_attempts is not None:
            node["max_attempts"] = item.max_attempts
        if self.parents.get(item.key) is not None:
            node["parent"] = self.parents[item.key]
        edges = self.edges.get(item.key)
        if edges:
            node["deps"] = [
                {"on": on} if when == "after_ok" else {"on": on, "when": when} for on, when in edges.items()
            ]
        return node

    def left_out(self) -> dict[str, int]:
        """How many rows were left out, by reason."""
        counts: dict[str, int] = {}
        for reason in (*self.draft.finished.values(), *self.draft.left_out.values()):
            counts[reason] = counts.get(reason, 0) + 1
        return counts

    def noted(self) -> dict[str, int]:
        """How many notes there are, by sort."""
        counts: dict[str, int] = {}
        for note in self.draft.notes:
            counts[note.without] = counts.get(note.without, 0) + 1
        return counts


def resolve(draft: Draft, tick: Callable[[], None] = lambda: None) -> Resolved:
    """Settle parents, groups and order. After it the draft has all faults, in the order of the file."""
    resolved = Resolved(draft)
    _take_parents(resolved)
    _break_parent_cycles(resolved)
    _make_groups(resolved)
    edges = [edge for item in draft.items.values() for edge in _edges_of(resolved, item)]
    inherited = _inherited(resolved, edges) if draft.children_wait_with_parent else []
    _take_edges(resolved, edges, inherited, tick)
    for found in (draft.faults, draft.held, draft.notes):
        found.sort(key=lambda fault: fault.at)
    return resolved


def summary_of(item: Item) -> str:
    """Return the tracker's id, as much of the title as fits, and why the row is held."""
    text = f"{item.key} {item.title}" if item.shown else item.title
    text = " ".join(text.split()).encode(errors="replace").decode()
    if not item.holds:
        return cut(text or item.key, SUMMARY_MAX_BYTES)
    reasons = f" [held: {cut('; '.join(item.holds), _REASONS_MAX_BYTES)}]"
    return cut(text or item.key, SUMMARY_MAX_BYTES - len(reasons.encode())) + reasons


def plain_summary(item: Item) -> str:
    """Return the summary that a row has when it is not held."""
    text = " ".join((f"{item.key} {item.title}" if item.shown else item.title).split())
    return cut(text or item.key, SUMMARY_MAX_BYTES)


def cut(text: str, size: int) -> str:
    """Return the text, or so much of it and a mark as `size` bytes hold."""
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= size else data[: size - 3].decode(errors="ignore") + "…"


def _take_parents(resolved: Resolved) -> None:
    draft = resolved.draft
    for item in draft.items.values():
        parent = item.parent
        if parent is None or parent in draft.items:
            resolved.parents[item.key] = parent
        elif parent not in draft.finished and parent not in draft.left_out:
            text = f"{item.key} is part of {parent}, which is not in the file"
            draft.faults.append(Fault(item.at, item.place, text, "that parent, but held"))
            draft.hold(item, f"it is part of {parent}, which is not in the file")


def _break_parent_cycles(resolved: Resolved) -> None:
    """Parents must be a forest: the row of each cycle that comes last in the file is the one at fault."""
    parents = resolved.parents
    sound: set[str] = set()
    for first in resolved.items:
        path: dict[str, None] = {}
        at: str | None = first
        while at is not None and at not in sound and at not in path:
            path[at] = None
            at = parents.get(at)
        if at is not None and at in path:
            names = list(path)
            cycle = names[names.index(at) :]
            last = max((resolved.items[name] for name in cycle), key=lambda item: item.at)
            start = cycle.index(last.key)
            around = " -> ".join([*cycle[start:], *cycle[:start], last.key])
            text = f"{last.key} is part of {parents[last.key]}, which closes a cycle: {around}"
            resolved.draft.faults.append(Fault(last.at, last.place, text, "that parent, but held"))
            resolved.draft.hold(last, f"it is part of itself: {around}")
            parents[last.key] = None
        sound.update(path)


def _make_groups(resolved: Resolved) -> None:
    parents = {parent for parent in resolved.parents.values() if parent is not None}
    for item in resolved.items.values():
        if item.group_if_parent and item.key in parents:
            item.kind = "goal"
        elif item.kind in ("goal", "molecule") and item.key not in parents:
            text = f"{item.key} is a group with nothing open under it: complete it, or add to it"
            resolved.draft.note(item.at, item.place, text, "groups with nothing open under them")


def _edges_of(resolved: Resolved, item: Item) -> Iterator[tuple[str, Dependency]]:
    """Yield the dependencies of an item on other nodes; hold it for those that are faulty or may not be met."""
    draft = resolved.draft
    for dep in item.deps:
        on, words = dep.on, f"{dep.word} {dep.on}"
        if on == item.key:
            text = f"{item.key} {words}, which is itself"
            draft.faults.append(Fault(item.at, item.place, text, "the dependency, but held"))
            draft.hold(item, f"{words}, which is itself")
        elif on in draft.items:
            if dep.rule in (HOLD, ON_FAILURE):
                draft.hold(item, words)
            else:
                yield item.key, dep
        elif on in draft.finished:
            if dep.rule == ON_FAILURE and on not in draft.failed:
                draft.hold(item, f"{words}, which did not fail")
            elif dep.rule == HOLD and on in resolved.named_as_parent:
                draft.hold(item, words)
        elif on in draft.left_out:
            draft.hold(item, f"{words}, which is {draft.left_out[on]} and not finished")
        elif dep.finished is None and dep.rule != HOLD:
            text = f"{item.key} {words}, which is not in the file"
            draft.faults.append(Fault(item.at, item.place, text, "the dependency, but held"))
            draft.hold(item, f"{words}, which is not in the file")
        elif not dep.finished or dep.rule == ON_FAILURE:
            draft.hold(item, f"{words}, which is not in the file")


def _inherited(resolved: Resolved, edges: list[tuple[str, Dependency]]) -> list[tuple[str, Dependency]]:
    """Return what children of work wait for with their parents, and hold the children of held work.

    Groups need none of this: the daemon lets nothing under a group start before the group may.
    """
    own: dict[str, list[Dependency]] = {}
    for waiting, dep in edges:
        own.setdefault(waiting, []).append(dep)
    found: list[tuple[str, Dependency]] = []
    for item in resolved.items.values():
        if resolved.parents.get(item.key) is None:
            continue
        have = {dep.on for dep in own.get(item.key, ())}
        ancestors = list(above(resolved.parents, item.key))
        for position, name in enumerate(ancestors):
            parent = resolved.items[name]
            if parent.kind in ("goal", "molecule"):
                continue
            if parent.holds:
                resolved.draft.hold(item, f"{name} above it is held")
            for dep in own.get(name, ()):
                inside = dep.on == item.key or dep.on in ancestors[:position] or name in above(resolved.parents, dep.on)
                if dep.on not in have and not inside:
                    have.add(dep.on)
                    found.append((item.key, dep))
    return found


def _take_edges(
    resolved: Resolved,
    edges: list[tuple[str, Dependency]],
    inherited: list[tuple[str, Dependency]],
    tick: Callable[[], None],
) -> None:
    """Take every edge that closes no cycle. The file is at fault for the others, unless they are inherited."""
    draft = resolved.draft
    groups = {item.key for item in resolved.items.values() if item.kind in ("goal", "molecule")}
    parents = {key: resolved.parents.get(key) for key in resolved.items}
    words: dict[tuple[str, str], Dependency] = {}
    for waiting, dep in (*edges, *inherited):
        words.setdefault((waiting, dep.on), dep)
    own = {(waiting, dep.on) for waiting, dep in edges}
    pairs = list(words)
    bad = closing_cycles(parents, groups, pairs, tick)
    for position, (waiting, on) in enumerate(pairs):
        item, dep = resolved.items[waiting], words[waiting, on]
        if position not in bad:
            resolved.edges.setdefault(waiting, {})[on] = dep.when
            continue
        if (waiting, on) in own:
            text = f"{waiting} {dep.word} {on}, which closes a cycle: {' -> '.join(bad[position])}"
            draft.faults.append(Fault(item.at, item.place, text, "the dependency, but held"))
        draft.hold(item, f"{dep.word} {on}, in a cycle")
