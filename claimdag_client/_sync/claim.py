"""A claim of the blocking client: a context manager that ends with its body. The client renews it."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from claimdag_client._protocol import requests as asks
from claimdag_client._protocol.claim_base import HAND_BACK_S, Holding
from claimdag_client._protocol.failure_text import error_text
from claimdag_client._protocol.protocol import Held
from claimdag_client._protocol.requests import Ask
from claimdag_client.errors import ClaimdagError, ClaimLost
from claimdagd import wire

if TYPE_CHECKING:
    from claimdag_client._sync.client import Client


class Claim(Holding):
    """A node in this client's hands, renewed in the client's thread until it ends.

    `with claim`: the body's normal end completes the node as done, an exception as failed (with its text as the
    node's error); KeyboardInterrupt, SystemExit and the like hand it back. When the claim was lost, ClaimLost is
    raised by whatever is said about it next, by `check`, and at the end of the body. `wait_lost` waits for that.
    """

    def __init__(self, client: Client, claimed: wire.Claimed, held: Held) -> None:
        super().__init__(claimed, held)
        self._client = client
        self._gone = threading.Event()
        held.on_lost = self._gone.set
        if held.lost is not None:
            self._gone.set()

    @property
    def expires_in(self) -> float:
        """Seconds that are left of the lease, as far as this client knows; renewals move it."""
        return self._held.expires_at - time.monotonic()

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Wait until the claim is lost, at most `timeout` seconds: whether it is."""
        return self._gone.wait(timeout)

    def running(self) -> None:
        """Say that the work has begun."""
        self._speak(asks.running(self.id, actor=self.actor, gen=self.gen))

    def renew(self, lease: float | None = None) -> None:
        """Move the deadline now; `lease` seconds from here on. There is no need to: the client renews by itself."""
        held = self._held
        if lease is not None:
            held.lease = lease
        self._speak(
            asks.renew(self.id, actor=self.actor, gen=self.gen, lease=held.lease, bound=True if held.bound else None)
        )

    def complete(self, status: str = "done", *, summary: str | None = None, error: str | None = None) -> wire.Completed:
        """End the node. The answer names the nodes that this made ready."""
        done: wire.Completed = self._speak(
            asks.complete(self.id, status=status, summary=summary, error=error, actor=self.actor, gen=self.gen)
        )
        self._ended = done
        return done

    def complete_and_next(
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
        done, held = self._tell(ask)
        self._ended = done
        return Claim(self._client, done.next, held) if done.next is not None and held is not None else None

    def fail(self, error: str, *, summary: str | None = None) -> wire.Completed:
        """End the node as failed, which cancels what waits for it to be done."""
        return self.complete("failed", summary=summary, error=error_text(error))

    def release(self) -> None:
        """Hand the node back: it is ready again, for anybody."""
        self._speak(asks.release(self.id, actor=self.actor, gen=self.gen))
        self._ended = True

    def _speak(self, ask: Ask[Any]) -> Any:
        return self._tell(ask)[0]

    def _tell(self, ask: Ask[Any]) -> tuple[Any, Held | None]:
        self.check()
        try:
            return self._client._ask(ask)
        except ClaimdagError as exc:
            if self.lost is not None:
                raise ClaimLost(self.id, self.gen, self.lost) from exc
            raise

    def __enter__(self) -> Self:
        self.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is not None and not isinstance(exc, Exception):
            self.hand_back()
            return
        self._check_at_the_end(exc)
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
        """Release it if it is still to be released: for a body that is left in haste. Short, and raises nothing."""
        if not self.ended and self.lost is None:
            _, settled = self._client._put(asks.release(self.id, actor=self.actor, gen=self.gen))
            self._ended = settled.wait(HAND_BACK_S)
