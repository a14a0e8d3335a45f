"""`run_on`: a graph worked off through real executors, on a real daemon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import anyio
import pytest

from claimdag_client import connect
from claimdag_client.executors import ExecutorBroken, Job, run_on
from claimdag_client.executors.run import slots_of
from claimdag_client.sync import run_on as run_on_blocking
from tests.support.daemon import Daemon, running, until

pytestmark = pytest.mark.slow


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir, "--grace", "0.3") as one:
        yield one


def nothing(job: Job) -> None:
    """A job that is done at once."""


def die_once(job: Job) -> None:
    """The first of these kills the process that it is in."""
    if job.summary == "deadly" and job.gen == 2:
        os._exit(9)


def processes(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))


@pytest.mark.anyio
async def test_graph_is_worked_off_in_order_on_threads(daemon: Daemon) -> None:
    """Each node once, its deps first, and the job says which they were (law 16.1)."""
    boss = daemon.client()
    ids = boss.ask("submit", nodes=[{"ref": "a"}, {"ref": "b", "deps": [{"on": "a"}]}, *({} for _ in range(30))])["ids"]
    ran: list[Job] = []
    with ThreadPoolExecutor(3) as executor:
        report = await run_on(executor, ran.append, actor="pool", socket=daemon.path)
    assert (report.done, report.failed, report.lost) == (32, 0, 0)
    assert sorted(job.id for job in ran) == sorted(ids)
    second = next(job for job in ran if job.id == ids[1])
    assert second.deps == (ids[0],)
    assert [job.id for job in ran].index(ids[0]) < ran.index(second)
    assert boss.ask("stats")["statuses"]["done"] == 32


@pytest.mark.anyio
async def test_exception_fails_the_node_with_its_last_line(daemon: Daemon) -> None:
    """What needed it is cancelled, and the run goes on."""
    boss = daemon.client()
    bad, after, other = boss.ask("submit", nodes=[{"ref": "a"}, {"deps": [{"on": "a"}]}, {"priority": -1}])["ids"]

    def work(job: Job) -> None:
        if job.id == bad:
            raise ValueError("first line\nno such parser")

    with ThreadPoolExecutor(1) as executor:
        report = await run_on(executor, work, actor="pool", socket=daemon.path)
    assert report.errors == {bad: "ValueError: no such parser"}
    assert boss.ask("get", id=bad)["error"] == "ValueError: no such parser"
    assert boss.ask("get", id=after)["status"] == "cancelled"
    assert boss.ask("get", id=other)["status"] == "done"


@pytest.mark.anyio
async def test_no_more_is_claimed_than_the_executor_runs(daemon: Daemon) -> None:
    """What it cannot run yet stays ready for others (law 16.1)."""
    boss = daemon.client()
    boss.ask("submit", nodes=[{} for _ in range(9)])
    seen: list[int] = []

    def work(job: Job) -> None:
        with lock:
            held = [node for node in boss.ask("list")["nodes"] if node["assignee"]]
        seen.append(len(held))

    lock = threading.Lock()
    with ThreadPoolExecutor(2) as executor:
        await run_on(executor, work, actor="pool", socket=daemon.path)
    assert max(seen) <= 2
    assert len(seen) == 9


@pytest.mark.anyio
async def test_lost_claim_cancels_what_has_not_begun(daemon: Daemon) -> None:
    """A person cancels a node that waits in the executor's own queue: it never runs."""
    boss = daemon.client()
    ids = set(boss.ask("submit", nodes=[{}, {}])["ids"])
    began, go = threading.Event(), threading.Event()
    ran: list[str] = []
    futures: dict[str, Future[Any]] = {}

    def work(job: Job) -> None:
        ran.append(job.id)
        began.set()
        go.wait(10)

    def meddle() -> None:
        began.wait(10)
        (waiting,) = ids - {ran[0]}
        until(lambda: waiting in futures, "the hand-over of the other node")
        boss.ask("cancel", id=waiting)
        until(futures[waiting].cancelled, "the future's cancellation")
        go.set()

    class Watched(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            futures[args[0].id] = future = super().submit(fn, *args, **kwargs)
            return future

    with Watched(1) as executor:
        other = threading.Thread(target=meddle)
        other.start()
        report = await run_on(executor, work, actor="pool", prefetch=2, socket=daemon.path)
        other.join()
    assert report.lost == 1
    assert len(ran) == 1


@pytest.mark.anyio
async def test_cancellation_hands_every_claim_back(daemon: Daemon) -> None:
    """Nothing stays held, and what ran meanwhile is fenced."""
    boss = daemon.client()
    boss.ask("submit", nodes=[{} for _ in range(4)])
    go = threading.Event()
    with ThreadPoolExecutor(2) as executor:
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await run_on(executor, lambda job: go.wait(10), actor="pool", socket=daemon.path)

            tasks.start_soon(run)
            async with connect(daemon.path) as dag:
                while len([n for n in await dag.list() if n.assignee]) < 2:
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        assert [n for n in boss.ask("list")["nodes"] if n["assignee"]] == []
        go.set()


def test_processes_work_it_off_and_a_killed_one_breaks_the_pool(daemon: Daemon) -> None:
    """A pool whose worker was killed can run nothing more: every claim is back, and a new pool ends the work."""
    boss = daemon.client()
    boss.ask("submit", nodes=[{"summary": "deadly", "priority": 5}, *({"summary": "x"} for _ in range(5))])
    with processes(1) as pool, pytest.raises(ExecutorBroken, match="can run nothing more"):
        run_on_blocking(pool, die_once, actor="pool", socket=daemon.path)
    assert [n for n in boss.ask("list")["nodes"] if n["assignee"]] == []
    with processes(2) as pool:
        report = run_on_blocking(pool, die_once, actor="pool", socket=daemon.path)
    assert report.failed == 0
    assert boss.ask("stats")["statuses"]["done"] == 6


def test_executor_that_was_shut_down_is_told_at_once(daemon: Daemon) -> None:
    """The node that was claimed for it is ready again."""
    boss = daemon.client()
    id = boss.ask("upsert", summary="not run")["id"]
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(ExecutorBroken):
        run_on_blocking(pool, nothing, actor="pool", socket=daemon.path)
    assert boss.ask("get", id=id)["status"] == "ready"


SCRIPT = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from claimdag_client.sync import run_on
pool = ThreadPoolExecutor(1, initializer=print, initargs=("begun",))
def work(job):
    print("working", flush=True)
    time.sleep(1)
try:
    run_on(pool, work, actor="pool", socket=sys.argv[1], until_empty=False)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_a_blocking_run_and_nothing_stays_held(daemon: Daemon, number: signal.Signals) -> None:
    """A clean end: the claim is back before the process is gone."""
    boss = daemon.client()
    id = boss.ask("upsert", summary="long")["id"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-u", "-c", SCRIPT, str(daemon.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "working\n":
            pass
        process.send_signal(number)
        assert process.stdout.readline() == "stopped\n"
        assert boss.ask("get", id=id)["status"] == "ready"


def test_slots_are_as_many_as_the_executor_runs_or_as_told() -> None:
    """Threads and processes say it themselves; a number overrules; anything else is refused with what is taken."""

    class Unknown(ThreadPoolExecutor):
        _max_workers: Any = None

    with ThreadPoolExecutor(3) as executor:
        assert slots_of(executor, "auto") == 3
        assert slots_of(executor, 7) == 7
        for wrong in (0, 10_000, -1):
            with pytest.raises(ValueError, match="it takes 'auto' or a number from 1 to 9999"):
                slots_of(executor, wrong)
    unknown = Unknown(1)
    del unknown._max_workers
    assert slots_of(unknown, "auto") == (os.cpu_count() or 1)
    unknown._max_workers = 1
    unknown.shutdown()


@pytest.mark.anyio
async def test_deadline_is_of_the_lease_and_the_claim_is_renewed(daemon: Daemon) -> None:
    """A job that takes longer than its lease keeps its node."""
    boss = daemon.client()
    id = boss.ask("upsert", summary="longer than its lease")["id"]
    jobs: list[Job] = []

    def work(job: Job) -> None:
        jobs.append(job)
        until(lambda: time.time() > job.deadline + 0.3, "the first deadline to pass")

    with ThreadPoolExecutor(1) as executor:
        report = await run_on(executor, work, actor="pool", lease=0.6, socket=daemon.path)
    assert (report.done, report.lost) == (1, 0)
    assert boss.ask("get", id=id)["attempts"] == 1
