"""Callbacks when a descriptor is ready, on whichever loop anyio runs on. Must know nothing of what is read or written.

On asyncio the callbacks are registered on the loop itself, since a task per wait costs most of the throughput there.
Everywhere else a task per descriptor waits and calls. What is built on this module is the same on both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

Callback = Callable[[], None]


class Poller(Protocol):
    """Level-triggered readiness: a callback is called again as long as it left something to read.

    A callback must not raise. A descriptor must be removed before it is closed.
    """

    def add_reader(self, fd: int, callback: Callback) -> object: ...

    def remove_reader(self, fd: int) -> object: ...

    def add_writer(self, fd: int, callback: Callback) -> object: ...

    def remove_writer(self, fd: int) -> object: ...

    def soon(self, callback: Callback) -> object:
        """Call once, after everybody else who is ready has had a turn."""


class LoopPoller:
    """Registers on the running asyncio (or uvloop) loop."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.add_reader: Callable[[int, Callback], object] = loop.add_reader
        self.remove_reader: Callable[[int], object] = loop.remove_reader
        self.add_writer: Callable[[int, Callback], object] = loop.add_writer
        self.remove_writer: Callable[[int], object] = loop.remove_writer
        self.soon: Callable[[Callback], object] = loop.call_soon


class TaskPoller:
    """Waits in tasks of the given group: for loops without callbacks, such as trio's."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._readers: dict[int, anyio.CancelScope] = {}
        self._writers: dict[int, anyio.CancelScope] = {}

    def add_reader(self, fd: int, callback: Callback) -> None:
        self._add(self._readers, anyio.wait_readable, fd, callback)

    def remove_reader(self, fd: int) -> None:
        self._remove(self._readers, fd)

    def add_writer(self, fd: int, callback: Callback) -> None:
        self._add(self._writers, anyio.wait_writable, fd, callback)

    def remove_writer(self, fd: int) -> None:
        self._remove(self._writers, fd)

    def soon(self, callback: Callback) -> None:
        self._tasks.start_soon(_call_later, callback)

    def _add(
        self,
        waiting: dict[int, anyio.CancelScope],
        wait: Callable[[int], Awaitable[None]],
        fd: int,
        callback: Callback,
    ) -> None:
        self._remove(waiting, fd)
        scope = waiting[fd] = anyio.CancelScope()
        self._tasks.start_soon(_call_when_ready, waiting, scope, wait, fd, callback)

    @staticmethod
    def _remove(waiting: dict[int, anyio.CancelScope], fd: int) -> None:
        scope = waiting.pop(fd, None)
        if scope is not None:
            scope.cancel()


async def _call_when_ready(
    waiting: dict[int, anyio.CancelScope],
    scope: anyio.CancelScope,
    wait: Callable[[int], Awaitable[None]],
    fd: int,
    callback: Callback,
) -> None:
    # The number may name another connection by the time this task has its turn, so the scope is what identifies it.
    with scope:
        while waiting.get(fd) is scope:
            await wait(fd)
            if waiting.get(fd) is scope:
                callback()


async def _call_later(callback: Callback) -> None:
    await anyio.lowlevel.checkpoint()
    callback()
