"""What an importer is: it is given the text of a file and gives back a Draft. No daemon, no clock, no I/O.

An importer of another package registers itself under the entry point group `claimdag.importers`. docs/importers.md
describes the interface, with an example.
"""

from __future__ import annotations

from typing import Any, Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

#: What a dependency means for the node that has it.
ORDER = "order"  # it waits until the target is done
HOLD = "hold"  # it is blocked unless the target is finished: the rule of the source cannot be said by an order
ON_FAILURE = "on-failure"  # as HOLD, but only a target that ended in failure lets it go


class Options:
    """What the caller asks of every importer; an importer may ignore what has no meaning for it."""

    def __init__(
        self,
        *,
        now: float = 0.0,
        closed: bool = False,
        keep_holders: bool = False,
        guess: bool = False,
        tag: str | None = None,
        reverse: bool = False,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        #: The wall clock, for rows that are put off to a time.
        self.now = now
        #: Whether finished rows are taken as work to do.
        self.closed = closed
        #: Whether a row that is in hand in the tracker is blocked here.
        self.keep_holders = keep_holders
        #: Whether text that was written for people is read for dependencies too.
        self.guess = guess
        #: Which of several lists in one file is taken.
        self.tag = tag
        #: Whether an arrow points at what comes first.
        self.reverse = reverse
        #: Called now and then while a long file is read.
        self.tick = tick


class Fault:
    """What is wrong at a place, and `without`: what `--skip-bad` leaves out for it. For a note: its sort."""

    __slots__ = ("at", "place", "text", "without")

    def __init__(self, at: int, place: str, text: str, without: str) -> None:
        self.at = at
        self.place = place
        self.text = text
        self.without = without

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class Dependency:
    """`word` is how the source calls it. `finished`: what the source says of a target that is not in the file."""

    __slots__ = ("finished", "on", "rule", "when", "word")

    def __init__(
        self,
        on: str,
        word: str = "depends on",
        *,
        rule: str = ORDER,
        when: str = "after_ok",
        finished: bool | None = None,
    ) -> None:
        self.on = on
        self.word = word
        self.rule = rule
        self.when = when
        self.finished = finished


class Item:
    """One row of the source that is work, or a group of it."""

    __slots__ = (
        "at", "cost", "deps", "group_if_parent", "holds", "key", "kind", "max_attempts", "needs", "parent", "place",
        "priority", "role", "shown", "title",
    )  # fmt: skip

    def __init__(self, key: str, title: str, *, at: int, place: str) -> None:
        #: The tracker's id: what other rows name it by, and what its summary opens with.
        self.key = key
        #: False if the source has no id for it: then the title alone tells it from others.
        self.shown = True
        self.title = title
        #: Its position in the file, for the order of faults, and that in words.
        self.at = at
        self.place = place
        self.kind = "task"
        #: Whether it becomes a goal once another row that is taken lies under it.
        self.group_if_parent = False
        self.role: str | None = None
        self.priority = 0
        self.cost: float | None = None
        self.needs: dict[str, int] | None = None
        self.max_attempts: int | None = None
        self.parent: str | None = None
        self.deps: list[Dependency] = []
        #: Why it is not offered, each in a few words. A row with a reason becomes a blocked node.
        self.holds: list[str] = []


class Draft:
    """What an importer found. Every row is `add`ed, or counted by `finish` or `leave_out`."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        #: Rows that are finished, with the reason; nothing waits on them.
        self.finished: dict[str, str] = {}
        #: Of those, the ones that ended in failure.
        self.failed: set[str] = set()
        #: Rows that are no work here though they are not finished, with the reason; what waits on them is held.
        self.left_out: dict[str, str] = {}
        #: The titles of finished rows that the source has no id for, by key.
        self.titles: dict[str, str] = {}
        #: The summaries of finished rows with an id, where ids of two files may be the same.
        self.summaries: dict[str, str] = {}
        self.faults: list[Fault] = []
        self.held: list[Fault] = []
        self.notes: list[Fault] = []
        #: Whether the children of work, not only of groups, wait for what that work waits for.
        self.children_wait_with_parent = False
        #: Whether a word is the id of a row of this source, for `--prune-missing`; None if that cannot be told.
        self.owns: Callable[[str], bool] | None = None
        #: How a finished row was left out is only counted; where it stands, for a second row with its id.
        self._places: dict[str, str] = {}

    def fault(self, at: int, place: str, text: str, without: str) -> None:
        """Report what is wrong at a place."""
        self.faults.append(Fault(at, place, text, without))

    def note(self, at: int, place: str, text: str, sort: str) -> None:
        """Report what is no fault, under a sort by which such notes are counted."""
        self.notes.append(Fault(at, place, text, sort))

    def hold(self, item: Item, reason: str) -> None:
        """Hold a row back, and report it."""
        if reason not in item.holds:
            item.holds.append(reason)
            self.held.append(Fault(item.at, item.place, f"{item.key} is held: {reason}", "held"))

    def add(self, item: Item) -> bool:
        """Take a row as work; False if its id is taken. Of two rows with one id neither is taken for finished."""
        if not self._is_new(item.key, item.at, item.place):
            first = self.items.setdefault(item.key, item)
            self.finished.pop(item.key, None)
            self.left_out.pop(item.key, None)
            self.hold(first, "its id is in the file twice")
            return first is item
        self.items[item.key] = item
        return True

    def finish(
        self, key: str, reason: str, *, at: int, place: str, failed: bool = False, title: str | None = None
    ) -> None:
        """Count a row as finished, `failed` if it ended badly; with its `title` if the source has no id for it."""
        if self._is_new(key, at, place):
            self.finished[key] = reason
            if title is not None:
                self.titles[key] = title
            if failed:
                self.failed.add(key)
        elif key in self.items:
            self.hold(self.items[key], "its id is in the file twice")

    def leave_out(self, key: str, reason: str, *, at: int, place: str) -> None:
        """Count a row as no work of this graph; what depends on it is held."""
        if self._is_new(key, at, place):
            self.left_out[key] = reason
        elif key in self.items:
            self.hold(self.items[key], "its id is in the file twice")
        elif key in self.finished:
            self.left_out[key] = self.finished.pop(key)

    def _is_new(self, key: str, at: int, place: str) -> bool:
        first = self._places.setdefault(key, place)
        if first is place and key not in self.items and key not in self.finished and key not in self.left_out:
            return True
        self.fault(at, place, f"{key} is on {first} already", "the second one")
        return False


class Importer(Protocol):
    """One source. `name` is what people type; `about` one line for the help."""

    name: str
    about: str

    def looks_like(self, name: str, head: bytes) -> bool:
        """Whether a file of this name that begins with `head` is one of this source."""
        ...

    def read(self, pieces: Iterable[bytes], options: Options) -> Draft:
        """Read a file, given in pieces of any size. Never raises for what is in it: the draft has the faults."""
        ...


def quoted(value: object) -> str:
    """Return a value for a message, cut to a length that can be read."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def name_of(value: object) -> str | None:
    """Return the id of a row, or None if the value is none: an id is text without blanks, or a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and 0 < len(value) <= 256 and value.isprintable() and " " not in value:
        return value
    return None


def text_of(row: Mapping[str, Any], field: str) -> str:
    """Return a field as text, of any type; empty if there is none."""
    value = row.get(field)
    return "" if value is None else value if isinstance(value, str) else str(value)
