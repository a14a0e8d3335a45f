"""The words that stand in `limits` are those of the enums."""

from __future__ import annotations

from claimdagd import limits, model


def test_words_are_those_of_the_model() -> None:
    """Those who may not import the model for its cost read the same words here."""
    assert tuple(model.Role) == limits.ROLES
    assert tuple(model.Kind) == limits.KINDS
    assert set(limits.GROUPS) == model.GROUPS
    assert set(limits.TERMINAL) == model.TERMINAL
    assert set(limits.LIVE) == model.LIVE
