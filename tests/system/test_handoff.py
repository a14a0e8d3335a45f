"""`claimdag init --agents` in a real project, and the hooks of a host whose agent holds a node."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from claimdag_client.handoff.hosts import HOSTS
from tests.support.daemon import running

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def claimdag(cwd: Path, *argv: str, **more: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CLAIMDAG_NO_START": "1"}
    command = [sys.executable, "-m", "claimdag_client.cli", *argv]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=30, **more)


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_init_writes_every_hosts_files_and_remove_takes_exactly_them_back(tmp_path: Path) -> None:
    """A project with files of its own, odd ones among them, is byte for byte as before (law 13.4)."""
    (tmp_path / "AGENTS.md").write_bytes(b"# Rules\r\nUse tabs.")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    (tmp_path / ".mcp.json").write_text('{"mcpServers":{"other":{"command":"x"}}}')
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text('{\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}\n')
    before = tree(tmp_path)
    every = ",".join(HOSTS)
    ran = claimdag(tmp_path, "init", "--agents", "--for", every, "--yes")
    assert ran.returncode == 0, ran.stderr
    assert "+++ b/AGENTS.md" in ran.stdout
    written = tree(tmp_path)
    assert written["AGENTS.md"].startswith(before["AGENTS.md"])
    assert written["AGENTS.md"].count(b"claimdag begin") == 1
    assert set(json.loads(written[".mcp.json"])["mcpServers"]) == {"other", "claimdag"}
    (stop,) = json.loads(written[".claude/settings.json"])["hooks"]["Stop"]
    assert stop["hooks"][0]["command"] == "claimdag hook stop"
    assert b"[mcp_servers.claimdag]" in written[".codex/config.toml"]
    assert "claimdag" in json.loads(written[".vscode/mcp.json"])["servers"]
    again = claimdag(tmp_path, "init", "--agents", "--for", every, "--yes")
    assert again.stdout.startswith("nothing to do")
    assert tree(tmp_path) == written
    removed = claimdag(tmp_path, "init", "--remove", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert tree(tmp_path) == before


def test_without_a_terminal_and_without_yes_nothing_is_written(tmp_path: Path) -> None:
    """A script sees what would be written, and is told how to write it."""
    ran = claimdag(tmp_path, "init", "--agents", stdin=subprocess.DEVNULL)
    assert ran.returncode == 1
    assert "+++ b/CLAUDE.md" in ran.stdout
    assert "--yes" in ran.stderr
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(("typed", "written"), [(b"y\n", True), (b"\n", False), (b"no\n", False)])
def test_at_a_terminal_it_asks(tmp_path: Path, typed: bytes, written: bool) -> None:
    """Only yes writes."""
    ours, theirs = pty.openpty()
    os.write(ours, typed)
    claimdag(tmp_path, "init", "--agents", stdin=theirs)
    os.close(ours)
    os.close(theirs)
    assert (tmp_path / "CLAUDE.md").exists() == written


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (".mcp.json", "// mine\n{}", "not plain JSON"),
        (".mcp.json", '{"mcpServers": {"claimdag": {"command": "mine"}}}', "another value"),
        ("CLAUDE.md", "\udcff", "utf-8"),
    ],
)
def test_file_that_cannot_be_edited_is_named_and_left(tmp_path: Path, name: str, content: str, says: str) -> None:
    """The others are written all the same, and the exit status says that something is left."""
    (tmp_path / name).write_bytes(content.encode(errors="surrogateescape"))
    before = (tmp_path / name).read_bytes()
    ran = claimdag(tmp_path, "init", "--agents", "--for", "claude", "--yes")
    assert ran.returncode == 1
    assert name in ran.stderr
    assert says in ran.stderr
    assert (tmp_path / name).read_bytes() == before
    assert (tmp_path / ".claude/settings.json").exists()


def test_link_that_leads_out_of_the_project_is_refused(tmp_path: Path) -> None:
    """A checkout cannot make it write elsewhere."""
    outside = tmp_path / "outside.md"
    outside.write_text("theirs\n")
    project = tmp_path / "project"
    project.mkdir()
    (project / "CLAUDE.md").symlink_to(outside)
    ran = claimdag(project, "init", "--agents", "--for", "claude", "--yes")
    assert "leads out of the project" in ran.stderr
    assert outside.read_text() == "theirs\n"


def test_unknown_host_is_told_what_there_is(tmp_path: Path) -> None:
    """Flag, value, and what is accepted."""
    ran = claimdag(tmp_path, "init", "--agents", "--for", "clyppy")
    assert ran.returncode == 2
    assert "--for clyppy: it takes claude, codex" in ran.stderr


HOST = """
import json, subprocess, sys
claimdag = [sys.executable, "-m", "claimdag_client.cli", "--socket", sys.argv[1], "--no-start"]
server = subprocess.Popen([*claimdag, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def ask(number, method, **params):
    line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    server.stdin.write(line.encode() + b"\\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())
ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "h", "version": "1"})
ask(2, "tools/call", name="next", arguments={})
def hook(event, told):
    return subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", *claimdag, "hook", event],
                          input=told, capture_output=True, text=True)
first, again, compact = hook("stop", "{}"), hook("stop", '{"stop_hook_active": true}'), hook("compact", "{}")
print(json.dumps([first.returncode, first.stderr, again.returncode, compact.returncode, compact.stdout]))
server.kill()
"""


def test_stop_hook_warns_its_own_host_alone_and_only_once(short_dir: Path) -> None:
    """A host's hook finds the claim of the server that the host started; another host's hook says nothing."""
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    with running(short_dir) as daemon:
        id = daemon.client().ask("upsert", summary="held")["id"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ran = subprocess.run(
            [sys.executable, "-c", HOST, str(daemon.path)], env=environment, capture_output=True, text=True, timeout=30
        )
        status, warning, again, compact_status, compact = json.loads(ran.stdout)
        assert status == 2
        assert f"You still hold {id} at generation 2 (held)" in warning
        assert again == 0
        assert (compact_status, compact) == (0, f"You hold {id} at generation 2: held\n")
        other = claimdag(short_dir, "--socket", str(daemon.path), "hook", "stop", stdin=subprocess.DEVNULL)
        assert (other.returncode, other.stderr) == (0, "")
