"""Reads check lists in Markdown (`- [ ]`), as people and spec kits write them: nesting, numbers, phases, [P].

A heading over open boxes becomes a goal, and so does a box with open boxes under it. Phases follow each other. Once a
list marks boxes with [P], a numbered box without it waits for those before it in its phase.
"""

from __future__ import annotations

import re

from claimdag_client.importers.interface import Dependency, Draft, Item, Options
from claimdag_client.importers.json_records import lines_of
from claimdag_client.importers.resolve import plain_summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BOX = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+\[(.)\](?:[ \t]+(.*))?$")
_EMPTY_BOX = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+\[\][ \t]")
_BULLET = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+(.*)$")
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*$")
_FENCE = re.compile(r"(`{3,}|~{3,})")
_PHASE = re.compile(r"phase\b", re.IGNORECASE)
_PARALLEL = re.compile(r"\[P\][ \t]*")
#: T012, T-12, AB12a, 1.2, 3. - a number with a point in it, or letters before it.
_NUMBER = re.compile(r"(?:\*\*)?([A-Z]{1,8}-?\d{1,6}[a-z]?|\d+(?:\.\d+)+|\d+(?=\.))\.?(?:\*\*)?:?(?=[ \t]|$)[ \t]*")
_WORDS = r"(?:depends on|depend on|blocked by|requires|dependencies:|dependency:|after)"
_ID = r"\b(?:[A-Z]{1,8}-?\d{1,6}[a-z]?|\d+(?:\.\d+)+)\b"
_DEPENDS = re.compile(rf"(?i:{_WORDS})[*: \t]*({_ID}(?:[ \t]*(?:,|and|&|/|-|\u2013|to)?[ \t]*{_ID})*)")
_RANGE = re.compile(rf"({_ID})[ \t]*(?:-|\u2013|to)[ \t]*({_ID})|({_ID})")
_DIGITS = re.compile(r"(\D*)(\d+)$")
_OWN = re.compile(r"[A-Z]{1,8}-?\d{1,6}[a-z]?")
DONE = "xX"


class TasksImporter:
    """The importer of this source."""

    name = "tasks"
    about = "a check list in Markdown: tasks.md of a spec kit, or any list of - [ ] boxes"

    def looks_like(self, name: str, head: bytes) -> bool:
        """Whether it is Markdown by its name or has a box in it."""
        return name.lower().endswith((".md", ".markdown")) or bool(re.search(rb"^\s*[-*+] \[[ xX]\] ", head, re.M))

    def read(self, pieces: Iterable[bytes], options: Options) -> Draft:
        """Read a check list."""
        reader = _Reader(options)
        for number, line in enumerate(lines_of(pieces), 1):
            options.tick()
            try:
                reader.line(number, line.decode().rstrip("\r"))
            except UnicodeDecodeError:
                reader.draft.fault(number, f"line {number}", "it is not UTF-8", "the line")
        return reader.finish()


class _Box:
    """A box: its line, how far it is indented, its mark, and what it turned out to be."""

    __slots__ = ("children", "item", "mark", "number", "parallel", "width")

    def __init__(self, number: int, width: int, mark: str, item: Item, parallel: bool) -> None:
        self.number = number
        self.width = width
        self.mark = mark
        self.item = item
        self.parallel = parallel
        self.children: list[_Box] = []


class _Section:
    """A heading and the boxes under it that are in no other box."""

    def __init__(self, level: int, title: str, number: int, above: _Section | None) -> None:
        self.level = level
        self.title = title
        self.number = number
        self.above = above
        self.boxes: list[_Box] = []
        self.below: list[_Section] = []


