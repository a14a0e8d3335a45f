"""What the shell needs from the service that it serves, as types. Must hold no behaviour.

The real one is `claimdagd.service.Service`; tests of the shell alone bring a small one of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from: a test's clock moves when the test says so."""

    def now(self) -> float:
        """Monotonic seconds."""

    def wall(self) -> float:
        """Unix seconds."""


class Session(Protocol):
    """One connection as the service sees it."""

    @property
    def parked(self) -> bool:
        """Whether a request of it is still to be answered, later."""

    @property
    def watching(self) -> bool:
        """Whether it follows the ledger."""


class Served(Protocol):
    """A synchronous service without I/O. It calls back only while it is being called."""

    on_wake: Callable[[], None]
    on_shutdown: Callable[[], None]
    on_snapshot: Callable[[], None]

    @property
    def idle(self) -> bool:
        """No live claim, nothing unfinished."""

    @property
    def commit_due(self) -> bool:
        """Whether answers are held back until the journal is flushed."""

    def open(self, deliver: Callable[[bytes], None], hang_up: Callable[[], None]) -> Session: ...

    def receive(self, session: Session, lines: Iterable[bytes]) -> None:
        """Take whole lines, in order; the iterable is read once, and may end early when the turn is over."""

    def closed(self, session: Session) -> None: ...

    def tick(self) -> float | None:
        """Do what is due; returns when the next is, on the clock, or None."""

    def starved(self, now: float) -> None:
        """The loop did not run for a while: nobody could have been heard."""

    def drain(self) -> None: ...

    def snapshot(self) -> Iterator[None]: ...

    def committed(self) -> None: ...

    def commit_failed(self, exc: Exception) -> None: ...
