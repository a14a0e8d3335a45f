"""The heap of deadlines."""

from __future__ import annotations

from claimdagd.core.indexes.leases import Leases
from claimdagd.core.state import Lease, Vertex
from claimdagd.model import Node


def vertex(number: int) -> Vertex:
    return Vertex(Node(id=f"t3st-{number}"), number)


def until(deadline: float) -> Lease:
    return Lease(deadline, 60.0, 0.0)


def test_next_deadline_is_the_soonest() -> None:
    """Of all live leases."""
    leases = Leases()
    for number, deadline in enumerate((30.0, 10.0, 20.0)):
        leases.set(vertex(number), until(deadline))
    assert leases.next_deadline() == 10.0


def test_without_leases_there_is_no_deadline() -> None:
    """Nothing is overdue either."""
    assert Leases().next_deadline() is None
    assert Leases().overdue(1e9) is None


def test_renewed_lease_is_met_at_its_new_deadline() -> None:
    """Its entry moves only when it is met."""
    leases, v = Leases(), vertex(1)
    leases.set(v, until(10.0))
    leases.set(v, until(50.0))
    assert len(leases.heap) == 1
    assert leases.next_deadline() == 50.0


def test_shortened_lease_is_met_early() -> None:
    """It gets an entry of its own, and the later one is dropped."""
    leases, v = Leases(), vertex(1)
    leases.set(v, until(50.0))
    leases.set(v, until(10.0))
    assert leases.next_deadline() == 10.0
    v.lease = None
    assert leases.next_deadline() is None
    assert leases.heap == []


def test_ended_claim_is_dropped() -> None:
    """Its vertex has no lease any more."""
    leases, v, other = Leases(), vertex(1), vertex(2)
    leases.set(v, until(10.0))
    leases.set(other, until(20.0))
    v.lease = None
    assert leases.next_deadline() == 20.0


def test_overdue_at_the_deadline_and_not_before() -> None:
    """The longest overdue first."""
    leases, v, other = Leases(), vertex(1), vertex(2)
    leases.set(v, until(20.0))
    leases.set(other, until(10.0))
    assert leases.overdue(9.9) is None
    assert leases.overdue(30.0) is other


def test_heap_of_a_renewed_lease_does_not_grow() -> None:
    """However often it is renewed."""
    leases, v = Leases(), vertex(1)
    for n in range(1000):
        leases.set(v, until(60.0 + n))
    assert len(leases.heap) == 1
