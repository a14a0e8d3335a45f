"""The units under a real user manager, in namespaces of their own (see user_manager.py)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.system import user_manager

UNITS = Path(__file__).parents[2] / "systemd"
#: The most that `systemd-analyze --user security` may find, of 10: what is left is the paths it serves at and from.
EXPOSURE_MAX = 1.5

needs = [name for name in ("systemd", "systemctl", "systemd-analyze", "unshare") if not shutil.which(name)]
pytestmark = pytest.mark.timeout(150)


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What the program saw; run once."""
    if os.geteuid() != 0:
        pytest.skip("only root can have namespaces with a user manager in them")
    if needs:
        pytest.skip(f"not installed: {', '.join(needs)}")
    probe = subprocess.run(["unshare", "--pid", "--fork", "--mount", "--mount-proc", "true"], capture_output=True)
    if probe.returncode:
        pytest.skip(f"namespaces are not allowed here: {probe.stderr.decode().strip()}")
    groups = user_manager.control_groups()
    try:
        for group in groups:
            group.mkdir(exist_ok=True)
    except OSError as exc:
        pytest.skip(f"control groups cannot be made here: {exc}")
    result = subprocess.run(
        [sys.executable, "-P", user_manager.__file__], capture_output=True, text=True, timeout=140, cwd="/"
    )
    for group in groups:
        for path in sorted(group.rglob("*/"), reverse=True):
            if path.is_dir():
                path.rmdir()
        group.rmdir()
    if not result.stdout:
        pytest.fail(f"the program ended with {result.returncode}: {result.stderr}")
    story: dict[str, Any] = json.loads(result.stdout)
    if story.get("failure", "").startswith("TimeoutError: a user manager"):
        pytest.skip("no user manager can be started here")
    assert "failure" not in story, story
    return story


def test_units_are_installed_and_found_good(seen: dict[str, Any]) -> None:
    """By the project's own command; systemd-analyze has nothing to say about them."""
    assert "claimdagd.socket" in seen["installed"]
    assert seen["verify"] == ""
    assert seen["exposure"] <= EXPOSURE_MAX


def test_first_connection_starts_the_daemon(seen: dict[str, Any]) -> None:
    """Before it there is only the socket, private; afterwards there is a status line."""
    assert seen["before"] == ["active", "inactive"]
    assert seen["modes"] == ["0o700", "0o600"]
    assert seen["after_first_connection"] == "active"
    assert "nodes" in seen["status_line"]


def test_daemon_gets_nothing_of_what_a_session_gave_the_manager(seen: dict[str, Any]) -> None:
    """No secret, nothing that steers Python; what systemd itself tells a service is all there."""
    assert {"GITHUB_TOKEN", "PYTHONPATH"}.isdisjoint(seen["environment"])
    assert set(seen["environment"]) == {
        "HOME", "PATH", "LANG", "XDG_RUNTIME_DIR", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID",
        "LISTEN_FDS", "LISTEN_FDNAMES", "JOURNAL_STREAM",
    }  # fmt: skip


@pytest.mark.parametrize("step", ["killed", "hung"])
def test_daemon_that_ended_badly_is_started_again_with_its_graph(seen: dict[str, Any], step: str) -> None:
    """By kill -9, and by the watchdog when it hangs; whoever held a node holds it."""
    assert seen[step]["pid_changed"]
    assert seen[step]["node"] == ["kept", seen["claim"]["actor"], seen["claim"]["gen"]]


def test_watchdog_ends_a_hung_daemon_in_its_time(seen: dict[str, Any]) -> None:
    """Not before, and not long after."""
    assert user_manager.WATCHDOG_S / 2 < seen["hung"]["after_s"] < user_manager.WATCHDOG_S + 10
    assert seen["restarts"] == 2


def test_stop_and_restart_keep_the_state_and_the_socket(seen: dict[str, Any]) -> None:
    """The socket is systemd's: the daemon leaves it where it is, and the next connection starts it again."""
    kept = ["kept", seen["claim"]["actor"], seen["claim"]["gen"]]
    assert seen["restarted"] == kept
    assert (seen["stopped"], seen["result"]) == ("inactive", "success")
    assert seen["socket_kept"]
    assert seen["started_again"] == kept
    assert set(seen["state_files"]) >= {"journal.jsonl", "lock", "sock"}


def test_units_are_taken_away_again(seen: dict[str, Any]) -> None:
    """With what enabled them."""
    assert "claimdagd" in seen["uninstalled"]
    assert [name for name in seen["left"] if "claimdagd" in name] == []


def test_units_say_what_the_design_asks_for() -> None:
    """Where no manager can be started this much is still known of them."""
    service = (UNITS / "claimdagd.service").read_text().splitlines()
    sock = (UNITS / "claimdagd.socket").read_text().splitlines()
    wanted = ["Type=notify", "NoNewPrivileges=yes", "RestrictAddressFamilies=AF_UNIX", "RuntimeDirectoryPreserve=yes"]
    for line in wanted:
        assert line in service
    for line in ("ListenStream=%t/claimdag/sock", "SocketMode=0600", "DirectoryMode=0700"):
        assert line in sock
    assert any(line.startswith("ExecStart=/usr/bin/env -i ") for line in service)
    assert any(line.endswith("/claimdagd --dir %t/claimdag") for line in service)
    assert any(line.startswith("WatchdogSec=") for line in service)
