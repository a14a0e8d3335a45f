"""`claimdag run` and `claimdag work` as processes: what becomes of the command, of its children and of the node."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Client, Daemon, running, until
from tests.system.worker import STOPS, alive, all_gone, claimdag, pids_of

#: A command that notes its own pid and that of a child in its group, and waits for both.
FAMILY = 'sleep 300 & echo $$ $! > "$PIDS"; wait'
#: The same, deaf to everything but SIGKILL.
DEAF = 'trap "" TERM INT HUP; (trap "" TERM INT HUP; sleep 300) & echo $$ $! > "$PIDS"; while :; do sleep 0.1; done'


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir / "claimdag", "--grace", "0.5") as daemon:
        yield daemon


@pytest.fixture
def pids(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where FAMILY writes."""
    monkeypatch.setenv("PIDS", str(short_dir / "pids"))
    return short_dir / "pids"


def add(daemon: Daemon, **fields: Any) -> str:
    with Client(daemon.path) as client:
        return str(client.ask("upsert", **fields)["id"])


def stats(daemon: Daemon) -> dict[str, Any]:
    with Client(daemon.path) as client:
        return client.ask("stats")


def node(daemon: Daemon, id: str) -> dict[str, Any]:
    with Client(daemon.path) as client:
        return client.ask("get", id=id)


def held(daemon: Daemon, id: str) -> bool:
    return node(daemon, id)["status"] == "running"


# ------------------------------------------------------------------------------------------------------------- run


@pytest.mark.parametrize(
    ("command", "status", "ended", "error"),
    [
        ("true", 0, "done", None),
        ("exit 7", 7, "failed", "exit status 7"),
        ("kill -KILL $$", 137, "failed", "killed by SIGKILL"),
        ("kill -TERM $$", 143, "failed", "killed by SIGTERM"),
    ],
)
def test_run_completes_the_node_by_the_commands_exit(
    daemon: Daemon, command: str, status: int, ended: str, error: str | None
) -> None:
    """And exits as a shell would have (law 9.6)."""
    id = add(daemon)
    with claimdag(daemon, "run", "--assignee", "a", id, "--", "sh", "-c", command) as worker:
        assert worker.wait() == status
    after = node(daemon, id)
    assert (after["status"], after["error"], after["attempts"]) == (ended, error, 1)
    assert worker.err == b""


def test_run_tells_the_command_of_its_node_and_leaves_its_streams_alone(daemon: Daemon) -> None:
    """Environment, standard input and every byte of output; the summary is data, never run."""
    summary = "$(touch /tmp/never) `id`; \x1b[31m\x00 end"
    id = add(daemon, summary=summary)
    number = id.partition("-")[2]
    script = (
        'printf "%s|" "$CLAIMDAG_ID" "$CLAIMDAG_GEN" "$CLAIMDAG_SUMMARY" "$CLAIMDAG_SOCKET"; cat; printf "\\377\\0" >&2'
    )
    with claimdag(daemon, "run", "--assignee", "a", number, "--", "sh", "-c", script, stdin=subprocess.PIPE) as worker:
        worker.out, worker.err = worker.process.communicate(b"\x00\x1b[2Jin\xff", timeout=15)
    assert worker.process.returncode == 0
    told = summary.replace("\x00", "\ufffd").encode()
    assert worker.out == f"{id}|2|".encode() + told + f"|{daemon.path}|".encode() + b"\x00\x1b[2Jin\xff"
    assert worker.err == b"\xff\x00"


@pytest.mark.parametrize(("command", "status"), [("/nowhere/at/all", 127), ("/etc/passwd", 126)])
def test_run_of_what_cannot_be_started_hands_the_node_back(daemon: Daemon, command: str, status: int) -> None:
    """With a shell's exit status for it, and the reason said."""
    id = add(daemon)
    with claimdag(daemon, "run", "--assignee", "a", id, "--", command) as worker:
        assert worker.wait() == status
    assert command.encode() in worker.err
    assert node(daemon, id)["status"] == "ready"


def test_run_refused_exits_one_and_runs_nothing(daemon: Daemon) -> None:
    """No claim, no command."""
    id = add(daemon, status="blocked")
    with claimdag(daemon, "run", "--assignee", "a", id, "--", "echo", "ran") as worker:
        assert worker.wait() == 1
    assert (worker.out, b"blocked" in worker.err) == (b"", True)


