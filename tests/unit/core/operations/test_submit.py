"""The operation submit."""

from __future__ import annotations

from typing import Any

from claimdagd.model import Dep
from claimdagd.wire import Code, Submit, SubmitNode
from tests.support.driver import Driver


def faults(driver: Driver, *nodes: SubmitNode, **fields: Any) -> list[tuple[int | None, str]]:
    """The faults of a submission, each by index and code."""
    refusal = driver.refused(Submit(nodes=nodes, **fields))
    return [(fault["index"], fault["code"].value) for fault in refusal.details["faults"]]


def test_refs_name_nodes_that_come_later(driver: Driver) -> None:
    """A dep and a parent may name a ref before its node is listed."""
    ids = driver.apply(
        Submit(nodes=(SubmitNode(ref="b", deps=(Dep("a"),), parent="g"), SubmitNode(ref="a"), SubmitNode(ref="g")))
    )["ids"]
    node = driver.nodes()[ids[0]]
    assert (node.parent, node.deps) == (ids[2], (Dep(ids[1]),))


def test_return_names_the_ids_in_its_order(driver: Driver) -> None:
    """Only those that are asked for."""
    nodes = (SubmitNode(ref="a"), SubmitNode(ref="b"), SubmitNode())
    every = driver.apply(Submit(nodes=nodes))["ids"]
    assert len(every) == 3
    again = driver.apply(Submit(nodes=nodes, returns=("b", "a")))["ids"]
    assert [int(node_id[5:]) for node_id in again] == [5, 4]


def test_faults_are_listed_all_at_once(driver: Driver) -> None:
    """Each with the index of its node; nothing is added."""
    assert faults(
        driver, SubmitNode(ref="a"), SubmitNode(ref="a"), SubmitNode(deps=(Dep("z"),)), SubmitNode(needs={"gpu": 2})
    ) == [(1, "bad_request"), (2, "not_found"), (3, "would_not_run")]
    assert driver.nodes() == {}


def test_cycle_of_deps_is_told_by_refs(driver: Driver) -> None:
    """The path is in the words of the submission."""
    refusal = driver.refused(
        Submit(nodes=(SubmitNode(ref="a", deps=(Dep("b"),)), SubmitNode(ref="b", deps=(Dep("a"),))))
    )
    assert refusal.code is Code.CYCLE
    assert "a -> b -> a" in refusal.message or "b -> a -> b" in refusal.message


def test_cycle_of_parents_is_a_fault(driver: Driver) -> None:
    """Parents are a forest."""
    assert faults(driver, SubmitNode(ref="a", parent="b"), SubmitNode(ref="b", parent="a")) == [(0, "cycle")]


def test_node_that_waits_on_itself_is_a_fault(driver: Driver) -> None:
    """By its own ref."""
    assert faults(driver, SubmitNode(ref="a", deps=(Dep("a"),))) == [(0, "cycle")]


def test_return_of_an_unknown_ref_is_a_fault(driver: Driver) -> None:
    """It belongs to no node, so it has no index."""
    assert faults(driver, SubmitNode(ref="a"), returns=("z",)) == [(None, "not_found")]


def test_numbers_of_a_refused_submission_are_used_again(driver: Driver) -> None:
    """A refusal changes nothing, and so mints nothing."""
    faults(driver, SubmitNode(), SubmitNode(deps=(Dep("z"),)))
    assert driver.add().endswith("-1")


def test_deps_on_nodes_in_the_graph_are_by_id(driver: Driver) -> None:
    """A submission may hang on work that is there already."""
    there = driver.add()
    (node,) = driver.apply(Submit(nodes=(SubmitNode(deps=(Dep(there),)),)))["ids"]
    assert driver.status(node) == "todo"
