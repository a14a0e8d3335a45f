"""The command line run in this process, against a scripted daemon."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from claimdag_client.cli.main import main
from tests.support.scripted_daemon import ScriptedDaemon


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[ScriptedDaemon]:
    fake = ScriptedDaemon(short_dir / "sock")
    yield fake
    fake.close()


class Ran:
    """How a command line went."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err

    @property
    def json(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def cli(short_dir: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `claimdag` in this process, on the daemon of `short_dir`; none is ever started."""

    def run(*argv: str) -> Ran:
        capsys.readouterr()
        status = main(["--dir", str(short_dir), "--no-start", *argv])
        return Ran(status, *capsys.readouterr())

    return run
