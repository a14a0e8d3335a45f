"""Reads an issue tracker's export (beads, one JSON object a line) into nodes for `submit`.

Every line is checked and every fault is kept with its line, so that one look at the report is enough. It asks nothing
of the daemon, and takes no text but the id and the title: the tracker keeps the rest.
"""

from __future__ import annotations

import json

from claimdag_client.wait_graph import Moments, closing_cycles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Record = dict[str, Any]

SUMMARY_MAX_BYTES = 4096
#: Of the tracker's 0 (most urgent) to 4 (backlog); its own default, 2, is ours too. Steps of 10 leave room between.
PRIORITIES = {0: 20, 1: 10, 2: 0, 3: -10, 4: -20}
DEFAULT_PRIORITY = 2
#: Statuses of work to do. What an agent there has in hand is not in anybody's hand here, until somebody claims it.
OPEN = frozenset({"open", "in_progress", "hooked", "review"})
#: Statuses of work put on hold; such a node is blocked until somebody says otherwise.
HELD_BACK = frozenset({"blocked", "deferred"})
CLOSED = "closed"
#: Not work in any case: what was deleted, and notes pinned to a board.
NEVER_TAKEN = {"tombstone": "deleted", "pinned": "pinned"}
WORK_TYPES = frozenset({"task", "bug", "feature", "chore", "decision", "spike", "story", "merge-request"})
GROUP_TYPES = {"epic": "goal", "molecule": "molecule"}
#: Records that the tracker keeps among its issues: mail, agents and their places, bundles that only follow others.
NOT_WORK = frozenset({"agent", "message", "convoy", "role", "rig", "event", "slot", "gate"})
UNORDERED = frozenset(
    {
        "related", "relates-to", "discovered-from", "tracks", "replies-to", "duplicates", "supersedes", "caused-by",
        "validates", "authored-by", "assigned-to", "approved-by", "attests", "delegated-from", "until",
    }
)  # fmt: skip


class Fault:
    """What is wrong with a line, and `without`: what `--skip-bad` leaves out for it. Of a note: what sort it is of."""

    __slots__ = ("line", "text", "without")

    def __init__(self, line: int, text: str, without: str) -> None:
        self.line = line
        self.text = text
        self.without = without

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


class Issue:
    """One sound line of the export."""

    __slots__ = ("cost", "deps", "held_back", "id", "kind", "left_out", "line", "parent", "priority", "summary")

    def __init__(self, line: int, issue_id: str) -> None:
        self.line = line
        self.id = issue_id
        self.summary = issue_id
        self.kind = "task"
        self.priority = PRIORITIES[DEFAULT_PRIORITY]
        self.cost: float | None = None
        self.held_back = False
        #: Why it is not taken as work; None if it is.
        self.left_out: str | None = None
        self.parent: str | None = None
        #: What it waits on, in the order of the file.
        self.deps: list[str] = []


class Export:
    """What was read: `issues` by id, in the order of the file, `faults` by line, and `notes` on what is no fault."""

    def __init__(self) -> None:
        self.issues: dict[str, Issue] = {}
        self.faults: list[Fault] = []
        self.notes: list[Fault] = []
        self.lines = 0

    @property
    def taken(self) -> list[Issue]:
        """The issues that become nodes."""
        return [issue for issue in self.issues.values() if issue.left_out is None]

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes for `submit`, in the order of the file; each ref is the issue's id."""
        nodes = []
        for issue in self.taken:
            node: dict[str, Any] = {"ref": issue.id, "summary": issue.summary}
            if issue.kind != "task":
                node["kind"] = issue.kind
            if issue.held_back:
                node["status"] = "blocked"
            if issue.priority:
                node["priority"] = issue.priority
            if issue.cost is not None:
                node["cost"] = issue.cost
            if issue.parent is not None:
                node["parent"] = issue.parent
            if issue.deps:
                node["deps"] = [{"on": on} for on in issue.deps]
            nodes.append(node)
        return nodes

    def noted(self) -> dict[str, int]:
        """How many notes there are, by sort."""
        counts: dict[str, int] = {}
        for note in self.notes:
            counts[note.without] = counts.get(note.without, 0) + 1
        return counts

    def left_out(self) -> dict[str, int]:
        """How many issues were left out, by reason."""
        counts: dict[str, int] = {}
        for issue in self.issues.values():
            if issue.left_out is not None:
                counts[issue.left_out] = counts.get(issue.left_out, 0) + 1
        return counts


