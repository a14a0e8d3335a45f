"""The verb status: one screen that says who holds what, what is ready, what waits on what, and what is in use."""

from __future__ import annotations

from claimdag_client.cli.command import Command
from claimdag_client.cli.render.answers import deadlock_text
from claimdag_client.cli.render.answers import resources as resource_lines
from claimdag_client.cli.render.node import sign, waits_for
from claimdag_client.cli.render.text import clean, cut, duration, pad, paused_text, size_of_terminal, some
from claimdag_client.cli.session import DONE, Session
from claimdagd.limits import GROUPS, LIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from claimdag_client.cli.render.text import Paint

    View = Mapping[str, Any]

#: What a section shows of its lines at least, however low the terminal is.
LEAST_SHOWN = 4


class _Section:
    """A title, its lines each with the status whose sign stands before it, and the verb that shows all of them."""

    def __init__(self, title: str, rows: Iterable[tuple[str, str]], more: str, *colours: str) -> None:
        self.title = title
        self.rows = list(rows)
        self.more = more
        self.colours = colours

    @classmethod
    def of(cls, title: str, nodes: Iterable[View], line: Callable[[View], str], more: str) -> _Section:
        return cls(title, ((node["status"], line(node)) for node in nodes), more)


class _Answers:
    """What the daemon said, sorted into what the screen shows."""

    def __init__(self, session: Session) -> None:
        self.nodes: list[View] = session.ask("list")["nodes"]
        self.ready: list[View] = session.ask("ready")["nodes"]
        self.resources: list[View] = session.ask("resources")["resources"]
        self.stats: View = session.ask("stats")
        any_failed = (self.stats.get("statuses") or {}).get("failed")
        self.failed: list[View] = session.ask("list", status="failed")["nodes"] if any_failed else []
        self.held = list(filter(_is_held, self.nodes))
        self.waiting = [node for node in self.nodes if node["status"] == "todo" and node["kind"] not in GROUPS]
        self.blocked = [node for node in self.nodes if node["status"] == "blocked"]
        self.completing = [node for node in self.nodes if node["status"] == "completing"]
        self.groups = [node for node in self.nodes if node["kind"] in GROUPS and node["status"] != "blocked"]

    def for_programs(self) -> dict[str, Any]:
        """Return all of it under the names that programs know."""
        names = ("stats", "held", "ready", "waiting", "blocked", "completing", "groups", "failed", "resources")
        return {name: getattr(self, name) for name in names}


def _status(args: argparse.Namespace, session: Session) -> int:
    answers = _Answers(session)
    if args.json:
        session.say_json(answers.for_programs())
    else:
        session.say_rows(_screen(answers, session, everything=bool(args.all)))
    return DONE


def _screen(answers: _Answers, session: Session, *, everything: bool) -> Iterable[str]:
    paint = session.paint
    yield _headline(answers.stats, session)
    if counts := _counts(answers.stats):
        yield counts
    sections = [section for section in _sections(answers, paint) if section.rows]
    rooms = _rooms([len(section.rows) for section in sections], everything=everything)
    for section, room in zip(sections, rooms, strict=True):
        yield ""
        yield paint(f"{section.title} ({len(section.rows)})", "bold", *section.colours)
        for status, line in section.rows[:room]:
            mark = f"{sign(status, paint)} " if status else ""
            limit = None if paint.columns is None else paint.columns - (4 if mark else 2)
            yield f"  {mark}{cut(line, limit, unicode=paint.unicode)}"
        if len(section.rows) > room:
            yield paint(f"  and {len(section.rows) - room} more: {section.more}", "dim")
    if not answers.nodes:
        yield ""
        yield 'Nothing to do. Make work with: claimdag add "...", submit FILE or import FILE'


