"""Compare rows with the nodes that are there: what is new, what changes, what is finished or gone (law 17.4). Pure.

A node stands for a row if its summary opens with the id of the row; without an id, if it is the row's title.
"""

from __future__ import annotations

from hashlib import sha1

from claimdag_client.importers.resolve import plain_summary
from claimdagd.limits import SUMMARY_MAX_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from claimdag_client.importers.interface import Item
    from claimdag_client.importers.resolve import Resolved

    View = Mapping[str, Any]

TERMINAL = frozenset({"done", "failed", "cancelled"})
#: Held work: its summary, cost, priority and role may change, but not what it stands on.
HELD = frozenset({"claimed", "running", "completing"})
GROUPS = frozenset({"goal", "molecule"})
#: So many rows must have another title before they are taken for those of another list.
RENAMED_MIN = 3
#: A ref is no longer than this.
REF_MAX = 256
HELD_MARK = " [held: "
NEW, UPDATE, DONE, CANCEL, KEEP, SAME = "new", "update", "done", "cancel", "keep", "same"


class Step:
    """What is to be done about one row, or about one node that no row is of. `why` is for people."""

    __slots__ = ("action", "fields", "id", "key", "place", "summary", "why")

    def __init__(
        self, action: str, key: str, summary: str, *, id: str | None = None, place: str = "", why: str = ""
    ) -> None:
        self.action = action
        self.key = key
        self.summary = summary
        self.id = id
        self.place = place
        self.why = why
        #: Of a new node its fields for `submit`, of an update those of `upsert`.
        self.fields: dict[str, Any] = {}


