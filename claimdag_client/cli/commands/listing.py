"""The command list: nodes by what they are, from the daemon or from its files."""

from __future__ import annotations

from claimdag_client.cli.command import Command
from claimdag_client.cli.render.text import clean
from claimdag_client.cli.session import DONE, Failed, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import Any


def _list(args: Namespace, session: Session) -> int:
    nodes = _offline(args, session) if args.offline else _online(args, session)
    for name in ("kind", "role"):
        wanted = getattr(args, name)
        if wanted is not None:
            nodes = [node for node in nodes if node[name] == wanted]
    if args.since is not None:
        nodes = [node for node in nodes if node["updated_at"] >= args.since]
    if args.match is not None:
        nodes = [node for node in nodes if _matches(node, args.match.casefold())]
    if args.sort is not None:
        nodes.sort(key=_sort_key(args.sort))
    _show(nodes[: args.limit], args, session)
    return DONE


def _matches(node: dict[str, Any], text: str) -> bool:
    return any(text in str(node.get(name) or "").casefold() for name in ("summary", "id", "assignee"))


def _sort_key(name: str) -> Callable[[dict[str, Any]], Any]:
    """Return a key that puts numbers in order from the largest, words from the first, and what is absent last."""
    if name == "id":
        return lambda node: int(node["id"].rpartition("-")[2])
    if name in ("status", "assignee"):
        return lambda node: (node.get(name) is None, node.get(name) or "")
    return lambda node: (node.get(name) is None, -(node.get(name) or 0))


def _show(nodes: list[dict[str, Any]], args: Namespace, session: Session) -> None:
    form = "ids" if args.quiet else "jsonl" if args.json else args.output
    if form == "json":
        session.say_json(nodes)
    elif form == "jsonl":
        for node in nodes:
            session.say_json(node)
    elif form == "ids":
        session.say_all(clean(node["id"]) for node in nodes)
    else:
        from claimdag_client.cli.render.node import lines, table

        session.say_rows(table(nodes, args.columns, session.paint) if args.columns else lines(nodes, session.paint))


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
            "kind": "only those of this kind", "node_role": "only those for this role", "match": "",
            "since": "", "sort": "", "limit": "", "columns": "", "output": "", "quiet": "", "json": "", "offline": "",
        },
        about="List nodes, newest first: the unfinished ones, unless others are asked for.",
        examples=(
            "claimdag list",
            "claimdag list --all --json",
            "claimdag list --match parser --sort priority --columns id,status,priority,summary",
            "claimdag list --all --since 2h",
            "claimdag list --offline",
        ),
    ),
}  # fmt: skip
