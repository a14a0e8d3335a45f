"""The public Python names and their signatures are those that are pinned."""

from __future__ import annotations

import warnings

from tests.contract import public_surface


def test_public_names_are_those_pinned() -> None:
    """A change is a change for users: the changelog tells it, `python -m tests.contract.public_surface` pins it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        today = list(public_surface.lines())
    assert today == public_surface.PINNED.read_text(encoding="utf-8").splitlines()
