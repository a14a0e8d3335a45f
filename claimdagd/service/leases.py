"""Claims and the connections that they are bound to: warnings, losses, graces, and when the next lease is over.

Keeps time by the `now` that it is given. Must not write the journal or hand a node back: it says when that is due.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

import msgspec

from claimdagd import wire
from claimdagd.core.graph import Graph
from claimdagd.core.mutation import Mutation
from claimdagd.core.state import Lease, Vertex
from claimdagd.model import Node
from claimdagd.service.replies import op_of
from claimdagd.service.sessions import Session

#: After a restart bound claims have at least this long to rebind, in seconds.
REBIND_S: Final = 10.0
#: A peer that could not be reached within this many seconds of a claim's answer never knew of the claim.
UNHEARD_S: Final = 1.0

_encode = msgspec.json.Encoder().encode
_WHY: Final[dict[type[wire.Request], str]] = {
    wire.Cancel: "cancelled",
    wire.Reclaim: "reclaimed",
    wire.Release: "released by another",
    wire.Complete: "completed by another",
}


class Leases:
    """Tracks which connection holds which claim, and what is due for it."""

    def __init__(self, graph: Graph, sessions: dict[int, Session], grace_s: float, now: float) -> None:
        self._graph = graph
        self._sessions = sessions
        self._grace_s = grace_s
        self._no_reap_before = now
        self._warnings: list[tuple[float, int, Vertex]] = []
        self._warned: dict[Vertex, float] = {}
        for v in graph.by_assignee.values():
            lease = v.lease
            if lease is not None and lease.bound:
                deadline = now + max(grace_s, REBIND_S)
                graph.set_lease(v, msgspec.structs.replace(lease, deadline=deadline, conn=None))

    def bind(self, session: Session, v: Vertex) -> bool:
        """Bind the claim of `v` to a connection. Return whether something may be due earlier because of it."""
        # Keep the last warned deadline: after a rollback the old lease is in force again.
        session.held.setdefault(v)
        session.unacknowledged.append(v)
        lease = v.lease
        assert lease is not None
        warn = lease.deadline - lease.lease_s / 5
        known = self._warned.get(v)
        if known is not None and known <= warn:
            return False
        self._warned[v] = warn
        heappush(self._warnings, (warn, v.number, v))
        return True

    def on_rollback(self, mutations: list[Mutation], now: float) -> None:
        """Bind claims again whose end was rolled back; start the grace of those whose connections are gone by now."""
        for mutation in mutations:
            for v, *_ in mutation.undo_log:
                lease = v.lease if v is not None else None
                if v is None or lease is None or lease.conn is None:
                    continue
                session = self._sessions.get(lease.conn)
                if session is not None:
                    session.held.setdefault(v)
                    continue
                self.start_grace(v, now)

    def start_grace(self, v: Vertex, now: float, *, grace_s: float | None = None, process_ended: bool = False) -> None:
        """Shorten the lease of `v` to the grace, since its connection has closed or its process ended (law 4.6, 4.14).

        Args:
            v: the node.
            now: the monotonic time.
            grace_s: what is left instead of the grace of the daemon.
            process_ended: it is the process that ended; a connection of the claim stays.
        """
        lease = v.lease
        assert lease is not None
        deadline = min(lease.deadline, now + (self._grace_s if grace_s is None else grace_s))
        if process_ended:
            lease = msgspec.structs.replace(lease, deadline=deadline, process=None)
        else:
            lease = msgspec.structs.replace(lease, deadline=deadline, conn=None)
        self._graph.set_lease(v, lease)

    def unbind(self, session: Session, now: float, undelivered: bool) -> None:
        """Start the grace of each claim of a closed connection. A claim that its peer never knew of ends at once."""
        for v in session.held:
            lease = v.lease
            if lease is None or lease.conn != session.conn:
                continue
            undelivered_claim = undelivered and v in session.unacknowledged and now - lease.spoke < UNHEARD_S
            self.start_grace(v, now, grace_s=0.0 if undelivered_claim else None)
        session.held.clear()

    def lost(
        self, session: Session | None, r: wire.Request | None, mutation: Mutation
    ) -> list[tuple[Vertex, int, bytes | None]]:
        """Return the bound claims that a mutation ended: vertex, connection, and the event for the holder.

        There is no event where it was the holder's own release or complete: asked by its connection, or the complete
        in its name or with its generation.
        """
        found: list[tuple[Vertex, int, bytes | None]] = []
        for v, old, lease, _ in mutation.undo_log:
            if v is None or not isinstance(lease, Lease) or lease.conn is None or not isinstance(old, Node):
                continue
            if v.lease is not None and v.record.gen == old.gen:
                continue
            if any(v is other for other, _, _ in found):
                continue
            event = None
            # A release in the holder's name from another connection is news to the holding process. A complete is not:
            # the command that it runs may complete its own node.
            mine = session is not None and session.conn == lease.conn
            if isinstance(r, wire.Complete):
                mine = mine or r.actor == old.assignee or r.gen == old.gen
            mine = mine and isinstance(r, wire.Release | wire.Complete) and (r.id == old.id or old.id in r.ids)
            if not mine:
                reason = "expired" if r is None else _WHY.get(type(r), op_of(r))
                event = b'{"event":%b}\n' % _encode({"op": "lost", "id": old.id, "gen": old.gen, "why": reason})
            found.append((v, lease.conn, event))
        return found

    def tell_lost(self, lost: list[tuple[Vertex, int, bytes | None]]) -> None:
        """Send holders the events of their lost claims."""
        for v, conn, event in lost:
            holder = self._sessions.get(conn)
            if holder is not None:
                if v.lease is None or v.lease.conn != conn:
                    holder.held.pop(v, None)
                if event is not None:
                    holder.deliver(event)

    def on_clock_gap(self, now: float) -> None:
        """Reclaim nothing before a grace has passed, since no holder could be heard for a while."""
        self._no_reap_before = now + max(self._grace_s, UNHEARD_S)

    def may_reap(self, now: float) -> bool:
        """Return whether leases may end now."""
        return now >= self._no_reap_before

    def next_due(self) -> float | None:
        """Return when the next lease or warning is due (monotonic), or None."""
        deadline = self._graph.leases.next_deadline()
        if deadline is not None and deadline < self._no_reap_before:
            deadline = self._no_reap_before
        if self._warnings and (deadline is None or self._warnings[0][0] < deadline):
            return self._warnings[0][0]
        return deadline

    def warn(self, now: float) -> None:
        """Warn each holder that has a fifth of its lease left."""
        warnings = self._warnings
        while warnings and warnings[0][0] <= now:
            when, number, v = heappop(warnings)
            if self._warned.get(v) != when:
                continue
            lease = v.lease
            session = self._sessions.get(lease.conn) if lease is not None and lease.conn is not None else None
            if lease is None or session is None:
                del self._warned[v]
                continue
            warn = lease.deadline - lease.lease_s / 5
            if warn > now:
                self._warned[v] = warn
                heappush(warnings, (warn, number, v))
                continue
            del self._warned[v]
            if session.held.get(v) == lease.deadline:
                continue  # warned already: the end of the claim was rolled back since
            session.held[v] = lease.deadline
            event = {
                "op": "expiring",
                "id": v.record.id,
                "gen": v.record.gen,
                "expires_in": max(0.0, lease.deadline - now),
            }
            session.deliver(b'{"event":%b}\n' % _encode(event))
