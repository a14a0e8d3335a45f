"""Modes of what is made, under any umask, by real processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import running

UMASKS = [0o000, 0o077, 0o777]


def modes_below(top: Path) -> dict[str, int]:
    return {str(path.relative_to(top)): stat.S_IMODE(path.lstat().st_mode) for path in top.rglob("*")}


@pytest.mark.parametrize("umask", UMASKS, ids=oct)
def test_daemon_makes_private_files_under_any_umask(tmp_path: Path, umask: int) -> None:
    """The directory and its missing parents are 0700, the files and the socket 0600."""
    with running(tmp_path / "a/b", preexec_fn=lambda: os.umask(umask)) as daemon, daemon.client() as client:
        client.ask("upsert", summary="x")
        client.ask("checkpoint")
        modes = modes_below(tmp_path)
    files = {f"a/b/{name}": 0o600 for name in ("lock", "sock", "journal.jsonl", "snapshot.jsonl")}
    assert modes == {"a": 0o700, "a/b": 0o700} | files


@pytest.mark.parametrize("umask", UMASKS, ids=oct)
def test_command_line_starts_a_daemon_under_any_umask(short_dir: Path, umask: int) -> None:
    """A home without `.local` gets one that is private and that the next command accepts."""
    environ = {"HOME": str(short_dir), "PATH": os.environ["PATH"]}

    def claimdag(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "claimdag_client.cli.main", *arguments],
            env=environ, text=True, capture_output=True, check=False, preexec_fn=lambda: os.umask(umask),
        )  # fmt: skip

    try:
        added = claimdag("upsert", "--summary", "x")
        assert (added.returncode, added.stderr) == (0, "")
        assert claimdag("list").returncode == 0
        state = ".local/state/claimdag"
        modes = modes_below(short_dir)
        assert {modes[path] for path in (".local", ".local/state", state)} == {0o700}
        assert {mode for path, mode in modes.items() if path.startswith(f"{state}/")} == {0o600}
    finally:
        claimdag("--no-start", "shutdown")
