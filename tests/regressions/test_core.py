"""What the state machine found, each cut down to the few requests that show it and played on both sides again.

`Pair` compares the core with the reference model after every step; what a test asserts besides is what was wrong.
"""

from __future__ import annotations

import pytest

from claimdagd import wire
from claimdagd.model import Dep, Kind, Outcome, Role, Status, When
from tests.model.differential import Pair
from tests.support.driver import TAG


class Story(Pair):
    """A pair that compares everything after each request, and makes nodes by short words."""

    def ask(self, request: wire.Request, *, undo: bool = False) -> None:
        self.run(request, undo=undo)
        self.look()

    def add(self, *deps: str, under: str | None = None, kind: Kind = Kind.TASK, **fields: object) -> str:
        """A new node; the id."""
        edges = tuple(Dep(dep) for dep in deps)
        self.ask(wire.Upsert(kind=kind, parent=under, deps=edges, **fields))  # type: ignore[arg-type]
        return f"{TAG}-{self.model.minted}"

    def goal(self, *deps: str, under: str | None = None, **fields: object) -> str:
        return self.add(*deps, under=under, kind=Kind.GOAL, **fields)

    def status(self, node_id: str) -> str:
        return str(self.core.status(node_id))


@pytest.fixture
def story() -> Story:
    return Story()


def test_kind_change_undone_leaves_no_group_in_the_queue(story: Story) -> None:
    """A group that was work for a moment is nobody's to claim."""
    parent = story.add(needs={"gpu": 1})
    group = story.goal(under=parent)
    story.ask(wire.Upsert(id=group, kind=Kind.TASK), undo=True)


def test_needs_given_to_a_free_node_put_it_in_a_line(story: Story) -> None:
    """A node that comes to need units no longer counts as one that needs none."""
    node = story.add()
    story.ask(wire.Upsert(id=node, needs={"gpu": 1}))


def test_node_moved_below_needs_leaves_the_free_line(story: Story) -> None:
    """What stands under a group with needs takes them with its claim."""
    goal, node = story.goal(needs={"gpu": 1}), story.add()
    story.ask(wire.Upsert(id=node, parent=goal))
    story.ask(wire.Claim(id=node, actor="ann"))
    assert story.core.used("gpu") == 1


def test_reopened_node_is_not_judged_again_for_an_edge_that_stood(story: Story) -> None:
    """It waits for the failed work that it was reopened to wait for, whatever else it is linked to."""
    failed, other = story.add(), story.add()
    node = story.add(failed)
    story.ask(wire.Complete(id=failed, status=Outcome.FAILED))
    story.ask(wire.Reopen(id=node))
    story.ask(wire.Link(before=other, after=node))
    assert story.status(node) == "todo"


def test_parent_whose_last_open_child_moves_away_ends(story: Story) -> None:
    """It would stay completing for good, with its units."""
    parent = story.add(needs={"gpu": 1})
    child = story.add(under=parent)
    story.ask(wire.Claim(id=parent, actor="ann"))
    story.ask(wire.Complete(id=parent))
    story.ask(wire.Upsert(id=child, parent=None))
    assert story.status(parent) == "done"
    assert story.core.used("gpu") == 0


def test_cause_is_what_failed_not_what_was_done_last(story: Story) -> None:
    """A child that ends well may end its parent badly: reopening the parent brings back what waited for it."""
    parent = story.add()
    bad, good = story.add(under=parent), story.add(under=parent)
    after = story.add(parent)
    story.ask(wire.Complete(id=parent))
    story.ask(wire.Complete(id=bad, status=Outcome.FAILED))
    story.ask(wire.Complete(id=good))
    assert story.core.view(after)["cause"] == parent
    story.ask(wire.Reopen(id=parent))
    assert story.status(after) == "todo"


def test_priority_of_a_new_group_goes_through_the_gate_above_it(story: Story) -> None:
    """What the gate waits for is as urgent as what stands behind the gate."""
    first, other = story.add(), story.add(cost=9.0)
    gate = story.goal(first)
    story.goal(under=gate, priority=1)
    assert [node["id"] for node in story.core.apply(wire.Ready())["nodes"]] == [first, other]


