"""Claims of the async client: a context manager that ends with its body, and the iterator of node after node."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio

from claimdag_client._protocol import requests as asks
from claimdag_client._protocol.claim_base import HAND_BACK_S, LOOK_S, Holding
from claimdag_client._protocol.failure_text import error_text
from claimdag_client._protocol.protocol import Held
from claimdag_client.errors import ClaimdagError, ClaimLost, NothingPending, NothingRunnable
from claimdagd import wire

if TYPE_CHECKING:
    from claimdag_client._async.client import Client


class Claim(Holding):
    """A node in this client's hands, renewed in the background until it ends.

    `async with claim`: the body's normal end completes the node as done, an exception as failed (with its text as the
    node's error), a cancellation hands it back. When the claim is lost the body is cancelled at once and the `async
    with` raises ClaimLost. `complete`, `fail` and `release` end it by hand.
    """

    def __init__(self, client: Client, claimed: wire.Claimed, held: Held) -> None:
        super().__init__(claimed, held)
        self._client = client
        self._scope: anyio.CancelScope | None = None

    @property
    def expires_in(self) -> float:
        """Seconds that are left of the lease, as far as this client knows; renewals move it."""
        return self._held.expires_at - anyio.current_time()

    async def running(self) -> None:
        """Say that the work has begun."""
        await self._speak(asks.running(self.id, actor=self.actor, gen=self.gen))

    async def renew(self, lease: float | None = None) -> None:
        """Move the deadline now; `lease` seconds from here on. There is no need to: the client renews by itself."""
        if lease is not None:
            self._held.lease = lease
        await self._speak(
            asks.renew(
                self.id,
                actor=self.actor,
                gen=self.gen,
                lease=self._held.lease,
                bound=True if self._held.bound else None,
            )
        )

    async def complete(
        self, status: str = "done", *, summary: str | None = None, error: str | None = None
    ) -> wire.Completed:
        """End the node. The answer names the nodes that this made ready."""
        done: wire.Completed = await self._speak(
            asks.complete(self.id, status=status, summary=summary, error=error, actor=self.actor, gen=self.gen)
        )
        self._ended = done
        return done

    async def complete_and_next(
        self,
        status: str = "done",
        *,
        summary: str | None = None,
        error: str | None = None,
        role: str | None = None,
        slack: float | None = None,
        strict: bool | None = None,
        lease: float | None = None,
    ) -> Claim | None:
        """End the node and take the best that can run then, in one round trip: the claim of that, or None.

        Where there is none, `completed.code` says why: nothing_runnable or nothing_pending. The next claim is asked for
        with this one's lease and binding unless `lease` says otherwise. `role`, `slack` and `strict` as for claim_next.
        """
        choice = {"role": role, "slack": slack, "strict": strict, "lease": lease}
        ask = self._and_next(choice, status=status, summary=summary, error=error)
        done: wire.Completed
        done, held = await self._tell(ask)
        self._ended = done
        return Claim(self._client, done.next, held) if done.next is not None and held is not None else None

    async def fail(self, error: str, *, summary: str | None = None) -> wire.Completed:
        """End the node as failed, which cancels what waits for it to be done."""
        return await self.complete("failed", summary=summary, error=error_text(error))

    async def release(self) -> None:
        """Hand the node back: it is ready again, for anybody."""
        await self._speak(asks.release(self.id, actor=self.actor, gen=self.gen))
        self._ended = True

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when the claim is lost, instead of being entered as a context manager."""
        self._held.on_lost = callback
        if self._held.lost is not None:
            callback()

    async def _speak(self, ask: asks.Ask[Any]) -> Any:
        return (await self._tell(ask))[0]

    async def _tell(self, ask: asks.Ask[Any]) -> tuple[Any, Held | None]:
        self._held.check()
        try:
            return await self._client._call(ask)
        except ClaimdagError as exc:
            if self._held.lost is not None:
                raise ClaimLost(self.id, self.gen, self._held.lost) from exc
            raise

    # ------------------------------------------------------------------------------------------------------ with

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
            self._check_at_the_end(None)
            if not self.ended:
                await self.complete()
            return swallowed
        if not isinstance(exc, Exception):
            await self.hand_back()
            return False
        self._check_at_the_end(exc)
        if not self.ended:
            try:
                await self.fail(error_text(exc))
            except ClaimLost as lost:
                raise lost from exc
            except ClaimdagError as trouble:
                exc.add_note(f"and {self.id} could not be ended as failed: {trouble}")
        return False

    async def hand_back(self) -> None:
        """Release it if it is still to be released: for a body that was told to stop. Short, and raises nothing."""
        if not self.ended and self.lost is None:
            with anyio.move_on_after(HAND_BACK_S, shield=True):
                try:
                    await self.release()
                except ClaimdagError:
                    pass  # Lost meanwhile, or no daemon: the grace sees to it.


class Opening:
    """A claim about to be made: await it for the Claim, or `async with` it."""

    def __init__(self, client: Client, ask: asks.Ask[wire.Claimed]) -> None:
        self._client = client
        self._ask = ask
        self._claim: Claim | None = None

    def __await__(self) -> Generator[Any, Any, Claim]:
        return self._make().__await__()

    async def _make(self) -> Claim:
        claimed, held = await self._client._call(self._ask)
        assert held is not None
        return Claim(self._client, claimed, held)

    async def __aenter__(self) -> Claim:
        self._claim = await self
        return await self._claim.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> bool:
        assert self._claim is not None
        return await self._claim.__aexit__(kind, exc, trace)


class Work:
    """From `Client.work`: an async iterator of claims, one at a time. A claim not ended by the next turn goes back."""

    def __init__(
        self,
        client: Client,
        actor: str,
        *,
        role: str | None,
        slack: float | None,
        strict: bool | None,
        lease: float | None,
        until_empty: bool,
    ) -> None:
        self._client = client
        self._actor = actor
        self._until_empty = until_empty
        self._fields: dict[str, Any] = {"role": role, "slack": slack, "strict": strict, "lease": lease}
        self._claim: Claim | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Claim:
        last, self._claim = self._claim, None
        if last is not None and not last.ended and last.lost is None:
            await last.release()
        # At its end the work is seen to have ended at once by whoever finished it, by others within LOOK_S.
        wait = 0.0 if self._until_empty else math.inf
        while True:
            try:
                self._claim = await self._client.claim_next(self._actor, wait=wait or None, **self._fields)
                return self._claim
            except NothingPending:
                if self._until_empty:
                    raise StopAsyncIteration from None
            except NothingRunnable as exc:
                if self._until_empty and exc.stuck:
                    raise
            wait = LOOK_S if self._until_empty else math.inf
