"""Reads an issue tracker's export (beads): JSON lines, an array, or what its commands print with --json.

It takes no text but the id and the title: the tracker keeps the rest.
"""

from __future__ import annotations

from datetime import datetime

from claimdag_client.importers.interface import (
    HOLD,
    ON_FAILURE,
    ORDER,
    Dependency,
    Draft,
    Fault,
    Item,
    Options,
    name_of,
    quoted,
    text_of,
)
from claimdag_client.importers.json_records import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Row = dict[str, Any]

#: Of the tracker's 0 (most urgent) to 4 (backlog); its own default, 2, is ours too. Steps of 10 leave room between.
PRIORITIES = {0: 20, 1: 10, 2: 0, 3: -10, 4: -20}
DEFAULT_PRIORITY = 2
OPEN = "open"
IN_HAND = frozenset({"in_progress", "hooked"})
FINISHED = {"closed": "closed", "tombstone": "deleted"}
WORK_TYPES = frozenset({"task", "bug", "feature", "chore", "decision", "spike", "story", "merge-request"})
GROUP_TYPES = {"epic": "goal", "molecule": "molecule"}
GATE = "gate"
#: Rows that the tracker keeps among its issues: mail, agents and their places, bundles that only follow others.
NOT_WORK = frozenset({"agent", "message", "convoy", "role", "rig", "event", "slot"})
UNORDERED = frozenset(
    {
        "related", "relates-to", "discovered-from", "tracks", "replies-to", "duplicates", "supersedes", "caused-by",
        "validates", "authored-by", "assigned-to", "approved-by", "attests", "delegated-from", "until",
    }
)  # fmt: skip
PARENT = "parent-child"
RULES = {"blocks": ORDER, "waits-for": HOLD, "conditional-blocks": ON_FAILURE}
KINDS = frozenset({PARENT, *RULES, *UNORDERED})
#: Flags of a row that is kept for other ends than work.
FLAGS = {"pinned": "pinned", "is_template": "a template", "ephemeral": "ephemeral"}
#: A close reason with one of these words is a failure, for what runs only then.
FAILURE_WORDS = (
    "failed", "rejected", "wontfix", "won't fix", "canceled", "cancelled", "abandoned", "blocked", "error", "timeout",
    "aborted",
)  # fmt: skip
#: A dependency on another project's capability: nothing in the file says whether that is there.
EXTERNAL = "external:"


class BeadsImporter:
    """The importer of this source."""

    name = "beads"
    about = "an export of the beads tracker: .beads/issues.jsonl, bd export, bd list --json"

    def looks_like(self, name: str, head: bytes) -> bool:
        """Whether a row of the file has a field that only this tracker writes."""
        return b'"issue_type"' in head or b'"depends_on_id"' in head or ".beads/" in name

    def read(self, pieces: Iterable[bytes], options: Options) -> Draft:
        """Read an export."""
        draft = Draft()
        draft.children_wait_with_parent = True
        prefixes: set[str] = set()
        for line, row in records(pieces, options.tick):
            if isinstance(row, Fault):
                draft.faults.append(row)
            elif row.get("_type", "issue") != "issue":
                text = f"{quoted(row['_type'])} is not an issue"
                draft.note(line, f"line {line}", text, "rows that are no issues")
            else:
                _read_row(draft, row, line, options, prefixes)
        draft.owns = lambda word: word.rpartition("-")[0] in prefixes
        return draft


def _read_row(draft: Draft, row: Row, line: int, options: Options, prefixes: set[str]) -> None:
    place = f"line {line}"
    key = name_of(row.get("id"))
    if key is None or not isinstance(row["id"], str):
        draft.fault(line, place, f"its id is {quoted(row.get('id'))}, not a name", "the issue")
        return
    if "-" in key:
        prefixes.add(key.rpartition("-")[0])
    kind = row.get("issue_type") or "task"
    status = row.get("status") or OPEN
    if isinstance(status, str) and status in FINISHED and (status != "closed" or not options.closed):
        reason = text_of(row, "close_reason").lower()
        failed = any(word in reason for word in FAILURE_WORDS)
        draft.finish(key, FINISHED[status], at=line, place=place, failed=failed)
        return
    if isinstance(kind, str) and kind in NOT_WORK:
        draft.leave_out(key, f"of type {kind}", at=line, place=place)
        draft.note(line, place, f"{key} is of type {kind}, which is not work", "rows that are not work, left out")
        return
    item = Item(key, text_of(row, "title"), at=line, place=place)
    if draft.add(item):
        _classify(draft, item, row, kind, status, options)
        _weigh(draft, item, row)
        _depend(draft, item, row)


