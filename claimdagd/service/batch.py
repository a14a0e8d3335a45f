"""What is done between two writes of the journal: written in one go, told after that, or taken back whole.

An answer leaves only when what it tells is in the journal. Where the journal cannot be written, everything of the batch
is undone and each request is done again by itself, so that only those are refused that cannot be written.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from claimdagd import wire
from claimdagd.core.graph import Graph, Mutation
from claimdagd.core.refusal import Refusal
from claimdagd.core.vertex import Vertex
from claimdagd.service.answers import op_of, refused
from claimdagd.service.once import OnceTokens
from claimdagd.service.parking import Lot, ParkedClaim
from claimdagd.store.entry import entry_line
from claimdagd.store.errors import StorageError
from claimdagd.wire import Code

if TYPE_CHECKING:
    from claimdagd.service.sessions import Keeper, Session

log = logging.getLogger("claimdagd")
_encode = msgspec.json.Encoder().encode


class Act(msgspec.Struct, gc=False):
    """One thing done in a batch: what is to be delivered once it is in the journal, and how it is taken back."""

    session: Session | None
    #: What is asked again where the batch cannot be written.
    request: wire.Request | None
    answer: bytes | None
    mutation: Mutation | None = None
    line: bytes | None = None
    once: str | None = None
    #: The claim that had waited and was answered by this.
    parked: ParkedClaim | None = None
    #: The claim that waits since this.
    parks: ParkedClaim | None = None
    #: Makes the answer when it is told, where it is about the journal itself.
    late: Callable[[], bytes] | None = None
    #: Whose bound claims this ended: vertex, connection, and the event for it, if it is to be told.
    lost: list[tuple[Vertex, int, bytes | None]] | None = None


class Batch:
    """The acts since the last commit, and in fsync mode those that are written but not flushed."""

    def __init__(
        self,
        graph: Graph,
        store: Keeper,
        lot: Lot,
        once: OnceTokens,
        *,
        fsync: bool,
        tell: Callable[[list[Act]], None],
        ask: Callable[[Session, wire.Request], None],
    ) -> None:
        self._graph = graph
        self._store = store
        self._lot = lot
        self._once = once
        self._fsync = fsync
        self._tell = tell
        self._ask = ask
        self.acts: list[Act] = []
        self.seq = store.seq
        #: fsync mode: batches written, each with the last seq that must be on disk before it is told.
        self.unflushed: deque[tuple[int, list[Act]]] = deque()

    def line(
        self,
        op: str,
        actor: str | None,
        mutation: Mutation,
        recs: dict[Vertex, bytes],
        once: str | None = None,
        reply: bytes | None = None,
    ) -> bytes:
        """The journal line of a mutation, with the next seq. `recs` holds records that are encoded already."""
        self.seq += 1
        nodes = [recs[v] if v in recs else _encode(v.rec) for v in mutation.nodes]
        graph = self._graph
        return entry_line(
            self.seq,
            graph.wall,
            op,
            actor,
            nodes,
            mutation.flips,
            mutation.gone,
            mutation.capacity,
            once,
            reply if once is not None else None,
            graph.next_number,
        )

    def commit(self) -> None:
        """Write what was done, then tell."""
        acts = self.acts
        if not acts:
            return
        self.acts = []
        if len(acts) == 1:
            line = acts[0].line
            lines = [] if line is None else [line]
        else:
            lines = [act.line for act in acts if act.line is not None]
        if lines:
            try:
                self._store.append(lines)
            except StorageError as exc:
                self._take_back(acts)
                self._one_by_one(acts, exc, len(lines) == 1)
                return
        self._written(acts, bool(lines))

    def _written(self, acts: list[Act], journaled: bool) -> None:
        if self._fsync and (journaled or self.unflushed):
            self.unflushed.append((self.seq, acts))
        else:
            self._tell(acts)

    def _take_back(self, acts: list[Act]) -> None:
        for act in reversed(acts):
            if act.mutation is not None:
                self._graph.undo(act.mutation)
            if act.once is not None:
                self._once.forget(act.once)
            if act.parks is not None and act.parks.number in self._lot.claims:
                self._lot.leave(act.parks)
                act.parks.session.lots -= 1
        self.seq = self._store.seq

    def _one_by_one(self, acts: list[Act], exc: StorageError, single: bool) -> None:
        for act in acts:
            session, request = act.session, act.request
            if session is None or session.closed:
                continue
            if act.parked is not None and act.mutation is not None:
                # What was handed to somebody who waits is not handed out after all: he waits on.
                self._lot.come_back(act.parked)
                session.lots += 1
            elif act.parked is not None or request is None:
                self._tell([act])
            elif act.line is not None and single:
                message = f"{op_of(request)}: the journal could not be written ({exc}); nothing was changed"
                session.deliver(refused(request.rid, Refusal(Code.STORAGE, message)))
            else:
                self._ask(session, request)
                again, self.acts = self.acts, []
                lines = [a.line for a in again if a.line is not None]
                try:
                    if lines:
                        self._store.append(lines)
                except StorageError as error:
                    self._take_back(again)
                    self._one_by_one(again, error, single=True)
                else:
                    self._written(again, bool(lines))

    # --------------------------------------------------------------------------------------------------- fsync mode

    def committed(self) -> None:
        """The store was flushed: what is on disk now is told."""
        flushed = self._store.flushed
        while self.unflushed and self.unflushed[0][0] <= flushed:
            self._tell(self.unflushed.popleft()[1])

    def commit_failed(self, exc: Exception) -> None:
        """The flush failed: everything not on disk is undone, and refused."""
        acts = [act for _, batch in self.unflushed for act in batch]
        self.unflushed.clear()
        try:
            self._store.undo_to(self._store.flushed)
        except StorageError as error:
            log.error("the journal could not be taken back to what is on disk: %s", error)
        self._take_back(acts)
        for act in acts:
            session, request = act.session, act.request
            if session is None or session.closed:
                continue
            if act.parked is not None and act.mutation is not None:
                self._lot.come_back(act.parked)
                session.lots += 1
            elif isinstance(request, wire.Mutation):
                message = f"{op_of(request)}: the journal could not be flushed ({exc}); nothing was changed"
                session.deliver(refused(request.rid, Refusal(Code.STORAGE, message)))
            elif request is not None:
                self._ask(session, request)
            elif act.answer is not None:
                session.deliver(act.answer)
        self.commit()
