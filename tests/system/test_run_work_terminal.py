"""`claimdag run`, `work` and `wait` on a terminal: Ctrl-C, Ctrl-\\, Ctrl-Z, keys for the command, the progress bar."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import WAIT_S, Client, Daemon, running, until
from tests.system.worker import alive, pids_of


class Typist:
    """Somebody at a terminal in which `command` runs, as the leader of the session."""

    def __init__(self, command: list[str]) -> None:
        self.seen = b""
        self.status: int | None = None
        self.pid, self.fd = pty.fork()
        if not self.pid:
            try:
                os.execvp(command[0], command)
            finally:
                os._exit(127)

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def read(self, seconds: float = 0.05) -> bool:
        """Take in what is shown; False at the end."""
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return False
            self.seen += data
            return bool(data)
        return True

    def until_shown(self, text: bytes) -> None:
        deadline = time.monotonic() + WAIT_S
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if not self.read():
                assert text in self.seen, self.seen

    def wait(self) -> int:
        deadline = time.monotonic() + WAIT_S
        while self.status is None:
            assert time.monotonic() < deadline, self.seen
            self.read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        while self.read(0):
            if not select.select([self.fd], [], [], 0)[0]:
                break
        return self.status

    def end(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@contextmanager
def terminal(*command: str) -> Iterator[Typist]:
    typist = Typist([*command])
    try:
        yield typist
    finally:
        typist.end()


def claimdag(daemon: Daemon, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "claimdag_client.cli", "--socket", str(daemon.path), "--no-start", *arguments]


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir / "claimdag") as daemon:
        yield daemon


@pytest.fixture
def pids(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


@pytest.mark.parametrize(("key", "status"), [(b"\x03", 130), (b"\x1c", 131)])
@pytest.mark.parametrize("verb", ["run", "work"])
def test_interrupt_key_ends_command_and_worker_and_hands_the_node_back(
    daemon: Daemon, pids: Path, verb: str, key: bytes, status: int
) -> None:
    """Ctrl-C means the whole of it, not one node's failure."""
    id = add(daemon)
    of = [id] if verb == "run" else []
    script = "sleep 300 & echo $$ $! > $PIDS; wait"
    with terminal(*claimdag(daemon, verb, "--assignee", "a", *of, "--", "sh", "-c", script)) as typist:
        family = pids_of(pids, 2)
        typist.type(key)
        assert typist.wait() == status
        assert not any(map(alive, family))
    assert node(daemon, id)["status"] == "ready"


def test_interrupt_key_of_an_idle_worker_ends_it(daemon: Daemon) -> None:
    """With nothing to end but itself."""
    with terminal(*claimdag(daemon, "work", "--assignee", "a", "--", "true")) as typist:
        until(lambda: stats(daemon)["parked"] == 1, "a waiting worker")
        typist.type(b"\x03")
        assert typist.wait() == 130


def test_interrupt_key_of_several_workers_ends_them_all(daemon: Daemon, pids: Path) -> None:
    """None of them has the terminal, so the worker hears the key and ends the groups."""
    ids = [add(daemon) for _ in range(2)]
    script = "sleep 300 & echo $$ $! >> $PIDS; wait"
    with terminal(*claimdag(daemon, "work", "--assignee", "a", "-n", "2", "--", "sh", "-c", script)) as typist:
        family = pids_of(pids, 4)
        typist.type(b"\x03")
        assert typist.wait() == 130
        assert not any(map(alive, family))
    assert {node(daemon, id)["status"] for id in ids} == {"ready"}


def test_command_that_handles_the_interrupt_key_decides_for_itself(daemon: Daemon) -> None:
    """An editor or an agent for which Ctrl-C is a key: its node ends as it ends."""
    id = add(daemon)
    script = "trap 'echo heard; exit 0' INT; echo up; while :; do sleep 0.05; done"
    with terminal(*claimdag(daemon, "run", "--assignee", "a", id, "--", "sh", "-c", script)) as typist:
        typist.until_shown(b"up")
        typist.type(b"\x03")
        assert typist.wait() == 0
        assert b"heard" in typist.seen
    assert node(daemon, id)["status"] == "done"


def test_command_reads_keys_and_knows_its_terminal(daemon: Daemon) -> None:
    """It is in the foreground: reading is no stop, and its streams are the terminal."""
    id = add(daemon)
    script = "test -t 0 && test -t 1 && read line && echo got:$line"
    with terminal(*claimdag(daemon, "run", "--assignee", "a", id, "--", "sh", "-c", script)) as typist:
        typist.type(b"hello\n")
        assert typist.wait() == 0
        assert b"got:hello" in typist.seen


