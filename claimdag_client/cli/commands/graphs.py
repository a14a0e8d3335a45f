"""Verbs that draw: tree (who is under whom) and graph (what comes before what)."""

from __future__ import annotations

from claimdag_client.cli.parsing import Parser, add_json, add_node, optional_node_of
from claimdag_client.cli.render.graph_view import Picture
from claimdag_client.cli.render.node import coloured, remarks, sign, waits_for
from claimdag_client.cli.render.text import clean, cut, width
from claimdag_client.cli.session import DONE, Command, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


def _picture(args: argparse.Namespace, session: Session) -> Picture:
    """The nodes asked for: of one subtree all, else what is unfinished, or with --all everything."""
    top = optional_node_of(args, session)
    if top is None:
        return Picture(session.ask("list", all=args.all or None)["nodes"])
    views = [session.ask("get", id=top), *session.ask("list", under=top, all=True)["nodes"]]
    return Picture({view["id"]: view for view in views}.values())


def _options(parser: Parser) -> None:
    add_node(parser, "only this node and what is under it, finished or not")
    parser.add_argument("--all", action="store_true", help="what is finished and archived too")


# -------------------------------------------------------------------------------------------------------- tree


def _tree_options(parser: Parser) -> None:
    _options(parser)
    add_json(parser)


def _tree(args: argparse.Namespace, session: Session) -> int:
    picture = _picture(args, session)
    if args.json:
        for view in picture.nodes.values():
            session.say_json(view)
        return DONE
    for line in _tree_lines(picture, session):
        session.say(line)
    return DONE


def _tree_lines(picture: Picture, session: Session) -> Iterable[str]:
    paint = session.paint
    branch, last_branch, stem = ("├─ ", "└─ ", "│  ") if paint.unicode else ("|- ", "`- ", "|  ")
    # With a stack, for a chain of parents may be longer than Python recurses.
    stack = [(name, "", "") for name in reversed(picture.children(None))]
    while stack:
        name, before, below = stack.pop()
        view = picture.nodes[name]
        status = view["status"]
        children = picture.children(name)
        words = [clean(name), clean(status)]
        notes = remarks(view)
        if children:
            finished = sum(picture.nodes[child]["status"] in ("done", "failed", "cancelled") for child in children)
            notes.append(f"{finished} of {len(children)}")
        if waits := waits_for(view):
            notes.append(f"waits {waits}")
        noted = f"[{', '.join(notes)}]" if notes else ""
        tail = "  ".join(part for part in (clean(view.get("summary", "")), noted) if part)
        used = width(before) + 2 + width(" ".join(words)) + 2
        tail = cut(tail, None if paint.columns is None else max(10, paint.columns - used), unicode=paint.unicode)
        yield f"{before}{sign(status, paint)} {words[0]} {coloured(words[1], status, paint)}  {tail}".rstrip()
        for index, child in enumerate(reversed(children)):
            is_last = index == 0
            stack.append((child, below + (last_branch if is_last else branch), below + ("   " if is_last else stem)))


# ------------------------------------------------------------------------------------------------------- graph


def _graph_options(parser: Parser) -> None:
    _options(parser)
    parser.add_argument(
        "--format", choices=("text", "dot", "mermaid"), default="text", help="text (default), dot or mermaid"
    )


def _graph(args: argparse.Namespace, session: Session) -> int:
    picture = _picture(args, session)
    if args.format == "text":
        from claimdag_client.cli.render.layers import text

        lines = text(picture, session.paint)
    elif args.format == "dot":
        from claimdag_client.cli.render.export import dot

        lines = dot(picture)
    else:
        from claimdag_client.cli.render.export import mermaid

        lines = mermaid(picture)
    for line in lines:
        session.say(line)
    return DONE


VERBS = {
    "tree": Command(
        _tree,
        _tree_options,
        about="Nodes under their parents: what is unfinished, or all of one subtree.",
        examples=["claimdag tree", "claimdag tree 7q2f-1", "claimdag tree --all"],
    ),
    "graph": Command(
        _graph,
        _graph_options,
        about=(
            "The order of the work, the critical path marked. As text: layer below layer, with rails from each node "
            "to those that wait on it. As dot for Graphviz, or as mermaid for Markdown pages."
        ),
        examples=[
            "claimdag graph",
            "claimdag graph 7q2f-1 --format dot | dot -Tsvg > graph.svg",
            "claimdag graph --all --format mermaid",
        ],
    ),
}
