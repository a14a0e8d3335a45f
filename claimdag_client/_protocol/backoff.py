"""How long to wait between attempts to reach a daemon that is gone. Pure numbers; the caller sleeps."""

from __future__ import annotations

import random
from collections.abc import Iterator

FIRST_S = 0.02
#: Well under the ten seconds that a restarted daemon gives bound claims to come back.
LONGEST_S = 1.0


def delays() -> Iterator[float]:
    """Seconds to wait before each further attempt: doubling, with a spread that keeps a crowd apart."""
    delay = FIRST_S
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(delay * 2, LONGEST_S)
