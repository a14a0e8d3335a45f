"""How long to wait for a daemon that is silent. Standard library only."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: The user hears whom a command waits for after this.
REMARK_S = 5.0
#: A daemon that stays silent so long is given up, unless the caller gave a time limit.
SILENCE_LIMIT_S = 30.0
#: What a daemon gets beyond the caller's time limit, to answer that the time has passed.
ANSWER_SLACK_S = 1.0


class Patience:
    """One wait for the daemon: a remark once it has lasted a while, and an end.

    Args:
        limit_s: Seconds until the wait ends; None: it does not.
        remark: Called once, after REMARK_S seconds.
    """

    def __init__(self, limit_s: float | None, remark: Callable[[], None] | None = None) -> None:
        now = time.monotonic()
        self.limit_s = limit_s
        self.until = None if limit_s is None else now + limit_s
        self._remark = remark
        self._remark_at = now + REMARK_S

    def left(self) -> float | None:
        """Return the seconds until the wait must be looked at again; None: never. Raises TimeoutError at its end."""
        now = time.monotonic()
        if self._remark is not None and now >= self._remark_at:
            self._remark()
            self._remark = None
        ends = [] if self.until is None else [self.until]
        if self._remark is not None:
            ends.append(self._remark_at)
        if self.until is not None and now >= self.until:
            raise TimeoutError
        return max(0.001, min(ends) - now) if ends else None

    def extend(self, least_s: float) -> None:
        """Let the wait go on for at least `least_s` seconds from now."""
        if self.until is not None:
            self.until = max(self.until, time.monotonic() + least_s)