@pytest.mark.parametrize("number", STOPS)
def test_run_told_to_stop_ends_the_group_and_hands_the_node_back(
    daemon: Daemon, pids: Path, number: signal.Signals
) -> None:
    """The command and its children are gone before the node is ready again (law 9.7)."""
    id = add(daemon)
    with claimdag(daemon, "run", "--assignee", "a", id, "--", "sh", "-c", FAMILY) as worker:
        family = pids_of(pids, 2)
        worker.signal(number)
        assert worker.wait() == 128 + number
        assert not any(map(alive, family))
    after = node(daemon, id)
    assert (after["status"], after["assignee"], after["gen"]) == ("ready", None, 3)


def test_work_under_a_node_never_leaves_it(daemon: Daemon) -> None:
    """What is below the goal is worked off, by its number alone too, and what is beside it is not touched."""
    boss = daemon.client()
    goal, *_, beside = boss.ask(
        "submit", nodes=[{"ref": "g", "kind": "goal"}, {"parent": "g"}, {"parent": "g"}, {"priority": 9}]
    )["ids"]
    argv = ("work", "--assignee", "a", "--under", goal.rpartition("-")[2], "--until-empty", "--", "true")
    with claimdag(daemon, *argv) as worker:
        assert worker.wait() == 0
    assert node(daemon, goal)["status"] == "done"
    assert node(daemon, beside)["status"] == "ready"


def test_run_told_to_stop_kills_what_does_not_listen(daemon: Daemon, pids: Path) -> None:
    """SIGKILL after --kill-after, to all of the group."""
    id = add(daemon)
    with claimdag(daemon, "run", "--assignee", "a", "--kill-after", "0.3", id, "--", "sh", "-c", DEAF) as worker:
        family = pids_of(pids, 2)
        began = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 143
        assert time.monotonic() - began > 0.3
        all_gone(family, 1)
    assert node(daemon, id)["status"] == "ready"


def test_run_told_to_stop_twice_kills_at_once(daemon: Daemon, pids: Path) -> None:
    """Whoever insists does not wait for --kill-after."""
    id = add(daemon)
    with claimdag(daemon, "run", "--assignee", "a", "--kill-after", "60", id, "--", "sh", "-c", DEAF) as worker:
        family = pids_of(pids, 2)
        worker.signal(signal.SIGTERM)
        time.sleep(0.3)
        worker.signal(signal.SIGTERM)
        assert worker.wait(5) == 143
        all_gone(family, 1)


def test_run_keeps_ignoring_what_it_was_started_to_ignore(daemon: Daemon, pids: Path) -> None:
    """As under nohup: SIGHUP ends nothing."""
    id = add(daemon)
    with claimdag(
        daemon, "run", "--assignee", "a", id, "--", "sh", "-c", "echo $$ > $PIDS; sleep 0.6",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    ) as worker:  # fmt: skip
        pids_of(pids, 1)
        worker.signal(signal.SIGHUP)
        assert worker.wait() == 0
    assert node(daemon, id)["status"] == "done"


@pytest.mark.parametrize(("op", "status"), [("cancel", "cancelled"), ("release", "ready")])
def test_run_that_loses_its_claim_ends_the_command(daemon: Daemon, pids: Path, op: str, status: str) -> None:
    """SIGTERM to the group as soon as the daemon tells; nothing outlives the claim."""
    id = add(daemon)
    with claimdag(daemon, "run", "--assignee", "a", id, "--", "sh", "-c", FAMILY) as worker:
        family = pids_of(pids, 2)
        daemon.client().ask(op, id=id)
        assert worker.wait(5) == 143
        assert not any(map(alive, family))
    assert node(daemon, id)["status"] == status
    assert f"lost {id}".encode() in worker.err


def test_run_that_loses_its_claim_kills_what_does_not_listen(daemon: Daemon, pids: Path) -> None:
    """A command that is deaf to SIGTERM does not outlive it either (law 9.7)."""
    id = add(daemon)
    with claimdag(daemon, "run", "--assignee", "a", "--kill-after", "0.3", id, "--", "sh", "-c", DEAF) as worker:
        family = pids_of(pids, 2)
        daemon.client().ask("reclaim", lease=0)
        assert worker.wait(5) == 137
        all_gone(family, 1)