def read(lines: Iterable[bytes], *, closed: bool = False, tick: Callable[[], None] = lambda: None) -> Export:
    """Read an export. `closed` takes closed issues as work to do as well; `tick` is called now and then.

    Never raises for what stands in the file: the faults say it, and what is left is whole without what they name.
    """
    export = Export()
    records: dict[str, Record] = {}
    for number, line in enumerate(lines, 1):
        tick()
        export.lines = number
        record = _record(number, line, export)
        if record is None:
            continue
        issue = _issue(number, record, export, closed=closed)
        if issue is not None:
            export.issues[issue.id] = issue
            records[issue.id] = record
    edges: list[tuple[str, str]] = []
    for issue in export.issues.values():
        tick()
        edges += _dependencies(issue, records[issue.id], export)
    _break_parent_cycles(export)
    _childless_groups_are_work(export)
    _take_edges(edges, export, tick)
    export.faults.sort(key=lambda fault: fault.line)
    export.notes.sort(key=lambda fault: fault.line)
    return export


def _record(number: int, line: bytes, export: Export) -> Record | None:
    text = line.strip()
    if not text:
        return None
    if number == 1:
        text = text.removeprefix(b"\xef\xbb\xbf")
    try:
        record = json.loads(text.decode())
    except UnicodeDecodeError:
        export.faults.append(Fault(number, "it is not UTF-8", "the line"))
        return None
    except (ValueError, RecursionError) as exc:
        said = f"{exc.msg} at column {exc.colno}" if isinstance(exc, json.JSONDecodeError) else "it is nested too deep"
        export.faults.append(Fault(number, f"it is not JSON: {said}", "the line"))
        return None
    if not isinstance(record, dict):
        export.faults.append(Fault(number, "it is not a JSON object", "the line"))
        return None
    if record.get("_type", "issue") != "issue":
        export.notes.append(Fault(number, f"{_quoted(record['_type'])} is not an issue", "lines that are no issues"))
        return None
    return record


def _issue(number: int, record: Record, export: Export, *, closed: bool) -> Issue | None:
    issue_id = record.get("id")
    if not isinstance(issue_id, str) or not issue_id or len(issue_id) > 256 or not issue_id.isprintable():
        export.faults.append(Fault(number, f"its id is {_quoted(issue_id)}, not a name", "the issue"))
        return None
    if issue_id in export.issues:
        first = export.issues[issue_id].line
        export.faults.append(Fault(number, f"{issue_id} is on line {first} already", "the second one"))
        return None
    issue = Issue(number, issue_id)
    title = record.get("title") or ""
    issue.summary = _summary(issue_id, title if isinstance(title, str) else str(title))
    _classify(issue, record, export, closed=closed)
    _weigh(issue, record, export)
    return issue


def _classify(issue: Issue, record: Record, export: Export, *, closed: bool) -> None:
    kind = record.get("issue_type") or "task"
    if kind in GROUP_TYPES:
        issue.kind = GROUP_TYPES[kind]
    elif kind in NOT_WORK:
        issue.left_out = f"of type {kind}"
        text = f"{issue.id} is {issue.left_out}, which is not work"
        export.notes.append(Fault(issue.line, text, "records that are not work, left out"))
    elif kind not in WORK_TYPES:
        issue.left_out = "of unknown type"
        export.faults.append(Fault(issue.line, f"{issue.id} has the unknown type {_quoted(kind)}", "the issue"))
    status = record.get("status") or "open"
    if status == CLOSED:
        if not closed:
            issue.left_out = issue.left_out or "closed"
    elif status in NEVER_TAKEN:
        issue.left_out = issue.left_out or NEVER_TAKEN[status]
    elif status in HELD_BACK:
        issue.held_back = True
    elif status not in OPEN:
        issue.left_out = issue.left_out or "of unknown status"
        export.faults.append(Fault(issue.line, f"{issue.id} has the unknown status {_quoted(status)}", "the issue"))


def _weigh(issue: Issue, record: Record, export: Export) -> None:
    priority = record.get("priority", DEFAULT_PRIORITY)
    if isinstance(priority, int) and not isinstance(priority, bool) and priority in PRIORITIES:
        issue.priority = PRIORITIES[priority]
    elif priority is not None:
        text = f"{issue.id} has the priority {_quoted(priority)}, which is not one of 0 to 4"
        export.faults.append(Fault(issue.line, text, "its priority"))
    minutes = record.get("estimated_minutes")
    if isinstance(minutes, (int, float)) and not isinstance(minutes, bool) and 0 < minutes <= 1e12:
        issue.cost = minutes
    elif minutes is not None and (minutes != 0 or isinstance(minutes, bool)):
        text = f"{issue.id} has the estimate {_quoted(minutes)}, which is not a number of minutes"
        export.faults.append(Fault(issue.line, text, "its estimate"))


