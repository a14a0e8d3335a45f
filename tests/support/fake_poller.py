"""A poller that waits for nothing: it keeps what is waited for, and calls nobody."""

from __future__ import annotations

from collections.abc import Callable

Callback = Callable[[], None]


class FakePoller:
    """Has the interface of `claimdagd.server.loop.poller.Poller`; `due` are the callbacks of `call_soon`."""

    def __init__(self) -> None:
        self.readers: dict[int, Callback] = {}
        self.writers: dict[int, Callback] = {}
        self.hangups: dict[int, Callback] = {}
        self.due: list[Callback] = []

    def add_reader(self, fd: int, callback: Callback) -> None:
        """Wait for input."""
        self.readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        """Wait for it no more."""
        del self.readers[fd]

    def add_writer(self, fd: int, callback: Callback) -> None:
        """Wait for room."""
        self.writers[fd] = callback

    def remove_writer(self, fd: int) -> None:
        """Wait for it no more."""
        del self.writers[fd]

    def add_hangup(self, fd: int, callback: Callback) -> None:
        """Wait for the end of both directions."""
        self.hangups[fd] = callback

    def forget(self, fd: int) -> None:
        """Wait for nothing of `fd`."""
        for callbacks in (self.readers, self.writers, self.hangups):
            callbacks.pop(fd, None)

    def call_soon(self, callback: Callback) -> None:
        """Keep a callback for a test to call."""
        self.due.append(callback)

    def waits(self, fd: int) -> set[str]:
        """Return what is waited for of `fd`."""
        kinds = {"read": self.readers, "write": self.writers, "hangup": self.hangups}
        return {kind for kind, callbacks in kinds.items() if fd in callbacks}
