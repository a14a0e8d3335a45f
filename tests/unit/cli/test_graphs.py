"""tree and graph: layers and rails that can be read, dot that Graphviz takes, Mermaid that is well formed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from claimdag_client.cli.render.export import dot, mermaid
from claimdag_client.cli.render.graph_view import GraphView
from claimdag_client.cli.render.layers import RAILS_MAX, text
from claimdag_client.cli.render.text import Paint
from tests.support.scripted_daemon import ScriptedDaemon, view

from .conftest import Ran

Cli = Callable[..., Ran]


def node(number: int, *after: int, parent: int | None = None, **fields: Any) -> dict[str, Any]:
    deps = [{"on": f"7q2f-{dep}", "when": "after_ok"} for dep in after]
    return view(number, deps=deps, parent=None if parent is None else f"7q2f-{parent}", **fields)


#: 7 is a group of 8 and 9; the critical path goes through it.
NODES = [
    node(1, status="running", depth=5.0, assignee="bob"),
    node(2, depth=3.0),
    node(3, 1, status="todo", depth=4.0),
    node(4, 1, 2, status="todo", depth=3.0),
    node(5, 2, status="todo", depth=2.0),
    node(6, 3, 4, status="todo", depth=3.0),
    node(7, kind="goal", status="ready", depth=1.0),
    node(8, 6, parent=7, status="todo", depth=2.0),
    node(9, parent=7, depth=2.0),
    node(10, 7, 5, status="todo", summary='quote " and \\ <b>x</b> #1; [end]'),
]
EVIL = '"]; } --> {[( end %% \\N \\" <script> #quot; \n \x1b[31m ` | & \u202e'


class _Utf8Pipe:
    encoding = "utf-8"

    def isatty(self) -> bool:
        return False


def drawn(nodes: list[dict[str, Any]]) -> list[str]:
    return list(text(GraphView(nodes), Paint(_Utf8Pipe())))  # type: ignore[arg-type]


def test_graph_as_text_is_layers_with_rails_and_the_critical_path() -> None:
    """What can run first stands first, a group where it ends; each rail leads to what waits."""
    assert (
        "\n".join(drawn(NODES))
        == """\
        layer 1
┌───────★ ◉ 7q2f-1  running thing 1  [bob]
│ ┌─────  ○ 7q2f-2  ready   thing 2
│ │       ○ 7q2f-9  ready   thing 9  [in 7q2f-7]
│ │     layer 2
├─│─┬───★ · 7q2f-3  todo    thing 3  [after 7q2f-1]
└─┼─│─┬─  · 7q2f-4  todo    thing 4  [after 7q2f-1, 7q2f-2]
┌─┴─│─│─  · 7q2f-5  todo    thing 5  [after 7q2f-2]
│   │ │ layer 3
│ ┌─┴─┴─★ · 7q2f-6  todo    thing 6  [after 7q2f-3, 7q2f-4]
│ │     layer 4
│ └─────★ · 7q2f-8  todo    thing 8  [after 7q2f-6, in 7q2f-7]
│       layer 5
│ ┌─────  ○ 7q2f-7  ready   thing 7  [goal of 2]
└─┴─────★ · 7q2f-10 todo    quote " and \\ <b>x</b> #1; [end]  [after 7q2f-7, 7q2f-5]