@pytest.mark.parametrize("more", [{}, {"gen": 2}, {"gen": 2, "actor": "a"}])
def test_run_whose_command_completes_its_own_node_lets_it_come_to_its_end(daemon: Daemon, more: dict[str, Any]) -> None:
    """An agent may speak for itself: what it says last is still heard, and its exit status given on."""
    id = add(daemon)
    script = f"""
import json, os, socket, time
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["CLAIMDAG_SOCKET"])
s.sendall(json.dumps({{"op": "complete", "id": {id!r}, "summary": "mine", **{more}}}).encode() + b"\\n"); s.recv(65536)
time.sleep(0.5); print("the end")
"""
    with claimdag(daemon, "run", "--assignee", "a", id, "--", "python3", "-c", script) as worker:
        assert worker.wait() == 0
    assert worker.out == b"the end\n"
    assert (node(daemon, id)["status"], node(daemon, id)["summary"]) == ("done", "mine")


def test_run_killed_takes_its_command_along_and_the_grace_gives_the_node_on(daemon: Daemon, pids: Path) -> None:
    """kill -9 of the worker: the group ends, and somebody else has the node within the grace."""
    id = add(daemon)
    with claimdag(daemon, "run", "--assignee", "a", id, "--", "sh", "-c", FAMILY) as worker:
        family = pids_of(pids, 2)
        until(lambda: held(daemon, id), "a running node")
        worker.signal(signal.SIGKILL)
        # The lease has minutes left: within this wait the node comes back by the grace alone.
        next_one = daemon.client().ask("claim_next", actor="b", wait=10)
        assert next_one["id"] == id
        all_gone(family)


def test_run_killed_takes_a_deaf_command_along(daemon: Daemon, pids: Path) -> None:
    """By SIGKILL, after --kill-after."""
    id = add(daemon)
    with claimdag(daemon, "run", "--assignee", "a", "--kill-after", "0.3", id, "--", "sh", "-c", DEAF) as worker:
        family = pids_of(pids, 2)
        worker.signal(signal.SIGKILL)
        all_gone(family, 5)


def test_run_stopped_loses_its_node_at_the_lease_and_ends_the_command_when_it_goes_on(
    daemon: Daemon, pids: Path
) -> None:
    """SIGSTOP: the connection stands, so the lease decides; on SIGCONT the worker hears of it."""
    id = add(daemon)
    with claimdag(daemon, "run", "--assignee", "a", "--lease", "1", id, "--", "sh", "-c", FAMILY) as worker:
        family = pids_of(pids, 2)
        until(lambda: held(daemon, id), "a running node")
        worker.signal(signal.SIGSTOP)
        claim = daemon.client().ask("claim_next", actor="b", wait=10)
        assert (claim["id"], claim["gen"]) == (id, 4)
        worker.signal(signal.SIGCONT)
        assert worker.wait(5) == 143
        all_gone(family)
    assert node(daemon, id)["assignee"] == "b"


