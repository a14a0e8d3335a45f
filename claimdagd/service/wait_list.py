"""Requests that are answered later: claims that wait for something to run, and waits for nodes to end.

Keeps them in order and knows their deadlines. Must not decide who gets what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from claimdagd import wire

if TYPE_CHECKING:
    from claimdagd.service.sessions import Session


class WaitingClaim:
    """A claim_next, or a complete's `next`, that waits until `deadline` (monotonic). `number` is its position.

    `request` is what is answered: `claim` itself, or the complete that carried it, whose reply so far is `completed`.
    """

    __slots__ = ("claim", "completed", "deadline", "listed", "number", "request", "session")

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
        self.listed = False


class EndWaiter:
    """A wait for nodes to end; `deadline` is monotonic, or None."""

    __slots__ = ("deadline", "request", "session")

    def __init__(self, session: Session, request: wire.Wait, deadline: float | None) -> None:
        self.session = session
        self.request = request
        self.deadline = deadline


class WaitList:
    """The requests that wait: claims by position, waits by node, and both by deadline."""

    def __init__(self) -> None:
        self.claims: dict[int, WaitingClaim] = {}
        self._numbers = 0
        self._by_id: dict[str, dict[EndWaiter, None]] = {}
        self._waits: dict[EndWaiter, None] = {}
        self._due: list[tuple[float, int, WaitingClaim | EndWaiter]] = []

    def __len__(self) -> int:
        return len(self.claims) + len(self._waits)

    def make(
        self,
        session: Session,
        request: wire.Request,
        claim: wire.ClaimNext,
        completed: bytes | None,
        deadline: float,
    ) -> WaitingClaim:
        """Return a claim with the next position; it is not on the list yet."""
        self._numbers += 1
        return WaitingClaim(session, request, claim, completed, deadline, self._numbers)

    def put(self, waiting: WaitingClaim) -> None:
        """Put a claim on the list."""
        waiting.listed = True
        self.claims[waiting.number] = waiting
        heappush(self._due, (waiting.deadline, waiting.number, waiting))

    def put_back(self, waiting: WaitingClaim) -> None:
        """Put the claim back at its original position."""
        self.put(waiting)
        self.claims = dict(sorted(self.claims.items()))

    def leave(self, waiting: WaitingClaim) -> None:
        """Remove a claim that is answered."""
        self.claims.pop(waiting.number, None)

    @property
    def waits(self) -> bool:
        """Whether any request waits for nodes to end."""
        return bool(self._waits)

    def in_order(self) -> list[WaitingClaim]:
        """Return the waiting claims, first come first."""
        return list(self.claims.values())

    def put_wait(self, waiter: EndWaiter) -> None:
        """Put a wait for nodes on the list."""
        self._waits[waiter] = None
        for node_id in waiter.request.ids:
            self._by_id.setdefault(node_id, {})[waiter] = None
        if waiter.deadline is not None:
            self._numbers += 1
            heappush(self._due, (waiter.deadline, self._numbers, waiter))

    def _remove_wait(self, waiter: EndWaiter) -> None:
        if waiter in self._waits:
            del self._waits[waiter]
            for node_id in set(waiter.request.ids):
                waiting = self._by_id[node_id]
                waiting.pop(waiter, None)
                if not waiting:
                    del self._by_id[node_id]

    def ended(self, ids: Iterable[str], is_over: Callable[[str], bool]) -> list[EndWaiter]:
        """Remove and return the waits that are over because the nodes of `ids` ended."""
        if not self._waits:
            return []
        candidates = dict.fromkeys(w for i in ids for w in self._by_id.get(i, ()))
        found = [w for w in candidates if all(map(is_over, w.request.ids))]
        for waiter in found:
            self._remove_wait(waiter)
        return found

    def over(self, is_over: Callable[[str], bool]) -> list[EndWaiter]:
        """Remove and return the waits that are over now."""
        found = [w for w in self._waits if all(map(is_over, w.request.ids))]
        for waiter in found:
            self._remove_wait(waiter)
        return found

    def overdue_claims(self, now: float) -> list[WaitingClaim]:
        """Remove and return the claims whose deadline has passed."""
        found = []
        for entry in self._pop_due(now, WaitingClaim):
            assert isinstance(entry, WaitingClaim)
            if self.claims.pop(entry.number, None) is not None:
                found.append(entry)
        return found

    def overdue_waits(self, now: float) -> list[EndWaiter]:
        """Remove and return the waits whose deadline has passed."""
        found = []
        for entry in self._pop_due(now, EndWaiter):
            assert isinstance(entry, EndWaiter)
            if entry in self._waits:
                self._remove_wait(entry)
                found.append(entry)
        return found

    def _pop_due(self, now: float, kind: type[WaitingClaim] | type[EndWaiter]) -> list[WaitingClaim | EndWaiter]:
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
        """Return the earliest deadline, or None."""
        while self._due:
            when, _, entry = self._due[0]
            if (isinstance(entry, WaitingClaim) and entry.number in self.claims) or entry in self._waits:
                return when
            heappop(self._due)
        return None

    def forget(self, session: Session) -> None:
        """Remove everything that a closed session waits for."""
        if session.pending_replies:
            self.claims = {n: p for n, p in self.claims.items() if p.session is not session}
            for waiter in [w for w in self._waits if w.session is session]:
                self._remove_wait(waiter)

    def clear(self) -> tuple[list[WaitingClaim], list[EndWaiter]]:
        """Remove and return everything, in the order in which it came."""
        found = self.in_order(), list(self._waits)
        self.claims.clear()
        self._waits.clear()
        self._by_id.clear()
        self._due.clear()
        return found
