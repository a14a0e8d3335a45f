"""Writes a graph for Graphviz and for Mermaid, the critical path marked. Pure text."""

from __future__ import annotations

from claimdag_client.cli.render.graph_view import Picture
from claimdag_client.cli.render.text import clean, cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LABEL_MAX = 60
_FILL = {
    "todo": "#eeeeee", "ready": "#cfeffd", "blocked": "#ffe9a8", "claimed": "#c9d7ff", "running": "#9db8ff",
    "completing": "#e6cdf5", "done": "#cdeccd", "failed": "#f6c1c1", "cancelled": "#dddddd",
}  # fmt: skip


def dot(picture: Picture) -> Iterable[str]:
    """For Graphviz: groups are clusters; after_any edges are dashed; parents of work dotted."""
    critical = set(picture.critical)
    chained = set(zip(picture.critical, picture.critical[1:], strict=False))
    yield "digraph claimdag {"
    yield '  graph [rankdir=LR, compound=true, fontname="sans-serif"];'
    yield '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=10];'
    yield from _dot_nodes(picture, None, "  ", critical)
    for first, then, when in picture.edges:
        attributes = []
        if when == "after_any":
            attributes.append("style=dashed")
        if (first, then) in chained:
            attributes += ['color="#c00000"', "penwidth=2"]
        yield f"  {_dot_quoted(first)} -> {_dot_quoted(then)}{_bracketed(attributes)};"
    for name, parent in picture.parents.items():
        if parent in picture.nodes and parent not in picture.groups:
            yield f"  {_dot_quoted(parent)} -> {_dot_quoted(name)} [style=dotted, arrowhead=none];"
    yield "}"


def _dot_nodes(picture: Picture, above: str | None, indent: str, critical: set[str]) -> Iterable[str]:
    # With a stack, for the chain of parents may be longer than Python recurses. A text among the names is written out.
    stack: list[tuple[str, str, bool]] = [(name, indent, False) for name in reversed(picture.children(above))]
    while stack:
        name, indent, is_text = stack.pop()
        if is_text:
            yield indent + name
            continue
        below = picture.children(name)
        if name not in picture.groups:
            yield f"{indent}{_dot_node(picture, name, critical)}"
            stack.extend((child, indent, False) for child in reversed(below))
            continue
        yield f"{indent}subgraph {_dot_quoted('cluster_' + name)} {{"
        yield f"{indent}  graph [label={_dot_quoted(clean(name))}, color=gray60, fontsize=10];"
        yield f"{indent}  {_dot_node(picture, name, critical)}"
        stack.append(("}", indent, True))
        stack.extend((child, indent + "  ", False) for child in reversed(below))


def _dot_node(picture: Picture, name: str, critical: set[str]) -> str:
    view = picture.nodes[name]
    status = view["status"]
    label = f"{clean(name)} {clean(status)}"
    if view.get("assignee"):
        label += f" {clean(view['assignee'])}"
    escaped = _dot_escaped(label)
    if summary := cut(clean(view.get("summary", "")), LABEL_MAX):
        # The \n that Graphviz itself breaks a line at; what is in the text is escaped already.
        escaped += "\\n" + _dot_escaped(summary)
    attributes = [f'label="{escaped}"', f'fillcolor="{_FILL.get(status, "#ffffff")}"']
    if name in picture.groups:
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


def mermaid(picture: Picture) -> Iterable[str]:
    """For Mermaid: groups are subgraphs; after_any edges are dotted; the critical path is thick and red."""
    chained = set(zip(picture.critical, picture.critical[1:], strict=False))
    yield "flowchart LR"
    yield from _mermaid_nodes(picture)
    red = []
    for number, (first, then, when) in enumerate(picture.edges):
        if (first, then) in chained:
            red.append(str(number))
        arrow = "-.->" if when == "after_any" else "==>" if (first, then) in chained else "-->"
        yield f"  {_mermaid_id(first)} {arrow} {_mermaid_id(then)}"
    for name, parent in picture.parents.items():
        if parent in picture.nodes and parent not in picture.groups:
            yield f"  {_mermaid_id(str(parent))} -.- {_mermaid_id(name)}"
    for status, fill in _FILL.items():
        yield f"  classDef {status} fill:{fill},stroke:#555555,color:#000000"
    if picture.critical:
        yield "  classDef critical stroke:#c00000,stroke-width:3px"
        yield f"  class {','.join(map(_mermaid_id, picture.critical))} critical"
    if red:
        yield f"  linkStyle {','.join(red)} stroke:#c00000"


def _mermaid_nodes(picture: Picture) -> Iterable[str]:
    stack: list[tuple[str, str, bool]] = [(name, "  ", False) for name in reversed(picture.children(None))]
    while stack:
        name, indent, is_text = stack.pop()
        if is_text:
            yield indent + name
            continue
        below = picture.children(name)
        if name not in picture.groups:
            yield indent + _mermaid_node(picture, name)
            stack.extend((child, indent, False) for child in reversed(below))
            continue
        yield f'{indent}subgraph s{_mermaid_id(name)}["{_mermaid_escaped(clean(name))}"]'
        yield f"{indent}  {_mermaid_node(picture, name)}"
        stack.append(("end", indent, True))
        stack.extend((child, indent + "  ", False) for child in reversed(below))


def _mermaid_node(picture: Picture, name: str) -> str:
    view = picture.nodes[name]
    label = f"{clean(name)} {clean(view['status'])}"
    if view.get("assignee"):
        label += f" {clean(view['assignee'])}"
    escaped = _mermaid_escaped(label)
    if summary := cut(clean(view.get("summary", "")), LABEL_MAX):
        escaped += "<br/>" + _mermaid_escaped(summary)
    left, right = ("[/", "/]") if name in picture.groups else ("(", ")")
    return f'{_mermaid_id(name)}{left}"{escaped}"{right}:::{view["status"]}'


def _mermaid_id(name: str) -> str:
    """An id that no word of Mermaid's own is, such as end."""
    return "n" + "".join(char if char.isascii() and char.isalnum() else "_" for char in name)


def _mermaid_escaped(text: str) -> str:
    """Text in Mermaid's quotes: what it, or Markdown or HTML in it, would act on is named by its number."""
    return "".join(char if char.isalnum() or char in " .,:;-()?!/'=+_" else f"#{ord(char)};" for char in text)
