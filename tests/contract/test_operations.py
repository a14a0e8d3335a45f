"""Every op of the wire is known to each part that has to know it: a new one is missed here, not by a user."""

from __future__ import annotations

import re

import pytest

from claimdagd import wire
from claimdagd.core import apply
from claimdagd.service import replies
from tests.contract.markdown import ROOT
from tests.support.in_process import InProcessDaemon

MUTATIONS = {cls for cls in wire.REQUEST_TYPES.values() if issubclass(cls, wire.Mutation)}
QUESTIONS = set(wire.REQUEST_TYPES.values()) - MUTATIONS


def test_every_mutation_has_an_operation() -> None:
    """In the table of claimdagd/core/apply.py."""
    assert set(apply._OPERATIONS) == MUTATIONS


def test_every_mutation_has_a_reply() -> None:
    """In the table of claimdagd/service/replies.py."""
    assert set(replies.REPLIES) == MUTATIONS


@pytest.mark.parametrize("op", [op for op, cls in wire.REQUEST_TYPES.items() if cls in QUESTIONS])
def test_every_question_is_answered(op: str) -> None:
    """None of them ends as an internal error, whatever it is asked about."""
    fields = {"get": {"id": "s1mu-1"}, "why": {"id": "s1mu-1"}, "wait": {"ids": ["s1mu-1"], "timeout": 0}}
    peer = InProcessDaemon().peer()
    peer.ask({"op": "upsert"})
    answers = peer.ask({"op": op, **fields.get(op, {})})
    assert all(answer.get("error", {}).get("code") != "internal" for answer in answers)


@pytest.mark.parametrize("path", ["tests/model/reference.py", "tests/model/stateful.py"])
def test_every_mutation_is_known_to_the_model(path: str) -> None:
    """The reference model has the rule, and the state machine asks for it."""
    named = set(re.findall(r"wire\.(\w+)", (ROOT / path).read_text(encoding="utf-8")))
    assert {cls.__name__ for cls in MUTATIONS} <= named


def test_every_mutation_is_asked_by_the_simulated_clients() -> None:
    """Whole histories are played with it, on a disk that fails."""
    named = set(re.findall(r"\b(\w+)\b", (ROOT / "tests/simulation/clients.py").read_text(encoding="utf-8")))
    assert named >= wire.MUTATING_OPS
