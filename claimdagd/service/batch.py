"""What is done between two writes of the journal: written in one go, delivered after that, or rolled back whole.

An answer leaves only when what it tells is in the journal. If the journal cannot be written, every item of the batch is
undone and each request is handled again by itself, so that only those are refused that cannot be written.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import ClassVar, Final, TypeAlias

import msgspec

from claimdagd import wire
from claimdagd.core.graph import Graph
from claimdagd.core.mutation import Mutation
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.service.idempotency import OnceTokens
from claimdagd.service.replies import op_of, refused
from claimdagd.service.sessions import Session, Storage
from claimdagd.service.wait_list import WaitingClaim, WaitList
from claimdagd.store.entry import entry_line
from claimdagd.store.errors import StorageError
from claimdagd.wire import Code

#: Requests that need not change a record: asked again they do no harm, and are not journaled for a token's sake.
UNJOURNALED: Final = frozenset({wire.Renew, wire.Running})

log = logging.getLogger("claimdagd")
_encode = msgspec.json.Encoder().encode

#: A bound claim that ended: its vertex, its connection, and the event for the holder unless it ended the claim itself.
Loss: TypeAlias = tuple[Vertex, int, bytes | None]


class Answered(msgspec.Struct, gc=False):
    """A request that changed nothing, with its answer, or with what makes the answer when it is delivered.

    `request` is handled again if the batch is rolled back; None if the answer holds all the same.
    """

    session: Session
    request: wire.Request | None
    answer: bytes | Callable[[], bytes]
    line: ClassVar[None] = None


class Changed(msgspec.Struct, gc=False):
    """An operation that was done, its journal line, and its answer unless that comes later.

    `request` is handled again if the batch is rolled back; None if an item before it has the request, or if the daemon
    itself did this. `once` is the token that was answered, `once_before` what it had been answered with.
    """

    session: Session | None
    request: wire.Request | None
    answer: bytes | None
    mutation: Mutation | None = None
    line: bytes | None = None
    once: str | None = None
    once_before: bytes | None = None
    lost: list[Loss] | None = None


class Served(Changed, gc=False, kw_only=True):
    """A waiting claim that was answered. It goes back on the wait list if the batch is rolled back."""

    waiting: WaitingClaim


class Waits(msgspec.Struct, gc=False):
    """A claim that was put on the wait list. It leaves the list if the batch is rolled back."""

    waiting: WaitingClaim
    line: ClassVar[None] = None


BatchItem: TypeAlias = Answered | Changed | Served | Waits


class Batch:
    """The items since the last commit, and in fsync mode those that are written but not flushed."""

    def __init__(self, graph: Graph, store: Storage, wait_list: WaitList, once: OnceTokens, *, fsync: bool) -> None:
        self._graph = graph
        self._store = store
        self._wait_list = wait_list
        self._once = once
        self._fsync = fsync
        self.items: list[BatchItem] = []
        self.seq = store.seq
        #: fsync mode: batches written, each with the last seq that must be on disk before it is delivered.
        self.unflushed: deque[tuple[int, list[BatchItem]]] = deque()

    def connect(
        self,
        *,
        deliver: Callable[[list[BatchItem]], None],
        handle: Callable[[Session, wire.Request], None],
        on_rollback: Callable[[list[Mutation]], None],
    ) -> None:
        """Set who delivers items that are journaled, who handles a request, and who hears of a rollback."""
        self._deliver = deliver
        self._handle = handle
        self._on_rollback = on_rollback

    def line(
        self,
        op: str,
        actor: str | None,
        mutation: Mutation,
        encoded: dict[Vertex, bytes],
        once: str | None = None,
        reply: bytes | None = None,
    ) -> bytes:
        """Return the journal line of a mutation, with the next seq. `encoded` holds records encoded already."""
        self.seq += 1
        nodes = [encoded[v] if v in encoded else _encode(v.record) for v in mutation.nodes]
        graph = self._graph
        return entry_line(
            self.seq,
            graph.wall,
            op,
            actor,
            nodes,
            mutation.status_changes,
            mutation.pruned,
            mutation.capacity,
            once,
            reply if once is not None else None,
            graph.next_number,
            mutation.paused,
        )

    def commit(self) -> None:
        """Write what was done, then deliver."""
        items = self.items
        if not items:
            return
        self.items = []
        if len(items) == 1:
            line = items[0].line
            lines = [] if line is None else [line]
        else:
            lines = [item.line for item in items if item.line is not None]
        if lines:
            try:
                self._store.append(lines)
            except StorageError as exc:
                self._roll_back(items)
                self._one_by_one(items, exc)
                return
        self._written(items, bool(lines))

    def _written(self, items: list[BatchItem], journaled: bool) -> None:
        if self._fsync and (journaled or self.unflushed):
            self.unflushed.append((self.seq, items))
        else:
            self._deliver(items)

    # ----------------------------------------------------------------------------------------------------- rollback

    def _roll_back(self, items: list[BatchItem]) -> None:
        """Undo all items, the latest first. Waiting claims that were served wait on, at their original position."""
        mutations = []
        listed = set()
        for item in reversed(items):
            if isinstance(item, Waits):
                listed.add(item.waiting.number)
                self._unlist(item.waiting)
            elif isinstance(item, Changed):
                if item.mutation is not None:
                    self._graph.undo(item.mutation)
                    mutations.append(item.mutation)
                if item.once is not None:
                    self._once.restore(item.once, item.once_before)
        for item in items:
            if isinstance(item, Served) and item.waiting.number not in listed and not item.waiting.session.closed:
                self._wait_list.put_back(item.waiting)
                item.waiting.session.pending_replies += 1
        self.seq = self._store.seq
        self._on_rollback(mutations)

    def _unlist(self, waiting: WaitingClaim) -> None:
        if waiting.number in self._wait_list.claims:
            self._wait_list.leave(waiting)
            waiting.session.pending_replies -= 1

    def _one_by_one(self, items: list[BatchItem], exc: StorageError) -> None:
        """After a failed write: handle each request again by itself, so that only what cannot be written is refused."""
        alone = sum(isinstance(item, Answered | Changed) and item.request is not None for item in items) == 1
        for item in items:
            if not isinstance(item, Answered | Changed) or item.session is None or item.session.closed:
                continue
            if item.request is None:
                if isinstance(item, Answered):
                    self._written([item], False)
            elif alone:
                self._refuse(item.session, item.request, f"the journal could not be written ({exc})")
            else:
                self._handle_alone(item.session, item.request)

    def _handle_alone(self, session: Session, request: wire.Request) -> None:
        self._handle(session, request)
        items, self.items = self.items, []
        lines = [item.line for item in items if item.line is not None]
        try:
            if lines:
                self._store.append(lines)
        except StorageError as exc:
            self._roll_back(items)
            self._refuse(session, request, f"the journal could not be written ({exc})")
        else:
            self._written(items, bool(lines))

    def _refuse(self, session: Session, request: wire.Request, why: str) -> None:
        what = "nothing was changed"
        if self._store.broken:
            what = "nor could what was written of it be undone yet: after a crash it may be found done"
        refusal = Refusal(Code.STORAGE, f"{op_of(request)}: {why}; {what}")
        self._written([Answered(session, None, refused(request.rid, refusal))], False)

    # --------------------------------------------------------------------------------------------------- fsync mode

    def committed(self) -> None:
        """Deliver what is on disk since the store was flushed."""
        flushed = self._store.flushed
        while self.unflushed and self.unflushed[0][0] <= flushed:
            self._deliver(self.unflushed.popleft()[1])

    def commit_failed(self, exc: Exception) -> None:
        """Undo and refuse everything that is not on disk, since the flush failed."""
        # Another flush, a snapshot's, may have brought some of it to disk.
        self.committed()
        items = [item for _, batch in self.unflushed for item in batch]
        self.unflushed.clear()
        try:
            self._store.undo_to(self._store.flushed)
        except StorageError as error:
            log.error("the journal could not be cut to what is on disk: %s", error)
        self._roll_back(items)
        for item in items:
            if not isinstance(item, Answered | Changed) or item.session is None or item.session.closed:
                continue
            request = item.request
            if isinstance(request, wire.Mutation) and (item.line is not None or type(request) not in UNJOURNALED):
                self._refuse(item.session, request, f"the journal could not be flushed ({exc})")
            elif request is not None:
                self._handle(item.session, request)
                self.commit()
            elif isinstance(item, Answered):
                self._written([item], False)
