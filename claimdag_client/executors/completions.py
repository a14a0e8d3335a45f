"""Futures of other threads, awaited on either event loop: one socket pair wakes the loop for all of them."""

from __future__ import annotations

import socket
from collections import deque
from concurrent.futures import Future
from typing import Any

import anyio


class Completions:
    """Awaits `concurrent.futures.Future`s. `watch` must run while anything is awaited."""

    def __init__(self) -> None:
        self._ended: deque[anyio.Event] = deque()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    async def watch(self) -> None:
        """Wake every task that waits for a future that has ended, until cancelled."""
        while True:
            await anyio.wait_readable(self._reader)
            try:
                self._reader.recv(4096)
            except BlockingIOError:
                continue
            while self._ended:
                self._ended.popleft().set()

    async def ended(self, future: Future[Any]) -> None:
        """Wait until the future has a result, an exception, or was cancelled. It is left as it is on cancellation."""
        event = anyio.Event()

        def tell(_: Future[Any]) -> None:
            # In the thread that ended it. A full pipe has a wake-up in it already.
            self._ended.append(event)
            try:
                self._writer.send(b"\0")
            except (BlockingIOError, OSError):
                pass

        future.add_done_callback(tell)
        await event.wait()

    def close(self) -> None:
        """Close both ends."""
        self._reader.close()
        self._writer.close()
