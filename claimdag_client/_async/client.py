"""The async client, on asyncio and on trio: `async with connect() as dag`.

One connection, many questions at once on it, each answered when its answer comes. A lost daemon is looked for again
with growing pauses, and nothing that was asked is lost or done twice (see conversation.py, which this module carries
bytes for). It must hold no rule of the protocol itself.
"""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from inspect import Parameter, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

import anyio
import anyio.abc
import anyio.to_thread

from claimdag_client._async.claims import Opening, Work
from claimdag_client._async.connect import OpenConnection, open_connection
from claimdag_client._async.stream import Events
from claimdag_client._protocol import requests as asks
from claimdag_client._protocol.backoff import delays
from claimdag_client._protocol.protocol import Conversation, Held
from claimdag_client._protocol.requests import Ask
from claimdag_client._transport.endpoint import Endpoint
from claimdag_client._transport.transport import Connection
from claimdag_client._transport.transport import connect as connect_blocking
from claimdag_client.errors import ClaimdagError, Unreachable
from claimdagd import wire

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["Client", "connect"]

#: A daemon that went away gets this long to be brought back by whoever looks after it, before one is started from here.
START_AFTER_S = 5.0
#: What a closing client gives its last words to get out.
FLUSH_S = 1.0


def _method(build: Callable[P, Ask[T]]) -> Callable[Concatenate[Client, P], Coroutine[Any, Any, T]]:
    """The question that `build` makes, asked, as a method."""

    async def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.ask(build(*args, **kwargs))

    method.__doc__ = build.__doc__
    method.__name__ = build.__name__
    method.__qualname__ = f"Client.{build.__name__}"
    shape = signature(build)
    own = Parameter("self", Parameter.POSITIONAL_ONLY)
    method.__signature__ = shape.replace(parameters=[own, *shape.parameters.values()])  # type: ignore[attr-defined]
    return method


async def _start(start: Callable[[], Connection]) -> None:
    """Start a daemon where none listens. It blocks, so it is done in a thread."""
    await anyio.to_thread.run_sync(lambda: start().close(), abandon_on_cancel=True)


@asynccontextmanager
async def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    directory: str | None = None,
    start: bool = False,
    name: str = "claimdag_client",
    patience_s: float | None = 60.0,
    on_notice: Callable[[dict[str, Any]], None] | None = None,
) -> AsyncIterator[Client]:
    """Connect to the daemon; the client is good for as long as the `async with` lasts.

    The socket is `socket`, else that of `directory`, else what the environment says (see docs/how-to/client.md). With
    `start`, a daemon is started where none listens. `patience_s` is how long to look for a daemon that went away
    before everything asked raises Unreachable; None: for good. `on_notice` is called with what the daemon tells
    unasked and what is no claim's business, such as a deadlock.

    Raises Unreachable when there is no daemon, Mismatch when it speaks another protocol.
    """
    endpoint = Endpoint(None if socket is None else os.fspath(socket), directory)
    path = endpoint.socket
    if start:
        await _start(functools.partial(connect_blocking, endpoint, client=name))
    dialled = await open_connection(path, name)
    client = Client(path, name, dialled, patience_s=patience_s, on_notice=on_notice)
    if start:
        client._start = functools.partial(connect_blocking, endpoint, client=name)
    raised: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client._stay_connected, dialled)
        try:
            yield client
        except (Exception, KeyboardInterrupt, SystemExit) as exc:
            # Out of the task group's reach, which would wrap it.
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


