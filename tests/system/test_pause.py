"""A pause in real processes: a worker waits through it and a killed daemon, and drains the graph on resume.

Law 10.4, 10.5.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import running, until


def claimdag(path: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "claimdag_client.cli", "--socket", str(path), "--no-start", *arguments]


def say(path: Path, *arguments: str) -> str:
    return subprocess.run(claimdag(path, *arguments), capture_output=True, text=True, timeout=30, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("scope", [(), ("--under", "1")])
def test_worker_waits_for_the_resume_over_a_killed_daemon(short_dir: Path, scope: tuple[str, ...]) -> None:
    """`--until-empty` does not take a pause for the end, and the daemon that comes back is paused still."""
    place = short_dir / "d"
    with running(place) as daemon:
        ask = daemon.client()
        goal = ask.ask("upsert", kind="goal")["id"]
        nodes = [ask.ask("upsert", parent=goal)["id"] for _ in range(3)]
        assert "paused" in say(daemon.path, "pause", *scope)
        worker = subprocess.Popen(
            claimdag(daemon.path, "work", "--actor", "w", "--until-empty", "--", "true"),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until(lambda: ask.ask("stats")["parked"] == 1, "a worker that waits")
        daemon.kill()
    try:
        with running(place) as daemon:
            ask = daemon.client()
            paused = ask.ask("stats")["paused"]
            assert paused == ([goal] if scope else [None])
            assert "paused" in say(daemon.path, "status").splitlines()[0]
            until(lambda: ask.ask("stats")["parked"] == 1, "the worker again")
            assert {ask.ask("get", id=node)["status"] for node in nodes} == {"ready"}
            assert say(daemon.path, "resume", *scope) == "nothing is paused\n"
            _, err = worker.communicate(timeout=30)
            assert worker.returncode == 0, err
            assert {ask.ask("get", id=node)["status"] for node in nodes} == {"done"}
    finally:
        worker.kill()
        worker.communicate()
