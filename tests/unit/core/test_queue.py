"""The queue of entries: what is first is the smallest that stands, whatever was pushed and in whatever order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from claimdagd.core.indexes.queue import Queue
from claimdagd.core.state import Entry, Vertex
from claimdagd.model import Node


def vertex(num: int) -> Vertex:
    """A vertex that stands in no graph."""
    return Vertex(Node(id=f"t3st-{num}", created_at=0.0, updated_at=0.0), num)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-3, 3), st.booleans()), max_size=60))
def test_first_is_the_smallest_that_stands(steps: list[tuple[int, int, bool]]) -> None:
    """Nodes come, move to another place and leave; those that left are never seen again."""
    queue = Queue()
    vertices = [vertex(num) for num in range(10)]
    for num, priority, comes in steps:
        v = vertices[num]
        v.entry = (float(-priority), 0.0, num, v) if comes else None
        if v.entry is not None:
            queue.push(v.entry)
        standing = [v.entry for v in vertices if v.entry is not None]
        assert queue.first() is min(standing, default=None)
    assert all(sum(e is v.entry for e in queue) == 1 for v in vertices if v.entry is not None)


def test_all_in_order_come_out_in_order() -> None:
    """What is ready together is taken one after the other, and what was handed back comes before it again."""
    queue = Queue()
    vertices = [vertex(num) for num in range(100)]
    for v in vertices:
        v.entry = (0.0, 0.0, v.num, v)
        queue.push(v.entry)
    taken: list[int] = []
    while (first := queue.first()) is not None:
        v = first[3]
        v.entry = None
        taken.append(v.num)
        if v.num % 10 == 5 and taken.count(v.num) == 1:
            again: Entry = (0.0, 0.0, v.num, v)
            v.entry = again
            queue.push(again)
    assert taken == sorted([*range(100), *range(5, 100, 10)])
