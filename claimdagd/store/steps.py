"""Long work in steps: what a generator yields to its driver, which gives others a turn in between."""

from __future__ import annotations

from collections.abc import Callable, Generator

from claimdagd.store.errors import StorageError


class BlockingCall:
    """A call that may block for long: a flush, or the closing of a large file that nothing names any more.

    Call it in a thread; left alone, it is made when the generator that yielded it goes on.
    """

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._done = False
        self._error: OSError | StorageError | None = None

    def __call__(self) -> None:
        """Make the call, once. Never raises: the generator that yielded this does."""
        if not self._done:
            self._done = True
            try:
                self._action()
            except (OSError, StorageError) as exc:
                self._error = exc

    def finish(self) -> None:
        """Make the call if it was not made; raise what went wrong."""
        self()
        if self._error is not None:
            raise self._error


#: What a long piece of work yields: None for a turn of the loop, or a call that is better made in a thread.
Step = BlockingCall | None


def blocking(action: Callable[[], None]) -> Generator[Step]:
    """Offer a blocking call to the driver of the generator; see that it is made, and raise what it raised."""
    step = BlockingCall(action)
    yield step
    step.finish()