class Comparison:
    """The steps, in the order in which they are to be done, and the nodes that are in the file no more."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.missing: list[View] = []
        #: How many rows were found by their ids, and how many of these have another title here.
        self.matched = 0
        self.renamed = 0

    @property
    def is_of_another_list(self) -> bool:
        """Whether most ids name other work here: two lists that both count from T001, say."""
        return self.renamed >= RENAMED_MIN and 2 * self.renamed > self.matched

    def of(self, action: str) -> list[Step]:
        """Return the steps of one sort."""
        return [step for step in self.steps if step.action == action]


def compare(found: Resolved, nodes: Iterable[View], *, under: str | None = None, prune: bool = False) -> Comparison:
    """Compare a file with the graph, or with what is `under` a node. `prune` cancels what is in the file no more."""
    known = _Known(node for node in nodes if node["id"] != under)
    comparison = Comparison()
    ids: dict[str, str] = {}
    matched: dict[str, View] = {}
    for item in found.items.values():
        node = known.of_item(item, under if item.parent is None else ids.get(item.parent))
        if node is not None:
            matched[item.key] = node
            ids[item.key] = node["id"]
            comparison.matched += item.shown
            comparison.renamed += item.shown and without_reason(node["summary"]) != plain_summary(item)
    titles = found.draft.titles
    ended = [
        (key, known.of_title(titles[key], None) if key in titles else known.of_key(key)) for key in found.draft.finished
    ]
    for key, node in ended:
        if node is not None and key in found.draft.summaries:
            comparison.matched += 1
            comparison.renamed += without_reason(node["summary"]) != found.draft.summaries[key]
    claimed = {*ids.values(), *(node["id"] for _, node in ended if node is not None)}
    left_out = {node["id"] for key in found.draft.left_out if (node := known.of_key(key)) is not None}
    comparison.missing = [
        node
        for node in known.nodes.values()
        if node["status"] not in TERMINAL
        and node["id"] not in claimed
        and node["id"] not in left_out
        and _is_ours(found, node, under)
    ]
    gone = {node["id"] for node in comparison.missing} if prune else set()
    for item in found.items.values():
        node = matched.get(item.key)
        comparison.steps.append(
            _new(found, item, ids, known, under)
            if node is None
            else _changed(found, item, node, ids=ids, known=known, under=under, gone=gone)
        )
    comparison.steps += [_ended(key, node, known) for key, node in ended if node is not None]
    if prune:
        comparison.steps += [_cancelled(node, known, gone) for node in comparison.missing]
    return comparison


class _Known:
    """The nodes that are there, found by the id that their summary opens with, or by the whole of it."""

    def __init__(self, nodes: Iterable[View]) -> None:
        self.nodes = {node["id"]: node for node in nodes}
        self.children: dict[str, list[View]] = {}
        self._by_word: dict[str, View] = {}
        self._by_summary: dict[bytes, list[View]] = {}
        for node in sorted(self.nodes.values(), key=_age):
            if node["parent"] is not None:
                self.children.setdefault(node["parent"], []).append(node)
            summary = without_reason(node["summary"])
            self._by_summary.setdefault(_title_key(summary), []).append(node)
            name = summary.partition(" ")[0]
            known = self._by_word.get(name)
            # Of several, the newest that is not finished.
            if known is None or known["status"] in TERMINAL or node["status"] not in TERMINAL:
                self._by_word[name] = node

    def of_item(self, item: Item, parent: str | None) -> View | None:
        return self._by_word.get(item.key) if item.shown else self.of_title(item.title, parent)

    def of_key(self, key: str) -> View | None:
        return self._by_word.get(key)

    def of_title(self, title: str, parent: str | None) -> View | None:
        """Take a node of this title, each node once: of several one that is not finished, and at its place."""
        nodes = self._by_summary.get(_title_key(" ".join(title.split())))
        if not nodes:
            return None
        best = min(nodes, key=lambda node: (node["status"] in TERMINAL, node["parent"] != parent, _age(node)))
        nodes.remove(best)
        return best


def _age(node: View) -> int:
    return int(node["id"].rpartition("-")[2])


def _title_key(title: str) -> bytes:
    """Return so much of a title as every summary has, also one that is cut to make room for a reason."""
    return title.encode(errors="replace")[: SUMMARY_MAX_BYTES - 700]


def without_reason(summary: str) -> str:
    """Return a summary without the reason for which an import held the node."""
    plain, mark, _ = summary.rpartition(HELD_MARK)
    return plain if mark and summary.endswith("]") else summary


def _is_ours(found: Resolved, node: View, under: str | None) -> bool:
    """Whether a node was made of a row of this source: by its id, or since the whole subtree is this file's."""
    if under is not None:
        return True
    owns = found.draft.owns
    return owns is not None and owns(node["summary"].partition(" ")[0])


def _new(found: Resolved, item: Item, ids: Mapping[str, str], known: _Known, under: str | None) -> Step:
    fields = found.node(item)
    step = Step(NEW, item.key, fields["summary"], place=item.place)
    fields["ref"] = _ref_of(item.key)
    if "deps" in fields:
        fields["deps"] = [{**dep, "on": ids.get(dep["on"]) or _ref_of(dep["on"])} for dep in fields["deps"]]
    parent = fields.pop("parent", None)
    if parent in ids:
        parent = ids[parent]
        if known.nodes[parent]["status"] in TERMINAL:
            step.why = f"its parent {parent} is finished here"
            parent = None
    elif parent is not None:
        parent = _ref_of(parent)
    parent = parent or under
    if parent is not None:
        fields["parent"] = parent
    step.fields = fields
    return step


def _ref_of(key: str) -> str:
    """Return the ref of a new node: its key, or a name that stands for one that is too long for a ref."""
    if len(key) <= REF_MAX:
        return key
    return f"{key[: REF_MAX - 50]}-{sha1(key.encode(errors='replace'), usedforsecurity=False).hexdigest()}"


