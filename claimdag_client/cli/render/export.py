"""Writes a graph for Graphviz and for Mermaid, the critical path marked. Pure text."""

from __future__ import annotations

from claimdag_client.cli.render.graph_view import GraphView
from claimdag_client.cli.render.text import clean, cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LABEL_MAX = 60
_FILL = {
    "todo": "#eeeeee", "ready": "#cfeffd", "blocked": "#ffe9a8", "claimed": "#c9d7ff", "running": "#9db8ff",
    "completing": "#e6cdf5", "done": "#cdeccd", "failed": "#f6c1c1", "cancelled": "#dddddd",
}  # fmt: skip


def dot(graph: GraphView) -> Iterable[str]:
    """Write for Graphviz: groups are clusters; after_any edges are dashed; parents of work dotted."""
    critical = set(graph.critical)
    chained = set(zip(graph.critical, graph.critical[1:], strict=False))
    yield "digraph claimdag {"
    yield '  graph [rankdir=LR, compound=true, fontname="sans-serif"];'
    yield '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=10];'
    for step, name, depth in graph.walk():
        indent = "  " * (depth + 1)
        if step == "open":
            yield f"{indent}subgraph {_dot_quoted('cluster_' + name)} {{"
            yield f"{indent}  graph [label={_dot_quoted(clean(name))}, color=gray60, fontsize=10];"
        else:
            yield indent + ("}" if step == "close" else _dot_node(graph, name, critical))
    for first, then, when in graph.edges:
        attributes = []
        if when == "after_any":
            attributes.append("style=dashed")
        if (first, then) in chained:
            attributes += ['color="#c00000"', "penwidth=2"]
        yield f"  {_dot_quoted(first)} -> {_dot_quoted(then)}{_bracketed(attributes)};"
    for name, parent in graph.parents.items():
        if parent in graph.nodes and parent not in graph.groups:
            yield f"  {_dot_quoted(parent)} -> {_dot_quoted(name)} [style=dotted, arrowhead=none];"
    yield "}"


def _dot_node(graph: GraphView, name: str, critical: set[str]) -> str:
    view = graph.nodes[name]
    status = view["status"]
    label = f"{clean(name)} {clean(status)}"
    if view.get("assignee"):
        label += f" {clean(view['assignee'])}"
    escaped = _dot_escaped(label)
    if summary := cut(clean(view.get("summary", "")), LABEL_MAX):
        # The \n that Graphviz itself breaks a line at; what is in the text is escaped already.
        escaped += "\\n" + _dot_escaped(summary)
    attributes = [f'label="{escaped}"', f'fillcolor="{_FILL.get(status, "#ffffff")}"']
    if name in graph.groups:
        attributes.append("shape=folder")
    if name in critical:
        attributes += ['color="#c00000"', "penwidth=2"]
    return f"{_dot_quoted(name)}{_bracketed(attributes)};"


def _bracketed(attributes: Sequence[str]) -> str:
    return f" [{', '.join(attributes)}]" if attributes else ""


def _dot_escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _dot_quoted(text: str) -> str:
    return f'"{_dot_escaped(text)}"'


def mermaid(graph: GraphView) -> Iterable[str]:
    """Write for Mermaid: groups are subgraphs; after_any edges are dotted; the critical path is thick and red."""
    chained = set(zip(graph.critical, graph.critical[1:], strict=False))
    yield "flowchart LR"
    for step, name, depth in graph.walk():
        indent = "  " * (depth + 1)
        if step == "open":
            yield f'{indent}subgraph s{_mermaid_id(name)}["{_mermaid_escaped(clean(name))}"]'
        else:
            yield indent + ("end" if step == "close" else _mermaid_node(graph, name))
    red = []
    for number, (first, then, when) in enumerate(graph.edges):
        if (first, then) in chained:
            red.append(str(number))
        arrow = "-.->" if when == "after_any" else "==>" if (first, then) in chained else "-->"
        yield f"  {_mermaid_id(first)} {arrow} {_mermaid_id(then)}"
    for name, parent in graph.parents.items():
        if parent in graph.nodes and parent not in graph.groups:
            yield f"  {_mermaid_id(str(parent))} -.- {_mermaid_id(name)}"
    for status, fill in _FILL.items():
        yield f"  classDef {status} fill:{fill},stroke:#555555,color:#000000"
    if graph.critical:
        yield "  classDef critical stroke:#c00000,stroke-width:3px"
        yield f"  class {','.join(map(_mermaid_id, graph.critical))} critical"
    if red:
        yield f"  linkStyle {','.join(red)} stroke:#c00000"


def _mermaid_node(graph: GraphView, name: str) -> str:
    view = graph.nodes[name]
    label = f"{clean(name)} {clean(view['status'])}"
    if view.get("assignee"):
        label += f" {clean(view['assignee'])}"
    escaped = _mermaid_escaped(label)
    if summary := cut(clean(view.get("summary", "")), LABEL_MAX):
        escaped += "<br/>" + _mermaid_escaped(summary)
    left, right = ("[/", "/]") if name in graph.groups else ("(", ")")
    return f'{_mermaid_id(name)}{left}"{escaped}"{right}:::{view["status"]}'


def _mermaid_id(name: str) -> str:
    """Return an id that is no word of Mermaid's own, such as end."""
    return "n" + "".join(char if char.isascii() and char.isalnum() else "_" for char in name)


def _mermaid_escaped(text: str) -> str:
    """Return text for Mermaid's quotes: a character that Mermaid, Markdown or HTML acts on stands as its number."""
    return "".join(char if char.isalnum() or char in " .,:;-()?!/'=+_" else f"#{ord(char)};" for char in text)
