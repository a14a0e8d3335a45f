"""Long work in steps: what a generator yields to its driver, so that the driver can give others a turn."""

from __future__ import annotations

from collections.abc import Callable, Generator

from claimdagd.store.errors import StorageError


class BlockingCall:
    """A call that may block for long: a flush, or the closing of a large file without a name.

    The driver may call it in a thread. If not, it is made when the generator that yielded it resumes.
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
        """Make the call unless it was made; raise its error."""
        self()
        if self._error is not None:
            raise self._error


#: What long work yields: None for a turn of the loop, or a call that is better made in a thread.
Step = BlockingCall | None


def blocking(action: Callable[[], None]) -> Generator[Step]:
    """Offer a blocking call to the driver of the generator; make it if the driver did not, and raise its error."""
    step = BlockingCall(action)
    yield step
    step.finish()
