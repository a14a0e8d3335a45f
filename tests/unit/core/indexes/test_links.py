"""The links between vertices, and the counts along the ancestors."""

from __future__ import annotations

from claimdagd.core.indexes.links import gated_by, has_started, is_ancestor, is_met, subtree, unmet_deps
from claimdagd.model import Node, Outcome, Status
from claimdagd.waitgraph import ON_ANY, ON_OUTCOME
from claimdagd.wire import Unlink, Upsert
from tests.support.driver import Driver


def node(status: Status, outcome: Outcome | None = None) -> Node:
    return Node(id="t3st-1", status=status, outcome=outcome)


def test_after_ok_is_met_by_done_alone() -> None:
    """A failed target meets only after_any."""
    assert is_met(node(Status.DONE), 0)
    assert not is_met(node(Status.FAILED), 0)
    assert is_met(node(Status.FAILED), ON_ANY)
    assert not is_met(node(Status.RUNNING), ON_ANY)


def test_dep_on_an_ancestor_looks_at_its_own_outcome() -> None:
    """Its end waits for the very node that has the dep."""
    assert is_met(node(Status.COMPLETING, Outcome.DONE), ON_OUTCOME)
    assert not is_met(node(Status.COMPLETING, Outcome.FAILED), ON_OUTCOME)
    assert is_met(node(Status.COMPLETING, Outcome.FAILED), ON_OUTCOME | ON_ANY)
    assert not is_met(node(Status.RUNNING), ON_OUTCOME)


def test_subtree_has_parents_first(driver: Driver) -> None:
    """The node itself is the first."""
    top = driver.goal()
    inner = driver.goal(under=top)
    leaf = driver.add(under=inner)
    assert [v.record.id for v in subtree(driver.graph.vertices[top])] == [top, inner, leaf]


def test_is_ancestor_looks_all_the_way_up(driver: Driver) -> None:
    """No node is its own ancestor."""
    top = driver.goal()
    leaf = driver.add(under=driver.goal(under=top))
    vertices = driver.graph.vertices
    assert is_ancestor(vertices[top], vertices[leaf])
    assert not is_ancestor(vertices[leaf], vertices[top])
    assert not is_ancestor(vertices[top], vertices[top])


def test_unmet_deps_leave_out_what_is_done(driver: Driver) -> None:
    """Each comes with its target."""
    done, open_ = driver.add(), driver.add()
    v = driver.graph.vertices[driver.add(done, open_)]
    driver.complete(done)
    assert [(dep.on, target.record.id) for dep, target in unmet_deps(v)] == [(open_, open_)]


def test_gated_by_are_the_groups_above(driver: Driver) -> None:
    """Work between them does not gate."""
    goal = driver.goal()
    leaf = driver.add(under=driver.add(under=goal))
    assert [v.record.id for v in gated_by(driver.graph.vertices[leaf])] == [leaf, goal]


def test_start_is_counted_up_to_the_top(driver: Driver) -> None:
    """And taken back by a release."""
    top = driver.goal()
    leaf = driver.add(under=driver.goal(under=top))
    driver.claim(leaf)
    assert has_started(driver.graph.vertices[top])
    driver.undo()
    assert not has_started(driver.graph.vertices[top])


def test_move_takes_the_counts_along(driver: Driver) -> None:
    """The old parent loses what the new one gets."""
    old, new = driver.goal(), driver.goal()
    leaf = driver.add(under=old)
    driver.apply(Upsert(id=leaf, parent=new))
    assert [driver.graph.vertices[goal].open_children for goal in (old, new)] == [0, 1]


def test_move_below_a_group_with_needs_finds_it(driver: Driver) -> None:
    """The nearest ancestor with needs is followed down a moved subtree."""
    goal, inner = driver.goal(needs={"gpu": 1}), driver.goal()
    leaf = driver.add(under=inner)
    driver.apply(Upsert(id=inner, parent=goal))
    assert driver.graph.vertices[leaf].resource_ancestor is driver.graph.vertices[goal]


def test_dep_becomes_one_on_the_outcome_by_a_move(driver: Driver) -> None:
    """Below its target, a node waits for that one's own result."""
    target = driver.add()
    waiting = driver.add(target)
    driver.apply(Upsert(id=waiting, parent=target))
    v = driver.graph.vertices[waiting]
    assert v.outcome_deps == {driver.graph.vertices[target]}


def test_unlinked_target_has_no_dependents(driver: Driver) -> None:
    """Both directions go."""
    target = driver.add()
    waiting = driver.add(target)
    driver.apply(Unlink(before=target, after=waiting))
    assert driver.graph.vertices[target].dependents is None
