"""The wait graph of a file: which edges close a cycle, and in which layer a node stands."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from claimdag_client.wait_graph import WaitGraph


def test_a_dependency_on_a_group_above_closes_a_cycle() -> None:
    """The group's end waits for its child; so does one between them, and a gate further up."""
    graph = WaitGraph({"goal": None, "task": "inner", "inner": "goal"}, {"goal", "inner"})
    faults = dict(graph.closing_cycles([("task", "goal"), ("task", "inner"), ("goal", "task"), ("task", "task")]))
    assert set(faults) == {0, 1, 2, 3}
    assert faults[0] == ["task", "goal's end", "inner's end", "task"]
    assert faults[3] == ["task"] or faults[3] == ["task", "task"]


def test_a_dependency_on_work_above_looks_at_its_own_result() -> None:
    """A child may wait for what its parent did, though the parent ends only after it."""
    graph = WaitGraph({"work": None, "child": "work"}, set())
    assert graph.closing_cycles([("child", "work")]) == []
    assert graph.closing_cycles([("work", "child")]) != []


def test_the_edge_that_comes_last_is_the_one_at_fault() -> None:
    """Edges are judged in their order, as the daemon judges them."""
    graph = WaitGraph(dict.fromkeys("abcd"), set())
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "b")]
    assert graph.closing_cycles(edges) == [(2, ["c", "a", "b", "c"]), (4, ["d", "b", "c", "d"])]


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[list[str], dict[str, str | None], set[str], list[tuple[str, str]]]:
    names = [f"n{index}" for index in range(draw(st.integers(1, 7)))]
    parents: dict[str, str | None] = {
        name: draw(st.sampled_from([None, *names[:index]])) for index, name in enumerate(names)
    }
    groups = draw(st.sets(st.sampled_from(names)))
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(names))
    return names, parents, groups, draw(st.lists(pairs, max_size=12, unique=True))


def _deps(graph: WaitGraph) -> dict[str, set[str]]:
    return {name: {target.name for target in node.dep_on} for name, node in graph.nodes.items()}


@settings(max_examples=200, deadline=None)
@given(_graphs())
def test_edges_at_fault_are_those_that_a_slow_look_at_each_finds(
    graph: tuple[list[str], dict[str, str | None], set[str], list[tuple[str, str]]],
) -> None:
    """Adding edges one by one and searching from each finds the same ones; what is left has layers without a gap."""
    names, parents, groups, edges = graph
    slow = WaitGraph(parents, groups)
    expected = []
    for position, (waiting, on) in enumerate(edges):
        if slow.way(waiting, on) is None:
            slow.add(waiting, on)
        else:
            expected.append(position)
    fast = WaitGraph(parents, groups)
    assert [position for position, _ in fast.closing_cycles(edges)] == expected
    assert _deps(fast) == _deps(slow)
    layer = fast.layers()
    for position, (waiting, on) in enumerate(edges):
        if position not in expected and waiting not in groups and on not in groups:
            assert layer[on] < layer[waiting]
    for child, group in itertools.product(names, groups):
        if parents[child] == group and child not in groups:
            assert layer[child] <= layer[group]


def test_layers_of_long_chains_need_no_recursion() -> None:
    """Ten thousand nodes, each after the one before, and each below it."""
    names = [str(number) for number in range(10_000)]
    chain = WaitGraph(dict.fromkeys(names), set())
    for before, after in itertools.pairwise(names):
        chain.add(after, before)
    assert chain.layers()["9999"] == (9999, 0)
    assert chain.closing_cycles([("0", "9999")]) != []
