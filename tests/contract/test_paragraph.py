"""The paragraph of `claimdag init --agents`, followed by an agent that knows nothing else and has a shell tool."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimdag_client.cli.values import wait_of_a_tool
from claimdag_client.handoff.hosts import PARAGRAPH
from tests.support.daemon import Daemon, running, until

pytestmark = pytest.mark.slow
COMMANDS = [" ".join(each.split()) for each in re.findall(r"`(claimdag [^`]*)`", PARAGRAPH)]
ROOT = Path(__file__).parents[2]
NEXT, COMPLETE, RENEW = (
    next(c for c in COMMANDS if c.startswith(f"claimdag {v} ")) for v in ("next", "complete", "renew")
)


class ShellTool:
    """Runs a command, and ends it at the tool's limit, as an agent's host does."""

    def __init__(self, daemon: Daemon, limit_s: float) -> None:
        self.limit_s = limit_s
        self.environment = {
            **os.environ, "CLAIMDAG_SOCKET": str(daemon.path), "CLAIMDAG_NO_START": "1", "PYTHONPATH": str(ROOT),
            "CLAIMDAG_TOOL_TIMEOUT": str(limit_s),
        }  # fmt: skip

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "claimdag_client.cli", *shlex.split(command)[1:]]
        # TimeoutExpired here is the very thing that must not happen.
        return subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=self.limit_s)


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir) as one:
        yield one


def test_paragraph_names_the_commands_that_the_tests_follow() -> None:
    """And waits no longer than its reader's tool."""
    assert "--wait auto" in NEXT
    assert "--gen GEN" in COMPLETE
    assert "--gen GEN" in RENEW


def test_agent_works_the_graph_off_by_the_paragraph_alone(daemon: Daemon) -> None:
    """Each node once, in order, until the exit status says that all work is finished; each claim is renewed once."""
    boss = daemon.client()
    ids = boss.ask("submit", nodes=[{"ref": "a"}, {"ref": "b", "deps": [{"on": "a"}]}, {"deps": [{"on": "b"}]}])["ids"]
    tool = ShellTool(daemon, 30)
    done = []
    while (got := tool.run(NEXT.replace("NAME", "shell/1"))).returncode != 4:
        assert got.returncode == 0, got.stderr
        facts = dict(word.split("=") for word in got.stdout.splitlines()[0].split())
        for command in (RENEW, COMPLETE):
            said = tool.run(command.replace("ID", facts["id"]).replace("GEN", facts["gen"]))
            assert said.returncode == 0, said.stderr
        done.append(facts["id"])
    assert done == ids
    assert boss.ask("stats")["statuses"]["done"] == 3


@pytest.mark.parametrize("limit_s", [4, 8])
def test_next_ends_before_the_tool_would_cut_it_off(daemon: Daemon, limit_s: int) -> None:
    """Nothing can run: the command says so with exit status 3 in its own time, and holds nothing."""
    boss = daemon.client()
    boss.ask("upsert", status="blocked")
    assert ShellTool(daemon, limit_s).run(NEXT.replace("NAME", "shell/1")).returncode == 3
    ready = boss.ask("upsert")["id"]
    assert boss.ask("get", id=ready)["assignee"] is None


@pytest.mark.parametrize(("limit", "wait"), [(None, 45), ("", 45), ("120", 115), ("30", 25), ("8", 4), ("0.5", 0.25)])
def test_auto_waits_less_than_the_tool_lets_a_command_run(limit: str | None, wait: float) -> None:
    """Five seconds less, or half of it; 45 s for a tool that says nothing."""
    assert wait_of_a_tool({} if limit is None else {"CLAIMDAG_TOOL_TIMEOUT": limit}) == wait


def test_limit_that_is_no_number_is_told(daemon: Daemon) -> None:
    """The flag, the value and what it takes."""
    tool = ShellTool(daemon, 30)
    tool.environment["CLAIMDAG_TOOL_TIMEOUT"] = "soon"
    said = tool.run(NEXT.replace("NAME", "shell/1"))
    assert said.returncode == 2
    assert "--wait auto" in said.stderr


def test_claim_with_pid_auto_lasts_while_the_host_lives(daemon: Daemon) -> None:
    """Hours instead of minutes, and the node is back within the grace when the host is gone."""
    assert "`--pid auto`" in PARAGRAPH
    boss = daemon.client()
    id = boss.ask("upsert")["id"]
    command = NEXT.replace("NAME", "shell/1") + " --pid auto"
    argv = [sys.executable, "-m", "claimdag_client.cli", *shlex.split(command)[1:]]
    script = f"import subprocess, sys; subprocess.run({argv!r}); sys.stdin.read()"
    tool = ShellTool(daemon, 30)
    with subprocess.Popen([sys.executable, "-c", script], env=tool.environment, stdin=subprocess.PIPE) as host:
        until(lambda: boss.ask("get", id=id)["assignee"] == "shell/1", "the claim")
        assert boss.ask("get", id=id)["expires_in"] > 3 * 3600
        host.kill()
        host.wait()
        assert boss.ask("claim_next", actor="other", wait=20)["id"] == id


def test_claim_that_is_never_renewed_comes_back(short_dir: Path) -> None:
    """The paragraph's agent that forgets everything loses its node with the lease, and no sooner."""
    with running(short_dir / "d", "--lease", "1") as one:
        boss = one.client()
        id = boss.ask("upsert")["id"]
        assert ShellTool(one, 30).run(NEXT.replace("NAME", "forgetful")).returncode == 0
        held = boss.ask("get", id=id)
        assert held["assignee"] == "forgetful"
        assert boss.ask("claim_next", actor="other", wait=20)["id"] == id
        assert time.time() - held["started_at"] >= 1
