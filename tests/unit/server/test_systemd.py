"""What systemd hears."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from claimdagd.server.host.systemd import Notifier


@pytest.mark.parametrize("abstract", [False, True])
def test_notifier_says_ready_status_alive_and_stopping(short_dir: Path, abstract: bool) -> None:
    """At a path or an abstract name; a status that did not change is not said again."""
    name = f"@claimdagd-test-{os.getpid()}" if abstract else str(short_dir / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind("\0" + name[1:] if abstract else name)
        heard.settimeout(5)
        environ = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}
        notifier = Notifier.from_environ(environ, os.getpid())
        assert environ == {}
        assert notifier.watchdog_s == 3.0
        notifier.ready("nothing to do")
        notifier.status("nothing to do")
        notifier.status("3 nodes äöü \N{SNOWMAN}")
        notifier.alive()
        notifier.stopping("leaving")
        assert heard.recv(4096).decode().split("\n") == ["READY=1", f"MAINPID={os.getpid()}", "STATUS=nothing to do"]
        assert heard.recv(4096).decode() == "STATUS=3 nodes äöü \N{SNOWMAN}"
        assert heard.recv(4096) == b"WATCHDOG=1"
        assert heard.recv(4096) == b"STOPPING=1\nSTATUS=leaving"


def test_notifier_without_a_listener_does_nothing(short_dir: Path) -> None:
    """Neither where nothing is set, nor where whoever set it is gone, nor for another's watchdog."""
    Notifier.from_environ({}, 1).ready("x")
    Notifier.from_environ({"NOTIFY_SOCKET": str(short_dir / "gone")}, 1).ready("x")
    assert Notifier.from_environ({"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "2"}, 1).watchdog_s == 0
