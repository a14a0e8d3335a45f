"""The command list: nodes by what they are, from the daemon or from its files."""

from __future__ import annotations

from claimdag_client.cli.command import Command
from claimdag_client.cli.render.text import clean
from claimdag_client.cli.session import DONE, Failed, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any


def _list(args: Namespace, session: Session) -> int:
    nodes = _offline(args, session) if args.offline else _online(args, session)
    for name in ("kind", "role"):
        wanted = getattr(args, name)
        if wanted is not None:
            nodes = [node for node in nodes if node[name] == wanted]
    nodes = nodes[: args.limit]
    if args.json:
        for node in nodes:
            session.say_json(node)
        return DONE
    from claimdag_client.cli.render.node import lines

    session.say_all(lines(nodes, session.paint))
    return DONE


def _asked(args: Namespace) -> dict[str, Any]:
    """Return the fields of the request `list`."""
    names = ("terminal", "archived", "all", "status", "under", "assignee")
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def _online(args: Namespace, session: Session) -> list[dict[str, Any]]:
    asked = _asked(args)
    if "under" in asked:
        asked["under"] = session.node_id(asked["under"])
    nodes: list[dict[str, Any]] = session.ask("list", **asked)["nodes"]
    return nodes


def _offline(args: Namespace, session: Session) -> list[dict[str, Any]]:
    from claimdag_client.cli.offline import Unreadable, read

    try:
        state = read(session.place)
        nodes = state.select(_asked(args))
    except Unreadable as exc:
        raise Failed(str(exc), remedy=exc.remedy) from None
    session.note(f"from {clean(state.directory)}, without a daemon: {clean(state.age)}")
    for line in state.notes:
        session.note(clean(line))
    return nodes


COMMANDS = {
    "list": Command(
        run=_list,
        flags={
            "terminal": "", "archived": "", "all": "", "status": "", "under": "", "assignee": "",
            "kind": "only those of this kind", "node_role": "only those for this role", "limit": "", "offline": "",
            "json": "",
        },
        about="List nodes, newest first: the unfinished ones, unless others are asked for.",
        examples=("claimdag list", "claimdag list --all --json", "claimdag list --offline"),
    ),
}  # fmt: skip
