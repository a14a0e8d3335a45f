"""The connection of `claimdag mcp` to its daemon: made when first needed, kept while the server lives. Holds no rule.

The server answers its host at once, also where no daemon can be reached: then each tool says so, and the next call
tries again.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import anyio
import anyio.abc

from claimdag_client import Client, connect
from claimdag_client._transport.endpoint import Endpoint
from claimdag_client.errors import ClaimdagError, Unreachable

#: How long a tool waits for a daemon that went away. Hosts end a call after 60 s.
REACH_S = 20.0


class DaemonLink:
    """Where the client comes from: an async context manager that looks for the daemon at once, in the background.

    `get` waits until there is a client, or raises what keeps it from being there.
    """

    def __init__(self, place: Endpoint) -> None:
        self._place = place
        self._client: Client | None = None
        self._trouble: ClaimdagError | None = None
        self._wanted = anyio.Event()
        self._tried = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._wanted.set()
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self._run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(kind, exc, trace)

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

    async def _run(self) -> None:
        """Connect whenever that is wanted, until cancelled."""
        while True:
            await self._wanted.wait()
            try:
                # The client looks for a daemon that goes away for as long as it takes: claims are kept over a restart.
                place = self._place
                async with connect(
                    place.socket_path,
                    directory=place.directory,
                    graph=place.graph,
                    start=place.start,
                    name="claimdag mcp",
                    patience_s=None,
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
