"""A summary is text: no shell ever sees it, and a command run for a node finds it in its environment alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, running

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
#: What a shell would act on, in every way in which it could be handed on.
SHELL = [
    "$(touch pwned)", "`touch pwned`", "; touch pwned", "| touch pwned", "&& touch pwned", "\n touch pwned\n",
    "' ; touch pwned ; '", '" ; touch pwned ; "', "${IFS}touch${IFS}pwned", "--help", "-c touch pwned", "%s%n",
    "$CLAIMDAG_ID", "\\", "* ? [a]",
]  # fmt: skip
EVIL = " ".join(SHELL)


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir / "claimdag") as served:
        yield served


def claimdag(daemon: Daemon, *argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`claimdag` in `cwd`, with a marker in the environment that only its children can have from it."""
    return subprocess.run(
        [sys.executable, "-m", "claimdag_client.cli", "--dir", str(daemon.directory), "--no-start", *argv],
        capture_output=True, text=True, timeout=60, cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip


#: Writes down what it was given, and how.
CHILD = """
import os, sys

with open("seen", "wb") as out:
    out.write(os.environb[b"CLAIMDAG_SUMMARY"])
with open("argv", "w") as out:
    out.write(repr(sys.argv[1:]))
"""


@pytest.mark.parametrize("how", ["run", "work"])
@pytest.mark.parametrize("summary", [EVIL, *SHELL[:6], "é\x1b[2J"])
def test_command_has_the_summary_in_its_environment_alone(
    daemon: Daemon, short_dir: Path, how: str, summary: str
) -> None:
    """To the last byte, in no argument, and nothing of it was run."""
    here = short_dir / "here"
    here.mkdir()
    node = daemon.client().ask("upsert", summary=summary)["id"]
    what = ["run", "--assignee", "a", node] if how == "run" else ["work", "--assignee", "a", "--until-empty"]
    ran = claimdag(daemon, *what, "--", sys.executable, "-c", CHILD, "one", cwd=here)
    assert ran.returncode == 0, ran.stderr
    assert (here / "seen").read_bytes() == summary.encode()
    assert (here / "argv").read_text() == "['one']"
    assert sorted(path.name for path in here.iterdir()) == ["argv", "seen"]
    assert daemon.client().ask("get", id=node)["status"] == "done"


def test_command_is_not_run_by_a_shell(daemon: Daemon, short_dir: Path) -> None:
    """Not even the command itself: what is in its arguments is theirs to the letter."""
    here = short_dir / "here"
    here.mkdir()
    node = daemon.client().ask("upsert", summary="x")["id"]
    ran = claimdag(daemon, "run", "--assignee", "a", node, "--", sys.executable, "-c", CHILD, *SHELL, cwd=here)
    assert ran.returncode == 0, ran.stderr
    assert (here / "argv").read_text() == repr(SHELL)
    assert sorted(path.name for path in here.iterdir()) == ["argv", "seen"]


def test_summary_with_a_nul_reaches_the_command_without_it(daemon: Daemon, short_dir: Path) -> None:
    """No environment can hold one: the command is run all the same, and sees that something stood there."""
    here = short_dir / "here"
    here.mkdir()
    node = daemon.client().ask("upsert", summary="a\0b")["id"]
    ran = claimdag(daemon, "run", "--assignee", "a", node, "--", sys.executable, "-c", CHILD, cwd=here)
    assert ran.returncode == 0, ran.stderr
    assert (here / "seen").read_text() == "a\ufffdb"


@pytest.mark.parametrize("verb", ["list", "status", "tree", "log", "graph", "graph --format dot", "why 1"])
def test_verb_that_shows_a_summary_runs_nothing(daemon: Daemon, short_dir: Path, verb: str) -> None:
    """No pager, no shell: a directory stays as empty as it was."""
    here = short_dir / "here"
    here.mkdir()
    daemon.client().ask("upsert", summary=EVIL)
    ran = claimdag(daemon, *verb.split(), cwd=here)
    assert ran.returncode == 0, ran.stderr
    assert list(here.iterdir()) == []
