"""Getting a state out of damaged files: keep the originals, take what verifies, say what was left out."""

from __future__ import annotations

from collections.abc import Callable

from claimdagd.store.errors import Damaged
from claimdagd.store.files import Files
from claimdagd.store.replay import Recovered


def salvage_state(files: Files, directory: str, damage: Damaged, *, new_tag: Callable[[], str], at: float) -> Recovered:
    """What can be had from `directory`, whose files raised `damage`."""
    raise damage
