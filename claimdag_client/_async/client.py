"""The async client, on asyncio and on trio: `async with connect() as dag`.

It holds no rule of the protocol: `_protocol.surface` declares its methods, `_protocol.protocol` decides what is sent,
and the pump carries the bytes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio

from claimdag_client._async.claims import ClaimIterator, PendingClaim
from claimdag_client._async.connect import open_connection
from claimdag_client._async.pump import FLUSH_S, Pump, hello_limit, start_daemon
from claimdag_client._async.stream import Events
from claimdag_client._protocol.requests import Request
from claimdag_client._protocol.surface import AsyncSurface
from claimdag_client._transport.endpoint import Endpoint
from claimdag_client._transport.transport import connect as connect_blocking
from claimdagd import wire

T = TypeVar("T")

__all__ = ["Client", "connect"]


@asynccontextmanager
async def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    directory: str | None = None,
    graph: str | None = None,
    start: bool = False,
    name: str = "claimdag_client",
    patience_s: float | None = 60.0,
    on_notice: Callable[[dict[str, Any]], None] | None = None,
) -> AsyncIterator[Client]:
    """Connect to the daemon; the client can be used inside the `async with`.

    Raises Unreachable if there is no daemon, Mismatch if it speaks another protocol.

    Args:
        socket: The daemon's socket; else that of `directory`, else what the environment says (see docs/client.md).
        directory: The daemon's directory.
        graph: The name of a graph, in a directory of its own; else what CLAIMDAG_GRAPH or `.claimdag.toml` says.
        start: Start a daemon if none listens.
        name: What the daemon is told that this program is.
        patience_s: How long to look for a daemon that went away, or to wait for one that is silent, before calls raise
            Unreachable. None: indefinitely.
        on_notice: Called with each event that concerns no claim, such as a deadlock.
    """
    endpoint = Endpoint(None if socket is None else os.fspath(socket), directory, graph=graph)
    path = endpoint.socket
    start_one = functools.partial(connect_blocking, endpoint, client=name) if start else None
    if start_one is not None:
        await start_daemon(start_one)
    opened = await open_connection(path, name, hello_limit(patience_s))
    client = Client(Pump(path, name, opened, patience_s=patience_s, on_notice=on_notice, start=start_one))
    raised: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client._pump.run)
        try:
            yield client
        except (Exception, KeyboardInterrupt, SystemExit) as exc:
            # Kept from the task group, which would wrap it.
            raised = exc
        finally:
            with anyio.move_on_after(FLUSH_S, shield=True):
                await client._close()
            tasks.cancel_scope.cancel()
    if raised is not None:
        try:
            raise raised
        finally:
            raised = None


class Client(AsyncSurface[PendingClaim]):
    """A connected client, from `connect`. Every op of the protocol is a method; each refusal code is an exception.

    Tasks may share it. Each method may be cancelled at any time; a claim that was on its way is then released.
    """

    def __init__(self, pump: Pump) -> None:
        self._pump = pump
        self._streams: set[Events] = set()

    @property
    def socket(self) -> str:
        """The absolute path of the socket."""
        return self._pump.path

    @property
    def daemon(self) -> wire.HelloOk:
        """The daemon's answer to hello, of the current or last connection."""
        return self._pump.hello

    @property
    def graph(self) -> str:
        """The tag that every id of this graph begins with."""
        return self.daemon.graph

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._pump.protocol.connected

    async def ask(self, request: Request[T]) -> T:
        """Make a request and return its result. Raises Refused (a class for each code), Malformed or Unreachable."""
        return (await self._pump.call(request))[0]

    def _claim(self, request: Request[wire.Claimed]) -> PendingClaim:
        return PendingClaim(self._pump, request)

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
    ) -> ClaimIterator:
        """Claim node after node: `async for claim in dag.work(actor)`, and work on each in an `async with claim`.

        Waits for work indefinitely, or with `until_empty` ends once all of it is finished; raises NothingRunnable, with
        `stuck` true, if the rest needs a person. With `under` only that node and what is below it.
        """
        choice = {"role": role, "slack": slack, "strict": strict, "lease": lease, "under": under}
        return ClaimIterator(self._pump, actor, choice, until_empty=until_empty)

    def events(self, from_: int | None = None, *, under: str | None = None) -> Events:
        """Return every mutation of the graph, from now or from seq `from_` on: `async for event in dag.events()`.

        With `under` only those that changed this node or a node below it. It has a connection of its own; after a
        reconnect it goes on from the last seq, so that nothing is missed or repeated. Raises Lagged if the ledger no
        longer holds the next entry, GraphChanged if the daemon that came back serves another graph.
        """
        events = Events(self.socket, self._pump.name, from_, under, patience_s=self._pump.patience_s)
        self._streams.add(events)
        return events

    async def _close(self) -> None:
        """End the streams, and release what is still held."""
        for events in self._streams:
            await events.aclose()
        await self._pump.close()
