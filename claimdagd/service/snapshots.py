"""Snapshots: when one is worth while, which sessions asked for one, and their answers. Must not change the graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, overload

import msgspec

from claimdagd import wire
from claimdagd.core.graph import Graph
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import Node
from claimdagd.service.idempotency import OnceTokens
from claimdagd.service.replies import encode_ok, refused
from claimdagd.service.sessions import Clock, Session, Storage
from claimdagd.store.errors import StorageError
from claimdagd.store.snapshot import SnapshotHead
from claimdagd.wire import Code

#: A journal this many times the last snapshot, and not small, makes a new snapshot worth while.
JOURNAL_PER_SNAPSHOT: Final = 2
JOURNAL_MIN_BYTES: Final = 4 * 1024 * 1024
#: How many entries before a snapshot the new journal keeps, so that `log` knows them after a restart too.
LEDGER_KEPT: Final = 1024

#: A session and the checkpoint that it asked for.
Asked = tuple[Session, wire.Checkpoint]
_encode = msgspec.json.Encoder().encode


class Snapshots:
    """Writes snapshots of one graph. A journal of more than `wanted_above` bytes makes one worth while."""

    def __init__(
        self,
        graph: Graph,
        store: Storage,
        once: OnceTokens,
        clock: Clock,
        tell: Callable[[list[tuple[Session, bytes]]], None],
    ) -> None:
        """`tell` delivers answers to sessions that asked for a snapshot, and handles what they asked after that."""
        self._graph = graph
        self._store = store
        self._once = once
        self._clock = clock
        self._tell = tell
        self._failed = False
        #: Who asked for a snapshot: the next one, and the one that is being written.
        self._asked: list[Asked] = []
        self._being_written: list[Asked] = []
        self.wanted_above = 0
        self._limit_journal()
        store.memory = self.state

    def state(self) -> tuple[SnapshotHead, Sequence[Node], list[tuple[str, bytes]]]:
        """Return the whole state after the last entry. The nodes are read when they are asked for."""
        graph, now = self._graph, self._clock.wall()
        capacities, paused = dict(graph.resources.configured), graph.pauses.ids()
        head = SnapshotHead(graph.tag, self._store.seq, now, graph.next_number, capacities, paused)
        return head, Records(list(graph.vertices.values())), list(self._once.items())

    def _limit_journal(self) -> None:
        store = self._store
        grown = max(JOURNAL_MIN_BYTES, JOURNAL_PER_SNAPSHOT * store.snapshot_bytes)
        self.wanted_above = store.journal_bytes + grown if self._failed else grown

    def begun(self) -> None:
        """Want no other snapshot before this one is written, however long the journal grows."""
        self.wanted_above = sys.maxsize

    def ask(self, session: Session, r: wire.Checkpoint) -> None:
        """Have `session` told of the next snapshot."""
        self._asked.append((session, r))

    def forget(self, session: Session) -> None:
        """Forget what a closed session asked."""
        self._asked = [(s, r) for s, r in self._asked if s is not session]

    def dismiss(self) -> list[Asked]:
        """Return and forget all that asked and are not answered yet; the caller answers them."""
        asked = [*self._being_written, *self._asked]
        self._being_written.clear()
        self._asked.clear()
        return asked

    def write(self) -> Generator[Any, None, None]:
        """Write a snapshot in slices; the caller gives the loop a turn between them. Raises StorageError."""
        self.begun()
        asked = self._being_written = self._asked
        self._asked = []
        head, nodes, once = self.state()
        try:
            size = yield from self._store.snapshot(head, nodes, once, ledger=LEDGER_KEPT)
        except StorageError as exc:
            self._failed = True
            refusal = Refusal(Code.STORAGE, f"checkpoint: no snapshot was written ({exc}); the journal stands")
            self._end([(session, refused(r.rid, refusal)) for session, r in asked])
            raise
        else:
            self._failed = False
            ok = _encode({"seq": head.seq, "bytes": size})
            self._end([(session, encode_ok(r.rid, ok)) for session, r in asked])

    def _end(self, answers: list[tuple[Session, bytes]]) -> None:
        self._being_written = []
        self._limit_journal()
        self._tell(answers)


class Records(Sequence[Node]):
    """The records of vertices, each read when it is asked for, so that a snapshot needs no pause to copy them."""

    def __init__(self, vertices: list[Vertex]) -> None:
        self._vertices = vertices

    def __len__(self) -> int:
        return len(self._vertices)

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> list[Node]: ...
    def __getitem__(self, index: int | slice) -> Node | list[Node]:
        if isinstance(index, slice):
            return [v.record for v in self._vertices[index]]
        return self._vertices[index].record
