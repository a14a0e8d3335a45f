"""Verbs that draw: tree (who is under whom) and graph (what comes before what)."""

from __future__ import annotations

from claimdag_client.cli.command import Command
from claimdag_client.cli.render.graph_view import GraphView
from claimdag_client.cli.render.node import coloured, remarks, sign, waits_for
from claimdag_client.cli.render.text import clean, cut, width
from claimdag_client.cli.session import DONE, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


def _graph_view(args: argparse.Namespace, session: Session) -> GraphView:
    """Return the nodes asked for: of one subtree all, else what is unfinished, or with --all everything."""
    top = None if args.id is None else session.node_id(args.id)
    if top is None:
        return GraphView(session.ask("list", all=args.all or None)["nodes"])
    session.named = top
    views = [session.ask("get", id=top), *session.ask("list", under=top, all=True)["nodes"]]
    return GraphView({view["id"]: view for view in views}.values())


# -------------------------------------------------------------------------------------------------------- tree


def _tree(args: argparse.Namespace, session: Session) -> int:
    graph = _graph_view(args, session)
    if args.json:
        for view in graph.nodes.values():
            session.say_json(view)
        return DONE
    session.say_rows(_tree_lines(graph, session))
    return DONE


def _tree_lines(graph: GraphView, session: Session) -> Iterable[str]:
    paint = session.paint
    branch, last_branch, stem = ("├─ ", "└─ ", "│  ") if paint.unicode else ("|- ", "`- ", "|  ")
    # With a stack, for a chain of parents may be longer than Python recurses.
    stack = [(name, "", "") for name in reversed(graph.children(None))]
    while stack:
        name, before, below = stack.pop()
        view = graph.nodes[name]
        status = view["status"]
        children = graph.children(name)
        words = [clean(name), clean(status)]
        notes = remarks(view)
        if children:
            finished = sum(graph.nodes[child]["status"] in ("done", "failed", "cancelled") for child in children)
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


def _graph(args: argparse.Namespace, session: Session) -> int:
    graph = _graph_view(args, session)
    if args.format == "text":
        from claimdag_client.cli.render.layers import text

        session.say_rows(text(graph, session.paint))
        return DONE
    if args.format == "dot":
        from claimdag_client.cli.render.export import dot

        lines = dot(graph)
    else:
        from claimdag_client.cli.render.export import mermaid

        lines = mermaid(graph)
    session.say_all(lines)
    return DONE


_WHICH = {"id": "only this node and what is under it, finished or not", "all": "what is finished and archived too"}

COMMANDS = {
    "tree": Command(
        run=_tree,
        flags={**_WHICH, "json": ""},
        about="Show nodes under their parents: what is unfinished, or all of one subtree.",
        examples=("claimdag tree", "claimdag tree 7q2f-1", "claimdag tree --all"),
    ),
    "graph": Command(
        run=_graph,
        flags={**_WHICH, "graph_format": ""},
        about=(
            "Draw the order of the work, with its critical path. As text: layer below layer, with rails from each node "
            "to those that wait on it. As dot for Graphviz, or as mermaid for Markdown pages."
        ),
        examples=(
            "claimdag graph",
            "claimdag graph 7q2f-1 --format dot | dot -Tsvg > graph.svg",
            "claimdag graph --all --format mermaid",
        ),
    ),
}
