"""The choke point: mutations, undo and loading."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from claimdagd.core.graph import Graph
from claimdagd.core.refusal import Refusal
from claimdagd.model import Dep, Node, Status
from claimdagd.wire import Claim, Submit, SubmitNode, Upsert
from tests.support.driver import TAG, Driver


def test_mutation_tells_nodes_from_derived_changes(driver: Driver) -> None:
    """A dependent that becomes ready is a change of status only."""
    first = driver.add()
    then = driver.add(first)
    driver.complete(first)
    assert driver.mutation is not None
    assert [v.record.id for v in driver.mutation.nodes] == [first]
    assert driver.mutation.status_changes == {"ready": [then]}


def test_mutation_names_what_ended_and_what_is_ready(driver: Driver) -> None:
    """Groups are not work that is ready."""
    first = driver.add()
    driver.goal(first)
    then = driver.add(first)
    driver.complete(first)
    assert driver.mutation is not None
    assert [v.record.id for v in driver.mutation.ended] == [first]
    assert driver.mutation.made_ready == [then]


def test_node_that_changed_twice_is_told_once(driver: Driver) -> None:
    """From its first record to its last."""
    driver.apply(Submit(nodes=(SubmitNode(ref="a", deps=(Dep("b"),)), SubmitNode(ref="b"))))
    assert driver.mutation is not None
    assert len(driver.mutation.nodes) == 2


def test_refused_request_leaves_nothing(driver: Driver) -> None:
    """The changes before the refusal are undone, the number too."""
    with pytest.raises(Refusal):
        driver.apply(Upsert(deps=(Dep(f"{TAG}-9"),)))
    assert driver.nodes() == {}
    assert driver.add() == f"{TAG}-1"


def test_undo_of_a_claim_restores_the_lease(driver: Driver) -> None:
    """A node that nobody held is held by nobody."""
    node = driver.add()
    driver.apply(Claim(id=node, actor="ann"))
    driver.undo()
    assert driver.graph.vertices[node].lease is None
    assert driver.graph.by_assignee == {}


def test_undo_in_reverse_ends_where_it_began(driver: Driver) -> None:
    """The latest mutation first."""
    node = driver.add()
    before, mutations = driver.nodes(), []
    for request in (Upsert(id=node, summary="x"), Claim(id=node, actor="ann"), Upsert(deps=(Dep(node),))):
        driver.apply(request)
        mutations.append(driver.mutation)
    for mutation in reversed(mutations):
        assert mutation is not None
        driver.graph.undo(mutation)
    assert driver.nodes() == before


def test_loaded_claim_has_a_fresh_lease() -> None:
    """As long as it was claimed for."""
    held = Node(id=f"{TAG}-1", status=Status.CLAIMED, assignee="ann", lease=60.0, gen=2)
    graph = Graph(TAG)
    graph.load({held.id: held}, {}, 2, 1000.0)
    assert graph.leases.next_deadline() == 1060.0


def test_loaded_children_may_come_before_their_parents() -> None:
    """In whatever order the records are."""
    parent, child = Node(id=f"{TAG}-1"), Node(id=f"{TAG}-2", parent=f"{TAG}-1")
    graph = Graph(TAG)
    graph.load({child.id: child, parent.id: parent}, {}, 3, 0.0)
    assert graph.vertices[child.id].parent is graph.vertices[parent.id]


def test_loaded_record_without_its_parent_is_refused() -> None:
    """The error names both."""
    orphan = Node(id=f"{TAG}-2", parent=f"{TAG}-1")
    with pytest.raises(ValueError, match=f"{TAG}-2 names parent {TAG}-1"):
        Graph(TAG).load({orphan.id: orphan}, {}, 3, 0.0)


def test_loaded_ancestor_of_itself_is_refused() -> None:
    """No request makes one."""
    nodes = {f"{TAG}-{n}": Node(id=f"{TAG}-{n}", parent=f"{TAG}-{3 - n}") for n in (1, 2)}
    with pytest.raises(ValueError, match="its own ancestor"):
        Graph(TAG).load(nodes, {}, 3, 0.0)


def test_loaded_statuses_are_derived_anew() -> None:
    """Ready is never asserted."""
    waiting = Node(id=f"{TAG}-2", status=Status.READY, deps=(Dep(f"{TAG}-1"),))
    first = Node(id=f"{TAG}-1")
    graph = Graph(TAG)
    graph.load({first.id: first, waiting.id: waiting}, {}, 3, 0.0)
    assert (graph.vertices[first.id].record, graph.vertices[waiting.id].record) == (
        replace(first, status=Status.READY),
        replace(waiting, status=Status.TODO),
    )
