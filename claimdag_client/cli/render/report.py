"""The state of the work as text to paste elsewhere: a check list, a comment, a table. Pure."""

from __future__ import annotations

import csv
import io

from claimdag_client.cli.render.text import clean, counted
from claimdag_client.importers.matching import without_reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    Node = Mapping[str, Any]

TERMINAL = ("done", "failed", "cancelled")
GROUPS = ("goal", "molecule")
COLUMNS = ("ref", "summary", "kind", "role", "status", "parent", "after", "after_any", "cost", "priority", "assignee",
           "error")  # fmt: skip
#: Characters that would make a link, a tag or emphasis of a person's words; a mention is broken by a blank of no width.
_MARKDOWN = str.maketrans({**{char: f"\\{char}" for char in "\\`*_<>[]|"}, "@": "@\u200b"})
SECTIONS = (
    ("Done", ("done",)),
    ("In hand", ("claimed", "running", "completing")),
    ("Failed or cancelled", ("failed", "cancelled")),
    ("Next", ("ready",)),
    ("Waiting", ("todo", "blocked")),
)


def tasks(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield a check list in Markdown, nested as the work is; what failed says so."""
    ids = {node["id"] for node in nodes}
    children: dict[str | None, list[Node]] = {}
    for node in nodes:
        children.setdefault(node["parent"] if node["parent"] in ids else None, []).append(node)
    stack = [(node, 0) for node in reversed(children.get(None, []))]
    while stack:
        node, depth = stack.pop()
        mark = {"done": "x", "failed": " ", "cancelled": "-"}.get(node["status"], " ")
        yield f"{'  ' * depth}- [{mark}] {_plain(node)}{_remark(node)}"
        stack += [(child, depth + 1) for child in reversed(children.get(node["id"], []))]


def _plain(node: Node) -> str:
    """Return the summary on one line, as the tracker has the title."""
    return clean(" ".join(without_reason(node["summary"]).split()) or node["id"])


def _remark(node: Node) -> str:
    if node["status"] == "failed":
        error = " ".join((node.get("error") or "").split())
        return f" (failed: {clean(error)})" if error else " (failed)"
    if node["assignee"] is not None:
        return f" (in hand: {clean(node['assignee'])})"
    return ""


def table(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield a table in CSV with the names of a plan's fields, which `import csv` reads."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for node in nodes:
        found = {**node, "ref": node["id"]}
        for column, when in (("after", "after_ok"), ("after_any", "after_any")):
            found[column] = " ".join(dep["on"] for dep in node["deps"] if dep["when"] == when)
        writer.writerow([_cell(found.get(column)) for column in COLUMNS])
    yield from buffer.getvalue().splitlines()


def _cell(value: Any) -> str:
    """Return a cell that no table program takes for a formula, on one line."""
    text = "" if value is None else " ".join(str(value).split())
    return f"'{text}" if text[:1] in ("=", "+", "@") or (text[:1] == "-" and not text[1:2].isdigit()) else text


def comment(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield a comment for an issue or a pull request: counts, then the work by how it stands."""
    work = [node for node in nodes if node["kind"] not in GROUPS]
    done = sum(node["status"] == "done" for node in work)
    yield f"**{done} of {counted(len(work), 'task')} done**"
    for title, statuses in SECTIONS:
        found = [node for node in work if node["status"] in statuses]
        if not found:
            continue
        yield ""
        yield f"### {title} ({len(found)})"
        yield ""
        for node in found:
            text = _plain(node).translate(_MARKDOWN)
            yield f"- {text}{_remark(node).translate(_MARKDOWN)}"
