"""Reads issues of GitHub, as its REST interface, its GraphQL or `gh issue list --json` give them.

Sub-issues make the tree, "blocked by" the order. What people wrote into the text is read with `guess` alone.
"""

from __future__ import annotations

import re

from claimdag_client.importers.interface import Dependency, Draft, Fault, Item, Options, quoted, text_of
from claimdag_client.importers.json_records import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    Row = dict[str, Any]

_URL = re.compile(r"/([\w.-]+/[\w.-]+)/issues/(\d+)\b")
_REPOSITORY = re.compile(r"/repos/([\w.-]+/[\w.-]+)$")
_PRIORITY = re.compile(r"(?:priority[:/ -]*)?p([0-4])|priority[:/ -]+(critical|urgent|high|medium|low)", re.IGNORECASE)
PRIORITIES = {"0": 20, "1": 10, "2": 0, "3": -10, "4": -20, "critical": 20, "urgent": 20, "high": 10, "medium": 0,
              "low": -10}  # fmt: skip
HELD_LABELS = frozenset({"blocked", "on hold", "on-hold", "wontfix", "duplicate", "invalid"})
_BLOCKED_TEXT = re.compile(r"(?:blocked by|depends on|depends upon)[: ]+((?:#\d+(?:,| and|\s)*)+)", re.IGNORECASE)
_TASK_TEXT = re.compile(r"^\s*[-*+] \[[ xX]\] #(\d+)\b", re.MULTILINE)


class GithubImporter:
    """The importer of this source."""

    name = "github"
    about = "issues of GitHub: its REST interface, or gh issue list --json number,title,state,parent,blockedBy,..."

    def looks_like(self, name: str, head: bytes) -> bool:
        """Whether rows have a number and a title, and the state or the address that issues have."""
        return b'"number"' in head and b'"title"' in head and (b'"state"' in head or b'"issues/' in head)

    def read(self, pieces: Iterable[bytes], options: Options) -> Draft:
        """Read issues."""
        draft = Draft()
        rows: list[tuple[int, Row, str]] = []
        for line, row in records(pieces, options.tick):
            place = f"line {line}"
            if isinstance(row, Fault):
                draft.faults.append(row)
            elif not isinstance(row.get("number"), int) or isinstance(row.get("number"), bool) or row["number"] < 1:
                number = quoted(row.get("number"))
                draft.fault(line, place, f"its number is {number}, not one of an issue", "the issue")
            elif options.closed or _state(row) != "closed":
                rows.append((line, row, _repository(row)))
            else:
                # Of what is closed only its number matters, so that a long history is read in little memory.
                closed = {"number": row["number"], "state": "closed", **_edges(row)}
                rows.append((line, closed, _repository(row)))
        repositories = {repository for _, _, repository in rows}
        names = _Names(min(repositories) if len(repositories) == 1 else None)
        for line, row, repository in rows:
            _Reader(draft, options, names, repository).take(row, line)
        _reverse(draft, names, rows, guess=options.guess)
        for item in draft.items.values():
            if item.parent not in draft.items and item.parent not in draft.finished:
                item.parent = None  # a list of some issues need not have those above them
        draft.owns = names.owns
        return draft


class _Names:
    """How issues are named: `#12`, or `owner/name#12` where the file has more than one repository."""

    def __init__(self, only: str | None) -> None:
        self._only = only

    def of(self, repository: str, number: int) -> str:
        """Return the name of an issue."""
        return f"#{number}" if self._only is not None and repository in (self._only, "") else f"{repository}#{number}"

    def owns(self, word: str) -> bool:
        """Whether a word is the name of an issue of this file's form."""
        return bool(re.fullmatch(r"#\d+" if self._only is not None else r"[\w.-]+/[\w.-]+#\d+", word))


