"""docs/tutorial: what it prints to run is run in one shell, and prints what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract import shell_examples
from tests.contract.markdown import ROOT, read


@pytest.fixture
def home(short_dir: Path) -> Iterator[Path]:
    """A home for one user, whose daemons end with the test."""
    yield short_dir
    shell_examples.end_daemons(short_dir)


@pytest.mark.parametrize("page", sorted((ROOT / "docs/tutorial").glob("*.md")), ids=lambda page: page.stem)
def test_tutorial_run_as_printed_prints_what_it_says(page: Path, home: Path) -> None:
    """All blocks of a page are one session."""
    blocks = [block for section in read(str(page.relative_to(ROOT))) for block in section.blocks]
    lines = [
        line
        for block in blocks
        if ("run by", "tests/contract/test_tutorial.py") in block.markers
        for line in block.lines
    ]
    assert lines
    shell_examples.compare(lines, shell_examples.run(lines, home))
