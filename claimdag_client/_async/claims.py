"""Claims of the async client: a context manager that ends with its body, and the iterator of node after node."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import anyio

from claimdag_client._protocol import requests
from claimdag_client._protocol.claim_base import HAND_BACK_S, LOOK_S, Step
from claimdag_client._protocol.failure_text import error_text
from claimdag_client._protocol.held_claim import HeldClaim
from claimdag_client._protocol.requests import Request
from claimdag_client._protocol.surface import AsyncClaimSurface
from claimdag_client.errors import ClaimdagError, ClaimLost, NothingPending, NothingRunnable
from claimdagd import wire

T = TypeVar("T")


class Caller(Protocol):
    """What a claim needs of its client."""

    async def call(self, request: Request[T]) -> tuple[T, HeldClaim | None]:
        """Make a request; return its result, and the claim that it brought."""


class Claim(AsyncClaimSurface):
    """A node claimed by this client, renewed in the background until the claim ends.

    `async with claim`: the body's normal end completes the node as done, an exception as failed (with its text as the
    node's error), a cancellation releases it. When the claim is lost the body is cancelled at once and the `async with`
    raises ClaimLost. `complete`, `fail` and `release` end it by hand.
    """

    def __init__(self, caller: Caller, claimed: wire.Claimed, held: HeldClaim) -> None:
        super().__init__(claimed, held)
        self._caller = caller
        self._scope: anyio.CancelScope | None = None

    @property
    def expires_in(self) -> float:
        """Seconds left of the lease, as far as this client knows; renewals move it."""
        return self._held.expires_at - anyio.current_time()

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the claim is lost, if the claim is not used as a context manager."""
        self._held.on_lost = callback
        if self._held.lost is not None:
            callback()

    async def _take(self, step: Step[T]) -> tuple[T, HeldClaim | None]:
        self._held.check()
        try:
            reply, held = await self._caller.call(step.request)
        except ClaimdagError as exc:
            if (lost := self._lost_error()) is not None:
                raise lost from exc
            raise
        return step.finish(reply), held

    def _claim(self, claimed: wire.Claimed, held: HeldClaim) -> Self:
        return type(self)(self._caller, claimed, held)

    async def __aenter__(self) -> Self:
        if self._scope is not None:
            raise RuntimeError("a claim is entered once")
        self._held.check()
        scope = self._scope = anyio.CancelScope()
        scope.__enter__()
        self._held.on_lost = scope.cancel
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> bool:
        assert self._scope is not None
        self._held.on_lost = None
        swallowed = bool(self._scope.__exit__(kind, exc, trace))
        if exc is None or swallowed:
            self._check_at_end(None)
            if not self.ended:
                await self.complete()
            return swallowed
        if not isinstance(exc, Exception):
            await self.hand_back()
            return False
        self._check_at_end(exc)
        if not self.ended:
            try:
                await self.fail(error_text(exc))
            except ClaimLost as lost:
                raise lost from exc
            except ClaimdagError as trouble:
                exc.add_note(f"and {self.id} could not be ended as failed: {trouble}")
        return False

    async def hand_back(self) -> None:
        """Release the node if it is still held, for a body that is interrupted. Takes little time, raises nothing."""
        if not self.ended and self.lost is None:
            with anyio.move_on_after(HAND_BACK_S, shield=True):
                try:
                    await self.release()
                except ClaimdagError:
                    pass  # The claim is lost, or the daemon gone: its grace ends the claim.


class PendingClaim:
    """A claim about to be made: await it for the Claim, or enter it with `async with`."""

    def __init__(self, caller: Caller, request: Request[wire.Claimed]) -> None:
        self._caller = caller
        self._request = request
        self._claim: Claim | None = None

    def __await__(self) -> Generator[Any, Any, Claim]:
        return self._make().__await__()

    async def _make(self) -> Claim:
        claimed, held = await self._caller.call(self._request)
        assert held is not None
        return Claim(self._caller, claimed, held)

    async def __aenter__(self) -> Claim:
        self._claim = await self
        return await self._claim.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> bool:
        assert self._claim is not None
        return await self._claim.__aexit__(kind, exc, trace)


class ClaimIterator:
    """Node after node, from `Client.work`. A claim that has not ended when the next one is wanted is released.

    Args:
        caller: The client's connection.
        actor: Who claims.
        choice: The fields of claim_next that choose among ready nodes.
        until_empty: End once all work is finished.
    """

    def __init__(self, caller: Caller, actor: str, choice: dict[str, Any], *, until_empty: bool) -> None:
        self._caller = caller
        self._actor = actor
        self._until_empty = until_empty
        self._choice = choice
        self._claim: Claim | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Claim:
        last, self._claim = self._claim, None
        if last is not None and not last.ended and last.lost is None:
            await last.release()
        # The worker that finished the last node sees the end at once, the others within LOOK_S.
        wait = 0.0 if self._until_empty else math.inf
        while True:
            try:
                request = requests.claim_next(self._actor, wait=wait or None, **self._choice)
                self._claim = await PendingClaim(self._caller, request)
                return self._claim
            except NothingPending:
                if self._until_empty:
                    raise StopAsyncIteration from None
            except NothingRunnable as exc:
                if self._until_empty and exc.stuck:
                    raise
            wait = LOOK_S if self._until_empty else math.inf
