"""The async iterator of events, on a connection of its own so that a slow reader holds nothing else up."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import anyio
import msgspec

from claimdag_client._async.connect import OpenConnection, open_connection
from claimdag_client._protocol.backoff import delays
from claimdag_client._protocol.messages import encode
from claimdag_client.errors import GraphChanged, Lagged, Unreachable, refusal
from claimdag_client.events import Event, decode_event, decode_message
from claimdagd import wire


class Events:
    """From `Client.events`: `async for event in events`. `seq` is the last one seen, or null before the first.

    One task at a time. It closes with the client, or sooner by `aclose` or as an `async with`.
    """

    def __init__(self, path: str, name: str, from_: int | None, *, patience_s: float | None) -> None:
        self.seq: int | None = None if from_ is None else from_ - 1
        self.graph: str | None = None
        self._path = path
        self._name = name
        self._patience_s = patience_s
        self._dialled: OpenConnection | None = None
        self._waiting: list[bytes] = []
        self._closed = False

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
        """Subscribe now rather than at the first event asked for. Unreachable when patience is over."""
        if self._dialled is None and not self._closed:
            await self._subscribe()

    async def __anext__(self) -> Event:
        while not self._closed:
            if self._waiting:
                event = await self._next_waiting()
                if event is not None:
                    return event
            elif self._dialled is None:
                await self._subscribe()
            else:
                await self._read(self._dialled)
        raise StopAsyncIteration

    async def _next_waiting(self) -> Event | None:
        message = decode_message(self._waiting.pop(0))
        if message.error is not None:
            error = refusal(message.error)
            if isinstance(error, Lagged):
                # Cut off for reading too slowly: what was missed is asked for again from the ledger.
                self._waiting.clear()
                await self._hang_up()
                return None
            raise error
        if not message.event:
            return None
        try:
            event = decode_event(message.event)
        except msgspec.ValidationError:
            return None  # An event to a holder, which this connection is not: it has no seq.
        if self.seq is not None and event.seq <= self.seq:
            return None
        self.seq = event.seq
        return event

    async def _read(self, dialled: OpenConnection) -> None:
        try:
            self._waiting += dialled.lines.feed(await dialled.stream.receive(262144))
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

    async def _watch(self, dialled: OpenConnection) -> None:
        request: dict[str, object] = {"op": "watch", "rid": 1}
        if self.seq is not None:
            request["from"] = self.seq + 1
        try:
            await dialled.stream.send(encode(request))
            got = dialled.rest
            while not got:
                got = dialled.lines.feed(await dialled.stream.receive(262144))
            message = decode_message(got.pop(0))
            if message.error is not None:
                error = refusal(message.error)
                if error.code == "shutting_down":
                    raise Unreachable(f"the daemon at {self._path} is leaving")
                raise error
            if self.graph not in (None, dialled.hello.graph):
                raise GraphChanged(self.graph or "", dialled.hello.graph)
            watching = msgspec.json.decode(message.ok, type=wire.WatchOk)
        except (anyio.EndOfStream, anyio.BrokenResourceError, OSError) as exc:
            await anyio.aclose_forcefully(dialled.stream)
            raise Unreachable(f"the daemon at {self._path} hung up") from exc
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(dialled.stream)
            raise
        self.graph = dialled.hello.graph
        if self.seq is None:
            self.seq = watching.seq
        self._dialled, self._waiting = dialled, got

    async def aclose(self) -> None:
        """Stop; a later iteration ends at once."""
        self._closed = True
        await self._hang_up()

    async def _hang_up(self) -> None:
        dialled, self._dialled = self._dialled, None
        if dialled is not None:
            await anyio.aclose_forcefully(dialled.stream)
