"""The blocking client, for scripts: `with connect() as dag`. Threads may share it.

It is the async client's shape, with a thread that carries the bytes and renews claims. It cannot interrupt a body whose
claim is lost: the next request about the claim raises that, or `check`, or the body's end.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from claimdag_client._protocol.claim_base import LOOK_S
from claimdag_client._protocol.requests import Request
from claimdag_client._protocol.subscription import Subscription
from claimdag_client._protocol.surface import BlockingSurface
from claimdag_client._sync.claim import Claim
from claimdag_client._sync.events import events, subscribe
from claimdag_client._sync.pump import HELLO_S, Pump, hello_limit
from claimdag_client._transport.endpoint import Endpoint
from claimdag_client._transport.patience import SILENCE_LIMIT_S
from claimdag_client._transport.transport import connect as connect_blocking
from claimdag_client.errors import NothingPending, NothingRunnable
from claimdag_client.events import Event
from claimdagd import wire

T = TypeVar("T")

__all__ = ["Claim", "Client", "connect"]


def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    directory: str | None = None,
    graph: str | None = None,
    start: bool = False,
    name: str = "claimdag_client",
    patience_s: float | None = 60.0,
    on_notice: Callable[[dict[str, Any]], None] | None = None,
) -> Client:
    """Connect to the daemon: a Client, to be closed or used as a context manager.

    The arguments are those of the async `claimdag_client.connect`; `on_notice` is called in the client's thread, and
    must not make requests. Raises Unreachable if there is no daemon, Mismatch if it speaks another protocol.
    """
    endpoint = Endpoint(None if socket is None else os.fspath(socket), directory, graph=graph)
    path = endpoint.socket
    reach = functools.partial(connect_blocking, endpoint, client=name)
    first = reach(start=start, limit_s=SILENCE_LIMIT_S if start else hello_limit(patience_s))
    return Client(path, Pump(reach, first, start=start, patience_s=patience_s, on_notice=on_notice))


class Client(BlockingSurface[Claim]):
    """A connected client, from `connect`. Every op of the protocol is a method; each refusal code is an exception."""

    def __init__(self, path: str, pump: Pump) -> None:
        self._path = path
        self._pump = pump

    @property
    def socket(self) -> str:
        """The absolute path of the socket."""
        return self._path

    @property
    def daemon(self) -> wire.HelloOk:
        """The daemon's answer to hello, of the current or last connection."""
        return self._pump.hello

    @property
    def graph(self) -> str:
        """The tag that every id of this graph begins with."""
        return self.daemon.graph

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release what is still held, and hang up."""
        self._pump.close()

    def ask(self, request: Request[T]) -> T:
        """Make a request and return its result. Raises Refused (a class for each code), Malformed or Unreachable."""
        return self._pump.call(request)[0]

    def _claim(self, request: Request[wire.Claimed]) -> Claim:
        claimed, held = self._pump.call(request)
        assert held is not None
        return Claim(self._pump, claimed, held)

    def work(
        self,
        actor: str,
        *,
        role: str | None = None,
        slack: float | None = None,
        strict: bool | None = None,
        lease: float | None = None,
        under: str | None = None,
        until_empty: bool = False,
    ) -> Iterator[Claim]:
        """Claim node after node: `for claim in dag.work(actor)`, and work on each in a `with claim`.

        With `under` only that node and what is below it.

        Waits for work indefinitely, or with `until_empty` ends once all of it is finished; raises NothingRunnable, with
        `stuck` true, if the rest needs a person. A claim that has not ended when the next one is wanted is released.
        """
        while True:
            # The worker that finished the last node sees the end at once, the others within LOOK_S.
            wait = 0.0 if until_empty else math.inf
            claim: Claim | None = None
            while claim is None:
                try:
                    claim = self.claim_next(
                        actor, wait=wait or None, role=role, slack=slack, strict=strict, lease=lease, under=under
                    )
                except NothingPending:
                    if until_empty:
                        return
                except NothingRunnable as exc:
                    if until_empty and exc.stuck:
                        raise
                wait = LOOK_S if until_empty else math.inf
            try:
                yield claim
            finally:
                claim.hand_back()

    def events(self, from_: int | None = None, *, under: str | None = None) -> Iterator[Event]:
        """Return every mutation of the graph, from now or from seq `from_` on, none missed or repeated over reconnects.

        With `under` only those that changed this node or a node below it. "Now" is the moment of this call. Raises
        Lagged if the ledger no longer holds the next entry, GraphChanged if the daemon that came back serves another
        graph.
        """
        subscription = Subscription(from_, under)
        reach = functools.partial(self._pump.connect, start=False, limit_s=HELLO_S)
        first = subscribe(subscription, reach, self._pump.patience_s)
        return events(subscription, first, reach, self._pump.patience_s)
