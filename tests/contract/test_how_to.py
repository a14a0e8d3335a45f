"""The how-to pages: every Python block of each runs against a real daemon, on both event loops."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.support.daemon import running

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
#: client.md has a test of its own, with its shell blocks.
PAGES = {
    path.name: blocks
    for path in sorted(HOW_TO.glob("*.md"))
    if path.name != "client.md"
    if (blocks := re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL))
}


def test_pages_have_blocks() -> None:
    """The pattern still finds them."""
    assert "executors.md" in PAGES


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_of_a_page_run(short_dir: Path, monkeypatch: pytest.MonkeyPatch, page: str, backend: str) -> None:
    """In order, on one graph of their own."""
    monkeypatch.setattr(anyio, "run", partial(anyio.run, backend=backend))
    with running(short_dir / "claimdag") as daemon:
        monkeypatch.setenv("CLAIMDAG_SOCKET", str(daemon.path))
        monkeypatch.setenv("CLAIMDAG_NO_START", "1")
        for number, text in enumerate(PAGES[page]):
            exec(compile(text, f"{page} python block {number + 1}", "exec"), {"__name__": "__main__"})
