"""Verbs about single nodes: upsert, get, why, list, link, unlink."""

from __future__ import annotations

from claimdag_client.cli.parsing import (
    Parser,
    add_actor,
    add_json,
    add_node,
    add_once,
    dep_of,
    node_of,
    optional_node_of,
    pairs,
)
from claimdag_client.cli.render.text import clean
from claimdag_client.cli.session import DONE, Command, Failed, Session, UsageError
from claimdag_client.cli.streams import read_text
from claimdagd.limits import ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def _or_none(text: str) -> str | None:
    """An option's value, where the words none and null (and nothing) stand for null."""
    return None if text in ("", "none", "null") else text


# ------------------------------------------------------------------------------------------------------ upsert


def _upsert_options(parser: Parser) -> None:
    add_node(parser, "the node to change; without it one is created")
    parser.add_argument("--kind", metavar="KIND", help="task (default), step, or a group: goal, molecule")
    parser.add_argument("--status", metavar="STATUS", help="todo or ready (the dependencies decide), or blocked")
    parser.add_argument("--role", metavar="ROLE", help=f"who it is for: {', '.join(ROLES)}")
    parser.add_argument("--parent", metavar="ID", help="what it is part of; none takes it out")
    parser.add_argument("--summary", metavar="TEXT", help="what is to be done; - reads it from standard input")
    parser.add_argument("--cost", type=float, metavar="N", help="estimated work, in seconds or any one unit")
    parser.add_argument("--priority", type=int, metavar="N", help="-100 to 100, higher first")
    parser.add_argument("--need", action="append", metavar="R=U", help="units of a resource; repeat for several")
    parser.add_argument(
        "--dep", action="append", metavar="ID[:after_any]", help="what it waits on; repeat for several"
    )
    parser.add_argument("--no-needs", action="store_true", help="it needs no resources any more")
    parser.add_argument("--no-deps", action="store_true", help="it waits on nothing any more")
    parser.add_argument("--max-attempts", metavar="N", help="after so many expired claims it fails; none: never")
    add_actor(parser, "who says so, for the ledger")
    add_once(parser)
    add_json(parser)


def _upsert(args: argparse.Namespace, session: Session) -> int:
    node_id = optional_node_of(args, session)
    request: dict[str, Any] = {"op": "upsert"} if node_id is None else {"op": "upsert", "id": node_id}
    for name in ("kind", "status", "role", "cost", "priority", "actor", "once"):
        if getattr(args, name) is not None:
            request[name] = getattr(args, name)
    if args.summary is not None:
        request["summary"] = read_text("-").rstrip("\n") if args.summary == "-" else args.summary
    if args.parent is not None:
        parent = _or_none(args.parent)
        request["parent"] = None if parent is None else session.node_id(parent)
    if args.max_attempts is not None:
        request["max_attempts"] = _attempts(args.max_attempts)
    needs = pairs(args.need, "need")
    if needs is not None or args.no_needs:
        if needs and args.no_needs:
            raise UsageError("--need and --no-needs contradict each other")
        request["needs"] = needs or {}
    if args.dep or args.no_deps:
        if args.dep and args.no_deps:
            raise UsageError("--dep and --no-deps contradict each other")
        request["deps"] = [dep_of(dep, session.node_id) for dep in args.dep or ()]
    node = session.put(request)
    if args.json:
        session.say_json(node)
    else:
        session.say(clean(node["id"]))
    return DONE


def _attempts(text: str) -> int | None:
    named = _or_none(text)
    if named is None:
        return None
    if not named.isdigit():
        raise UsageError(f"--max-attempts {text}: it is a number, or none")
    return int(named)


# ---------------------------------------------------------------------------------------------------- get, why


def _one_node_options(parser: Parser) -> None:
    add_node(parser)
    add_json(parser)


def _get(args: argparse.Namespace, session: Session) -> int:
    node = session.ask("get", id=node_of(args, session))
    if args.json:
        session.say_json(node)
        return DONE
    from claimdag_client.cli.render.node import page

    for line in page(node, session.paint):
        session.say(line)
    return DONE


def _why(args: argparse.Namespace, session: Session) -> int:
    ok = session.ask("why", id=node_of(args, session))
    if args.json:
        session.say_json(ok)
        return DONE
    from claimdag_client.cli.render.node import coloured, sign
    from claimdag_client.cli.render.text import clean_lines

    status = ok["status"]
    head = f"{sign(status, session.paint)} {session.paint(clean(ok['id']), 'bold')}"
    session.say(f"{head}  {coloured(clean(status), status, session.paint)}")
    reasons = [str(reason["text"]) for reason in ok.get("reasons") or () if reason.get("text")]
    said = str(ok.get("text") or "").removeprefix(f"{ok['id']} is {status}: ")
    for text in reasons if len(reasons) > 1 else [said]:
        for index, line in enumerate(clean_lines(text)):
            session.say(f"  {'- ' if len(reasons) > 1 and not index else ''}{line}")
    return DONE


