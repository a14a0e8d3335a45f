"""The async iterator of events, on a connection of its own, so that a slow reader delays nothing else."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import anyio
import msgspec

from claimdag_client._async.connect import OpenConnection, open_connection
from claimdag_client._protocol.backoff import delays
from claimdag_client._protocol.messages import encode
from claimdag_client._protocol.subscription import RESUMABLE, Subscription
from claimdag_client.errors import Unreachable, refusal
from claimdag_client.events import Event, decode_event, decode_message
from claimdagd import wire


class Events:
    """From `Client.events`: `async for event in events`. `seq` is that of the last event, or None before the first.

    One task at a time may read it. It closes with the client, or earlier by `aclose` or as an `async with`.
    """

    def __init__(self, path: str, name: str, from_: int | None, under: str | None, *, patience_s: float | None) -> None:
        self._subscription = Subscription(from_, under)
        self._path = path
        self._name = name
        self._patience_s = patience_s
        self._opened: OpenConnection | None = None
        self._waiting: list[bytes] = []
        self._closed = False

    @property
    def seq(self) -> int | None:
        """The seq of the last event, or None before the first."""
        return None if self._subscription.next is None else self._subscription.next - 1

    @property
    def graph(self) -> str | None:
        """The tag of the graph, once subscribed."""
        return self._subscription.graph

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        """Connect now, so that "from now" means from here."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Subscribe now rather than when the first event is read. Raises Unreachable when patience ends."""
        if self._opened is None and not self._closed:
            await self._subscribe()

    async def __anext__(self) -> Event:
        while not self._closed:
            if self._waiting:
                event = await self._next_waiting()
                if event is not None:
                    return event
            elif self._opened is None:
                await self._subscribe()
            else:
                await self._read(self._opened)
        raise StopAsyncIteration

    async def _next_waiting(self) -> Event | None:
        message = decode_message(self._waiting.pop(0))
        if message.error is not None:
            error = refusal(message.error)
            if error.code not in RESUMABLE:
                raise error
            # Cut off, for example for reading too slowly: the ledger has what was missed.
            self._waiting.clear()
            await self._hang_up()
            return None
        if not message.event:
            return None
        try:
            event = decode_event(message.event)
        except msgspec.ValidationError:
            return None  # An event to a holder of claims has no seq.
        return event if self._subscription.accept(event.seq) else None

    async def _read(self, opened: OpenConnection) -> None:
        try:
            self._waiting += opened.lines.feed(await opened.stream.receive(262144))
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, ValueError):
            await self._hang_up()

    async def _subscribe(self) -> None:
        give_up = None if self._patience_s is None else anyio.current_time() + self._patience_s
        for pause in delays():
            try:
                await self._watch(await open_connection(self._path, self._name))
                return
            except Unreachable:
                if give_up is not None and anyio.current_time() >= give_up:
                    raise
            await anyio.sleep(pause)

    async def _watch(self, opened: OpenConnection) -> None:
        graph = opened.hello.graph
        try:
            await opened.stream.send(encode({**self._subscription.request(graph), "rid": 1}))
            got = opened.rest
            while not got:
                got = opened.lines.feed(await opened.stream.receive(262144))
            message = decode_message(got.pop(0))
            if message.error is not None:
                error = refusal(message.error)
                if error.code == "shutting_down":
                    raise Unreachable(f"the daemon at {self._path} is leaving")
                raise error
            self._subscription.begin(graph, msgspec.json.decode(message.ok, type=wire.WatchOk).seq)
        except (anyio.EndOfStream, anyio.BrokenResourceError, OSError) as exc:
            await anyio.aclose_forcefully(opened.stream)
            raise Unreachable(f"the daemon at {self._path} hung up") from exc
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(opened.stream)
            raise
        self._opened, self._waiting = opened, got

    async def aclose(self) -> None:
        """Stop; a later iteration ends at once."""
        self._closed = True
        await self._hang_up()

    async def _hang_up(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await anyio.aclose_forcefully(opened.stream)
