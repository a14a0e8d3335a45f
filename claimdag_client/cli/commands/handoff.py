"""Verbs init and hook: the hand-off of a project to agents, and what their hosts call back."""

from __future__ import annotations

import sys

from claimdag_client.cli import streams
from claimdag_client.cli.command import Command
from claimdag_client.cli.render.text import clean
from claimdag_client.cli.session import DONE, REFUSED, Failed, Session, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from claimdag_client.handoff.files import Plan

#: Claude Code shows its model what a hook wrote to stderr, and goes on, if the hook exits with this.
WARN = 2


def _hosts(named: str | None, *, remove: bool) -> tuple[str, ...]:
    from claimdag_client.handoff.hosts import DEFAULT, HOSTS

    if named is None:
        return tuple(HOSTS) if remove else DEFAULT
    hosts = tuple(part.strip() for part in named.split(",") if part.strip())
    unknown = [host for host in hosts if host not in HOSTS]
    if unknown or not hosts:
        raise UsageError(f"--for {named}: it takes {', '.join(HOSTS)}, several with commas")
    return hosts


def _init(args: argparse.Namespace, session: Session) -> int:
    if args.remove and args.graph_name:
        raise UsageError("--remove takes no NAME: it undoes what is in this directory")
    if args.graph_name or not (args.agents or args.remove):
        _bind(args.graph_name, session)
    if args.remove:
        _unbind(session)
    if not (args.agents or args.remove):
        return DONE
    from pathlib import Path

    from claimdag_client.handoff.files import Plan
    from claimdag_client.handoff.hosts import edits_of

    plan = Plan.made(Path.cwd(), edits_of(_hosts(args.hosts, remove=bool(args.remove))), remove=bool(args.remove))
    for fault in plan.faults:
        session.note(clean(fault))
    shown = [clean(line) for line in plan.shown()]
    if not shown:
        session.say("nothing to do: it is as it should be" if not plan.faults else "nothing to do beside that")
        return REFUSED if plan.faults else DONE
    for line in shown:
        session.say(line)
    if not args.yes and not _agreed(session):
        return REFUSED
    _write(plan, session)
    return REFUSED if plan.faults else DONE


def _bind(name: str | None, session: Session) -> None:
    """Bind the project in this directory to a graph, by its own name if none is given."""
    import os

    from claimdag_client.cli.projects import bind_project, proposed_name
    from claimdagd.paths import PROJECT_FILE, UnsafePathError

    here = os.getcwd()
    name = name or proposed_name(here)
    if name is None:
        raise UsageError("the name of this directory is none for a graph: give one, as in claimdag init NAME")
    try:
        written = bind_project(here, name)
    except FileExistsError:
        remedy = "change the name in it, or remove it: claimdag init --remove"
        raise Failed(f"{PROJECT_FILE} names another graph", remedy=remedy) from None
    except UnsafePathError as exc:
        raise Failed(f"{exc.path}: {exc.reason}", remedy=exc.remedy) from None
    if written:
        session.say(f"wrote {PROJECT_FILE}: claimdag uses graph {name} in {clean(here)} and below")
    else:
        session.say(f"{PROJECT_FILE} says so already: graph {name}")


def _unbind(session: Session) -> None:
    import os

    from claimdag_client.cli.projects import unbind_project

    name = unbind_project(os.getcwd())
    if name:
        session.say(f"removed .claimdag.toml: graph {name} stays, and claimdag --graph {name} reaches it")


def _agreed(session: Session) -> bool:
    """Ask the person at the terminal, and say whether the answer is yes. Without a terminal nothing is written."""
    if not (sys.stdin and sys.stdin.isatty()):
        session.note("nothing is written yet: --yes writes it")
        return False
    streams.tell("write this? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _write(plan: Plan, session: Session) -> None:
    try:
        for line in plan.write():
            session.say(clean(line))
    except OSError as exc:
        raise Failed(f"{exc.filename}: {exc.strerror}", remedy="run it again: what is written already stays") from None


def _hook(args: argparse.Namespace, session: Session) -> int:
    from claimdag_client.handoff.holders import actors_of_this_host

    actors = actors_of_this_host(session.place.socket)
    held = [node for actor in actors for node in session.ask("list", assignee=actor)["nodes"]]
    held = [node for node in held if node["status"] in ("claimed", "running")]
    if args.event == "compact":
        for node in held:
            session.say(f"You hold {node['id']} at generation {node['gen']}: {clean(node['summary'])}")
        return DONE
    if not held or _stopped_before():
        return DONE
    for node in held:
        streams.tell(
            f"You still hold {node['id']} at generation {node['gen']} ({clean(node['summary'])}). "
            "Complete it, fail it with the reason, or release it.\n"
        )
    return WARN


def _stopped_before() -> bool:
    """Say whether the host stops again because of this hook: then it may."""
    import json

    if sys.stdin is None or sys.stdin.isatty():
        return False
    try:
        told = json.loads(sys.stdin.read() or "{}")
    except ValueError:
        return False
    return isinstance(told, dict) and bool(told.get("stop_hook_active"))


COMMANDS = {
    "init": Command(
        run=_init,
        flags={"graph_name": "", "agents": "", "hosts": "", "remove": "", "yes": ""},
        about="Prepare the project in this directory: bind it, with all below, to a graph of its own, by a"
        " .claimdag.toml. --agents shows, asks, and then writes between marks what each"
        " agent host reads; every other byte of those files stays. --remove takes exactly that back.",
        examples=(
            "claimdag init",
            "claimdag init website",
            "claimdag init --agents",
            "claimdag init --agents --for claude,cursor --yes",
            "claimdag init --remove",
        ),
        starts=False,
    ),
    "hook": Command(
        run=_hook,
        flags={"event": ""},
        needs=("event",),
        about="For agent hosts: stop warns, with exit status 2, while this host's agent still holds a node; compact"
        " prints what it holds, to be put in front after a context was compacted.",
        examples=("claimdag hook stop", "claimdag hook compact"),
        starts=False,
    ),
}