def test_run_under_a_daemon_that_is_stopped_for_longer_than_the_lease_keeps_its_claim(daemon: Daemon) -> None:
    """A daemon that was itself asleep reclaims nobody unheard."""
    id = add(daemon)
    with claimdag(daemon, "run", "--assignee", "a", "--lease", "1", id, "--", "sleep", "2.5") as worker:
        until(lambda: held(daemon, id), "a running node")
        daemon.signal(signal.SIGSTOP)
        time.sleep(1.5)
        daemon.signal(signal.SIGCONT)
        assert worker.wait() == 0
    after = node(daemon, id)
    assert (after["status"], after["gen"], after["attempts"]) == ("done", 2, 1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_run_under_a_daemon_that_restarts_goes_on(short_dir: Path, pids: Path, number: signal.Signals) -> None:
    """Reconnected and rebound at the same generation; the command never notices, and its end is told (law 9.8)."""
    directory = short_dir / "claimdag"
    with running(directory) as daemon:
        id = add(daemon)
        script = "echo $$ > $PIDS; while [ -e $PIDS ]; do sleep 0.02; done; exit 3"
        with claimdag(daemon, "run", "--assignee", "a", "--lease", "30", id, "--", "sh", "-c", script) as worker:
            child = pids_of(pids, 1)
            until(lambda: held(daemon, id), "a running node")
            daemon.signal(number)
            daemon.wait()
            time.sleep(0.3)
            assert alive(child[0])
            with running(directory) as again:
                # Bound to a living connection: nothing takes it back though ten seconds would be its time to rebind.
                until(lambda: stats(again)["connections"] >= 2, "a worker that is back")
                pids.unlink()
                assert worker.wait() == 3
                after = node(again, id)
    assert (after["status"], after["error"], after["gen"], after["attempts"]) == ("failed", "exit status 3", 2, 1)
    assert worker.err == b""


def test_run_whose_command_ends_while_the_daemon_is_away_tells_it_afterwards(short_dir: Path) -> None:
    """The result waits for the daemon."""
    directory = short_dir / "claimdag"
    with running(directory) as daemon:
        id = add(daemon)
        with claimdag(daemon, "run", "--assignee", "a", id, "--", "sleep", "0.5") as worker:
            until(lambda: held(daemon, id), "a running node")
            daemon.kill()
            time.sleep(1)
            assert worker.process.poll() is None
            with running(directory) as again:
                assert worker.wait() == 0
                assert node(again, id)["status"] == "done"


def test_run_without_a_daemon_says_so(short_dir: Path) -> None:
    """69, as every verb."""
    with running(short_dir / "claimdag") as daemon:
        daemon.terminate()
        with claimdag(daemon, "run", "--assignee", "a", "1", "--", "true") as worker:
            assert worker.wait() == 69


@pytest.mark.parametrize(
    "arguments",
    [("run", "--assignee", "a", "1"), ("run", "1", "--", "true"), ("work", "--", "true"),
     ("work", "--assignee", "a", "-n", "0", "--", "true"), ("work", "--assignee", "a", "x", "--", "true")],
)  # fmt: skip
def test_wrong_use_exits_two(daemon: Daemon, arguments: tuple[str, ...]) -> None:
    """Before anything is asked."""
    with claimdag(daemon, *arguments) as worker:
        assert worker.wait() == 2


# ------------------------------------------------------------------------------------------------------------ work


def test_work_until_empty_does_node_after_node_and_ends_with_zero(daemon: Daemon) -> None:
    """In order, failures included, dependents after what they wait for (law 9.6)."""
    first = add(daemon, summary="one", priority=1)
    add(daemon, summary="two", deps=[{"on": first}])
    add(daemon, summary="fails", deps=[{"on": first}])
    with claimdag(
        daemon, "work", "--assignee", "a", "--until-empty", "--", "sh", "-c",
        'echo "$CLAIMDAG_SUMMARY"; test "$CLAIMDAG_SUMMARY" != fails',
    ) as worker:  # fmt: skip
        assert worker.wait() == 0
    assert [line.split()[1] for line in worker.out.splitlines()] == [b"one", b"two", b"fails"]
    statuses = daemon.client().ask("stats")["statuses"]
    assert (statuses["done"], statuses["failed"]) == (2, 1)


def test_work_until_empty_waits_for_what_others_hold(daemon: Daemon) -> None:
    """Work that somebody else's claim holds up is not the end."""
    first = add(daemon)
    add(daemon, summary="then", deps=[{"on": first}])
    other = daemon.client()
    other.ask("claim", id=first, actor="b")
    with claimdag(daemon, "work", "--assignee", "a", "--until-empty", "--", "sh", "-c", "echo $CLAIMDAG_ID") as worker:
        time.sleep(0.7)
        assert worker.process.poll() is None
        other.ask("complete", id=first)
        assert worker.wait() == 0
    assert worker.out.endswith(b"-2\n")


def test_work_until_empty_that_is_stuck_exits_three_with_the_reason(daemon: Daemon) -> None:
    """Only a person can help with what is blocked."""
    add(daemon, status="blocked")
    with claimdag(daemon, "work", "--assignee", "a", "-n", "3", "--until-empty", "--", "true") as worker:
        assert worker.wait() == 3
    assert b"blocked" in worker.err


def test_work_with_several_workers_runs_them_at_once_each_by_its_name(daemon: Daemon, short_dir: Path) -> None:
    """NAME/1 to NAME/N, each with one node."""
    for _ in range(4):
        add(daemon)
    # Each waits for all four: only four at once come to an end.
    script = f"touch {short_dir}/at.$CLAIMDAG_ID; while [ $(ls {short_dir}/at.* | wc -l) -lt 4 ]; do sleep 0.02; done"
    with claimdag(daemon, "work", "--assignee", "a", "-n", "4", "--until-empty", "--", "sh", "-c", script) as worker:
        assert worker.wait() == 0
    entries = daemon.client().ask("log")["entries"]
    assert sorted({e["actor"] for e in entries if e["op"] == "complete"}) == ["a/1", "a/2", "a/3", "a/4"]


def test_work_strict_by_role_leaves_the_rest(daemon: Daemon) -> None:
    """Only what is for that role, or for nobody in particular."""
    add(daemon, summary="verify", role="verifier")
    other = add(daemon, summary="explore", role="explore")
    with claimdag(
        daemon, "work", "--assignee", "a", "--role", "verifier", "--strict", "--", "sh", "-c", "echo $CLAIMDAG_SUMMARY"
    ) as worker:
        until(lambda: stats(daemon)["statuses"]["done"] == 1, "one done")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 143
    assert worker.out.endswith(b" verify\n")
    assert node(daemon, other)["attempts"] == 0


@pytest.mark.parametrize("number", STOPS)
def test_work_told_to_stop_hands_all_nodes_back(daemon: Daemon, pids: Path, number: signal.Signals) -> None:
    """All workers at once, idle ones too."""
    ids = [add(daemon) for _ in range(2)]
    script = "sleep 300 & echo $$ $! >> $PIDS; wait"
    with claimdag(daemon, "work", "--assignee", "a", "-n", "3", "--", "sh", "-c", script) as worker:
        family = pids_of(pids, 4)
        worker.signal(number)
        assert worker.wait(5) == 128 + number
        assert not any(map(alive, family))
    assert {node(daemon, id)["status"] for id in ids} == {"ready"}


def test_work_that_lost_a_claim_goes_on_with_the_next_node(daemon: Daemon, pids: Path) -> None:
    """A cancelled node ends its command, not its worker."""
    first = add(daemon, summary="sleep", priority=1)
    add(daemon, summary="quick")
    script = "case $CLAIMDAG_SUMMARY in sleep) echo $$ > $PIDS; exec sleep 300;; esac"
    with claimdag(daemon, "work", "--assignee", "a", "--until-empty", "--", "sh", "-c", script) as worker:
        family = pids_of(pids, 1)
        daemon.client().ask("cancel", id=first)
        assert worker.wait() == 0
        assert not alive(family[0])
    assert daemon.client().ask("stats")["statuses"]["done"] == 1


def test_work_of_what_cannot_be_started_ends(daemon: Daemon) -> None:
    """It does not claim and release for ever."""
    id = add(daemon)
    with claimdag(daemon, "work", "--assignee", "a", "-n", "2", "--", "/nowhere/at/all") as worker:
        assert worker.wait() == 127
    assert node(daemon, id)["status"] == "ready"
    assert node(daemon, id)["attempts"] <= 2


def test_work_survives_daemons_that_are_killed_again_and_again(short_dir: Path) -> None:
    """Every node is worked exactly once and done, whatever happens to the daemon meanwhile."""
    directory = short_dir / "claimdag"
    done = short_dir / "effects"
    with running(directory) as daemon:
        for _ in range(30):
            add(daemon)
        script = f"echo $CLAIMDAG_ID $CLAIMDAG_GEN >> {done}; sleep 0.1"
        with claimdag(
            daemon, "work", "--assignee", "a", "-n", "3", "--until-empty", "--", "sh", "-c", script
        ) as worker:
            for _ in range(3):
                until(lambda: done.exists(), "work begun")
                time.sleep(0.2)
                daemon.kill()
                daemon = Daemon(directory).until_up()
            try:
                assert worker.wait(30) == 0
                assert daemon.client().ask("stats")["statuses"]["done"] == 30
            finally:
                daemon.end()
    effects = done.read_text().split("\n")[:-1]
    assert len(effects) == len(set(effects)) == 30
    assert worker.err == b""


def test_work_started_again_after_a_kill_waits_for_its_name(daemon: Daemon, pids: Path) -> None:
    """The name of a worker that was killed is busy for a grace; its successor does not give up over that."""
    add(daemon)
    with claimdag(daemon, "work", "--assignee", "a", "--", "sh", "-c", FAMILY) as worker:
        pids_of(pids, 2)
        worker.signal(signal.SIGKILL)
        with claimdag(daemon, "work", "--assignee", "a", "--until-empty", "--", "true") as successor:
            assert successor.wait() == 0


def test_run_with_leave_daemons_leaves_what_its_command_left_running(daemon: Daemon, pids: Path) -> None:
    """A command that ends by itself may leave a server behind if the caller says so."""
    id = add(daemon)
    script = "sleep 30 >/dev/null 2>&1 & echo $! > $PIDS"
    with claimdag(daemon, "run", "--assignee", "a", "--leave-daemons", id, "--", "sh", "-c", script) as worker:
        left = pids_of(pids, 1)[0]
        assert worker.wait() == 0
        assert alive(left)
        os.kill(left, signal.SIGKILL)