def test_command_killed_with_the_terminal_in_a_strange_mode_leaves_it_as_it_was(daemon: Daemon) -> None:
    """A full-screen program that dies does not leave a terminal without echo."""
    id = add(daemon)
    script = "import os, tty; tty.setraw(0); os.kill(os.getpid(), 9)"
    command = claimdag(daemon, "run", "--assignee", "a", id, "--", "python3", "-c", script)
    with terminal("sh", "-c", '"$@"; echo after:$?', "sh", *command) as typist:
        typist.until_shown(b"after:137")
        assert termios.tcgetattr(typist.fd)[3] & termios.ECHO
        assert typist.wait() == 0


def test_stop_key_stops_the_job_and_fg_goes_on_with_it(daemon: Daemon) -> None:
    """Ctrl-Z gives the shell its prompt back; `fg` gives the command its keys."""
    id = add(daemon)
    command = " ".join(claimdag(daemon, "run", "--assignee", "a", id, "--", "cat"))
    with terminal("bash", "--norc", "--noprofile", "-i") as typist:
        typist.type(b"PS1='ready''> '; " + command.encode() + b"\n")
        until(lambda: node(daemon, id)["status"] == "running", "a running node")
        typist.type(b"one\n")
        typist.until_shown(b"one\r\none\r\n")
        typist.type(b"\x1a")
        typist.until_shown(b"ready> ")
        assert b"Stopped" in typist.seen
        typist.type(b"echo in the she''ll\n")
        typist.until_shown(b"in the shell")
        typist.type(b"fg\n")
        time.sleep(0.3)
        typist.type(b"two\n")
        typist.until_shown(b"two\r\ntwo\r\n")
        typist.type(b"\x04")
        until(lambda: node(daemon, id)["status"] == "done", "a node that is done")
        typist.type(b"exit 5\n")
        assert typist.wait() == 5


def test_background_job_that_reads_stops_and_fg_gives_it_the_keys(daemon: Daemon) -> None:
    """Started with `&`, it has not the terminal; wanting it, it stops with its worker until the shell says so."""
    id = add(daemon)
    command = " ".join(claimdag(daemon, "run", "--assignee", "a", id, "--", "cat"))
    with terminal("bash", "--norc", "--noprofile", "-i") as typist:
        typist.type(b"PS1='ready''> '; " + command.encode() + b" &\n")
        until(lambda: node(daemon, id)["status"] in ("claimed", "running"), "a claimed node")
        time.sleep(0.3)
        typist.type(b"\n")
        typist.until_shown(b"Stopped")
        typist.type(b"fg\n")
        time.sleep(0.3)
        typist.type(b"two\n")
        typist.until_shown(b"two\r\ntwo\r\n")
        typist.type(b"\x04")
        until(lambda: node(daemon, id)["status"] == "done", "a node that is done")
        typist.type(b"exit 5\n")
        assert typist.wait() == 5


def test_command_that_cannot_be_started_leaves_the_terminal_to_the_shell(daemon: Daemon) -> None:
    """The foreground does not stay with a group that never was."""
    id = add(daemon)
    command = " ".join(claimdag(daemon, "run", "--assignee", "a", id, "--", "/nowhere/at/all"))
    with terminal("sh", "-c", f"{command}; echo status:$?; read line; echo got:$line") as typist:
        typist.until_shown(b"status:127")
        typist.type(b"hello\n")
        assert typist.wait() == 0
        assert b"got:hello" in typist.seen


def test_stop_key_without_a_shell_stops_nothing_for_good(daemon: Daemon) -> None:
    """Where nobody could say `fg`, the command goes on."""
    id = add(daemon)
    script = "echo up; read line; echo got:$line"
    with terminal(*claimdag(daemon, "run", "--assignee", "a", id, "--", "sh", "-c", script)) as typist:
        typist.until_shown(b"up")
        typist.type(b"\x1a")
        time.sleep(0.2)
        typist.type(b"hello\n")
        assert typist.wait() == 0
        assert b"got:hello" in typist.seen


def test_wait_shows_a_bar_of_the_work_under_a_group_and_clears_it(daemon: Daemon) -> None:
    """Done of all, running, failed; the last line on the terminal is how the node ended."""
    goal = add(daemon, kind="goal")
    ids = [add(daemon, parent=goal) for _ in range(4)]
    add(daemon, summary="not of it")
    with terminal(*claimdag(daemon, "wait", goal.partition("-")[2])) as typist:
        typist.until_shown(b"0 of 4 done, 0 running, 0 failed")
        client = daemon.client()
        client.ask("complete", id=ids[0])
        client.ask("complete", id=ids[1], status="failed")
        client.ask("claim", id=ids[2], actor="b")
        typist.until_shown(b"1 of 4 done, 1 running, 1 failed")
        client.ask("complete", id=ids[2])
        client.ask("complete", id=ids[3])
        assert typist.wait() == 0
    last = typist.seen.rpartition(b"\r\x1b[K")[2]
    assert goal.encode() in last
    assert b"failed" in last
