"""What a command started ends with its claim, however it detached itself; and a worker with closed standard streams."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from claimdag_client.worker.process_tree import all_processes, descendants, find_process, signal_process
from tests.support.daemon import Daemon, running, until
from tests.system.worker import Worker, alive, all_gone, claimdag, pids_of

#: Detaches as a daemon does, is deaf to polite signals, and notes its process id in the file that it is given.
DAEMON = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(300)
"""
ESCAPES = {
    "own session": "setsid sh -c 'echo $$ >> $PIDS; exec sleep 300' &",
    "second fork, deaf": 'python3 -c "$DAEMON" "$PIDS" &',
    "without the environment": 'env -i "$(command -v python3)" -c "$DAEMON" "$PIDS" &',
    "below another daemon": 'setsid sh -c \'python3 -c "$DAEMON" "$PIDS"; sleep 300\' &',
    "stopped": "setsid sh -c 'echo $$ >> $PIDS; kill -STOP $$' &",
}
pytestmark = pytest.mark.slow


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir / "claimdag", "--grace", "0.3") as daemon:
        yield daemon


@pytest.fixture
def pids(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIDS", str(short_dir / "pids"))
    monkeypatch.setenv("DAEMON", DAEMON)
    return short_dir / "pids"


def run(daemon: Daemon, id: str, script: str, *options: str) -> Any:
    return claimdag(daemon, "run", "--assignee", "a", "--kill-after", "0.3", *options, id, "--", "sh", "-c", script)


def add(daemon: Daemon, **fields: Any) -> str:
    return str(daemon.client().ask("upsert", **fields)["id"])


def status_of(daemon: Daemon, id: str) -> str:
    return str(daemon.client().ask("get", id=id)["status"])


def supervisors_of(worker: Worker) -> list[int]:
    return [process.pid for process in all_processes() if process.parent == worker.pid]


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("end", ["cancel", "release", "stop", "by itself", "kill the worker"])
def test_descendant_that_left_its_group_ends_with_the_claim(daemon: Daemon, pids: Path, escape: str, end: str) -> None:
    """However the claim ends, and before the node is anyone else's (law 12.1)."""
    id = add(daemon)
    go_on = f'while [ ! -s "$PIDS" ]; do sleep 0.01; done; {"exit 0" if end == "by itself" else "sleep 300"}'
    with run(daemon, id, f"{ESCAPES[escape]} {go_on}") as worker:
        left = pids_of(pids, 1)
        match end:
            case "cancel" | "release":
                daemon.client().ask(end, id=id)
            case "stop":
                worker.signal(signal.SIGTERM)
            case "kill the worker":
                worker.signal(signal.SIGKILL)
        worker.wait()
        all_gone(left)
        if end == "by itself":
            assert status_of(daemon, id) == "done"
        elif end == "stop":
            assert status_of(daemon, id) == "ready"


def test_trees_of_two_claims_are_told_apart(daemon: Daemon, pids: Path) -> None:
    """Cancelling one claim ends its daemons and none of the other's."""
    first, second = add(daemon), add(daemon)
    script = 'PIDS=$PIDS.$CLAIMDAG_ID; python3 -c "$DAEMON" "$PIDS" & sleep 300'
    with claimdag(
        daemon, "work", "--assignee", "a", "-n", "2", "--kill-after", "0.2", "--", "sh", "-c", script
    ) as worker:
        ended, kept = (pids_of(pids.with_name(f"pids.{id}"), 1) for id in (first, second))
        daemon.client().ask("cancel", id=first)
        all_gone(ended)
        assert alive(kept[0])
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 143
        all_gone(kept)


def test_supervisor_killed_leaves_nothing_of_its_tree(daemon: Daemon, pids: Path) -> None:
    """The worker adopts what the supervisor had, ends it, hands the node back, and says so."""
    id = add(daemon)
    with run(daemon, id, f"{ESCAPES['second fork, deaf']} echo $$ >> $PIDS; sleep 300") as worker:
        left = pids_of(pids, 2)
        (supervisor,) = supervisors_of(worker)
        os.kill(supervisor, signal.SIGKILL)
        assert worker.wait() == 1
        all_gone(left)
    assert b"supervisor" in worker.err
    assert status_of(daemon, id) == "ready"


def test_group_of_the_worker_killed_leaves_nothing(daemon: Daemon, pids: Path) -> None:
    """SIGKILL to all of the worker's own group, as a shell's `kill -9 %1` does, does not reach the supervisor."""
    id = add(daemon)
    with run(daemon, id, f"{ESCAPES['second fork, deaf']} sleep 300") as worker:
        left = pids_of(pids, 1)
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        all_gone(left)


def test_command_that_forks_without_end_is_ended(daemon: Daemon, pids: Path) -> None:
    """Each pass over the tree finds what was born after the one before."""
    id = add(daemon)
    chain = "import os,time\nwhile os.getppid():\n    time.sleep(0.002)\n    if os.fork(): os._exit(0)\n    os.setsid()"
    with run(daemon, id, f"echo $$ >> $PIDS; python3 -c '{chain}' & sleep 300") as worker:
        pids_of(pids, 1)
        below = lambda: descendants(worker.pid)  # noqa: E731
        until(lambda: len(below()) > 3, "a chain of forks")
        sessions = {process.pid for process in below()}
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 143
        assert not any(map(alive, sessions))
    assert not [process for process in all_processes() if _command_line(process.pid).find(chain.encode()) >= 0]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_leave_daemons_leaves_what_has_a_session_of_its_own(daemon: Daemon, pids: Path) -> None:
    """And ends the command's group all the same when the claim is lost."""
    id = add(daemon)
    script = f"exec >/dev/null 2>&1; {ESCAPES['own session']} sleep 300 & echo $! >> $PIDS; wait"
    with run(daemon, id, script, "--leave-daemons") as worker:
        found = pids_of(pids, 2)
        groups = {pid: os.getpgid(pid) for pid in found}
        daemon.client().ask("cancel", id=id)
        worker.wait()
        left = [pid for pid in found if groups[pid] == pid]
        all_gone([pid for pid in found if pid not in left])
        assert [alive(pid) for pid in left] == [True]
        os.kill(left[0], signal.SIGKILL)


def test_number_that_is_used_again_is_not_signalled() -> None:
    """A process is named by its number and the time of its start."""
    with subprocess.Popen(["sleep", "60"]) as process:
        found = find_process(process.pid)
        assert found is not None
        signal_process(found._replace(started=found.started - 1), signal.SIGKILL)
        assert process.poll() is None
        signal_process(found, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert find_process(process.pid) is None
    signal_process(found, signal.SIGKILL)


def test_descendants_leave_out_what_is_excluded_and_what_is_below_it() -> None:
    """So a worker can look for what a killed supervisor left beside those that live."""
    script = (
        "import subprocess, sys; subprocess.Popen(['sleep', '60']); sys.stdout.write('x'); sys.stdout.flush(); input()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        below = {found.pid for found in descendants(os.getpid())}
        assert process.pid in below
        assert not {process.pid, *below} & {
            found.pid for found in descendants(os.getpid(), without=frozenset([process.pid]))
        } - {found.pid for found in all_processes() if found.parent == os.getpid()}
        for found in descendants(process.pid):
            signal_process(found, signal.SIGKILL)


@pytest.mark.parametrize("closed", [{0}, {1}, {2}, {0, 1, 2}], ids=str)
@pytest.mark.parametrize("verb", ["run", "work"])
def test_worker_started_with_closed_streams_gives_its_command_open_ones(
    daemon: Daemon, short_dir: Path, closed: set[int], verb: str
) -> None:
    """Nothing of the worker gets a number below 3, and the command finds the null device there."""
    id = add(daemon)
    seen = short_dir / "seen"
    script = (
        f"import os; open({str(seen)!r}, 'w').write(' '.join(os.readlink(f'/proc/self/fd/{{n}}') for n in range(3)))"
    )
    of = ["--until-empty"] if verb == "work" else [id]

    def close() -> None:
        for number in closed:
            os.close(number)

    with claimdag(
        daemon, verb, "--assignee", "a", "--no-capture", *of, "--", sys.executable, "-c", script,
        preexec_fn=close, stdout=subprocess.DEVNULL,
    ) as worker:  # fmt: skip
        assert worker.wait() == 0
    names = seen.read_text().split()
    assert all(names[number] == os.devnull for number in closed)
    assert not any("socket" in name for name in names)


def test_many_short_commands_all_end(daemon: Daemon) -> None:
    """A supervisor that is told to start a command as the one before ends misses neither."""
    with daemon.client() as client:
        for _ in range(200):
            client.ask("upsert")
    with claimdag(daemon, "work", "--assignee", "a", "-n", "2", "--until-empty", "--", "true") as worker:
        assert worker.wait(50) == 0
    assert daemon.client().ask("stats")["statuses"]["done"] == 200