class _Reader:
    """Takes the lines one by one; `finish` makes the draft of them."""

    def __init__(self, options: Options) -> None:
        self.draft = Draft()
        self._options = options
        self._root = self._section = _Section(0, "", 0, None)
        self._stack: list[_Box] = []
        self._list_width: int | None = None
        self._fence = ""
        self._comment = False
        self._blank = True
        self._uses_parallel = False
        self._keys: dict[str, int] = {}

    def line(self, number: int, line: str) -> None:
        """Take one line."""
        text = line.expandtabs(4)
        width = len(text) - len(text.lstrip())
        text = text.strip()
        if self._passed_over(text):
            return
        if not text:
            self._blank = True
            return
        heading = _HEADING.match(text) if width < 4 else None
        if heading:
            self._open_section(number, len(heading[1]), heading[2])
        elif not (width >= 4 and self._list_width is None):  # else: indented code
            self._item(number, width, text)
        self._blank = False

    def _passed_over(self, text: str) -> bool:
        """Whether the line is of a fenced block or a comment, or begins or ends one."""
        if self._comment:
            self._comment = "-->" not in text
            return True
        fence = _FENCE.match(text)
        if self._fence:
            if fence and fence[1].startswith(self._fence) and not text.strip(fence[1][0]).strip():
                self._fence = ""
            return True
        if fence:
            self._fence = fence[1]
            return True
        if text.startswith("<!--"):
            self._comment = "-->" not in text
            return True
        return False

    def _open_section(self, number: int, level: int, title: str) -> None:
        above: _Section | None = self._section
        while above is not None and above.level >= level:
            above = above.above
        self._section = _Section(level, title, number, above)
        (above or self._root).below.append(self._section)
        self._stack.clear()
        self._list_width = None

    def _item(self, number: int, width: int, text: str) -> None:
        bullet = _BULLET.match(text)
        if bullet is None:
            if self._blank and width == 0:
                self._stack.clear()
                self._list_width = None
            elif self._stack and width > self._stack[-1].width:
                self._depend(self._stack[-1].item, text)
            return
        self._list_width = width
        while self._stack and self._stack[-1].width >= width:
            self._stack.pop()
        box = _BOX.match(text)
        if box:
            self._box(number, width, box[1], box[2] or "")
        elif _EMPTY_BOX.match(text):
            self.draft.fault(number, f"line {number}", "[] is no box: an open one is written [ ]", "the line")
        elif self._stack:
            self._depend(self._stack[-1].item, bullet[1])

    def _box(self, number: int, width: int, mark: str, text: str) -> None:
        parallel = bool(_PARALLEL.search(text))
        self._uses_parallel |= parallel
        title = _PARALLEL.sub("", text).strip()
        key, title = self._key_of(title)
        item = Item(key or title, title, at=number, place=f"line {number}")
        item.shown = key is not None
        if not item.key:
            self.draft.fault(number, item.place, "the box has no text", "the line")
            return
        if key is None:
            item.key = self._unique(title)
        self._depend(item, title)
        box = _Box(number, width, mark, item, parallel)
        (self._stack[-1].children if self._stack else self._section.boxes).append(box)
        self._stack.append(box)

    def _key_of(self, text: str) -> tuple[str | None, str]:
        """Return the number that the text of a box begins with, or None, and the rest of the text."""
        match = _NUMBER.match(text)
        return (match[1], text[match.end() :]) if match else (None, text)

    def _unique(self, title: str) -> str:
        """Return a key for a box without a number: its text, with a count from the second one on."""
        count = self._keys[title] = self._keys.get(title, 0) + 1
        return title if count == 1 else f"{title} ({count})"

    def _depend(self, item: Item, text: str) -> None:
        known = {dep.on for dep in item.deps}
        for match in _DEPENDS.finditer(text):
            for on in _ids_in(match[1]):
                if on not in known:
                    known.add(on)
                    item.deps.append(Dependency(on))

    # ------------------------------------------------------------------------------------------------- the draft

    def finish(self) -> Draft:
        """Make the draft of all that was read."""
        self.draft.owns = lambda word: bool(_OWN.fullmatch(word))
        self._drop_words_that_are_no_ids()
        sections = [section for section in _walk(self._root) if section is not self._root]
        titles = [section for section in sections if section.level == 1 and (section.boxes or section.below)]
        goals: dict[int, Item] = {}
        for section in [self._root, *sections]:
            # One title over everything is the name of the document, not of a part of it.
            is_title = section is self._root or (section.level == 1 and len(titles) == 1)
            open_below = any(box.mark not in DONE or self._options.closed for box in _all_boxes(section))
            parent = self._goal_above(section, goals)
            if not is_title and open_below:
                goals[section.number] = self._goal(section, parent)
            self._take(section.boxes, goals.get(section.number, parent))
        self._order_phases(sections, goals)
        self.draft.items = dict(sorted(self.draft.items.items(), key=lambda pair: pair[1].at))
        return self.draft

    def _drop_words_that_are_no_ids(self) -> None:
        """Drop dependencies in a form that no box is numbered with: `requires S3` names no box."""
        boxes = [*_all_boxes(self._root)]
        forms = {_form(box.item.key) for box in boxes if box.item.shown}
        for box in boxes:
            box.item.deps = [dep for dep in box.item.deps if _form(dep.on) in forms]

    def _goal_above(self, section: _Section, goals: dict[int, Item]) -> Item | None:
        above = section.above
        while above is not None and above.number not in goals:
            above = above.above
        return None if above is None else goals[above.number]

    def _goal(self, section: _Section, parent: Item | None) -> Item:
        item = Item(self._unique(section.title), section.title, at=section.number, place=f"line {section.number}")
        item.shown = False
        item.kind = "goal"
        item.parent = None if parent is None else parent.key
        self.draft.add(item)
        return item

    def _take(self, boxes: list[_Box], parent: Item | None) -> None:
        """Add the boxes of one list and all below them, parents first."""
        todo = [(boxes, parent)]
        while todo:
            level, above = todo.pop()
            self._order(level)
            for box in level:
                item = box.item
                item.parent = None if above is None else above.key
                if box.mark in DONE and not self._options.closed:
                    title = None if item.shown else item.title
                    self.draft.finish(item.key, "done", at=item.at, place=item.place, title=title)
                    if item.shown:
                        self.draft.summaries[item.key] = plain_summary(item)
                    todo.append((box.children, above))
                    continue
                item.group_if_parent = True
                if not box.mark.isspace() and box.mark not in DONE:
                    self.draft.hold(item, f"marked [{box.mark}]")
                if self.draft.add(item):
                    todo.append((box.children, item))
                else:
                    todo.append((box.children, above))

    def _order(self, boxes: list[_Box]) -> None:
        """Let a numbered box without [P] wait for those before it, and what follows it wait for it."""
        if not self._uses_parallel:
            return
        barrier: list[_Box] = []
        since: list[_Box] = []
        for box in boxes:
            if not box.item.shown or (box.mark in DONE and not self._options.closed):
                continue
            waits_on = barrier if box.parallel else (since or barrier)
            known = {dep.on for dep in box.item.deps}
            keys = [other.item.key for other in waits_on if other.item.key not in known]
            box.item.deps += [Dependency(key, "comes after") for key in keys]
            if box.parallel:
                since.append(box)
            else:
                barrier, since = [box], []

    def _order_phases(self, sections: list[_Section], goals: dict[int, Item]) -> None:
        before: dict[tuple[int, int], Item] = {}
        for section in sections:
            goal = goals.get(section.number)
            if goal is None or not _PHASE.match(section.title):
                continue
            level = (section.above.number if section.above else 0, section.level)
            if level in before:
                goal.deps.append(Dependency(before[level].key, "comes after"))
            before[level] = goal