def test_block_of_a_running_group_undone_opens_its_gate(story: Story) -> None:
    """Its other children are ready as before."""
    goal = story.goal()
    one = story.add(under=goal)
    story.add(under=goal)
    story.ask(wire.Claim(id=one, actor="ann"))
    story.ask(wire.Upsert(id=goal, status=Status.BLOCKED), undo=True)


def test_submission_that_closes_a_cycle_through_an_old_gate_is_refused(story: Story) -> None:
    """One new node under what the gate waits for, another behind the gate, and the first after the second."""
    gate = story.goal()
    behind = story.add(under=gate)
    before = story.add()
    story.ask(wire.Link(before=before, after=gate))
    nodes = (
        wire.SubmitNode(parent=before, deps=(Dep("two"),)),
        wire.SubmitNode(parent=behind, ref="two"),
    )
    assert story.core.refused(wire.Submit(nodes=nodes)).code == wire.Code.CYCLE
    story.ask(wire.Submit(nodes=nodes))


def test_reopen_below_a_cancelled_chain_brings_back_all_of_it(story: Story) -> None:
    """Whether a cancelled ancestor moves its generation does not hang on the order in which it is met."""
    top = story.add()
    middle = story.goal(under=top)
    leaf = story.add(under=middle)
    story.ask(wire.Cancel(id=top))
    story.ask(wire.Reopen(id=leaf))
    assert [story.core.view(node)["gen"] for node in (top, middle, leaf)] == [1, 2, 2]


def test_group_that_is_open_again_has_no_error(story: Story) -> None:
    """The error of its cancellation goes with the cancellation."""
    goal = story.goal()
    child = story.add(under=goal)
    story.ask(wire.Cancel(id=goal, error="enough"))
    story.ask(wire.Reopen(id=child))
    assert story.core.view(goal)["error"] is None


def test_group_is_decided_by_its_children_in_whatever_order_a_cascade_meets_it(story: Story) -> None:
    """It waits on the cancelled work by one way and its last open child by another; the first child was done."""
    first = story.add()
    goal = story.goal()
    done = story.add(under=goal)
    story.ask(wire.Link(before=story.add(first), after=goal))
    story.add(first, under=goal)
    story.ask(wire.Complete(id=done))
    story.ask(wire.Cancel(id=first))
    assert story.status(goal) == "done"


def test_wait_for_a_blocked_ancestor_is_no_deadlock(story: Story) -> None:
    """A child waits for its ancestor's own result, not for the other children that lack its unit."""
    top = story.add()
    lender = story.add(under=top, needs={"gpu": 1})
    borrower = story.add(under=lender, needs={"gpu": 1})
    story.ask(wire.Upsert(id=top, status=Status.BLOCKED))
    story.ask(wire.Claim(id=borrower, actor="ann"))
    story.ask(wire.Upsert(parent=borrower, deps=(Dep(top, When.AFTER_ANY),)))
    assert story.core.deadlocks() == []


def test_line_under_an_ancestor_that_moved_is_forgotten_where_it_was(story: Story) -> None:
    """The old ancestor's next grant would look for it."""
    old = story.add(needs={"gpu": 1})
    moved = story.add(under=old, needs={"gpu": 1})
    story.add(under=moved)
    story.ask(wire.Upsert(id=moved, parent=story.add()))
    story.ask(wire.Claim(id=old, actor="ann"))


def test_strict_worker_is_told_of_other_roles_not_of_resources(story: Story) -> None:
    """Work that another role could take lacks nothing."""
    story.add(role=Role.VERIFIER)
    story.ask(wire.ClaimNext(actor="ann", role=Role.EXPLORE, strict=True))


def test_goals_wait_for_one_unit_in_turn(story: Story) -> None:
    """The children of each goal take other units once it has its own, and the next goal's are in sight again."""
    for _ in range(3):
        story.add(under=story.goal(needs={"gpu": 1}))
    for _ in range(3):
        story.ask(wire.ClaimNext(actor="ann"))
        story.ask(wire.ClaimNext(actor="bob"))
        held = next(item.id for item in story.model.items.values() if item.held)
        story.ask(wire.Complete(id=held))