def _dependencies(issue: Issue, record: Record, export: Export) -> list[tuple[str, str]]:
    """Set the issue's parent, and return what it waits on. What is left out of the work counts as met."""
    listed = record.get("dependencies") or []
    if not isinstance(listed, list):
        export.faults.append(Fault(issue.line, f"{issue.id}: its dependencies are not a list", "its dependencies"))
        return []
    edges: dict[tuple[str, str], None] = {}
    for dep in listed:
        if not isinstance(dep, dict) or not isinstance(on := dep.get("depends_on_id"), str):
            text = f"{issue.id}: a dependency is {_quoted(dep)}, which names no issue"
            export.faults.append(Fault(issue.line, text, "the dependency"))
            continue
        kind = dep.get("type") or "blocks"
        words = f"{issue.id} {kind} {on}" if kind in UNORDERED else f"{issue.id} has {_quoted(kind)} on {on}"
        if dep.get("issue_id", issue.id) != issue.id:
            text = f"{words}, but it says that it is of {_quoted(dep['issue_id'])}"
            export.faults.append(Fault(issue.line, text, "the dependency"))
        elif kind in UNORDERED:
            if on not in export.issues:
                note = f"{words}, which is not in the file; it carries no order"
                export.notes.append(Fault(issue.line, note, "dangling references without order"))
        elif kind not in ("blocks", "parent-child"):
            export.faults.append(Fault(issue.line, f"{words}: an unknown type of dependency", "the dependency"))
        elif on not in export.issues:
            text = f"{words}, which is not in the file"
            if issue.left_out is None:
                export.faults.append(Fault(issue.line, text, "the dependency"))
            else:
                export.notes.append(Fault(issue.line, text, "dangling references of issues left out"))
        elif on == issue.id:
            export.faults.append(Fault(issue.line, f"{words}, which is itself", "the dependency"))
        elif issue.left_out is None and export.issues[on].left_out is None:
            if kind == "blocks":
                edges[issue.id, on] = None
            elif issue.parent is None:
                issue.parent = on
            elif issue.parent != on:
                text = f"{words}, but its parent is {issue.parent} already"
                export.faults.append(Fault(issue.line, text, "the second parent"))
    return list(edges)


def _break_parent_cycles(export: Export) -> None:
    """Parents must be a forest: the edge on the last line of each cycle is the one at fault."""
    sound: set[str] = set()
    for first in export.taken:
        path: dict[str, None] = {}
        at: str | None = first.id
        while at is not None and at not in sound and at not in path:
            path[at] = None
            at = export.issues[at].parent
        if at is not None and at in path:
            names = list(path)
            cycle = names[names.index(at) :]
            last = max((export.issues[name] for name in cycle), key=lambda issue: issue.line)
            start = cycle.index(last.id)
            around = [*cycle[start:], *cycle[:start], last.id]
            text = f"{last.id} has 'parent-child' on {last.parent}, which closes a cycle: {' -> '.join(around)}"
            export.faults.append(Fault(last.line, text, "that parent"))
            last.parent = None
        sound.update(path)


def _childless_groups_are_work(export: Export) -> None:
    """A group is decided by its children. One that has none here is work itself: somebody must look at it."""
    parents = {issue.parent for issue in export.taken}
    for issue in export.taken:
        if issue.kind != "task" and issue.id not in parents:
            issue.kind = "task"
            text = f"{issue.id} is an epic with nothing to do under it: it becomes a task"
            export.notes.append(Fault(issue.line, text, "epics with nothing to do under them, taken as tasks"))


def _take_edges(edges: list[tuple[str, str]], export: Export, tick: Callable[[], None]) -> None:
    taken = export.taken
    groups = {issue.id for issue in taken if issue.kind != "task"}
    moments = Moments([issue.id for issue in taken], {issue.id: issue.parent for issue in taken}, groups)
    bad = dict(closing_cycles(moments, edges, tick))
    for position, (waiting, on) in enumerate(edges):
        issue = export.issues[waiting]
        if position in bad:
            path = " -> ".join(bad[position])
            text = f"{waiting} has 'blocks' on {on}, which closes a cycle: {path}"
            export.faults.append(Fault(issue.line, text, "the dependency"))
        else:
            issue.deps.append(on)


def _summary(issue_id: str, title: str) -> str:
    """The id, then as much of the title as a summary holds."""
    summary = f"{issue_id} {title}".strip().encode(errors="replace")
    if len(summary) > SUMMARY_MAX_BYTES:
        return summary[: SUMMARY_MAX_BYTES - 3].decode(errors="ignore") + "…"
    return summary.decode()


def _quoted(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
