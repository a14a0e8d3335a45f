"""Requests that are answered later: claims that wait for something to run, and waits for nodes to end.

Keeps them in order and knows when each one's time is over. Must not decide who gets what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from claimdagd import wire

if TYPE_CHECKING:
    from claimdagd.service.sessions import Session


class ParkedClaim:
    """A claim_next, or a complete's `next`, that waits until `deadline` (monotonic). `number` is its place in line.

    `request` is what is answered: `claim` itself, or the complete that carried it, whose reply so far is `completed`.
    """

    __slots__ = ("claim", "completed", "deadline", "number", "request", "session", "waited")

    def __init__(
        self,
        session: Session,
        request: wire.Request,
        claim: wire.ClaimNext,
        completed: bytes | None,
        deadline: float,
        number: int,
    ) -> None:
        self.session = session
        self.request = request
        self.claim = claim
        self.completed = completed
        self.deadline = deadline
        self.number = number
        self.waited = False


class Waiter:
    """A wait for nodes to end; `deadline` is monotonic, or None."""

    __slots__ = ("deadline", "request", "session")

    def __init__(self, session: Session, request: wire.Wait, deadline: float | None) -> None:
        self.session = session
        self.request = request
        self.deadline = deadline


class Lot:
    """All that is parked."""

    def __init__(self) -> None:
        self.claims: dict[int, ParkedClaim] = {}
        self._numbers = 0
        self._by_id: dict[str, dict[Waiter, None]] = {}
        self._waiters: dict[Waiter, None] = {}
        self._due: list[tuple[float, int, ParkedClaim | Waiter]] = []

    def __len__(self) -> int:
        return len(self.claims) + len(self._waiters)

    def make(
        self,
        session: Session,
        request: wire.Request,
        claim: wire.ClaimNext,
        completed: bytes | None,
        deadline: float,
    ) -> ParkedClaim:
        """A claim with the next place in line, not parked yet."""
        self._numbers += 1
        return ParkedClaim(session, request, claim, completed, deadline, self._numbers)

    def park(self, parked: ParkedClaim) -> None:
        """Let it wait."""
        parked.waited = True
        self.claims[parked.number] = parked
        heappush(self._due, (parked.deadline, parked.number, parked))

    def come_back(self, parked: ParkedClaim) -> None:
        """Let it wait on, at its old place."""
        self.park(parked)
        self.claims = dict(sorted(self.claims.items()))

    def leave(self, parked: ParkedClaim) -> None:
        """It is answered."""
        self.claims.pop(parked.number, None)

    @property
    def waiters(self) -> bool:
        """Whether anybody waits for nodes to end."""
        return bool(self._waiters)

    def in_line(self) -> list[ParkedClaim]:
        """First come first."""
        return list(self.claims.values())

    def wait(self, waiter: Waiter) -> None:
        """Let it wait for its nodes."""
        self._waiters[waiter] = None
        for node_id in waiter.request.ids:
            self._by_id.setdefault(node_id, {})[waiter] = None
        if waiter.deadline is not None:
            self._numbers += 1
            heappush(self._due, (waiter.deadline, self._numbers, waiter))

    def _unwait(self, waiter: Waiter) -> None:
        if waiter in self._waiters:
            del self._waiters[waiter]
            for node_id in set(waiter.request.ids):
                waiting = self._by_id[node_id]
                waiting.pop(waiter, None)
                if not waiting:
                    del self._by_id[node_id]

    def ended(self, ids: Iterable[str], is_over: Callable[[str], bool]) -> list[Waiter]:
        """Nodes ended: the waits that are over by that, taken out."""
        if not self._waiters:
            return []
        candidates = dict.fromkeys(w for i in ids for w in self._by_id.get(i, ()))
        found = [w for w in candidates if all(map(is_over, w.request.ids))]
        for waiter in found:
            self._unwait(waiter)
        return found

    def over(self, is_over: Callable[[str], bool]) -> list[Waiter]:
        """The waits that are over as things stand, taken out."""
        found = [w for w in self._waiters if all(map(is_over, w.request.ids))]
        for waiter in found:
            self._unwait(waiter)
        return found

    def overdue_claims(self, now: float) -> list[ParkedClaim]:
        """Parked claims whose time is over, taken out."""
        found = []
        for entry in self._pop_due(now, ParkedClaim):
            assert isinstance(entry, ParkedClaim)
            if self.claims.pop(entry.number, None) is not None:
                found.append(entry)
        return found

    def overdue_waiters(self, now: float) -> list[Waiter]:
        """Waits whose time is over, taken out."""
        found = []
        for entry in self._pop_due(now, Waiter):
            assert isinstance(entry, Waiter)
            if entry in self._waiters:
                self._unwait(entry)
                found.append(entry)
        return found

    def _pop_due(self, now: float, kind: type[ParkedClaim] | type[Waiter]) -> list[ParkedClaim | Waiter]:
        found, others = [], []
        while self._due and self._due[0][0] <= now:
            entry = heappop(self._due)
            if isinstance(entry[2], kind):
                found.append(entry[2])
            else:
                others.append(entry)
        for entry in others:
            heappush(self._due, entry)
        return found

    def next_due(self) -> float | None:
        """When the next one's time is over."""
        while self._due:
            when, _, entry = self._due[0]
            if (isinstance(entry, ParkedClaim) and entry.number in self.claims) or entry in self._waiters:
                return when
            heappop(self._due)
        return None

    def forget(self, session: Session) -> None:
        """The session is gone, and all that it waits for with it."""
        if session.lots:
            self.claims = {n: p for n, p in self.claims.items() if p.session is not session}
            for waiter in [w for w in self._waiters if w.session is session]:
                self._unwait(waiter)

    def clear(self) -> tuple[list[ParkedClaim], list[Waiter]]:
        """Everything that is parked, taken out, in the order in which it came."""
        found = self.in_line(), list(self._waiters)
        self.claims.clear()
        self._waiters.clear()
        self._by_id.clear()
        self._due.clear()
        return found
