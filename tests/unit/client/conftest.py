"""A daemon that misbehaves on demand, for the client's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fake_daemon import FakeDaemon


@pytest.fixture
def fake(short_dir: Path) -> Iterator[FakeDaemon]:
    """A FakeDaemon that listens at `fake.path`."""
    daemon = FakeDaemon(short_dir / "sock")
    yield daemon
    daemon.down()
