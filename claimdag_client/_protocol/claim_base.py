"""What a claim is to whoever holds it, in both clients: its facts, without a way to speak for it. No I/O."""

from __future__ import annotations

from typing import Any

from claimdag_client._protocol import requests as asks
from claimdag_client._protocol.protocol import Held
from claimdag_client._protocol.requests import Ask
from claimdag_client.errors import ClaimLost
from claimdagd import wire

#: A claim that is left in haste is handed back within this, or left to the daemon's grace.
HAND_BACK_S = 2.0
#: How long a worker that ends with the work waits before it looks whether the work has ended.
LOOK_S = 1.0


class Holding:
    """The facts of a claim. `node` is the node as it was when it was claimed."""

    def __init__(self, claimed: wire.Claimed, held: Held) -> None:
        self.node = claimed.node
        self._held = held
        #: How it ended: what `complete` answered, or true once it was handed back.
        self._ended: wire.Completed | bool = False

    @property
    def id(self) -> str:
        return self._held.id

    @property
    def gen(self) -> int:
        """The fencing token: send it along with every effect, so that a late one can be refused."""
        return self._held.gen

    @property
    def actor(self) -> str:
        return self._held.actor

    @property
    def summary(self) -> str:
        return self.node.summary

    @property
    def lost(self) -> str | None:
        """Why it is no longer this client's, or None while it is."""
        return self._held.lost

    @property
    def ended(self) -> bool:
        """It was completed or handed back from here."""
        return self._ended is not False

    @property
    def completed(self) -> wire.Completed | None:
        """What `complete` answered, once it has: the node as it ended, and the ids that this made ready."""
        return self._ended if isinstance(self._ended, wire.Completed) else None

    def keep(self, renewing: bool) -> None:
        """Renew in the background, as from the start, or let the lease run out: its holder may be gone."""
        self._held.resting = not renewing

    def check(self) -> None:
        """Raise ClaimLost if it is lost."""
        self._held.check()

    def _check_at_the_end(self, cause: BaseException | None) -> None:
        """At the end of a body: a lost claim is raised, unless the body has ended it or raises just that."""
        if self.lost is not None and not self.ended and not isinstance(cause, ClaimLost):
            raise ClaimLost(self.id, self.gen, self.lost) from cause

    def _and_next(self, choice: dict[str, Any], **ending: Any) -> Ask[wire.Completed]:
        """End it so, and claim what is chosen so: under this one's lease unless another is given, bound as it is."""
        held = self._held
        if choice["lease"] is None:
            choice["lease"] = held.lease
        return asks.complete_and_next(held.id, actor=held.actor, gen=held.gen, bound=held.bound, **choice, **ending)

    def __repr__(self) -> str:
        return f"<Claim {self.id} gen {self.gen} of {self.actor}{f', lost: {self.lost}' if self.lost else ''}>"
