"""Carries the protocol's bytes for the async client: one connection after another, on asyncio and on trio."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import anyio
import anyio.abc
import anyio.to_thread

from claimdag_client._async.connect import HELLO_S, OpenConnection, open_connection
from claimdag_client._protocol import requests
from claimdag_client._protocol.backoff import delays
from claimdag_client._protocol.held_claim import HeldClaim
from claimdag_client._protocol.protocol import ClientProtocol
from claimdag_client._protocol.requests import Request
from claimdag_client._transport.transport import Connection
from claimdag_client.errors import ClaimdagError, Unreachable

T = TypeVar("T")

#: A daemon that went away gets this long to be restarted by its supervisor, before one is started from here.
START_AFTER_S = 5.0
#: What a closing client allows for its last requests.
FLUSH_S = 1.0


class Pump:
    """Keeps a connection to the daemon at `path`, and makes calls on it.

    Args:
        path: The socket.
        name: What the daemon is told that this program is.
        opened: The first connection.
        patience_s: How long to look for a daemon that went away. None: indefinitely.
        on_notice: Called with each event that concerns no claim.
        start: Starts a daemon, in a thread; None if that is not allowed.
    """

    def __init__(
        self,
        path: str,
        name: str,
        opened: OpenConnection,
        *,
        patience_s: float | None,
        on_notice: Callable[[dict[str, Any]], None] | None,
        start: Callable[[], Connection] | None,
    ) -> None:
        self.path = path
        self.name = name
        self.patience_s = patience_s
        #: The daemon's answer to hello, of the current or last connection.
        self.hello = opened.hello
        self.protocol = ClientProtocol(secrets.token_hex(8), on_notice, silence_limit_s=patience_s)
        self._first = opened
        self._start = start
        self._woken = anyio.Event()

    async def call(self, request: Request[T]) -> tuple[T, HeldClaim | None]:
        """Make a request; return its result, and the claim that it brought."""
        settled = anyio.Event()
        call = self.protocol.start(request, anyio.current_time(), settled.set)
        self._wake()
        limit_s = self.protocol.time_limit(request)
        try:
            if limit_s is None:
                await settled.wait()
            else:
                with anyio.move_on_after(limit_s):
                    await settled.wait()
        except BaseException:
            self.protocol.abandon(call, anyio.current_time())
            self._wake()
            raise
        if not call.settled:
            overdue = self.protocol.overdue(call, anyio.current_time())
            self._wake()
            raise overdue
        return call.result(), call.held

    async def close(self) -> None:
        """Release what is still held, and send that."""
        held = [claim for claim in self.protocol.held.values() if not claim.ending]
        if self.protocol.connected and held:
            async with anyio.create_task_group() as tasks:
                for claim in held:
                    tasks.start_soon(self._release, claim)

    async def _release(self, held: HeldClaim) -> None:
        try:
            await self.call(requests.release(held.id, actor=held.actor, gen=held.gen))
        except ClaimdagError:
            pass  # The claim is lost, or the daemon gone: its grace ends the claim.

    def _wake(self) -> None:
        """Let the sending task look again: there is something to send, or a timer has changed."""
        self._woken.set()

    async def run(self) -> None:
        """Serve calls, and look for the daemon again whenever the connection ends, until patience ends."""
        opened: OpenConnection | None = self._first
        pauses = delays()
        while True:
            if opened is None:
                opened = await self._reconnect(pauses)
                if opened is None:
                    return
            self.hello = opened.hello
            answers = self.protocol.answers
            try:
                async with opened.stream:
                    self.protocol.connection_made(opened.hello.graph, anyio.current_time())
                    await self._exchange(opened)
            finally:
                self.protocol.connection_lost()
            opened = None
            if self.protocol.answers > answers:
                pauses = delays()
            await anyio.sleep(next(pauses))

    async def _reconnect(self, pauses: Iterator[float]) -> OpenConnection | None:
        """Return a new connection; None if there will be none, which the protocol knows by then."""
        began = anyio.current_time()
        while True:
            waited = anyio.current_time() - began
            try:
                return await open_connection(self.path, self.name, hello_limit(self.patience_s))
            except Unreachable as exc:
                if self.patience_s is not None and waited >= self.patience_s:
                    self.protocol.close(exc)
                    return None
                if self._start is not None and waited >= START_AFTER_S:
                    try:
                        await start_daemon(self._start)
                    except Unreachable:
                        pass  # Another process may be starting one, or a disk be full: look again.
            except ClaimdagError as exc:
                self.protocol.close(exc)
                return None
            await anyio.sleep(next(pauses))

    async def _exchange(self, opened: OpenConnection) -> None:
        """Send and receive until the connection ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send, opened.stream, tasks.cancel_scope)
            lines = opened.rest
            try:
                while not self.protocol.leaving:
                    now = anyio.current_time()
                    for line in lines:
                        self.protocol.receive_line(line, now)
                    if lines:
                        self._wake()
                    lines = opened.lines.feed(await opened.stream.receive(262144))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, ValueError):
                pass  # However the connection broke, the remedy is another one.
            tasks.cancel_scope.cancel()

    async def _send(self, stream: anyio.abc.ByteStream, scope: anyio.CancelScope) -> None:
        try:
            while True:
                self._woken = anyio.Event()
                now = anyio.current_time()
                self.protocol.handle_timer(now)
                while data := self.protocol.data_to_send():
                    await stream.send(data)
                due = self.protocol.next_timer()
                with anyio.move_on_after(None if due is None else max(0.0, due - now)):
                    await self._woken.wait()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            # The daemon may have answered before it hung up: go on reading until the end of the stream.
            await anyio.sleep(FLUSH_S)
            scope.cancel()


def hello_limit(patience_s: float | None) -> float:
    """Return how long the daemon may take to answer hello."""
    return HELLO_S if patience_s is None else min(HELLO_S, patience_s)


async def start_daemon(start: Callable[[], Connection]) -> None:
    """Start a daemon if none listens. That blocks, so a thread does it."""
    await anyio.to_thread.run_sync(lambda: start().close(), abandon_on_cancel=True)
