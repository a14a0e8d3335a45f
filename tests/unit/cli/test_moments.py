"""The wait graph of a file: which edges close a cycle, and in which layer a node stands."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from claimdag_client.wait_graph import Moments, closing_cycles, layers


def test_a_dependency_on_a_group_above_closes_a_cycle() -> None:
    """The group's end waits for its child; so does one between them, and a gate further up."""
    moments = Moments(["goal", "task", "inner"], {"task": "inner", "inner": "goal"}, {"goal", "inner"})
    faults = dict(closing_cycles(moments, [("task", "goal"), ("task", "inner"), ("goal", "task"), ("task", "task")]))
    assert set(faults) == {0, 1, 2, 3}
    assert faults[0] == ["task", "goal's end", "inner's end", "task"]
    assert faults[3] == ["task"] or faults[3] == ["task", "task"]


def test_a_dependency_on_work_above_looks_at_its_own_result() -> None:
    """A child may wait for what its parent did, though the parent ends only after it."""
    moments = Moments(["work", "child"], {"child": "work"}, set())
    assert closing_cycles(moments, [("child", "work")]) == []
    assert closing_cycles(moments, [("work", "child")]) != []


def test_the_edge_that_comes_last_is_the_one_at_fault() -> None:
    """Edges are judged in their order, as the daemon judges them."""
    moments = Moments(["a", "b", "c", "d"], {}, set())
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "b")]
    assert closing_cycles(moments, edges) == [(2, ["c", "a", "b", "c"]), (4, ["d", "b", "c", "d"])]


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[list[str], dict[str, str | None], set[str], list[tuple[str, str]]]:
    names = [f"n{index}" for index in range(draw(st.integers(1, 7)))]
    parents: dict[str, str | None] = {
        name: draw(st.sampled_from([None, *names[:index]])) for index, name in enumerate(names)
    }
    groups = draw(st.sets(st.sampled_from(names)))
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(names))
    return names, parents, groups, draw(st.lists(pairs, max_size=12, unique=True))


@settings(max_examples=200, deadline=None)
@given(_graphs())
def test_edges_at_fault_are_those_that_a_slow_look_at_each_finds(
    graph: tuple[list[str], dict[str, str | None], set[str], list[tuple[str, str]]],
) -> None:
    """Adding edges one by one and searching from each finds the same ones; what is left has layers without a gap."""
    names, parents, groups, edges = graph
    slow = Moments(names, parents, groups)
    expected = []
    for position, (waiting, on) in enumerate(edges):
        if slow.path(slow.target(waiting, on), slow.start(waiting)) is None:
            slow.add(waiting, on)
        else:
            expected.append(position)
    fast = Moments(names, parents, groups)
    assert [position for position, _ in closing_cycles(fast, edges)] == expected
    assert [sorted(waits) for waits in fast.waits] == [sorted(waits) for waits in slow.waits]
    layer = layers(fast, groups)
    for position, (waiting, on) in enumerate(edges):
        if position not in expected and waiting not in groups and on not in groups:
            assert layer[on] < layer[waiting]
    for child, group in itertools.product(names, groups):
        if parents[child] == group and child not in groups:
            assert layer[child] <= layer[group]


def test_layers_of_long_chains_need_no_recursion() -> None:
    """Ten thousand nodes, each after the one before, and each below it."""
    names = [str(number) for number in range(10_000)]
    chain = Moments(names, {}, set())
    for before, after in itertools.pairwise(names):
        chain.add(after, before)
    assert layers(chain, set())["9999"] == (9999, 0)
    assert len(set(chain.components())) == 30_000