def _classify(draft: Draft, item: Item, row: Row, kind: Any, status: Any, options: Options) -> None:
    """Set the kind of the row, and hold it for every reason for which the tracker would not offer it (law 17.1)."""
    if isinstance(kind, str) and kind in GROUP_TYPES:
        item.kind = GROUP_TYPES[kind]
    elif kind == GATE:
        waits_for = " ".join(filter(None, (text_of(row, "await_type"), text_of(row, "await_id"))))
        draft.hold(item, f"an open gate{f', until {waits_for}' if waits_for else ''}")
    elif not isinstance(kind, str) or kind not in WORK_TYPES:
        draft.hold(item, f"it is of the unknown type {quoted(kind)}")
    if isinstance(status, str) and status in IN_HAND:
        who = text_of(row, "assignee")
        if options.keep_holders:
            draft.hold(item, f"{status} in the tracker{f' by {who}' if who else ''}")
        else:
            text = f"{item.key} is {status} in the tracker; --keep-holders holds it back"
            draft.note(item.at, item.place, text, "in hand in the tracker, offered all the same")
    elif status in ("blocked", "deferred", "pinned"):
        draft.hold(item, f"{status} in the tracker")
    elif status not in (OPEN, *FINISHED):
        draft.hold(item, f"it has the status {quoted(status)}, which is one of the project's own")
    for flag, words in FLAGS.items():
        if row.get(flag) and f"{words} in the tracker" not in item.holds:
            draft.hold(item, f"{words} in the tracker")
    _defer(draft, item, row.get("defer_until"), options.now)


def _defer(draft: Draft, item: Item, until: Any, now: float) -> None:
    if until is None or until == "":
        return
    try:
        time = datetime.fromisoformat(until)
        later = time.timestamp() > now
    except (TypeError, ValueError, OverflowError, OSError):
        text = f"{item.key} is put off until {quoted(until)}, which is no time"
        draft.fault(item.at, item.place, text, "that time, but held")
        later = True
    if later:
        draft.hold(item, f"put off until {until if isinstance(until, str) else quoted(until)}")


def _weigh(draft: Draft, item: Item, row: Row) -> None:
    priority = row.get("priority", DEFAULT_PRIORITY)
    if isinstance(priority, int) and not isinstance(priority, bool) and priority in PRIORITIES:
        item.priority = PRIORITIES[priority]
    elif priority is not None:
        text = f"{item.key} has the priority {quoted(priority)}, which is not one of 0 to 4"
        draft.fault(item.at, item.place, text, "its priority")
    minutes = row.get("estimated_minutes")
    if isinstance(minutes, (int, float)) and not isinstance(minutes, bool) and 0 < minutes <= 1e12:
        item.cost = minutes
    elif minutes is not None and (minutes != 0 or isinstance(minutes, bool)):
        text = f"{item.key} has the estimate {quoted(minutes)}, which is not a number of minutes"
        draft.fault(item.at, item.place, text, "its estimate")


def _depend(draft: Draft, item: Item, row: Row) -> None:
    """Read what the row waits on, in each of the spellings that the tracker's commands have."""
    if isinstance(row.get("parent"), str) and row["parent"]:
        item.parent = row["parent"]
    for field in ("dependencies", "blocked_by"):
        listed = row.get(field) or []
        if isinstance(listed, list):
            for dep in listed:
                _take(draft, item, dep)
        else:
            draft.fault(item.at, item.place, f"{item.key}: its {field} are not a list", f"its {field}, but held")
            draft.hold(item, f"its {field} could not be read")


def _take(draft: Draft, item: Item, dep: Any) -> None:
    fields = {"depends_on_id": dep} if isinstance(dep, str) else dep if isinstance(dep, dict) else {}
    on = name_of(fields.get("depends_on_id", fields.get("id")))
    kind = text_of(fields, "type") or text_of(fields, "dependency_type") or "blocks"
    if on is None:
        text = f"{item.key}: a dependency is {quoted(dep)}, which names no issue"
        draft.fault(item.at, item.place, text, "the dependency, but held")
        draft.hold(item, "one of its dependencies could not be read")
    elif fields.get("issue_id", item.key) != item.key:
        text = f"{item.key} has {quoted(kind)} on {on}, but it says that it is of {quoted(fields['issue_id'])}"
        draft.fault(item.at, item.place, text, "the dependency, but held")
        draft.hold(item, f"has {quoted(kind)} on {on}, which is said of another issue")
    elif kind in UNORDERED:
        pass
    elif on.startswith(EXTERNAL):
        draft.hold(item, f"has {quoted(kind)} on {on}, which is not of this file")
    elif kind == PARENT:
        if item.parent in (None, on):
            item.parent = on
        else:
            text = f"{item.key} has {quoted(kind)} on {on}, but its parent is {item.parent} already"
            draft.fault(item.at, item.place, text, "the second parent, but held")
            draft.hold(item, f"it is part of {on} too")
    elif kind in RULES:
        finished = fields["status"] in FINISHED if isinstance(fields.get("status"), str) else None
        item.deps.append(Dependency(on, f"has {quoted(kind)} on", rule=RULES[kind], finished=finished))
    else:
        likely = str(kind).lower().replace("_", "-")
        hint = f" (is {quoted(likely)} meant?)" if likely in KINDS else ""
        word = f"has the unknown dependency {quoted(kind)}{hint} on"
        item.deps.append(Dependency(on, word, rule=HOLD, finished=False))
