"""What is done between two writes of the journal: written in one go, told after that, or taken back whole.

An answer leaves only when what it tells is in the journal. Where the journal cannot be written, everything of the batch
is undone and each request is done again by itself, so that only those are refused that cannot be written.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from claimdagd import wire
from claimdagd.core.graph import Graph
from claimdagd.core.mutation import Mutation
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.service.idempotency import OnceTokens
from claimdagd.service.replies import op_of, refused
from claimdagd.service.waiting import Lot, ParkedClaim
from claimdagd.store.entry import entry_line
from claimdagd.store.errors import StorageError
from claimdagd.wire import Code

if TYPE_CHECKING:
    from claimdagd.service.sessions import Keeper, Session

#: Requests that need not change a record: asked again they do no harm, and are not journaled for a token's sake.
UNJOURNALED: Final = frozenset({wire.Renew, wire.Running})

log = logging.getLogger("claimdagd")
_encode = msgspec.json.Encoder().encode


class Act(msgspec.Struct, gc=False):
    """One thing done in a batch: what is to be delivered once it is in the journal, and how it is taken back."""

    session: Session | None
    #: What is asked again where the batch cannot be written; None where that is told again as it is.
    request: wire.Request | None
    answer: bytes | None
    mutation: Mutation | None = None
    line: bytes | None = None
    #: The token that this answered, and what answered it before.
    once: str | None = None
    once_before: bytes | None = None
    #: Belongs to the request of an act before it, and is done again with that.
    follows: bool = False
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
        undone: Callable[[list[Mutation]], None],
    ) -> None:
        """`tell` delivers acts that are journaled, `ask` does a request, `undone` hears of what was taken back."""
        self._graph = graph
        self._store = store
        self._lot = lot
        self._once = once
        self._fsync = fsync
        self._tell = tell
        self._ask = ask
        self._undone = undone
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
        seq: int | None = None,
    ) -> bytes:
        """The journal line of a mutation, with the next seq, or with the one that it was given before.

        `recs` holds records that are encoded already.
        """
        if seq is None:
            self.seq += 1
            seq = self.seq
        nodes = [recs[v] if v in recs else _encode(v.record) for v in mutation.nodes]
        graph = self._graph
        return entry_line(
            seq,
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
                self._one_by_one(acts, exc)
                return
        self._written(acts, bool(lines))

    def _written(self, acts: list[Act], journaled: bool) -> None:
        if self._fsync and (journaled or self.unflushed):
            self.unflushed.append((self.seq, acts))
        else:
            self._tell(acts)

    def _take_back(self, acts: list[Act]) -> None:
        """Undo it all, the latest first. Whoever had waited and was answered by it waits on, at his old place."""
        mutations = []
        parks = set()
        for act in reversed(acts):
            if act.mutation is not None:
                self._graph.undo(act.mutation)
                mutations.append(act.mutation)
            if act.once is not None:
                self._once.restore(act.once, act.once_before)
            if act.parks is not None:
                parks.add(act.parks.number)
                if act.parks.number in self._lot.claims:
                    self._lot.leave(act.parks)
                    act.parks.session.lots -= 1
        for act in acts:
            parked = act.parked
            if parked is not None and parked.number not in parks and not parked.session.closed:
                self._lot.come_back(parked)
                parked.session.lots += 1
        self.seq = self._store.seq
        self._undone(mutations)

    def _one_by_one(self, acts: list[Act], exc: StorageError) -> None:
        """After a failed write: each request again by itself, so that only what cannot be written is refused."""
        alone = sum(act.request is not None and act.parked is None and not act.follows for act in acts) == 1
        for act in acts:
            session, request = act.session, act.request
            if session is None or session.closed or act.parked is not None or act.follows:
                continue
            if request is None:
                self._written([Act(session, None, act.answer)], False)
            elif alone:
                self._refuse(session, request, f"the journal could not be written ({exc})")
            else:
                self._once_more(session, request)

    def _once_more(self, session: Session, request: wire.Request) -> None:
        self._ask(session, request)
        acts, self.acts = self.acts, []
        lines = [act.line for act in acts if act.line is not None]
        try:
            if lines:
                self._store.append(lines)
        except StorageError as exc:
            self._take_back(acts)
            self._refuse(session, request, f"the journal could not be written ({exc})")
        else:
            self._written(acts, bool(lines))

    def _refuse(self, session: Session, request: wire.Request, why: str) -> None:
        what = "nothing was changed"
        if self._store.broken:
            what = "nor could what was written of it be taken back yet: after a crash it may be found done"
        refusal = Refusal(Code.STORAGE, f"{op_of(request)}: {why}; {what}")
        self._written([Act(session, None, refused(request.rid, refusal))], False)

    # --------------------------------------------------------------------------------------------------- fsync mode

    def committed(self) -> None:
        """The store was flushed: what is on disk now is told."""
        flushed = self._store.flushed
        while self.unflushed and self.unflushed[0][0] <= flushed:
            self._tell(self.unflushed.popleft()[1])

    def commit_failed(self, exc: Exception) -> None:
        """The flush failed: everything not on disk is undone, and refused."""
        # Another flush, a snapshot's, may have brought some of it to disk.
        self.committed()
        acts = [act for _, batch in self.unflushed for act in batch]
        self.unflushed.clear()
        try:
            self._store.undo_to(self._store.flushed)
        except StorageError as error:
            log.error("the journal could not be taken back to what is on disk: %s", error)
        self._take_back(acts)
        for act in acts:
            session, request = act.session, act.request
            if session is None or session.closed or act.parked is not None or act.follows:
                continue
            if isinstance(request, wire.Mutation) and (act.line is not None or type(request) not in UNJOURNALED):
                self._refuse(session, request, f"the journal could not be flushed ({exc})")
            elif request is not None:
                self._ask(session, request)
                self.commit()
            else:
                self._written([Act(session, None, act.answer)], False)
