"""A graph of its own for each test, whose invariants are checked when the test is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.driver import Driver


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.check()