def _sections(answers: _Answers, paint: Paint) -> list[_Section]:
    """Return the sections in the order of the screen: the most urgent and the longest waiting first."""
    held = sorted(answers.held, key=lambda node: -(node.get("quiet") or 0))
    waiting = sorted(answers.waiting, key=lambda node: (-node.get("priority", 0), -node.get("depth", 0)))
    holders = {node["id"]: node["assignee"] for node in held}
    deadlocks = (("", clean(deadlock_text(deadlock))) for deadlock in answers.stats.get("deadlocks") or ())
    in_use = [resource for resource in answers.resources if resource.get("used") or resource.get("waiting")]
    paused = bool(answers.stats.get("paused"))
    resources = (("", line) for line in resource_lines({"resources": in_use}, paint))
    return [
        _Section("Deadlocks", deadlocks, "claimdag stats", "red"),
        _Section.of("Held", held, _held_line, "claimdag list"),
        _Section.of("Ready", answers.ready, lambda node: _ready_line(node, paused), "claimdag ready"),
        _Section.of("Waiting", waiting, lambda node: _waiting_line(node, holders), "claimdag list --status todo"),
        _Section.of("Blocked by hand", answers.blocked, _plain_line, "claimdag list --status blocked"),
        _Section.of("Ending", answers.completing, _plain_line, "claimdag list --status completing"),
        _Section.of("Groups", answers.groups, _plain_line, "claimdag tree"),
        _Section.of("Failed", answers.failed, _failed_line, "claimdag list --status failed"),
        _Section("Resources", resources, "claimdag resources"),
    ]


def _is_held(node: View) -> bool:
    """Say whether a node is held. A group is never held: it is running while a node under it is."""
    return node["status"] in LIVE and node["kind"] not in GROUPS


def _headline(stats: View, session: Session) -> str:
    words = [session.paint(f"claimdagd {clean(stats.get('version', ''))}", "bold")]
    words.append(f"graph {clean(session.connection.graph_told)}")
    if "uptime" in stats:
        words.append(f"up {duration(stats['uptime'])}")
    if paused := paused_text(stats.get("paused") or ()):
        words.append(session.paint(paused, "bold", "yellow"))
    words.append(clean(session.connection.path))
    return "  ".join(words)


def _counts(stats: View) -> str:
    statuses = stats.get("statuses") or {}
    return ", ".join(f"{count} {clean(status)}" for status, count in statuses.items() if count)


def _rooms(lengths: Sequence[int], *, everything: bool) -> list[int]:
    """Return how many lines each section gets so that all fit on the screen: short ones whole, long ones alike."""
    if everything:
        return list(lengths)
    # Three lines of head and prompt; each section has a blank, a title and perhaps a line of how many more.
    left = size_of_terminal()[1] - 3 - 3 * len(lengths)
    rooms = [0] * len(lengths)
    for done, index in enumerate(sorted(range(len(lengths)), key=lengths.__getitem__)):
        share = max(LEAST_SHOWN, left // (len(lengths) - done))
        rooms[index] = min(lengths[index], share)
        left -= rooms[index]
    return rooms


def _held_line(node: View) -> str:
    quiet = f"quiet {duration(node['quiet'])}" if node.get("quiet") is not None else ""
    left = f"lease ends in {duration(node['expires_in'])}" if node.get("expires_in") is not None else ""
    facts = ", ".join(fact for fact in (quiet, left) if fact)
    return f"{clean(node['id'])}  {clean(node['assignee'])}  {facts}  {clean(node.get('summary', ''))}"


def _ready_line(node: View, paused: bool) -> str:
    words = [clean(node["id"])]
    if node.get("priority"):
        words.append(f"priority {node['priority']}")
    if node.get("role") not in (None, "unset"):
        words.append(f"for {clean(node['role'])}")
    if node.get("runnable") is False:
        words.append(f"(waits {waits_for(node) or ('for a resume' if paused else 'for units kept for another')})")
    return "  ".join([*words, clean(node.get("summary", ""))])


def _waiting_line(node: View, holders: Mapping[str, str]) -> str:
    on = [dep["on"] for dep in (node.get("waiting_on") or {}).get("deps") or ()]
    named = [f"{dep} ({holders[dep]} is on it)" if dep in holders else str(dep) for dep in on]
    # What holders work on comes first: that is what moves next.
    named.sort(key=lambda name: "(" not in name)
    why = f"on {some(named, 3)}" if named else waits_for(node) or "below a group that waits"
    return f"{clean(node['id'])}  {why}  {clean(node.get('summary', ''))}"


def _failed_line(node: View) -> str:
    why = f"{clean(node['error'])}  " if node.get("error") else ""
    return f"{clean(node['id'])}  {why}{clean(node.get('summary', ''))}"


def _plain_line(node: View) -> str:
    return f"{pad(clean(node['id']), 8)}  {clean(node.get('summary', ''))}"


COMMANDS = {
    "status": Command(
        run=_status,
        flags={"all": "everything, however many screens it takes", "json": ""},
        about="Show on one screen: who holds what and how long they have been quiet, what is ready, what waits on "
        "what, resources in use, what failed, deadlocks.",
        examples=("claimdag status", "claimdag status --all", "claimdag status --json"),
    ),
}
