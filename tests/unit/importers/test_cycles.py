"""The quick way to cycles finds what the whole wait graph finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from claimdag_client.importers.cycles import closing_cycles
from claimdag_client.wait_graph import WaitGraph

NAMES = [f"n{number}" for number in range(7)]


@given(
    st.lists(st.integers(0, 7), min_size=7, max_size=7),
    st.sets(st.sampled_from(NAMES)),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=12, unique=True),
)
def test_the_same_edges_close_cycles_as_in_the_whole_wait_graph(
    above: list[int], groups: set[str], edges: list[tuple[str, str]]
) -> None:
    """Through dependencies, through parents, and through groups above."""
    parents = {name: NAMES[at] if at < n else None for n, (name, at) in enumerate(zip(NAMES, above, strict=True))}
    edges = [(waiting, on) for waiting, on in edges if waiting != on]
    whole = dict(WaitGraph(parents, groups).closing_cycles(edges))
    assert set(closing_cycles(parents, groups, edges)) == set(whole)


def test_a_long_chain_has_no_cycle_and_a_ring_has_one() -> None:
    """Without recursion."""
    names = [str(n) for n in range(5000)]
    chain = [(names[n + 1], names[n]) for n in range(4999)]
    parents = dict.fromkeys(names)
    assert closing_cycles(parents, (), chain) == {}
    assert [*closing_cycles(parents, (), [*chain, ("0", "4999")])] == [4999]
