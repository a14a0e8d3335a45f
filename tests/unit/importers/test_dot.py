"""Directed graphs in DOT become nodes."""

from __future__ import annotations

import pytest

from claimdag_client.importers.dot import DotImporter

from .drafts import faults, held, order, read, summaries, tree


def test_arrows_clusters_and_attributes_are_read() -> None:
    """a -> b lets b wait for a; clusters are goals."""
    text = """\
// a build
strict digraph build {
  rankdir = LR; node [shape=box]
  /* two
     lines */
  parse [label="the parser", cost=3 priority=5];
  subgraph cluster_back { label="back end"; emit; link [status=blocked] }
  parse -> { emit; check } -> link [color=red];
  "the docs":n -> ship
  old [status=done]; old -> parse
}
"""
    found = read(DotImporter(), text)
    assert faults(found) == []
    assert summaries(found) == [
        "cluster_back back end", "parse the parser", "emit", "link [held: blocked in the file]", "check", "the_docs",
        "ship",
    ]  # fmt: skip
    assert order(found) == {"emit": ["parse"], "check": ["parse"], "link": ["emit", "check"], "ship": ["the_docs"]}
    assert tree(found) == {"emit": "cluster_back", "link": "cluster_back"}
    assert found.nodes()[1]["cost"] == 3.0
    assert found.nodes()[1]["priority"] == 5
    assert order(read(DotImporter(), "digraph { a -> b }", reverse=True)) == {"a": ["b"]}


def test_labels_and_names_are_plain_text() -> None:
    """Escapes, HTML, blanks in names, and pieces that are put together."""
    text = r'digraph { "c d" [label="x\ny"]; e [label=<<b>bold</b> face>]; "f" + "g"; h [label="\N"] }'
    assert summaries(read(DotImporter(), text)) == ["c_d x y", "e bold face", "fg", "h"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("graph { a -- b }", "line 1: it is a graph without directions: only a digraph has an order"),
        ("digraph {\na -- b }", "line 2: -- has no direction: in a digraph it is ->; nothing after it was read"),
        ("digraph {\n a -> \n}", "line 3: a name must stand here, not '}'; nothing after it was read"),
        ("digraph { a", "line 1: a name must stand here, not the end of the file; nothing after it was read"),
        ("digraph { a \x01 }", "line 1: a name must stand here, not '\\x01 }'; nothing after it was read"),
        ("digraph {} digraph {}", "line 1: there is more than one graph in the file; nothing after it was read"),
        ("digraph { " + "{" * 500, "line 1: subgraphs stand in each other more than 200 deep"),
        ("digraph { a [cost=much] }", "line 1: a: cost must be a number over 0 and up to 1000000000000, not 'much'"),
    ],
)
def test_faults_have_their_lines(text: str, fault: str) -> None:
    """Each once."""
    assert [told.removesuffix("; nothing after it was read") for told in faults(read(DotImporter(), text))] == [
        fault.removesuffix("; nothing after it was read")
    ]


def test_a_cycle_is_a_fault_and_holds() -> None:
    """The arrow that closes it is left out, with --skip-bad."""
    found = read(DotImporter(), "digraph {\na -> b\nb -> c\nc -> a\n}")
    (fault,) = faults(found)
    assert "closes a cycle" in fault
    assert len(held(found)) == 1
