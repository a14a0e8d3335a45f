"""A daemon that misbehaves on demand, for the client's tests."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def _load() -> Any:
    # Tests are imported by path (importmode importlib), so a module beside them has no import name of its own.
    name = "tests_client_fake_daemon"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("fake_daemon.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture
def fake(short_dir: Path) -> Iterator[Any]:
    """A FakeDaemon that listens at `fake.path`."""
    daemon = _load().FakeDaemon(short_dir / "sock")
    yield daemon
    daemon.down()
