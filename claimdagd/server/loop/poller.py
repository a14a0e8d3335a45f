"""Callbacks when a descriptor is ready, on asyncio or trio. Must know nothing of what is read or written.

All descriptors are in one epoll, and the loop waits for that one alone. So the loop's own cost is paid once for all
descriptors that are ready together, and not at all for those that become ready while the poller serves: it goes on
until none is ready, or other tasks have waited for STAY_S, or `yield_loop` is called.
"""

from __future__ import annotations

import asyncio
import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import anyio
import anyio.lowlevel

Callback = Callable[[], None]

#: The longest that other tasks of the loop wait while connections are served.
STAY_S: Final = 0.002
#: The most descriptors that are served between two looks at the clock.
BATCH: Final = 64
#: How long to busy-poll before the process sleeps: about as long as a client on another core takes to be woken by an
#: answer, to read it, and to ask again.
SPIN_S: Final = 0.00015
#: A busy-poll that took so much longer means that another process wants this core.
PREEMPTED_S: Final = 0.0002
#: After this many misses in a row, two to the power of it chances to spin are left out.
MISSES_MAX: Final = 10

_IN: Final = select.EPOLLIN
_OUT: Final = select.EPOLLOUT
_GONE: Final = select.EPOLLHUP | select.EPOLLERR


class SpinPolicy:
    """Decides whether to busy-poll before the process sleeps: to sleep and be woken costs more than a small request.

    Spinning pays if a client asks again at once. After each miss more chances are left out, so that a daemon with
    little to do, or one that shares its core with its clients, spends nothing on it.
    """

    def __init__(self) -> None:
        self._misses = 0
        self._left_out = 0

    def may_spin(self) -> bool:
        """Return whether to spin this time; the caller reports the result."""
        if self._left_out:
            self._left_out -= 1
            return False
        return True

    def paid(self) -> None:
        """Record that spinning found work."""
        self._misses = 0

    def missed(self) -> None:
        """Record that spinning found no work."""
        self._misses = min(self._misses + 1, MISSES_MAX)
        self._left_out = (1 << self._misses) - 1

    def preempted(self) -> None:
        """Record that another process had this core meanwhile: to spin is to keep the core from it."""
        self._misses = MISSES_MAX
        self.missed()


class Poller:
    """Level-triggered readiness: a callback is called again as long as it left something to read.

    A callback must not raise. A descriptor must be forgotten before it is closed. Serves while `run` runs.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._readers: dict[int, Callback] = {}
        self._writers: dict[int, Callback] = {}
        self._hangups: dict[int, Callback] = {}
        self._due_soon: deque[Callback] = deque()
        # Always readable, and looked at only while something is to be done soon.
        self._always = os.eventfd(1, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._yields = False
        self._spin = SpinPolicy()

    async def run(self, backend: str) -> None:
        """Serve until cancelled, on the loop that `backend` names to anyio."""
        fd = self._epoll.fileno()
        try:
            if backend == "asyncio":
                # A wait of anyio's would cost a task's turn and two calls of epoll each time.
                loop = asyncio.get_running_loop()
                loop.add_reader(fd, self._serve)
                try:
                    await anyio.sleep_forever()
                finally:
                    loop.remove_reader(fd)
            while True:
                await anyio.wait_readable(fd)
                self._serve()
                if self._yields:
                    # Yield once, so that the task woken by `yield_loop` runs before more input is served.
                    await anyio.lowlevel.checkpoint()
        finally:
            self._epoll.close()
            os.close(self._always)

    def add_reader(self, fd: int, callback: Callback) -> None:
        """Call `callback` when there is something to read, or the end of the stream."""
        self._readers[fd] = callback
        self._register(fd)

    def remove_reader(self, fd: int) -> None:
        del self._readers[fd]
        self._register(fd)

    def add_writer(self, fd: int, callback: Callback) -> None:
        """Call `callback` when there is room to write."""
        self._writers[fd] = callback
        self._register(fd)

    def remove_writer(self, fd: int) -> None:
        del self._writers[fd]
        self._register(fd)

    def add_hangup(self, fd: int, callback: Callback) -> None:
        """Call `callback` when both directions have ended. A registered reader or writer is called instead."""
        self._hangups[fd] = callback
        self._register(fd)

    def forget(self, fd: int) -> None:
        """Remove every callback of `fd`."""
        heard = [callbacks.pop(fd, None) for callbacks in (self._readers, self._writers, self._hangups)]
        if any(heard):
            self._epoll.unregister(fd)

    def call_soon(self, callback: Callback) -> None:
        """Call `callback` once, after every other ready descriptor has had a turn."""
        self._due_soon.append(callback)
        if len(self._due_soon) == 1:
            self.add_reader(self._always, self._call_due)

    def yield_loop(self) -> None:
        """Leave other tasks of the loop a turn before more is served."""
        self._yields = True

    def _register(self, fd: int) -> None:
        """Update the epoll's mask of `fd` by its callbacks. The end of both directions is reported in any case."""
        mask = (_IN if fd in self._readers else 0) | (_OUT if fd in self._writers else 0)
        heard = mask or fd in self._hangups
        try:
            if heard:
                self._epoll.modify(fd, mask)
            else:
                self._epoll.unregister(fd)
        except FileNotFoundError:
            self._epoll.register(fd, mask)

    def _call_due(self) -> None:
        for _ in range(len(self._due_soon)):
            self._due_soon.popleft()()
        if not self._due_soon:
            self.remove_reader(self._always)

    def _serve(self) -> None:
        clock = time.monotonic
        leave_at = clock() + STAY_S
        self._yields = False
        events = self._epoll.poll(0, BATCH)
        while events:
            self._dispatch(events)
            if self._yields or clock() > leave_at:
                return
            events = self._epoll.poll(0, BATCH) or self._busy_poll()

    def _dispatch(self, events: list[tuple[int, int]]) -> None:
        for fd, event in events:
            if event & ~_OUT:
                callback = self._readers.get(fd)
                if callback is not None:
                    callback()
            if event & ~_IN:
                callback = self._writers.get(fd)
                if callback is not None:
                    callback()
                elif event & _GONE and fd in self._hangups and fd not in self._readers:
                    self._hangups[fd]()

    def _busy_poll(self) -> list[tuple[int, int]]:
        """Poll again and again for SPIN_S, if spinning found work recently; return the events."""
        spin = self._spin
        if not spin.may_spin():
            return []
        clock, poll = time.monotonic, self._epoll.poll
        over_at = clock() + SPIN_S
        events: list[tuple[int, int]] = []
        now = 0.0
        while not events and now < over_at:
            events = poll(0, BATCH)
            now = clock()
        if now > over_at + PREEMPTED_S:
            spin.preempted()
        elif events:
            spin.paid()
        else:
            spin.missed()
        return events
