"""One connection as the service sees it, and what the service is given: a clock, a store, its settings.

Plain data and protocols. Must not decide anything.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from claimdagd.core.state import Vertex
from claimdagd.model import Node
from claimdagd.store.snapshot import SnapshotHead


class Clock(Protocol):
    """The source of time."""

    def now(self) -> float:
        """Return monotonic seconds."""

    def wall(self) -> float:
        """Return Unix seconds."""


class Storage(Protocol):
    """What the service needs of a store."""

    @property
    def seq(self) -> int: ...
    @property
    def flushed(self) -> int: ...
    @property
    def broken(self) -> bool: ...
    @property
    def journal_bytes(self) -> int: ...

    snapshot_bytes: int
    #: Set by the service: the whole state after the last entry.
    memory: Callable[[], tuple[SnapshotHead, Sequence[Node], Iterable[tuple[str, bytes]]]] | None

    def append(self, lines: list[bytes]) -> None: ...
    def check(self) -> None: ...
    def undo_to(self, mark: int) -> None: ...
    def snapshot(
        self, head: SnapshotHead, nodes: Sequence[Node], once: Iterable[tuple[str, bytes]], *, ledger: int = 0
    ) -> Generator[Any, None, int]: ...


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """`grace_s`: how long a lost connection's claims are kept. `fsync`: answers wait until `committed`.

    `graph_name` is told in hello. `check`: every invariant is checked after every batch, which is slow.
    """

    grace_s: float = 5.0
    fsync: bool = False
    pid: int = 0
    graph_name: str | None = None
    check: bool = False


class Session:
    """One connection: where its answers go, the claims bound to it, and what it has asked to be told later."""

    __slots__ = (
        "backlog",
        "closed",
        "conn",
        "deliver",
        "hang_up",
        "held",
        "peer_pid",
        "pending_replies",
        "unacknowledged",
        "watch_from",
    )

    def __init__(self, conn: int, deliver: Callable[[bytes], None], hang_up: Callable[[], None]) -> None:
        self.conn = conn
        self.deliver = deliver
        self.hang_up = hang_up
        #: The claims bound to it, each with the deadline that it was last warned of.
        self.held: dict[Vertex, float | None] = {}
        #: Claims answered since this peer last spoke: it may not know of them.
        self.unacknowledged: list[Vertex] = []
        self.pending_replies = 0
        #: The process at the other end; 0: it has no number here. None: not known.
        self.peer_pid: int | None = None
        self.watch_from: int | None = None
        #: Lines that came after a checkpoint that is still to be answered; None while there is none.
        self.backlog: list[bytes] | None = None
        self.closed = False

    @property
    def awaits_replies(self) -> bool:
        """Whether an answer is still to come, later."""
        return self.pending_replies > 0

    @property
    def watching(self) -> bool:
        """Whether it receives every mutation."""
        return self.watch_from is not None
