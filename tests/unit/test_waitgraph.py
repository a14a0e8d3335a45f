"""The rule of the wait graph, over nodes by name."""

from __future__ import annotations

from itertools import pairwise

from claimdagd.waitgraph import (
    END,
    GATE,
    RESULT,
    START,
    PlainNode,
    components,
    dep_edges,
    find_cycle,
    knotted,
    nodes_of_cycle,
    parent_edges,
    path,
    plain_nodes,
    points_of,
    waiters,
    waits_on,
)


def graph(parents: dict[str, str | None], groups: str = "", **deps: str) -> dict[str, PlainNode]:
    """Nodes of one letter; `deps` has for a node the letters that it waits on."""
    nodes = plain_nodes(parents, set(groups))
    for waiting, targets in deps.items():
        for target in targets:
            nodes[waiting].add_dep(nodes[target])
    return nodes


def test_dep_waits_for_the_end() -> None:
    """Of a node that is not above."""
    nodes = graph({"a": None, "b": None}, b="a")
    assert dep_edges(nodes["b"]) == [((nodes["a"], END), (nodes["b"], START))]


def test_dep_on_work_above_waits_for_the_result() -> None:
    """On a group above it waits for the end, which never comes."""
    work, group = graph({"a": None, "b": "a"}, b="a"), graph({"a": None, "b": "a"}, "a", b="a")
    assert dep_edges(work["b"])[0][0] == (work["a"], RESULT)
    assert dep_edges(group["b"])[0][0] == (group["a"], END)


def test_parent_waits_for_the_end_of_its_child() -> None:
    """And the child's start for the groups above."""
    nodes = graph({"a": None, "b": "a"}, "a")
    a, b = nodes["a"], nodes["b"]
    assert parent_edges(b) == [((b, END), (a, END)), ((a, GATE), (b, START)), ((a, GATE), (b, GATE))]


def test_waiters_and_waits_on_are_each_others_reverse() -> None:
    """For every point of a graph that has all kinds of edges."""
    nodes = graph({"g": None, "w": "g", "c": "w", "d": None}, "g", c="w", g="d", d="").values()
    points = [point for node in nodes for point in points_of(node)]
    forward = {(before, after) for before in points for after in waiters(before)}
    assert forward == {(before, after) for after in points for before in waits_on(after)}


def test_path_is_found_from_both_ends() -> None:
    """Each point waits on the one before it."""
    nodes = graph({"a": None, "b": None, "c": None}, b="a", c="b")
    found = path([(nodes["a"], START)], [(nodes["c"], END)])
    assert found is not None
    assert all(after in waiters(before) for before, after in pairwise(found))
    assert path([(nodes["c"], START)], [(nodes["a"], END)]) is None


def test_path_keeps_to_what_it_may() -> None:
    """A filter that lets nothing pass leaves no path."""
    nodes = graph({"a": None, "b": None, "c": None}, b="a", c="b")
    ends = ([(nodes["a"], START)], [(nodes["c"], END)])
    assert path(*ends, keep_ahead=lambda _: False, keep_behind=lambda _: False) is None


def test_cycle_is_found_with_its_nodes() -> None:
    """The first node is the last too."""
    nodes = graph({"a": None, "b": None, "c": None}, a="c", b="a", c="b")
    found = find_cycle([nodes["a"]])
    assert found is not None
    assert {node.name for node in nodes_of_cycle(found)} == {"a", "b", "c"}
    nodes["a"].remove_dep(nodes["c"])
    assert find_cycle(nodes.values()) is None


def test_cycle_is_looked_for_within_some_nodes() -> None:
    """What leads out of them is not followed."""
    nodes = graph({"a": None, "b": None}, a="b", b="a")
    assert find_cycle([nodes["a"]], within={nodes["a"]}) is None


def test_components_are_the_circles() -> None:
    """And each other point by itself."""
    nodes = graph({"a": None, "b": None, "c": None}, a="b", b="a", c="a")
    points = [point for node in nodes.values() for point in points_of(node)]
    large = [found for found in components(points, waits_on) if len(found) > 1]
    assert [{node.name for node, _ in found} for found in large] == [{"a", "b"}]


def test_knotted_are_circles_and_what_is_between_them() -> None:
    """What only leads to one, or away from one, is not."""
    parents: dict[str, str | None] = dict.fromkeys("abmcdxy")
    nodes = graph(parents, a="b", b="ax", m="a", c="dm", d="c", y="d")
    assert {node.name for node, _ in knotted(nodes.values())} == set("abmcd")


def test_removed_dep_leaves_no_trace() -> None:
    """In neither direction."""
    nodes = graph({"a": None, "b": "a"}, b="a")
    nodes["b"].remove_dep(nodes["a"])
    assert (nodes["b"].dep_on, nodes["b"].outcome_deps, nodes["a"].dependents) == ([], set(), {})