class _Reader:
    def __init__(self, draft: Draft, options: Options, names: _Names, repository: str) -> None:
        self._draft = draft
        self._options = options
        self._names = names
        self._repository = repository

    def take(self, row: Row, line: int) -> None:
        """Take one issue."""
        draft, place = self._draft, f"line {line}"
        key = self._names.of(self._repository, row["number"])
        state = _state(row)
        if state == "closed" and not self._options.closed:
            draft.finish(key, "closed", at=line, place=place)
            return
        if row.get("pull_request") or row.get("isPullRequest"):
            draft.leave_out(key, "a pull request", at=line, place=place)
            return
        item = Item(key, text_of(row, "title"), at=line, place=place)
        if not draft.add(item):
            return
        item.group_if_parent = True
        if state not in ("open", "closed"):
            draft.hold(item, f"it has the unknown state {quoted(row.get('state'))}")
        self._hold(item, row)
        parent = row.get("parent") or row.get("parent_issue_url")
        if parent is not None:
            item.parent = self.name_of(parent)
            if item.parent is None:
                draft.fault(line, place, f"{key}: its parent is {quoted(parent)}, which is no issue", "its parent")
        self._blockers(item, row)
        if self._options.guess:
            self._guess(item, text_of(row, "body"))

    def _hold(self, item: Item, row: Row) -> None:
        """Labels and assignees that say that it is not to be taken."""
        for label in _labels(row):
            match = _PRIORITY.fullmatch(label)
            if match:
                item.priority = PRIORITIES[(match[1] or match[2]).lower()]
            if label.lower() in HELD_LABELS:
                self._draft.hold(item, f"labelled {label!r}")
        people = [text_of(who, "login") for who in row.get("assignees") or () if isinstance(who, dict)]
        if people and self._options.keep_holders:
            self._draft.hold(item, f"assigned to {', '.join(people)}")

    def _blockers(self, item: Item, row: Row) -> None:
        listed = [*_listed(row, "blockedBy", "blocked_by")]
        for blocker in listed:
            on = self.name_of(blocker)
            if on is None:
                text = f"{item.key}: it is blocked by {quoted(blocker)}, which is no issue"
                self._draft.fault(item.at, item.place, text, "that, but held")
                self._draft.hold(item, "what blocks it could not be read")
            else:
                finished = _state_of(blocker) == "closed"
                item.deps.append(Dependency(on, "is blocked by", finished=finished))
        summary = row.get("issue_dependencies_summary")
        count = summary.get("blocked_by") if isinstance(summary, dict) else None
        total = _total(row, "blockedBy", "blocked_by")
        if isinstance(count, int) and count > 0 and not listed:
            self._draft.hold(item, f"blocked by {count} issues that the file does not name")
        elif total is not None and total > len(listed):
            self._draft.hold(item, f"blocked by {total - len(listed)} more issues that the file does not name")

    def _guess(self, item: Item, body: str) -> None:
        for match in _BLOCKED_TEXT.finditer(body):
            for number in re.findall(r"\d+", match[1]):
                on = self._names.of(self._repository, int(number))
                item.deps.append(Dependency(on, "says that it is blocked by", finished=False))

    def name_of(self, issue: Any) -> str | None:
        """Return the name of an issue that is given by number, by address, or as an object with one of them."""
        if isinstance(issue, int) and not isinstance(issue, bool):
            return self._names.of(self._repository, issue)
        if isinstance(issue, str):
            match = _URL.search(issue)
            if match:
                return self._names.of(match[1], int(match[2]))
            digits = issue.removeprefix("#")
            return self._names.of(self._repository, int(digits)) if digits.isascii() and digits.isdigit() else None
        if isinstance(issue, dict) and isinstance(issue.get("number"), int):
            return self._names.of(_repository(issue) or self._repository, issue["number"])
        return None


def _reverse(draft: Draft, names: _Names, rows: list[tuple[int, Row, str]], *, guess: bool) -> None:
    """Take what is said from the other end: an issue lists its sub-issues, or what it is blocking."""
    for line, row, repository in rows:
        reader = _Reader(draft, Options(), names, repository)
        key = names.of(repository, row["number"])
        for child in _listed(row, "subIssues", "sub_issues"):
            item = draft.items.get(reader.name_of(child) or "")
            if item is not None and item.parent in (None, key):
                item.parent = key
            elif item is not None:
                text = f"{item.key} is a sub-issue of {key}, but its parent is {item.parent} already"
                draft.fault(line, f"line {line}", text, "the second parent")
        for other in _listed(row, "blocking"):
            item = draft.items.get(reader.name_of(other) or "")
            if item is not None and all(dep.on != key for dep in item.deps):
                item.deps.append(Dependency(key, "is blocked by"))
        for number in _TASK_TEXT.findall(text_of(row, "body")) if guess else ():
            item = draft.items.get(names.of(repository, int(number)))
            if item is not None and item.parent is None and item.key != key:
                item.parent = key


def _edges(row: Row) -> Row:
    return {name: row[name] for name in ("subIssues", "sub_issues", "blocking") if name in row}


def _state(row: Row) -> str:
    state = row.get("state", "closed" if row.get("closed") is True else "open")
    return state.lower() if isinstance(state, str) else quoted(state)


def _state_of(issue: Any) -> str | None:
    return _state(issue) if isinstance(issue, dict) and ("state" in issue or "closed" in issue) else None


def _repository(row: Row) -> str:
    """Return the repository that a row is of, or the empty text if the row names none."""
    for name in ("html_url", "url"):
        match = _URL.search(text_of(row, name))
        if match:
            return match[1]
    match = _REPOSITORY.search(text_of(row, "repository_url"))
    repository = row.get("repository")
    if isinstance(repository, dict):
        return text_of(repository, "nameWithOwner") or text_of(repository, "full_name")
    return match[1] if match else ""


def _labels(row: Row) -> Iterator[str]:
    labels = row.get("labels") or ()
    for label in labels.get("nodes") or () if isinstance(labels, dict) else labels if isinstance(labels, list) else ():
        yield text_of(label, "name") if isinstance(label, dict) else str(label)


def _listed(row: Row, *names: str) -> Iterator[Any]:
    """Yield the issues of a field, in a list or in the `nodes` of an object."""
    for name in names:
        value = row.get(name)
        if isinstance(value, dict):
            value = value.get("nodes")
        if isinstance(value, list):
            yield from value


def _total(row: Row, *names: str) -> int | None:
    for name in names:
        value = row.get(name)
        if isinstance(value, dict) and isinstance(value.get("totalCount"), int):
            return int(value["totalCount"])
    return None
