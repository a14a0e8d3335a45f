"""A claim of the blocking client: a context manager that ends with its body. The client renews it."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from claimdag_client._protocol.claim_base import HAND_BACK_S, Step
from claimdag_client._protocol.failure_text import error_text
from claimdag_client._protocol.held_claim import HeldClaim
from claimdag_client._protocol.requests import Request
from claimdag_client._protocol.surface import BlockingClaimSurface
from claimdag_client.errors import ClaimdagError, ClaimLost
from claimdagd import wire

T = TypeVar("T")


class Caller(Protocol):
    """What a claim needs of its client."""

    def call(self, request: Request[T]) -> tuple[T, HeldClaim | None]:
        """Make a request; return its result, and the claim that it brought."""

    def start(self, request: Request[T]) -> tuple[Any, threading.Event]:
        """Start a call; return it, with the event that says that it is settled."""


class Claim(BlockingClaimSurface):
    """A node claimed by this client, renewed in the client's thread until the claim ends.

    `with claim`: the body's normal end completes the node as done, an exception as failed (with its text as the node's
    error); KeyboardInterrupt, SystemExit and the like release it. When the claim is lost, ClaimLost is raised by the
    next request about it, by `check`, and at the end of the body. `wait_lost` waits for that.
    """

    def __init__(self, caller: Caller, claimed: wire.Claimed, held: HeldClaim) -> None:
        super().__init__(claimed, held)
        self._caller = caller
        self._gone = threading.Event()
        held.on_lost = self._gone.set
        if held.lost is not None:
            self._gone.set()

    @property
    def expires_in(self) -> float:
        """Seconds left of the lease, as far as this client knows; renewals move it."""
        return self._held.expires_at - time.monotonic()

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Wait until the claim is lost, at most `timeout` seconds; return whether it is."""
        return self._gone.wait(timeout)

    def _take(self, step: Step[T]) -> tuple[T, HeldClaim | None]:
        self.check()
        try:
            reply, held = self._caller.call(step.request)
        except ClaimdagError as exc:
            if (lost := self._lost_error()) is not None:
                raise lost from exc
            raise
        return step.finish(reply), held

    def _claim(self, claimed: wire.Claimed, held: HeldClaim) -> Self:
        return type(self)(self._caller, claimed, held)

    def __enter__(self) -> Self:
        self.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is not None and not isinstance(exc, Exception):
            self.hand_back()
            return
        self._check_at_end(exc)
        if self.ended:
            return
        if exc is None:
            self.complete()
            return
        try:
            self.fail(error_text(exc))
        except ClaimLost as lost:
            raise lost from exc
        except ClaimdagError as trouble:
            exc.add_note(f"and {self.id} could not be ended as failed: {trouble}")

    def hand_back(self) -> None:
        """Release the node if it is still held, for a body that is interrupted. Takes little time, raises nothing."""
        if not self.ended and self.lost is None:
            _, settled = self._caller.start(self._release_step().request)
            self._ended = settled.wait(HAND_BACK_S)