def _walk(section: _Section) -> Iterator[_Section]:
    """Yield a section and all below it, in the order of the file."""
    stack = [section]
    while stack:
        at = stack.pop()
        yield at
        stack += reversed(at.below)


def _all_boxes(section: _Section) -> Iterator[_Box]:
    for at in _walk(section):
        stack = list(at.boxes)
        while stack:
            box = stack.pop()
            yield box
            stack += box.children


def _form(key: str) -> str:
    """Return the letters of a number, or a point for one without."""
    match = _DIGITS.match(key.rstrip("abcdefghijklmnopqrstuvwxyz"))
    return match[1] if match and match[1].rstrip("-").isalpha() else "."


def _ids_in(text: str) -> Iterator[str]:
    """Yield the ids of a list such as `T001, T003-T005`."""
    for match in _RANGE.finditer(text):
        first, last, one = match.groups()
        ends = [_DIGITS.match(end) for end in (first, last)] if first else []
        if one or not all(ends) or ends[0][1] != ends[1][1]:  # type: ignore[index]
            yield from filter(None, (one, first, last))
            continue
        low, high = int(ends[0][2]), int(ends[1][2])  # type: ignore[index]
        width = len(ends[0][2])  # type: ignore[index]
        for number in range(low, min(high, low + 1000) + 1):
            yield f"{ends[0][1]}{number:0{width}}"  # type: ignore[index]
