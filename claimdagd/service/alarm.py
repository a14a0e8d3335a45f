"""When the shell means to call `tick` next, and the wish that it does so earlier. Must not keep time."""

from __future__ import annotations

from collections.abc import Callable


class Alarm:
    """Tells the shell that something may be due before `tick_at`, the time that `tick` last returned."""

    __slots__ = ("on_wake", "tick_at")

    def __init__(self) -> None:
        self.tick_at = 0.0
        self.on_wake: Callable[[], None] = lambda: None

    def schedule(self) -> None:
        """Have `tick` called as soon as the shell can."""
        self.tick_at = 0.0
        self.on_wake()
