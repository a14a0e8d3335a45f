"""docs/how-to/client.md: every block is run, against one real daemon, the Python ones on both event loops."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.support.daemon import Client, Daemon, running

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "client.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python"]
SHELL = [text for language, text in BLOCKS if language == "sh"]


@pytest.fixture
def daemon(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    with running(short_dir / "claimdag") as daemon:
        monkeypatch.setenv("CLAIMDAG_SOCKET", str(daemon.path))
        monkeypatch.setenv("CLAIMDAG_NO_START", "1")
        yield daemon


def test_page_has_blocks() -> None:
    """The pattern still finds them, and every block is of a language that is run."""
    assert len(PYTHON) >= 8
    assert len(SHELL) >= 3
    assert {language for language, _ in BLOCKS} == {"python", "sh"}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_python_blocks_run(daemon: Daemon, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, on one graph, ending what one leaves before the next."""
    monkeypatch.setattr(anyio, "run", partial(anyio.run, backend=backend))
    for number, text in enumerate(PYTHON):
        # Nothing leaves a node that would keep a later block's work from ending.
        exec(compile(text, f"{PAGE.name} python block {number + 1}", "exec"), {"__name__": "__main__"})
        with Client(daemon.path) as client:
            for node in client.ask("list")["nodes"]:
                client.try_to("complete", id=node["id"])


def test_shell_blocks_run(daemon: Daemon, short_dir: Path) -> None:
    """With `claimdag` on the path."""
    tools = short_dir / "bin"
    tools.mkdir()
    script = tools / "claimdag"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m claimdag_client.cli.main "$@"\n')
    script.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(PAGE.parents[1]),
    }
    shell = shutil.which("sh")
    assert shell is not None
    for text in SHELL:
        done = subprocess.run([shell, "-eu", "-c", text], env=environment, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, (text, done.stdout, done.stderr)
