"""Fixtures that every area shares. Must not start anything by itself: a fixture acts only where it is asked for."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Set by a user's shell, these would lead a test to that user's own daemon.
AMBIENT = (
    "CLAIMDAG_DIR",
    "CLAIMDAG_SOCKET",
    "CLAIMDAG_NO_START",
    "CLAIMDAG_ID",
    "CLAIMDAG_GEN",
    "CLAIMDAG_SUMMARY",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
)


#: Directories whose tests are all slow: real processes, hostile input, the model against thousands of requests.
SLOW = ("tests/system/", "tests/fuzz/", "tests/model/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in the slow directories, so that a new file there need not think of it."""
    root = Path(__file__).parents[1]
    for item in items:
        if str(item.path.relative_to(root)).startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both event loops; ask for it by `@pytest.mark.anyio`."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _no_ambient_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in AMBIENT:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A fresh 0700 directory with a path short enough for a Unix socket in it (pytest's tmp_path may not be)."""
    path = Path(tempfile.mkdtemp(prefix="cd-", dir="/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real tracker exports kept beside the project; skips where they are absent."""
    root = Path(__file__).parent.parent
    path = Path(os.environ.get("CLAIMDAG_DATA", root.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no shared data at {path}; CLAIMDAG_DATA names another place")
    return path
