"""Exit statuses of a command with which it decides whether it is tried again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, running, until
from tests.system.worker import claimdag


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir / "claimdag") as daemon:
        yield daemon


def ran(daemon: Daemon, status: int, *options: str, **fields: Any) -> dict[str, Any]:
    """Run a command that exits with `status` for a new node; what became of it."""
    with daemon.client() as client:
        id = client.ask("upsert", **fields)["id"]
        with claimdag(daemon, "run", "--assignee", "a", *options, id, "--", "sh", "-c", f"exit {status}") as worker:
            assert worker.wait() == status
        return client.ask("get", id=id)


def test_status_75_asks_for_another_try_without_retries(daemon: Daemon) -> None:
    """It waits out its delay as todo, with the failure told."""
    node = ran(daemon, 75, retry_delay=60)
    assert (node["status"], node["failures"], node["last_error"]) == ("todo", 1, "exit status 75")


def test_status_100_is_final_though_retries_are_left(daemon: Daemon) -> None:
    """And so is another status if --final-exit names it."""
    assert ran(daemon, 100, retries=3)["status"] == "failed"
    assert ran(daemon, 7, "--final-exit", "7", retries=3)["status"] == "failed"
    assert ran(daemon, 100, "--final-exit", "7", retries=3)["status"] == "todo"


def test_status_75_twice_is_tried_twice(daemon: Daemon) -> None:
    """Each time one more retry is granted."""
    with daemon.client() as client:
        id = client.ask("upsert", retry_delay=0.05)["id"]
        for failures in (1, 2):
            until(lambda: client.ask("get", id=id)["status"] == "ready", "a node whose delay is over")
            with claimdag(daemon, "run", "--assignee", "a", id, "--", "sh", "-c", "exit 75") as worker:
                assert worker.wait() == 75
            assert client.ask("get", id=id)["failures"] == failures
