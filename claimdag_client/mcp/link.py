"""The connection of `claimdag mcp` to its daemon: made when first needed, kept while the server lives. Holds no rule.

The server answers its host at once, also where no daemon can be reached: then each tool says so, and the next call
tries again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from claimdag_client import Client, connect
from claimdag_client.errors import ClaimdagError, Unreachable

#: How long a tool waits for a daemon that went away. Hosts end a call after 60 s.
REACH_S = 20.0


class DaemonLink:
    """Where the client comes from. `get` waits until there is one, or raises what keeps it from being there."""

    def __init__(self, socket: str | None, directory: str | None, *, start: bool) -> None:
        self._socket = socket
        self._directory = directory
        self._start = start
        self._client: Client | None = None
        self._trouble: ClaimdagError | None = None
        self._wanted = anyio.Event()
        self._tried = anyio.Event()

    async def get(self) -> Client:
        """The connected client. Raises Unreachable, or Mismatch for a daemon of another protocol."""
        if self._client is None:
            self._tried = anyio.Event()
            self._wanted.set()
            with anyio.move_on_after(REACH_S):
                await self._tried.wait()
        if self._client is None:
            raise self._trouble or Unreachable("no daemon answers")
        return self._client

    @property
    def client(self) -> Client | None:
        """The client, if there is one by now."""
        return self._client

    async def run(self) -> None:
        """Connect whenever that is wanted, until cancelled."""
        while True:
            await self._wanted.wait()
            try:
                # The client looks for a daemon that goes away for as long as it takes: claims are kept over a restart.
                async with connect(
                    self._socket, directory=self._directory, start=self._start, name="claimdag mcp", patience_s=None
                ) as client:
                    self._client, self._trouble = client, None
                    self._tried.set()
                    await anyio.sleep_forever()
            except ClaimdagError as exc:
                self._trouble = exc
            finally:
                self._client = None
            self._wanted = anyio.Event()
            self._tried.set()


@asynccontextmanager
async def daemon_link(socket: str | None, directory: str | None, *, start: bool) -> AsyncIterator[DaemonLink]:
    """A link that looks for its daemon at once, in the background."""
    link = DaemonLink(socket, directory, start=start)
    link._wanted.set()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        try:
            yield link
        finally:
            tasks.cancel_scope.cancel()
