"""The names that other programs import: none goes, and no signature changes, without somebody meaning it."""

from __future__ import annotations

import pytest

from claimdag_client import errors
from tests.contract import public_surface


def test_public_names_and_signatures_are_the_recorded_ones() -> None:
    """If the change is meant: `python -m tests.contract.public_surface`, and a line in the changelog."""
    assert public_surface.surface() == public_surface.FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("Misasked", "InvalidRequest"),
        ("NotNow", "TryLater"),
        ("CouldNeverRun", "Unsatisfiable"),
        ("NothingToTake", "NoWork"),
        ("DaemonTrouble", "DaemonError"),
    ],
)
def test_a_former_name_still_works_and_warns(former: str, name: str) -> None:
    """For one release."""
    with pytest.warns(DeprecationWarning, match=name):
        assert getattr(errors, former) is getattr(errors, name)
