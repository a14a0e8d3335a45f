"""What the claims of both clients share: their facts, and the requests about them. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from claimdag_client._protocol import requests
from claimdag_client._protocol.failure_text import error_text
from claimdag_client._protocol.held_claim import HeldClaim
from claimdag_client._protocol.requests import Request
from claimdag_client.errors import ClaimLost
from claimdagd import wire

T = TypeVar("T")

#: A claim whose worker is interrupted is released within this, or left to the daemon's grace.
HAND_BACK_S = 2.0
#: How often a worker that stops with the work looks whether the work has ended.
LOOK_S = 1.0


@dataclass(slots=True)
class Step(Generic[T]):
    """One request about a claim, and what its reply means: `finish` notes it and returns the result."""

    request: Request[Any]
    finish: Callable[[Any], T]


class BaseClaim:
    """The facts of a claim. `node` is the node as it was when it was claimed."""

    def __init__(self, claimed: wire.Claimed, held: HeldClaim) -> None:
        self.node = claimed.node
        self._held = held
        #: How the claim ended: the reply to `complete`, or True once it was released.
        self._ended: wire.Completed | bool = False

    @property
    def id(self) -> str:
        """The node's id."""
        return self._held.id

    @property
    def gen(self) -> int:
        """The fencing token: send it along with every effect, so that a late one can be refused."""
        return self._held.gen

    @property
    def actor(self) -> str:
        """The name under which the node was claimed."""
        return self._held.actor

    @property
    def summary(self) -> str:
        """The node's summary, as it was when it was claimed."""
        return self.node.summary

    @property
    def lost(self) -> str | None:
        """Why the claim is no longer this client's, or None while it is."""
        return self._held.lost

    @property
    def ended(self) -> bool:
        """Whether the claim was completed or released from here."""
        return self._ended is not False

    @property
    def completed(self) -> wire.Completed | None:
        """The reply to `complete`, once there is one: the node as it ended, and the ids that this made ready."""
        return self._ended if isinstance(self._ended, wire.Completed) else None

    def check(self) -> None:
        """Raise ClaimLost if the claim is lost."""
        self._held.check()

    def keep(self, renewing: bool) -> None:
        """Renew in the background, as from the start, or let the lease run out: the holder may be gone."""
        self._held.resting = not renewing

    # ------------------------------------------------------------------------------------- steps of both clients

    def _running_step(self) -> Step[None]:
        """Mark the node as running."""
        return Step(requests.running(self.id, actor=self.actor, gen=self.gen), _nothing)

    def _renew_step(self, lease: float | None = None, *, pid: int | None = None) -> Step[None]:
        """Renew the lease now; `lease` sets its seconds from here on, `pid` the process that stands for it.

        The client also renews by itself.
        """
        held = self._held
        if lease is not None:
            held.lease = lease
        bound = True if held.bound else None
        request = requests.renew(held.id, actor=held.actor, gen=held.gen, lease=held.lease, bound=bound, pid=pid)
        return Step(request, _nothing)

    def _complete_step(
        self, status: str = "done", *, summary: str | None = None, error: str | None = None, final: bool | None = None
    ) -> Step[wire.Completed]:
        """End the node. The reply names the nodes that this made ready.

        A failure with retries left hands the node back, to be tried again later, unless it is `final`.
        """
        request = requests.complete(
            self.id, status=status, summary=summary, error=error, actor=self.actor, gen=self.gen, final=final
        )
        return Step(request, self._note_end)

    def _fail_step(self, error: str, *, summary: str | None = None) -> Step[wire.Completed]:
        """End the node as failed, which cancels the nodes that wait for it to be done."""
        return self._complete_step("failed", summary=summary, error=error_text(error))

    def _release_step(self) -> Step[None]:
        """Release the node: it is ready again, for any worker."""
        return Step(requests.release(self.id, actor=self.actor, gen=self.gen), self._note_release)

    def _complete_and_next_step(
        self,
        status: str = "done",
        *,
        summary: str | None = None,
        error: str | None = None,
        role: str | None = None,
        slack: float | None = None,
        strict: bool | None = None,
        lease: float | None = None,
        pid: int | None = None,
        under: str | None = None,
    ) -> Step[wire.Completed]:
        """End the node and claim the best one that can run then, in one round trip: that claim, or None.

        If there is none, `completed.code` says why: nothing_runnable or nothing_pending. The next claim gets this one's
        lease and binding unless `lease` is given, and the process of `pid`. `role`, `slack`, `strict`
        and `under` are those of claim_next.
        """
        held = self._held
        request = requests.complete_and_next(
            held.id, status=status, summary=summary, error=error, actor=held.actor, gen=held.gen, role=role,
            slack=slack, strict=strict, lease=held.lease if lease is None else lease, bound=held.bound,
            pid=pid, under=under,
        )  # fmt: skip
        return Step(request, self._note_end)

    def _note_end(self, completed: wire.Completed) -> wire.Completed:
        self._ended = completed
        return completed

    def _note_release(self, reply: object) -> None:
        self._ended = True

    def _lost_error(self) -> ClaimLost | None:
        """Return the error that replaces any other once the claim is lost; None while it is not."""
        return None if self.lost is None else ClaimLost(self.id, self.gen, self.lost)

    def _check_at_end(self, cause: BaseException | None) -> None:
        """Raise ClaimLost at the end of a body, unless the body ended the claim or raises just that."""
        if self.lost is not None and not self.ended and not isinstance(cause, ClaimLost):
            raise ClaimLost(self.id, self.gen, self.lost) from cause

    def __repr__(self) -> str:
        return f"<Claim {self.id} gen {self.gen} of {self.actor}{f', lost: {self.lost}' if self.lost else ''}>"


def _nothing(reply: object) -> None:
    """Return nothing: the protocol has noted what matters of the reply."""
