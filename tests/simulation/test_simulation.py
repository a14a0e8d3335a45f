"""A few hundred whole histories of the daemon, from a seed that is printed; `python -m tests.soak sim` runs more."""

from __future__ import annotations

import logging
import os
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.simulation.history import Failed, run

HISTORIES = 400
SECONDS = 20.0


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The daemon says in its log what the disk does to it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
def test_histories_hold(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing answered is lost, nothing refused is done, and nobody holds what another holds, whatever fails."""
    seed = int(os.environ.get("CLAIMDAG_SIM_SEED", random.SystemRandom().randrange(1_000_000_000)))
    with capsys.disabled():
        os.write(2, f" [sim seed {seed}] ".encode())
    tally: Counter[str] = Counter()
    began = time.monotonic()
    while tally["histories"] < HISTORIES and time.monotonic() - began < SECONDS:
        at = seed + tally["histories"]
        try:
            tally += run(at)
        except Failed as failure:
            pytest.fail(f"{failure}\nits story: python -m tests.soak sim --seed {at} --histories 1", pytrace=False)
    assert tally["entries"] > 1000
    assert tally["restarts"] > 50


def test_history_replays_from_its_seed() -> None:
    """The same seed is the same history, to the last request."""
    assert [run(seed) for seed in range(5)] == [run(seed) for seed in range(5)]
