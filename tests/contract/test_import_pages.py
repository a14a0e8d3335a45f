"""The how-to pages of imports: each example is written, run on a real daemon, and says what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from claimdag_client.importers import registry
from tests.unit.importers.drafts import faults, order, read, summaries

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "how-to").glob("import-*.md"))
FILE = re.compile(r"[Ww]rite this as\s+`([\w.]+)`:\n\n```\w+\n(.*?)```", re.DOTALL)
CONSOLE = re.compile(r"```console\n\$ (.*?)\n(.*?)```", re.DOTALL)


def test_every_source_has_a_page() -> None:
    """And the overview names it."""
    assert {page.stem.removeprefix("import-") for page in PAGES} == set(registry.OURS)
    overview = (ROOT / "docs" / "how-to" / "import.md").read_text()
    assert all(f"import-{source}.md" in overview for source in registry.OURS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_example_of_a_page_does_what_the_page_says(page: Path, short_dir: Path, tmp_path: Path) -> None:
    """The whole output, with the tag of the graph in place of the page's."""
    text = page.read_text()
    for name, content in FILE.findall(text):
        (tmp_path / name).write_text(content)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "CLAIMDAG_DIR": str(short_dir)}

    def claimdag(*words: str) -> str:
        argv = [sys.executable, "-P", "-m", "claimdag_client.cli", *words]
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=30, env=environ, cwd=tmp_path, check=False)
        return ran.stderr + ran.stdout

    try:
        examples = CONSOLE.findall(text)
        assert examples
        for command, expected in examples:
            name, *words = shlex.split(command)
            assert name == "claimdag"
            said = claimdag(*words)
            tag = re.search(r"\b([0-9a-z]{4})-1\b", said.partition("new ")[2])
            assert tag, said
            assert said.replace(tag[1], "7q2f") == expected
    finally:
        claimdag("--no-start", "stop")


def test_the_importer_of_the_reference_works() -> None:
    """As it stands there, with what is common to all sources."""
    text = (ROOT / "docs" / "reference" / "importers.md").read_text()
    names: dict[str, Any] = {}
    exec(text.partition("```python\n")[2].partition("```")[0], names)
    found = read(names["TodoTxt"](), "1 one\nx 2 two\n3 three\n4\n1 again\n")
    assert summaries(found) == ["1 one [held: its id is in the file twice]", "3 three"]
    assert order(found) == {"3": ["1"]}
    assert faults(found) == ["line 4: it has an id and no text", "line 5: 1 is on line 1 already"]