def _changed(
    found: Resolved,
    item: Item,
    node: View,
    *,
    ids: Mapping[str, str],
    known: _Known,
    under: str | None,
    gone: set[str],
) -> Step:
    """Compare a row with its node."""
    wanted = found.node(item)
    step = Step(SAME, item.key, wanted["summary"], id=node["id"], place=item.place)
    if node["status"] in TERMINAL:
        step.why = f"{node['status']} here"
        return step
    fields = {"summary": wanted["summary"], "priority": wanted.get("priority", 0)}
    fields |= {name: wanted[name] for name in ("cost", "role", "max_attempts") if name in wanted}
    changes = {name: value for name, value in fields.items() if node[name] != value}
    basis = _basis(wanted, node, ids=ids, known=known, under=under, gone=gone)
    status = _status(item, node)
    if node["status"] in HELD:
        if basis or status:
            step.why = f"held by {node['assignee']}: what it waits on was left as it is"
            step.action = KEEP
    else:
        changes |= basis
        if status:
            changes["status"] = status
    if changes:
        step.action = UPDATE
        step.fields = changes
        step.why = step.why or ", ".join(changes)
    return step


def _basis(
    wanted: Mapping[str, Any],
    node: View,
    *,
    ids: Mapping[str, str],
    known: _Known,
    under: str | None,
    gone: set[str],
) -> dict[str, Any]:
    """Return what a node stands on that differs: kind, parent, deps, needs. Names of new nodes are still refs."""
    found: dict[str, Any] = {}
    kind = wanted.get("kind", "task")
    if kind != node["kind"]:
        found["kind"] = kind
    parent = wanted.get("parent")
    parent = ids.get(parent, parent) if parent is not None else under
    finished = parent in known.nodes and known.nodes[parent]["status"] in TERMINAL
    if parent != node["parent"] and not finished and not _by_hand(node["parent"], parent, ids):
        found["parent"] = parent
    deps = {ids.get(dep["on"], dep["on"]): dep.get("when", "after_ok") for dep in wanted.get("deps", ())}
    now = {dep["on"]: dep["when"] for dep in node["deps"]}
    # The file speaks for rows that are open in it; other edges were made by hand, or are met.
    ours = set(ids.values())
    deps |= {on: when for on, when in now.items() if on not in ours and on not in gone and on not in deps}
    if deps != now:
        found["deps"] = [{"on": on, "when": when} for on, when in deps.items()]
    if "needs" in wanted and wanted["needs"] != node["needs"]:
        found["needs"] = wanted["needs"]
    return found


def _by_hand(now: str | None, wanted: str | None, ids: Mapping[str, str]) -> bool:
    """Whether a node was put under one that no row is of, where the file names no parent."""
    return wanted is None and now is not None and now not in ids.values()


def _status(item: Item, node: View) -> str | None:
    """Return the status to ask for: only where the file holds a row back since, or does so no longer."""
    held_before = without_reason(node["summary"]) != node["summary"]
    if item.holds and not held_before:
        return "blocked"
    return "todo" if held_before and not item.holds and node["status"] == "blocked" else None


def _ended(key: str, node: View, known: _Known) -> Step:
    step = Step(DONE, key, node["summary"], id=node["id"], why="finished in the file")
    if node["status"] in TERMINAL:
        step.action, step.why = SAME, f"{node['status']} here"
    elif node["status"] in HELD:
        step.action, step.why = KEEP, f"finished in the file, but held by {node['assignee']}"
    elif node["kind"] in GROUPS and known.children.get(node["id"]):
        step.action, step.why = KEEP, "finished in the file; what is under it decides it here"
    return step


def _cancelled(node: View, known: _Known, gone: set[str]) -> Step:
    step = Step(CANCEL, node["summary"].partition(" ")[0], node["summary"], id=node["id"], why="not in the file")
    if node["status"] in HELD:
        step.action, step.why = KEEP, f"not in the file, but held by {node['assignee']}"
    elif any(child["status"] in HELD for child in _below(node["id"], known)):
        step.action, step.why = KEEP, "not in the file, but work under it is held"
    return step


def _below(id: str, known: _Known) -> Iterable[View]:
    stack = [id]
    while stack:
        children = known.children.get(stack.pop(), [])
        yield from children
        stack += [child["id"] for child in children]
