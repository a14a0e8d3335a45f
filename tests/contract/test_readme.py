"""README.md as a newcomer reads it: what it prints to run is run, with real processes in a directory of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimdag_client.cli.commands import ALIASES, MODULES
from tests.contract import shell_examples as transcript
from tests.contract.markdown import ROOT, read

BLOCKS = [block for section in read("README.md") for block in section.blocks]
RUN = [block for block in BLOCKS if any(name == "run by" for name, _ in block.markers)]
SHELL = [block for block in RUN if block.language == "sh"]
FIRST_MINUTE, SOCAT_MINUTE = SHELL


@pytest.fixture
def home(short_dir: Path) -> Iterator[Path]:
    """A home for one user, whose daemons end with the test."""
    yield short_dir
    transcript.end_daemons(short_dir)


def test_first_minute_run_as_printed_prints_what_it_says(home: Path) -> None:
    """Every command of the first minute, in one shell (law 1.1, 1.3)."""
    transcript.compare(FIRST_MINUTE.lines, transcript.run(FIRST_MINUTE.lines, home))


@pytest.mark.skipif(shutil.which("socat") is None, reason="socat is not installed (apt-get install socat)")
def test_socat_minute_after_the_first_prints_what_it_says(home: Path) -> None:
    """It goes on in the same graph, as it says."""
    both = [*FIRST_MINUTE.lines, *SOCAT_MINUTE.lines]
    transcript.compare(both, transcript.run(both, home))


def test_python_example_works_its_node_off(home: Path) -> None:
    """It starts a daemon by itself, and ends when all work is finished."""
    (block,) = (block for block in RUN if block.language == "python")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(block.lines)],
        env=transcript.environment(home),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("write the parser\n", "")


def test_main_command_works_the_plan_off_with_three_workers(home: Path) -> None:
    """The first of the two commands, but for the installation: seven nodes, each once, in an order that holds."""
    (command,) = (block.lines for block in BLOCKS if "examples/" in block.lines[0])
    install, found, job = command[0].partition(".venv/bin/claimdag submit")
    assert install == "python3 -m venv .venv && .venv/bin/pip install -q . && "
    job = (found + job).replace(".venv/bin/", "").replace("sleep 1;", "sleep 0.1;")
    shutil.copytree(ROOT / "docs" / "examples", home / "docs" / "examples")
    printed = transcript.run([job], home)
    ids = [line for line in printed if re.fullmatch(r"[0-9a-z]{4}-\d", line)]
    worked = [line.partition(": ")[2] for line in printed if re.match(r"[0-9a-z]{4}-\d: ", line)]
    assert len(ids) == 7
    assert sorted(worked) == sorted(set(worked))
    assert len(worked) == 6
    assert worked.index("decide the grammar") < worked.index("write the parser")
    assert worked[-1] == "publish it"
    assert sum(" complete by agent/" in line for line in printed) == 6


def test_first_minute_of_the_help_runs(home: Path) -> None:
    """What `claimdag --help` shows for a beginning, in a fresh directory."""
    shown = transcript.run(["claimdag --help"], home)
    commands = [line.strip() for line in shown if line.startswith("  claimdag ")]
    script = [re.split(r"   +|  (?=[a-z])", command)[0] for command in commands]
    assert len(script) == 4
    printed = transcript.run(["set -e", *script], home)
    ids = "#=> 7q2f-1\n#=> 7q2f-2\n#=> id=7q2f-1 gen=2\n#=> write the parser\n#=> 7q2f-1 done, ready now: 7q2f-2"
    transcript.compare(ids.splitlines(), printed)


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda path: path.name)
def test_verbs_that_a_document_names_exist(path: Path) -> None:
    """In a block or within a line: `claimdag VERB`."""
    text = path.read_text()
    named = set(re.findall(r"(?:`|^|&& |bin/)claimdag ([a-z][a-z_-]+)", text, re.MULTILINE))
    assert named <= MODULES.keys() | ALIASES.keys()


def test_test_command_is_one_line_between_the_markers_of_ci() -> None:
    """`.ci/run` cuts it out by these markers, and runs it."""
    text = (ROOT / "README.md").read_text()
    between = text.partition("<!-- test commands")[2].partition("<!-- end of test commands -->")[0]
    lines = [line for line in between.splitlines()[1:] if not line.startswith("```")]
    install = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]'"
    assert lines == [f"{install} && .venv/bin/python -m pytest -q -n auto"]
