"""Faults that use of the daemon showed: what it lacks is told in a message, and its log does not grow by repeating."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import Client, Daemon, until

needs_prlimit = pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit is not installed")


def start(directory: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run claimdagd as a shell would after `script`."""
    command = f'{script} exec "$0" -m claimdagd "$@"'
    return subprocess.run(
        ["sh", "-c", command, sys.executable, "--dir", str(directory)], capture_output=True, text=True, timeout=20
    )


@pytest.mark.parametrize("limit", [6, 7, 8, 10, 12, 16, 19])
def test_limit_of_open_files_below_twenty_is_a_message(short_dir: Path, limit: int) -> None:
    """Each of these ended in a traceback at another line, or in the advice to salvage a sound state."""
    ended = start(short_dir / "d", f"ulimit -n {limit};")
    assert ended.returncode == 71, ended.stderr
    assert f"the limit of open files is {limit}" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "salvage" not in ended.stderr


@needs_prlimit
def test_hard_limit_below_what_is_needed_is_named_at_the_start(short_dir: Path) -> None:
    """The daemon serves, and says how many connections fit and what is needed."""
    daemon = Daemon(short_dir / "d", prefix=("prlimit", "--nofile=100:100"))
    try:
        daemon.until_up()
        daemon.terminate()
        assert "the limit of open files is 100: at most 68 connections" in daemon.stderr
        assert "ulimit -Hn 1056" in daemon.stderr
    finally:
        daemon.end()


@pytest.mark.parametrize(
    ("option", "value", "environ"),
    [
        ("--dir", "rel", {}),
        ("--socket", "rel", {}),
        ("", "", {"CLAIMDAG_DIR": "rel"}),
        ("", "", {"CLAIMDAG_SOCKET": "rel"}),
    ],
)
def test_relative_path_below_a_deleted_working_directory_is_a_message(
    short_dir: Path, option: str, value: str, environ: dict[str, str]
) -> None:
    """--dir, --socket and the variables alike."""
    named = f"{option} {value}" if option else ""
    if option == "--socket":
        named += f" --dir {short_dir}/d"
    elif "CLAIMDAG_SOCKET" in environ:
        # Not --dir, which would decide before the variable does.
        environ = {**environ, "CLAIMDAG_DIR": f"{short_dir}/d"}
    exports = "".join(f"export {name}={given};" for name, given in environ.items())
    gone = short_dir / "gone"
    script = f'mkdir {gone}; cd {gone}; rmdir {gone}; {exports} exec "$0" -m claimdagd {named}'
    package = Path(__file__).parents[2]
    ended = subprocess.run(
        ["sh", "-c", script, sys.executable],
        capture_output=True, text=True, timeout=20, env={"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert ended.returncode == 71, ended.stderr
    assert "the working directory is gone" in ended.stderr
    assert ended.stderr.count("\n") == 1


@needs_prlimit
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_crowd_at_the_connection_limit_makes_a_few_log_lines(short_dir: Path, backend: str) -> None:
    """Hundreds come, wait, are served and go, one for one; newcomers wait meanwhile and none is lost."""
    daemon = Daemon(short_dir / "d", "--backend", backend, prefix=("prlimit", "--nofile=48:48"))
    try:
        daemon.until_up()
        clients = [Client(daemon.path) for _ in range(300)]
        for client in clients:
            client.send("ping")
        for client in clients:
            assert "ok" in client.answer()
            client.close()
        daemon.terminate()
        waiting = [line for line in daemon.stderr.splitlines() if "new ones wait" in line or "again" in line]
        assert 1 <= len(waiting) <= 10, daemon.stderr
        assert len(daemon.stderr.splitlines()) < 20
    finally:
        daemon.end()


def test_log_line_that_repeats_is_counted_as_the_daemon_leaves(short_dir: Path) -> None:
    """A peer that is cut off again and again fills no disk."""
    code = (
        "import logging; from claimdagd.server.host import logs; limit = logs.configure('info');"
        "log = logging.getLogger('claimdagd');"
        "[log.warning('cut off a client that left %d bytes unread', n) for n in range(1000)];"
        "limit.report(everything=True)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    lines = ended.stderr.splitlines()
    assert len(lines) == 6
    assert "995 more in the last 0 s: cut off a client that left 999 bytes unread" in lines[-1]


def test_log_that_cannot_be_written_stops_nothing(short_dir: Path) -> None:
    """The daemon whose log is /dev/full serves, and leaves in order."""
    with open("/dev/full", "w") as full:
        process = subprocess.Popen(
            [sys.executable, "-m", "claimdagd", "--dir", str(short_dir / "e")], stderr=full, stdin=subprocess.DEVNULL
        )
    try:
        until(lambda: (short_dir / "e" / "sock").exists(), "a socket")
        with Client(short_dir / "e" / "sock") as client:
            assert client.ask("ping")
    finally:
        process.terminate()
        assert process.wait(20) == 0
