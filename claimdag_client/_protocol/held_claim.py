"""What the protocol knows of one claim: its facts, when to renew it, and whether it is lost. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable

from claimdag_client.errors import ClaimLost

#: The part of the rest of a lease after which the claim is renewed.
RENEW_AFTER = 1 / 3


class HeldClaim:
    """A claim of this client. `lost` says why it is no longer held; `on_lost` is called when it is lost."""

    __slots__ = (
        "actor", "bound", "ending", "expires_at", "gen", "id", "lease", "lost", "on_lost", "renew_at", "renewing",
        "resting",
    )  # fmt: skip

    def __init__(self, id: str, gen: int, *, actor: str, lease: float | None, bound: bool) -> None:
        self.id = id
        self.gen = gen
        self.actor = actor
        self.lease = lease
        self.bound = bound
        self.expires_at = 0.0
        self.renew_at = 0.0
        #: A renewal is under way.
        self.renewing = False
        #: No renewals until this is false again: the worker may be gone.
        self.resting = False
        #: Its complete or release is under way: if the connection drops now, the answer to that decides.
        self.ending = False
        self.lost: str | None = None
        self.on_lost: Callable[[], None] | None = None

    def extend(self, expires_in: float, now: float) -> None:
        """Note that the lease ends `expires_in` seconds after `now`."""
        self.expires_at = now + expires_in
        self.renew_at = now + expires_in * RENEW_AFTER

    @property
    def renewable(self) -> bool:
        """Whether a renewal may be sent now."""
        return not (self.renewing or self.ending or self.resting)

    def check(self) -> None:
        """Raise ClaimLost if the claim is lost."""
        if self.lost is not None:
            raise ClaimLost(self.id, self.gen, self.lost)
