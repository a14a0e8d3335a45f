"""The planted bugs still fit the code, and today's few are found; `python -m tests.soak mutants` hunts for all."""

from __future__ import annotations

import datetime

import pytest

from tests.simulation.planted_bugs import MUTANTS, hunt, stale

QUICK = [mutant for mutant in MUTANTS if mutant.by == "sim" and not mutant.rare]
A_DAY = 2
#: Which ones are hunted for moves on with the days.
TODAY = [QUICK[(datetime.date.today().toordinal() * A_DAY + n) % len(QUICK)] for n in range(A_DAY)]


def test_mutants_fit_the_code() -> None:
    """Each replaces text that is there, once: a check that plants nothing finds nothing."""
    assert len(MUTANTS) >= 15
    assert not stale(), "\n".join(stale())


@pytest.mark.parametrize("mutant", TODAY, ids=[mutant.name.replace(" ", "-") for mutant in TODAY])
def test_mutant_is_caught(mutant: object) -> None:
    """The simulator finds a planted bug within seconds."""
    (planted,) = [m for m in MUTANTS if m is mutant]
    found = hunt(planted, seconds=25.0, seed=1)
    assert found.caught, f"{planted.name} lives: {found.said}"
