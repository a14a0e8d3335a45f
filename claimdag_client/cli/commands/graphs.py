"""Verbs that draw: tree (who is under whom) and graph (what comes before what)."""

from __future__ import annotations

from claimdag_client.cli.command import Command
from claimdag_client.cli.render.graph_view import GraphView
from claimdag_client.cli.render.node import coloured, remarks, sign, waits_for
from claimdag_client.cli.render.text import Paint, clean, cut, width
from claimdag_client.cli.session import DONE, Failed, Session, UsageError
from claimdag_client.cli.streams import as_path

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
    if args.svg and args.format not in ("text", "svg"):
        raise UsageError(f"--svg and --format {args.format} contradict each other")
    form = "svg" if args.svg else args.format
    graph = _graph_view(args, session)
    if form == "text" and args.to_file is None:
        from claimdag_client.cli.render.layers import text

        session.say_rows(text(graph, session.paint))
        return DONE
    session.doing = "drawing the graph"
    content = _drawn(graph, form)
    if args.to_file is None:
        session.say_all([content.rstrip("\n")])
        return DONE
    try:
        with open(as_path(args.to_file), "w", encoding="utf-8") as file:
            file.write(content)
    except (OSError, ValueError) as exc:
        raise Failed(f"{args.to_file}: {getattr(exc, 'strerror', None) or exc}") from None
    return DONE


def _drawn(graph: GraphView, form: str) -> str:
    """Return a graph as a text of that form, for a file or a program."""
    if form == "text":
        from claimdag_client.cli.render.layers import text

        paint = Paint(None)
        paint.unicode = True  # The file is UTF-8, also where the terminal is not.
        lines = text(graph, paint)
    elif form == "mermaid":
        from claimdag_client.cli.render.export import mermaid

        lines = mermaid(graph)
    else:
        from claimdag_client.cli.render.export import dot

        lines = dot(graph)
    content = "\n".join(lines) + "\n"
    return _drawn_by_graphviz(content) if form == "svg" else content


def _drawn_by_graphviz(source: str) -> str:
    import subprocess

    try:
        ran = subprocess.run(["dot", "-Tsvg"], input=source.encode(), capture_output=True)
    except FileNotFoundError:
        remedy = "install the package graphviz, or use --format mermaid or --format dot"
        raise Failed("--svg needs Graphviz, and there is no command dot", remedy=remedy) from None
    if ran.returncode != 0:
        said = ran.stderr.decode(errors="replace").strip().split("\n")[0]
        raise Failed(f"dot ended with {ran.returncode}: {said}", remedy="claimdag graph --format dot, to look at it")
    return ran.stdout.decode()


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
        flags={**_WHICH, "graph_format": "", "svg": "", "to_file": ""},
        about=(
            "Draw the order of the work, with its critical path. As text: layer below layer, with rails from each node "
            "to those that wait on it. As dot for Graphviz, as mermaid for Markdown pages, or as SVG where Graphviz is "
            "installed."
        ),
        examples=(
            "claimdag graph",
            "claimdag graph 7q2f-1 --svg -o graph.svg",
            "claimdag graph --all --format mermaid",
        ),
    ),
}
