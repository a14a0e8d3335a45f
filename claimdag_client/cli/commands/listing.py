"""The command list: nodes by what they are, from the daemon or from its files."""

from __future__ import annotations

from claimdag_client.cli.command import Command, fields_of
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


def _online(args: Namespace, session: Session) -> list[dict[str, Any]]:
    fields = fields_of(COMMANDS["list"], args, session)
    nodes: list[dict[str, Any]] = session.ask(
        "list", **{name: value for name, value in fields.items() if name not in ("kind", "role")}
    )["nodes"]
    return nodes


def _offline(args: Namespace, session: Session) -> list[dict[str, Any]]:
    from claimdag_client.cli.offline import Unreadable, read

    try:
        state = read(session.place)
    except Unreadable as exc:
        raise Failed(str(exc), remedy=exc.remedy) from None
    session.note(f"from {clean(state.directory)}, without a daemon: {clean(state.age)}")
    for line in state.notes:
        session.note(clean(line))
    return state.select(
        terminal=bool(args.terminal),
        archived=bool(args.archived),
        every=bool(args.all),
        status=args.status,
        under=args.under,
        assignee=args.assignee,
    )


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