critical path (cost 5): 7q2f-1 > 7q2f-3 > 7q2f-6 > 7q2f-8 > 7q2f-10"""
    )


def test_graph_with_too_many_rails_leaves_them_out() -> None:
    """The names say it then."""
    nodes = [node(n) for n in range(1, RAILS_MAX + 3)]
    nodes += [node(100 + n, n) for n in range(1, RAILS_MAX + 3)]
    lines = drawn(nodes)
    assert not any(char in "".join(lines) for char in "┌│└")
    assert "[after 7q2f-1]" in "".join(lines)
    assert drawn([]) == []


def test_graph_of_a_long_chain_needs_no_recursion() -> None:
    """Deep in order, and deep in parents."""
    nodes = [node(1, depth=3000.0)]
    nodes += [node(n, n - 1, depth=3001.0 - n, status="todo") for n in range(2, 3001)]
    assert len(drawn(nodes)) == 6002
    goals = [node(n, parent=n - 1 if n > 1 else None, kind="goal") for n in range(1, 3001)]
    graph = GraphView(goals)
    assert sum("subgraph" in line for line in dot(graph)) == 3000
    assert sum("subgraph" in line for line in mermaid(graph)) == 3000


def graphviz(*lines: str) -> str:
    program = shutil.which("dot")
    if program is None:
        pytest.skip("Graphviz is not installed: apt install graphviz")
    ran = subprocess.run(
        [program, "-Tplain"], input="\n".join(lines), capture_output=True, text=True, timeout=30, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_dot_is_drawn_by_graphviz() -> None:
    """Every node and every edge comes out of Graphviz as it went in, whatever stands in the summaries."""
    nodes = [*NODES, node(11, 10, summary=EVIL, assignee="bob", status="claimed")]
    nodes.append({**node(12, 11), "deps": [{"on": "7q2f-11", "when": "after_any"}], "parent": "7q2f-9"})
    lines = list(dot(GraphView(nodes)))
    assert '"7q2f-11" -> "7q2f-12" [style=dashed];' in "\n".join(lines)
    drawn_nodes = re.findall(r'^node "?(\S+?)"? ', out := graphviz(*lines), re.MULTILINE)
    assert sorted(drawn_nodes) == sorted(n["id"] for n in nodes)
    edges = re.findall(r'^edge "?(\S+?)"? "?(\S+?)"? ', out, re.MULTILINE)
    expected = [(dep["on"], n["id"]) for n in nodes for dep in n["deps"]]
    assert sorted(edges) == sorted([*expected, ("7q2f-9", "7q2f-12")])


def test_mermaid_is_well_formed() -> None:
    """Each line is one of the shapes that Mermaid has; no text can end its quotes."""
    nodes = [*NODES, node(11, 10, summary=EVIL, assignee="bob", status="claimed")]
    lines = list(mermaid(GraphView(nodes)))
    assert lines[0] == "flowchart LR"
    quoted = r'"[^"`\[\]{}<>|%&]*(<br/>[^"`\[\]{}<>|%&]*)?"'
    shapes = [
        rf"n\w+(\({quoted}\)|\[/{quoted}/\]):::\w+", rf"subgraph sn\w+\[{quoted}\]", "end",
        r"n\w+ (-->|==>|-\.->|-\.-) n\w+", r"classDef \w+ [\w:#,-]+", r"class [\w,]+ critical",
        r"linkStyle [\d,]+ stroke:#c00000",
    ]  # fmt: skip
    for line in lines[1:]:
        assert any(re.fullmatch(shape, line.strip()) for shape in shapes), line
    assert sum(line.strip() == "end" for line in lines) == sum("subgraph" in line for line in lines) == 1
    assert "  linkStyle 0,4,6 stroke:#c00000" in lines


def test_tree_shows_who_is_under_whom(cli: Cli, daemon: ScriptedDaemon) -> None:
    """With branches, how much of a parent is finished, and what waits."""
    waiting = {"deps": [{"on": "7q2f-6", "when": "after_ok"}], "resources": []}
    nodes = [*NODES[:8], {**NODES[7], "waiting_on": waiting}, {**NODES[8], "status": "done"}]
    daemon.answers["list"] = {"nodes": nodes}
    out = cli("tree", "--all").out
    assert daemon.requests == [{"op": "list", "all": True}]
    assert out.endswith(
        "○ 7q2f-7 ready  thing 7  [goal, 1 of 2]\n"
        "├─ · 7q2f-8 todo  thing 8  [waits on 7q2f-6]\n"
        "└─ ✓ 7q2f-9 done  thing 9\n"
    )


def test_tree_and_graph_of_one_node_ask_for_what_is_under_it(cli: Cli, daemon: ScriptedDaemon) -> None:
    """The node itself and all below it, finished or not."""
    daemon.answers |= {"get": NODES[6], "list": {"nodes": NODES[7:9]}}
    assert len(cli("tree", "7").out.splitlines()) == 3
    assert daemon.requests == [
        {"op": "get", "id": "7q2f-7"},
        {"op": "list", "under": "7q2f-7", "all": True},
    ]
    assert "digraph" in cli("graph", "7", "--format", "dot").out
    assert "flowchart" in cli("graph", "7", "--format", "mermaid").out
    assert "layer 1" in cli("graph", "7").out


def test_graph_goes_to_a_file_whole(cli: Cli, daemon: ScriptedDaemon, tmp_path: Path) -> None:
    """In UTF-8, without colours; what cannot be written is told by its name."""
    daemon.answers["list"] = {"nodes": [view(1, summary="漢字"), view(2, deps=[{"on": "7q2f-1", "when": "after_ok"}])]}
    ran = cli("graph", "-o", str(tmp_path / "g.txt"))
    assert (ran.status, ran.out) == (0, "")
    assert "○ 7q2f-1 ready 漢字\n" in (tmp_path / "g.txt").read_text(encoding="utf-8")
    ran = cli("graph", "--format", "dot", "-o", str(tmp_path / "none/g.dot"))
    assert (ran.status, ran.err) == (1, f"claimdag: graph: {tmp_path}/none/g.dot: No such file or directory\n")
    assert cli("graph", "--svg", "--format", "dot").status == 2


@pytest.mark.skipif(shutil.which("dot") is None, reason="no dot of Graphviz")
def test_svg_is_drawn_by_graphviz(cli: Cli, daemon: ScriptedDaemon, tmp_path: Path) -> None:
    """Every node with its words, whatever is in them."""
    words = '漢字 <b> & "quoted" \\N {x|y}'
    daemon.answers["list"] = {"nodes": [view(1, summary=words), view(2, deps=[{"on": "7q2f-1", "when": "after_ok"}])]}
    assert cli("graph", "--svg", "-o", str(tmp_path / "g.svg")).status == 0
    drawn = ElementTree.parse(tmp_path / "g.svg")
    assert words in [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert cli("graph", "--format", "svg").out.endswith("</svg>\n")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (None, "--svg needs Graphviz, and there is no command dot\n  next: install the package graphviz"),
        ("#!/bin/sh\necho 'no such\nplugin' >&2; exit 3\n", "dot ended with 3: no such\n  next: claimdag graph"),
    ],
)
def test_svg_without_a_graphviz_that_works_says_so(
    program: str | None, said: str, cli: Cli, daemon: ScriptedDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what to do instead; no file is made."""
    daemon.answers["list"] = {"nodes": [view(1)]}
    if program is not None:
        (tmp_path / "dot").write_text(program)
        (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = cli("graph", "--svg", "-o", str(tmp_path / "g.svg"))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith(f"claimdag: graph: {said}")
    assert not (tmp_path / "g.svg").exists()
