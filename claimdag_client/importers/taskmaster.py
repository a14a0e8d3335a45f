"""Reads the tasks.json of task-master: lists by tag, subtasks, dependencies by dotted id."""

from __future__ import annotations

import json

from claimdag_client.importers.interface import Dependency, Draft, Item, Options, name_of, quoted, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    Row = dict[str, Any]

PRIORITIES = {"critical": 20, "high": 10, "medium": 0, "low": -10}
OPEN = frozenset({"pending", "todo"})
IN_HAND = frozenset({"in-progress", "in_progress"})
FINISHED = frozenset({"done", "completed"})
MASTER = "master"


class TaskmasterImporter:
    """The importer of this source."""

    name = "taskmaster"
    about = "tasks.json of task-master, with tags and subtasks"

    def looks_like(self, name: str, head: bytes) -> bool:
        """Whether a JSON file has a list of tasks."""
        return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and b'"tasks"' in head

    def read(self, pieces: Iterable[bytes], options: Options) -> Draft:
        """Read a tasks.json."""
        draft = Draft()
        text = b"".join(pieces).removeprefix(b"\xef\xbb\xbf")
        options.tick()
        try:
            # Ids such as 1.10 must not become the number 1.1.
            document = json.loads(text.decode(), parse_float=str)
        except UnicodeDecodeError as exc:
            line = text.count(b"\n", 0, exc.start) + 1
            draft.fault(line, f"line {line}", "it is not UTF-8", "the file")
            return draft
        except json.JSONDecodeError as exc:
            text_of_fault = f"it is not JSON: {exc.msg} at column {exc.colno}"
            draft.fault(exc.lineno, f"line {exc.lineno}", text_of_fault, "the file")
            return draft
        except RecursionError:
            draft.fault(1, "line 1", "it is nested too deep", "the file")
            return draft
        for tag, path, tasks in _lists(draft, document, options.tag):
            _Reader(draft, options, "" if tag in (None, MASTER) else f"{tag}/").read(tasks, path)
        return draft


def _lists(draft: Draft, document: Any, wanted: str | None) -> Iterator[tuple[str | None, str, list[Any]]]:
    """Yield the list of the wanted tag: the one named, else master, else the only one."""
    if isinstance(document, list):
        document = {"tasks": document}
    if not isinstance(document, dict):
        draft.fault(0, "tasks", "there must be a list of tasks", "the file")
        return
    if isinstance(document.get("tasks"), list):
        yield None, "tasks", document["tasks"]
        return
    tags = {tag: part["tasks"] for tag, part in document.items() if isinstance(part, dict) and "tasks" in part}
    tag = wanted or (MASTER if MASTER in tags or len(tags) != 1 else next(iter(tags)))
    if not isinstance(tags.get(tag), list):
        known = ", ".join(tags) or "none"
        draft.fault(0, tag, f"there is no list of tasks with the tag {tag!r}; there are {known}", "the file")
        return
    for other in tags:
        if other != tag:
            draft.note(0, other, f"the tasks with the tag {other!r} are left out (--tag takes them)", "tags left out")
    yield tag, f"{tag}.tasks", tags[tag]


class _Reader:
    def __init__(self, draft: Draft, options: Options, prefix: str) -> None:
        self._draft = draft
        self._options = options
        self._prefix = prefix
        self._at = 0
        self._ids: set[str] = set()
        self._waiting: list[tuple[Item, str | None, Any]] = []

    def read(self, tasks: list[Any], path: str) -> None:
        """Read a list of tasks and all below it; the ids first, since a dependency may name a sibling."""
        stack: list[tuple[Any, str, str | None, bool]] = [
            (task, f"{path}[{index}]", None, False) for index, task in reversed([*enumerate(tasks)])
        ]
        while stack:
            task, place, parent, finished = stack.pop()
            self._at += 1
            self._options.tick()
            row = task if isinstance(task, dict) else {}
            own = name_of(row.get("id"))
            if own is None:
                self._draft.fault(self._at, place, f"its id is {quoted(row.get('id'))}, not a name", "the task")
                continue
            dotted = own if parent is None or own.startswith(f"{parent}.") else f"{parent}.{own}"
            self._ids.add(dotted)
            done = self._take(row, dotted, parent, place, finished)
            subtasks = [] if row.get("subtasks") is None else row["subtasks"]
            if not isinstance(subtasks, list):
                self._draft.fault(self._at, f"{place}.subtasks", "it must be a list of tasks", "its subtasks")
                continue
            below = [(sub, f"{place}.subtasks[{index}]", dotted, done) for index, sub in enumerate(subtasks)]
            stack += reversed(below)
        for item, parent, dep in self._waiting:
            self._depend(item, parent, dep)

    def _take(self, row: Row, dotted: str, parent: str | None, place: str, parent_done: bool) -> bool:
        """Add a task. Returns whether it is finished."""
        draft, key = self._draft, self._prefix + dotted
        status = text_of(row, "status") or "pending"
        if status in FINISHED and not self._options.closed:
            draft.finish(key, "done", at=self._at, place=place)
            return True
        if status in ("cancelled", "canceled"):
            draft.leave_out(key, "cancelled", at=self._at, place=place)
            return False
        item = Item(key, text_of(row, "title"), at=self._at, place=place)
        if not draft.add(item):
            return False
        item.group_if_parent = True
        item.parent = None if parent is None else self._prefix + parent
        self._hold(item, status, parent if parent_done else None)
        priority = text_of(row, "priority")
        if priority and priority not in PRIORITIES:
            text = f"the priority {priority!r} is not one of {', '.join(PRIORITIES)}"
            draft.fault(self._at, f"{place}.priority", text, "its priority")
        item.priority = PRIORITIES.get(priority, 0)
        deps = row.get("dependencies") or []
        if isinstance(deps, list):
            self._waiting += [(item, parent, dep) for dep in deps]
        else:
            draft.fault(self._at, f"{place}.dependencies", "it must be a list of ids", "its dependencies, but held")
            draft.hold(item, "its dependencies could not be read")
        return False

    def _hold(self, item: Item, status: str, done_parent: str | None) -> None:
        if done_parent is not None:
            self._draft.hold(item, f"its task {done_parent} is done")
        if status in IN_HAND:
            if self._options.keep_holders:
                self._draft.hold(item, f"{status} in the tracker")
            else:
                text = f"{item.key} is {status} in the tracker; --keep-holders holds it back"
                self._draft.note(item.at, item.place, text, "in hand in the tracker, offered all the same")
        elif status in ("review", "deferred", "blocked"):
            self._draft.hold(item, f"{status} in the tracker")
        elif status not in OPEN and status not in FINISHED:
            self._draft.hold(item, f"it has the unknown status {status!r}")

    def _depend(self, item: Item, parent: str | None, dep: Any) -> None:
        """Take a dependency: a subtask names its sibling by the last part of its id, or any task by the whole of it."""
        name = name_of(dep)
        if name is None:
            text = f"a dependency is {quoted(dep)}, which names no task"
            self._draft.fault(item.at, f"{item.place}.dependencies", text, "the dependency, but held")
            self._draft.hold(item, "one of its dependencies could not be read")
            return
        sibling = f"{parent}.{name}"
        item.deps.append(Dependency(self._prefix + (sibling if parent is not None and sibling in self._ids else name)))
