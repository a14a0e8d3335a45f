"""The clocks of tests: one moved by hand, and the machine's own, which a test may set ahead."""

from __future__ import annotations

import time


class ManualClock:
    """Monotonic and wall time that only a test moves: `t` is the monotonic time, wall time runs along with it."""

    def __init__(self, t: float = 1000.0, wall: float = 1_700_001_000.0) -> None:
        self.t = t
        self._ahead = wall - t

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.t

    def wall(self) -> float:
        """Return Unix seconds."""
        return self._ahead + self.t


class RealClock:
    """The machine's clocks, set ahead by `ahead` seconds."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic() + self.ahead

    def wall(self) -> float:
        """Return Unix seconds."""
        return time.time() + self.ahead
