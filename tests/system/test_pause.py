"""A pause in real processes: a worker waits through it and a killed daemon, and drains the graph on resume.

Law 10.4, 10.5.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from claimdag_client import connect
from claimdag_client.errors import NotClaimable, NothingRunnable
from claimdag_client.sync import connect as connect_sync
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


@pytest.mark.anyio
async def test_both_clients_pause_and_resume(short_dir: Path) -> None:
    """The refusals are typed, and what is paused is told by each."""
    with running(short_dir / "d") as daemon:
        async with connect(daemon.path) as dag:
            node = await dag.upsert(summary="one")
            assert await dag.pause(under=node.id, actor="ann") == (node.id,)
            assert await dag.pause() == (node.id, None)
            with pytest.raises(NothingRunnable) as caught:
                await dag.claim_next("ann")
            assert (caught.value.paused, caught.value.stuck) == (1, False)
            with pytest.raises(NotClaimable, match="resume"):
                await dag.claim(node.id, actor="ann")
            assert [reason["type"] for reason in (await dag.why(node.id)).reasons] == ["paused"]
        with connect_sync(daemon.path) as sync:
            assert sync.stats()["paused"] == [node.id, None]
            assert sync.resume() == (node.id,)
            assert sync.resume(under=node.id) == ()
            with sync.claim_next("ann") as claim:
                assert claim.id == node.id
