"""Calls that may block: made once, by the driver or by the generator itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from claimdagd.store.errors import StorageError
from claimdagd.store.steps import BlockingCall, blocking


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("driver_calls", [True, False])
def test_blocking_call_is_made_once(driver_calls: bool) -> None:
    """Whether or not the driver makes it in a thread."""
    made: list[int] = []
    for step in blocking(lambda: made.append(1)):
        assert isinstance(step, BlockingCall)
        if driver_calls:
            step()
            step()
    assert made == [1]


@pytest.mark.parametrize("error", [OSError(5, "input/output error"), StorageError("/f", "full")])
@pytest.mark.parametrize("driver_calls", [True, False])
def test_error_of_a_blocking_call_is_raised_in_the_generator(error: Exception, driver_calls: bool) -> None:
    """The thread that makes the call never sees it."""
    work = blocking(failing(error))
    step = next(work)
    if driver_calls:
        assert step is not None
        step()
    with pytest.raises(type(error)) as caught:
        next(work)
    assert caught.value is error