# -------------------------------------------------------------------------------------------------------- list


def _list_options(parser: Parser) -> None:
    parser.add_argument("--terminal", action="store_true", help="finished ones too")
    parser.add_argument("--archived", action="store_true", help="archived ones too")
    parser.add_argument("--all", action="store_true", help="finished and archived ones too")
    parser.add_argument("--status", metavar="STATUS", help="only those with this status")
    parser.add_argument("--under", "--parent", dest="under", metavar="ID", help="only what is under this node")
    parser.add_argument("--assignee", "--actor", dest="assignee", metavar="NAME", help="only what NAME holds")
    parser.add_argument("--kind", metavar="KIND", help="only those of this kind")
    parser.add_argument("--role", metavar="ROLE", help="only those for this role")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N of them")
    parser.add_argument("--offline", action="store_true", help="from the state files, without a daemon")
    add_json(parser)


def _list(args: argparse.Namespace, session: Session) -> int:
    nodes = _offline(args, session) if args.offline else _online(args, session)
    if args.kind is not None:
        nodes = [node for node in nodes if node["kind"] == args.kind]
    if args.role is not None:
        nodes = [node for node in nodes if node["role"] == args.role]
    if args.limit is not None:
        if args.limit < 1:
            raise UsageError("--limit: at least 1")
        nodes = nodes[: args.limit]
    if args.json:
        for node in nodes:
            session.say_json(node)
        return DONE
    from claimdag_client.cli.render.node import lines

    for line in lines(nodes, session.paint):
        session.say(line)
    return DONE


def _online(args: argparse.Namespace, session: Session) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = session.ask(
        "list",
        terminal=args.terminal or None,
        archived=args.archived or None,
        all=args.all or None,
        status=args.status,
        under=None if args.under is None else session.node_id(args.under),
        assignee=args.assignee,
    )["nodes"]
    return nodes


def _offline(args: argparse.Namespace, session: Session) -> list[dict[str, Any]]:
    from claimdag_client.cli.offline import Unreadable, read

    try:
        state = read(session.place)
    except Unreadable as exc:
        raise Failed(str(exc), remedy=exc.remedy) from None
    session.note(f"from {clean(state.directory)}, without a daemon: {clean(state.age)}")
    for line in state.notes:
        session.note(clean(line))
    return state.select(
        terminal=args.terminal,
        archived=args.archived,
        every=args.all,
        status=args.status,
        under=args.under,
        assignee=args.assignee,
    )


# ------------------------------------------------------------------------------------------------ link, unlink


def _edge_options(parser: Parser) -> None:
    parser.add_argument("before", metavar="BEFORE", help="what must end first")
    parser.add_argument("after", metavar="AFTER", help="what waits on it")
    parser.add_argument("--when", metavar="WHEN", help="after_ok (default): it must succeed; after_any: it must end")
    add_actor(parser, "who says so, for the ledger")
    add_once(parser)
    add_json(parser)


def _edge(args: argparse.Namespace, session: Session) -> int:
    session.named = session.node_id(args.after)
    node = session.ask(
        session.verb,
        before=session.node_id(args.before),
        after=session.named,
        when=args.when,
        actor=args.actor,
        once=args.once,
    )
    if args.json:
        session.say_json(node)
    else:
        session.say(f"{clean(node['id'])} {clean(node['status'])}")
    return DONE


VERBS = {
    "upsert": Command(
        _upsert,
        _upsert_options,
        about="Create a node, or change the fields given of one that exists. Prints its id.",
        examples=[
            'claimdag upsert --summary "write the parser" --role implementor --cost 600',
            'claimdag upsert --summary "test it" --dep 7q2f-1 --need browser=1',
            "claimdag upsert 7q2f-2 --status blocked",
        ],
    ),
    "get": Command(_get, _one_node_options, about="All of one node.", examples=["claimdag get 7q2f-1"]),
    "why": Command(
        _why,
        _one_node_options,
        about="Why a node is as it is, in words to act on.",
        examples=["claimdag why 7q2f-2"],
    ),
    "list": Command(
        _list,
        _list_options,
        about="Nodes, newest first: the unfinished ones, unless asked for others.",
        examples=["claimdag list", "claimdag list --all --json", "claimdag list --offline"],
    ),
    "link": Command(
        _edge,
        _edge_options,
        about="Let AFTER wait on BEFORE. Prints AFTER and its status.",
        examples=["claimdag link 7q2f-1 7q2f-2", "claimdag link 7q2f-1 7q2f-3 --when after_any"],
    ),
    "unlink": Command(
        _edge,
        _edge_options,
        about="Let AFTER no longer wait on BEFORE. Prints AFTER and its status.",
        examples=["claimdag unlink 7q2f-1 7q2f-2"],
    ),
}