class Client:
    """A connected client, from `connect`. Every op of the protocol is a method; refusals raise by code.

    Tasks may share it. Each method may be cancelled at any time; a claim that was on its way then goes back.
    """

    def __init__(
        self,
        path: str,
        name: str,
        dialled: OpenConnection,
        *,
        patience_s: float | None,
        on_notice: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        #: The absolute path of the socket.
        self.socket = path
        #: The daemon's answer to hello, of the connection that stands or stood last.
        self.daemon: wire.HelloOk = dialled.hello
        self._name = name
        self._patience_s = patience_s
        self._talk = Conversation(secrets.token_hex(8), on_notice)
        self._wake = anyio.Event()
        self._start: Callable[[], Connection] | None = None
        self._streams: set[Events] = set()

    @property
    def graph(self) -> str:
        """The tag that every id of this graph begins with."""
        return self.daemon.graph

    @property
    def connected(self) -> bool:
        """A connection stands at this moment."""
        return self._talk.connected

    # ------------------------------------------------------------------------------------------------- questions

    async def ask(self, ask: Ask[T]) -> T:
        """Ask and wait for the answer. Raises Refused (a class for each code), Malformed or Unreachable."""
        return (await self._call(ask))[0]

    async def _call(self, ask: Ask[T]) -> tuple[T, Held | None]:
        settled = anyio.Event()
        call = self._talk.ask(ask, anyio.current_time(), settled.set)
        self._stir()
        try:
            await settled.wait()
        except BaseException:
            self._talk.abandon(call, anyio.current_time())
            self._stir()
            raise
        return call.result(), call.held

    ping = _method(asks.ping)
    upsert = _method(asks.upsert)
    submit = _method(asks.submit)
    get = _method(asks.get)
    why = _method(asks.why)
    list = _method(asks.list_nodes)
    ready = _method(asks.ready)
    renew = _method(asks.renew)
    running = _method(asks.running)
    release = _method(asks.release)
    reopen = _method(asks.reopen)
    archive = _method(asks.archive)
    unarchive = _method(asks.unarchive)
    complete = _method(asks.complete)
    cancel = _method(asks.cancel)
    reclaim = _method(asks.reclaim)
    link = _method(asks.link)
    unlink = _method(asks.unlink)
    resources = _method(asks.resources)
    capacity = _method(asks.capacity)
    wait = _method(asks.wait)
    log = _method(asks.log)
    stats = _method(asks.stats)
    checkpoint = _method(asks.checkpoint)
    shutdown = _method(asks.shutdown)

    # ---------------------------------------------------------------------------------------------------- claims

    def claim(
        self, id: str, *, actor: str, gen: int | None = None, lease: float | None = None, bound: bool = True
    ) -> Opening:
        """Claim node `id`: `async with dag.claim(...) as claim`, or await it for the Claim.

        `lease` is in seconds, renewed in the background for as long as the claim lasts. A `bound` claim goes back
        within the daemon's grace when this process dies.
        """
        return Opening(self, asks.claim(id, actor=actor, gen=gen, lease=lease, bound=bound))

    def claim_next(
        self,
        actor: str,
        *,
        role: str | None = None,
        slack: float | None = None,
        strict: bool | None = None,
        lease: float | None = None,
        bound: bool = True,
        wait: float | None = None,
    ) -> Opening:
        """Claim the best node that can run, as `claim`; `wait` seconds for there to be one (math.inf: for good).

        Raises NothingRunnable or NothingPending.
        """
        return Opening(
            self,
            asks.claim_next(actor, role=role, slack=slack, strict=strict, lease=lease, bound=bound, wait=wait),
        )

    def work(
        self,
        actor: str,
        *,
        role: str | None = None,
        slack: float | None = None,
        strict: bool | None = None,
        lease: float | None = None,
        until_empty: bool = False,
    ) -> Work:
        """Node after node: `async for claim in dag.work(actor)`, each to be worked in an `async with claim`.

        Waits for work for good, or with `until_empty` ends once all of it is finished; raises NothingRunnable, with
        `stuck` true, where what is left needs a person.
        """
        return Work(self, actor, role=role, slack=slack, strict=strict, lease=lease, until_empty=until_empty)

    def events(self, from_: int | None = None) -> Events:
        """Every mutation of the graph, from now or from seq `from_` on: `async for event in dag.events()`.

        On a connection of its own; after a reconnect it goes on from the last seq, so that nothing is missed or
        seen twice. Raises Lagged when the ledger no longer holds what comes next, GraphChanged when the daemon that
        came back serves another graph.
        """
        events = Events(self.socket, self._name, from_, patience_s=self._patience_s)
        self._streams.add(events)
        return events

    # ------------------------------------------------------------------------------------------------ connection

    def _stir(self) -> None:
        """Something is to be sent, or a time has changed."""
        self._wake.set()

    async def _close(self) -> None:
        """Hand back what is still held and let it go out."""
        for events in self._streams:
            await events.aclose()
        held = [h for h in self._talk.held.values() if not h.ending]
        if self._talk.connected and held:
            async with anyio.create_task_group() as tasks:
                for one in held:
                    tasks.start_soon(self._let_go, one)

    async def _let_go(self, held: Held) -> None:
        try:
            await self.ask(asks.release(held.id, actor=held.actor, gen=held.gen))
        except ClaimdagError:
            pass  # It is not ours by now, or the daemon is gone: the grace sees to it.

    async def _stay_connected(self, dialled: OpenConnection | None) -> None:
        """Talk, and look for the daemon again whenever the connection ends, until patience does too."""
        pauses = delays()
        while True:
            if dialled is None:
                dialled = await self._reach(pauses)
                if dialled is None:
                    return
            self.daemon = dialled.hello
            answers = self._talk.answers
            try:
                async with dialled.stream:
                    self._talk.opened(dialled.hello.graph, anyio.current_time())
                    await self._carry(dialled)
            finally:
                self._talk.dropped()
            if self._talk.answers > answers:
                pauses = delays()
            await anyio.sleep(next(pauses))
            dialled = None

    async def _reach(self, pauses: Iterator[float]) -> OpenConnection | None:
        began = anyio.current_time()
        while True:
            try:
                return await open_connection(self.socket, self._name)
            except Unreachable as exc:
                waited = anyio.current_time() - began
                if self._patience_s is not None and waited >= self._patience_s:
                    self._talk.failed(exc)
                    return None
                if self._start is not None and waited >= START_AFTER_S:
                    try:
                        await _start(self._start)
                    except Unreachable:
                        pass  # Another may be starting, or a disk be full: look again.
            except ClaimdagError as exc:
                self._talk.failed(exc)
                return None
            await anyio.sleep(next(pauses))

    async def _carry(self, dialled: OpenConnection) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send, dialled.stream, tasks.cancel_scope)
            lines = dialled.rest
            try:
                while not self._talk.leaving:
                    now = anyio.current_time()
                    for line in lines:
                        self._talk.received(line, now)
                    if lines:
                        self._stir()
                    lines = dialled.lines.feed(await dialled.stream.receive(262144))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, ValueError):
                pass  # Whatever broke it, the remedy is another connection.
            tasks.cancel_scope.cancel()

    async def _send(self, stream: anyio.abc.ByteStream, scope: anyio.CancelScope) -> None:
        try:
            while True:
                self._wake = anyio.Event()
                now = anyio.current_time()
                self._talk.tick(now)
                while data := self._talk.take():
                    await stream.send(data)
                due = self._talk.due()
                with anyio.move_on_after(None if due is None else max(0.0, due - now)):
                    await self._wake.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            # Not the end yet: the daemon may have answered before it hung up, and reading will meet the end.
            await anyio.sleep(FLUSH_S)
            scope.cancel()
