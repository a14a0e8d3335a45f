"""The queue of entries: what is first is the smallest that stands, whatever was pushed and in whatever order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from claimdagd.core.state import Entry, Queue, Vertex
from claimdagd.model import Node


def vertex(number: int) -> Vertex:
    """A vertex that stands in no graph."""
    return Vertex(Node(id=f"t3st-{number}", created_at=0.0, updated_at=0.0), number)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-3, 3), st.booleans()), max_size=60))
def test_first_is_the_smallest_that_stands(steps: list[tuple[int, int, bool]]) -> None:
    """Nodes come, move to another place and leave; those that left are never seen again."""
    queue = Queue()
    vertices = [vertex(number) for number in range(10)]
    for number, priority, comes in steps:
        v = vertices[number]
        v.queue_entry = (float(-priority), 0.0, number, v) if comes else None
        if v.queue_entry is not None:
            queue.push(v.queue_entry)
        standing = [v.queue_entry for v in vertices if v.queue_entry is not None]
        assert queue.first() is min(standing, default=None)
    assert all(sum(e is v.queue_entry for e in queue) == 1 for v in vertices if v.queue_entry is not None)


def test_all_in_order_come_out_in_order() -> None:
    """What is ready together is taken one after the other, and what was handed back comes before it again."""
    queue = Queue()
    vertices = [vertex(number) for number in range(100)]
    for v in vertices:
        v.queue_entry = (0.0, 0.0, v.number, v)
        queue.push(v.queue_entry)
    taken: list[int] = []
    while (first := queue.first()) is not None:
        v = first[3]
        v.queue_entry = None
        taken.append(v.number)
        if v.number % 10 == 5 and taken.count(v.number) == 1:
            again: Entry = (0.0, 0.0, v.number, v)
            v.queue_entry = again
            queue.push(again)
    assert taken == sorted([*range(100), *range(5, 100, 10)])
