"""The times before which nodes do not begin."""

from __future__ import annotations

from msgspec.structs import replace

from claimdagd.core.indexes.start_times import StartTimes
from claimdagd.core.state import Vertex
from claimdagd.model import Node, Status


def vertex(number: int, not_before: float, status: Status = Status.TODO) -> Vertex:
    v = Vertex(Node(id=f"t3st-{number}", not_before=not_before, status=status), number)
    v.present = True
    return v


def test_soonest_is_due_next() -> None:
    """Of all that wait."""
    times = StartTimes()
    for number, when in enumerate((30.0, 10.0, 20.0)):
        assert times.update(vertex(number, when))
    assert times.next_due() == 10.0


def test_node_is_due_at_its_time_and_not_before() -> None:
    """Once."""
    times, v = StartTimes(), vertex(1, 10.0)
    times.update(v)
    assert times.due(9.9) == []
    assert times.due(10.0) == [v]
    assert times.due(11.0) == []


def test_time_that_has_passed_is_not_waited_for() -> None:
    """When it was judged."""
    times = StartTimes()
    times.due(50.0)
    assert not times.update(vertex(1, 10.0))
    assert times.waiting == {}


def test_step_back_of_the_clock_is_judged_again() -> None:
    """A node that might begin may not any more."""
    times, v = StartTimes(), vertex(1, 10.0)
    times.update(v)
    times.due(20.0)
    assert times.due(5.0) == [v]
    assert times.next_due() == 10.0


def test_moved_time_is_the_last_one() -> None:
    """The earlier entry is dropped when it is met."""
    times, v = StartTimes(), vertex(1, 10.0)
    times.update(v)
    v.record = replace(v.record, not_before=40.0)
    assert not times.update(v)
    assert times.next_due() == 40.0


def test_finished_node_waits_no_more() -> None:
    """Nor one that is blocked by hand."""
    times, v, blocked = StartTimes(), vertex(1, 10.0), vertex(2, 20.0, Status.BLOCKED)
    times.update(v)
    v.record = replace(v.record, status=Status.DONE)
    assert times.update(v)
    assert not times.update(blocked)
    assert times.next_due() is None


def test_later_counts_work_that_is_todo() -> None:
    """What nothing_runnable tells."""
    times, v = StartTimes(), vertex(1, 10.0)
    times.update(v)
    assert list(times.later) == [v]
    times.due(10.0)
    assert times.later == {}
