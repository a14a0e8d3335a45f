"""The real process: its place on the file system, its ends, its signals, and what survives them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Client, Daemon, running, until

LOOPS = ["asyncio", "trio"]


@pytest.fixture
def directory(short_dir: Path) -> Path:
    return short_dir / "claimdag"


@pytest.fixture(params=LOOPS)
def daemon(request: pytest.FixtureRequest, directory: Path) -> Iterator[Daemon]:
    with running(directory, "--backend", request.param) as daemon:
        yield daemon


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_daemon_makes_its_place_private_under_any_umask(directory: Path, umask: int) -> None:
    """Directory 0700, everything in it 0600."""
    with running(directory, umask=umask) as daemon:
        daemon.client().ask("upsert", summary="one")
        assert mode_of(directory) == 0o700
        assert {path.name: mode_of(path) for path in directory.iterdir()} == dict.fromkeys(
            [path.name for path in directory.iterdir()], 0o600
        )


def test_daemon_is_the_only_one(daemon: Daemon) -> None:
    """A second one says who is there and leaves; the first answers all along."""
    second = Daemon(daemon.directory)
    assert second.wait() == 75
    assert f"pid {daemon.pid} is alive" in second.stderr
    assert daemon.client().ask("hello")["pid"] == daemon.pid


def test_daemon_that_is_stopped_is_alive(daemon: Daemon) -> None:
    """Nobody takes its socket or its lock from a process that is merely stopped, and it goes on afterwards."""
    socket_file = daemon.path.lstat()
    daemon.signal(signal.SIGSTOP)
    second = Daemon(daemon.directory)
    assert second.wait() == 75
    assert daemon.path.lstat().st_ino == socket_file.st_ino
    daemon.signal(signal.SIGCONT)
    assert daemon.client().ask("hello")["pid"] == daemon.pid


def test_two_daemons_racing_end_as_one(directory: Path) -> None:
    """Of five started at once one serves, and the others say that it does."""
    daemons = [Daemon(directory) for _ in range(5)]
    try:
        until(lambda: sum(each.process.poll() is None for each in daemons) == 1, "a single one left")
        (winner,) = [each for each in daemons if each.process.poll() is None]
        winner.until_up()
        losers = [each for each in daemons if each is not winner]
        assert [each.wait() for each in losers] == [75] * 4
    finally:
        for each in daemons:
            each.end()


def test_daemon_that_was_killed_is_followed_by_one_that_knows_it_all(daemon: Daemon) -> None:
    """Its socket is left behind and replaced, and what was answered is there (law 7.1, 4.10)."""
    client = daemon.client()
    node = client.ask("upsert", summary="survives")
    claim = client.ask("claim", id=node["id"], actor="a")
    daemon.kill()
    assert daemon.path.is_socket()
    with running(daemon.directory) as after:
        again = after.client().ask("get", id=node["id"])
        assert (again["summary"], again["assignee"], again["gen"]) == ("survives", "a", claim["gen"])


def test_daemon_drains_on_sigterm(daemon: Daemon) -> None:
    """Parked requests are answered, idle connections closed, the socket removed; the next one goes on."""
    parked, idle = daemon.client(), daemon.client()
    node = idle.ask("upsert", summary="stays")
    idle.ask("claim", id=node["id"], actor="busy")
    parked.send("claim_next", actor="waiter", wait=600, rid=1)
    parked.ask("ping")
    assert daemon.terminate() == 0
    assert parked.answer()["error"]["code"] == "shutting_down"
    assert parked.rest() == b""
    assert idle.rest() == b""
    assert not daemon.path.exists()
    assert "Traceback" not in daemon.stderr
    with running(daemon.directory) as after:
        assert after.client().ask("get", id=node["id"])["assignee"] == "busy"


def test_daemon_answers_what_was_asked_before_sigterm(daemon: Daemon) -> None:
    """Hundreds of requests written just before the signal get answers: no other than done or shutting_down."""
    client = daemon.client()
    client.ask("ping")
    client.sock.sendall(b"".join(b'{"op":"upsert","rid":%d}\n' % n for n in range(100)))
    daemon.signal(signal.SIGTERM)
    answers = [json.loads(line) for line in client.rest().splitlines()]
    assert daemon.wait() == 0
    assert [answer["rid"] for answer in answers] == list(range(100))
    done = sum("ok" in answer for answer in answers)
    assert all(answer["error"]["code"] == "shutting_down" for answer in answers[done:])
    with running(daemon.directory) as after:
        assert len(after.client().ask("list")["nodes"]) == done


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_daemon_leaves_in_order_on_other_signals_too(directory: Path, number: int) -> None:
    """As from a terminal."""
    with running(directory) as daemon:
        daemon.signal(number)
        assert daemon.wait() == 0
        assert not daemon.path.exists()


def test_daemon_leaves_on_shutdown(daemon: Daemon) -> None:
    """The request is answered before the end."""
    client = daemon.client()
    assert client.ask("shutdown") == {}
    assert client.rest() == b""
    assert daemon.wait() == 0


@pytest.mark.parametrize("what", ["directory", "lock", "sock"])
def test_daemon_whose_place_was_taken_says_so_and_leaves(directory: Path, what: str) -> None:
    """It does not touch what is there now."""
    with running(directory) as daemon:
        if what == "directory":
            shutil.move(directory, directory.with_name("elsewhere"))
            directory.mkdir(mode=0o700)
        else:
            (directory / what).unlink()
            (directory / what).touch()
        assert daemon.wait() == 74
        assert "no longer" in daemon.stderr
        assert directory.exists()
        if what != "directory":
            assert (directory / what).exists()


def test_daemon_leaves_a_socket_that_is_not_its_own(directory: Path) -> None:
    """A usurper's socket at its path stays, and the state is intact for the next daemon."""
    with running(directory) as daemon, socket.socket(socket.AF_UNIX) as usurper:
        daemon.client().ask("upsert")
        daemon.path.unlink()
        usurper.bind(str(daemon.path))
        assert daemon.wait() == 74
        assert daemon.path.is_socket()
    with running(directory) as after:
        assert len(after.client().ask("list")["nodes"]) == 1


def test_daemon_with_a_socket_elsewhere_never_evicts_the_one_there(directory: Path, short_dir: Path) -> None:
    """Two directories, one socket: the directory's own lock would not tell."""
    path = short_dir / "common"
    first = Daemon(directory, "--socket", str(path))
    try:
        first.path = path
        first.until_up()
        second = Daemon(short_dir / "other", "--socket", str(path))
        assert second.wait() == 75
        with Client(path) as client:
            assert client.ask("hello")["pid"] == first.pid
        assert first.terminate() == 0
        assert not path.exists()
    finally:
        first.end()


def test_socket_path_too_long_is_refused_by_name(short_dir: Path) -> None:
    """Before anything is made."""
    directory = short_dir / ("x" * 100)
    daemon = Daemon(directory)
    assert daemon.wait() == 77
    assert str(directory) in daemon.stderr
    assert "107" in daemon.stderr
    assert not directory.exists()


@pytest.mark.parametrize("kind", ["foreign", "writable", "link"])
def test_directory_that_cannot_be_trusted_is_refused(short_dir: Path, kind: str) -> None:
    """With the reason, and untouched."""
    directory = short_dir / "claimdag"
    match kind:
        case "foreign":
            if os.geteuid() != 0:
                pytest.skip("only root can make a directory of another user")
            directory.mkdir(mode=0o700)
            os.chown(directory, 65534, 65534)
        case "writable":
            directory.mkdir()
            directory.chmod(0o777)
        case _:
            (short_dir / "good").mkdir(mode=0o700)
            directory.symlink_to(short_dir / "good")
    daemon = Daemon(directory)
    assert daemon.wait() == 77
    assert str(directory) in daemon.stderr
    assert len(daemon.stderr.splitlines()) == 1
    assert list(directory.iterdir()) == []


def test_damaged_state_is_refused_with_the_way_out(directory: Path) -> None:
    """Nothing is overwritten; --salvage takes what can be read and keeps a copy."""
    with running(directory) as daemon:
        for n in range(3):
            daemon.client().ask("upsert", summary=f"node {n}")
        daemon.kill()
    journal = directory / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    damaged = b"".join([*lines[:2], b"rubbish\n", *lines[3:]])
    journal.write_bytes(damaged)
    refused = Daemon(directory)
    assert refused.wait() == 65
    assert "journal.jsonl" in refused.stderr
    assert "--salvage" in refused.stderr
    assert journal.read_bytes() == damaged
    with running(directory, "--salvage") as salvaged:
        taken = {node["summary"] for node in salvaged.client().ask("list")["nodes"]}
        assert "node 0" in taken
        assert "node 1" not in taken
    kept = [path.read_bytes() for path in directory.rglob("*journal.jsonl*") if path != journal]
    assert damaged in kept


def test_daemon_out_of_descriptors_backs_off_and_recovers(directory: Path) -> None:
    """Those who are connected are served meanwhile, and the others as soon as there is room."""
    limit = ("prlimit", "--nofile=64:64")
    if not shutil.which("prlimit"):
        pytest.skip("prlimit is not installed")
    daemon = Daemon(directory, prefix=limit)
    try:
        daemon.until_up()
        first = daemon.client()
        first.ask("ping")
        held = [daemon.client() for _ in range(80)]
        for _ in range(3):
            first.ask("upsert")
        late = held[-1]
        late.send("ping")
        for client in held[:60]:
            client.close()
        assert "ok" in late.answer()
        daemon.terminate()
        assert "new ones wait" in daemon.stderr
        assert "again" in daemon.stderr
    finally:
        daemon.end()


def test_daemon_that_was_started_for_a_client_leaves_when_it_is_not_needed(directory: Path) -> None:
    """--idle-exit: not while somebody is there or work is unfinished."""
    with running(directory, "--idle-exit", "0.5") as daemon:
        client = daemon.client()
        node = client.ask("upsert")
        client.close()
        time.sleep(1.2)
        with daemon.client() as client:
            client.ask("complete", id=node["id"])
            time.sleep(0.8)
            client.ask("ping")
        assert daemon.wait() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can connect as another user")
def test_connection_of_another_user_is_refused(daemon: Daemon) -> None:
    """Even where the modes would let it through."""
    daemon.directory.chmod(0o711)
    daemon.directory.parent.chmod(0o711)
    daemon.path.chmod(0o666)
    code = (
        "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.settimeout(9)\n"
        'try: s.sendall(b\'{"op":"ping"}\\n\'); print(s.recv(100))\n'
        "except (BrokenPipeError, ConnectionResetError): print(b'')"
    )
    result = subprocess.run([sys.executable, "-I", "-c", code, str(daemon.path)], capture_output=True, text=True)
    assert result.stdout.strip() == "b''", result.stderr
    daemon.terminate()
    assert "user 65534" in daemon.stderr


def test_daemon_adopts_a_socket_and_tells_systemd(directory: Path, short_dir: Path) -> None:
    """LISTEN_FDS, READY with a status, the watchdog, STOPPING, and the socket left alone."""
    directory.mkdir(mode=0o700)
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(str(short_dir / "notify"))
    notify.settimeout(10)
    with socket.socket(socket.AF_UNIX) as sock, notify:
        sock.bind(str(directory / "sock"))
        sock.listen()
        # As systemd does: the descriptor is 3, and LISTEN_PID the pid that the daemon will have.
        become = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid());"
            "os.execv(sys.argv[2], sys.argv[2:])"
        )
        prefix = (sys.executable, "-c", become, str(sock.fileno()))
        environ = {"LISTEN_FDS": "1", "NOTIFY_SOCKET": str(short_dir / "notify"), "WATCHDOG_USEC": "300000"}
        daemon = Daemon(directory, prefix=prefix, env={**os.environ, **environ}, pass_fds=[sock.fileno()])
        try:
            daemon.until_up()
            said = notify.recv(4096).decode()
            assert said.startswith("READY=1\n")
            assert "STATUS=" in said
            beats = {notify.recv(4096).decode().split("=")[0] for _ in range(4)}
            assert "WATCHDOG" in beats
            assert daemon.terminate() == 0
            while not (said := notify.recv(4096).decode()).startswith("STOPPING=1"):
                pass
            assert daemon.path.is_socket()
        finally:
            daemon.end()


def test_lock_is_not_passed_on_to_children(daemon: Daemon) -> None:
    """What the daemon opened is closed on exec, so that no child of it keeps the next daemon out."""
    for fd in os.listdir(f"/proc/{daemon.pid}/fd"):
        flags = Path(f"/proc/{daemon.pid}/fdinfo/{fd}").read_text().split("flags:")[1].split()[0]
        assert int(fd) < 3 or int(flags, 8) & os.O_CLOEXEC, os.readlink(f"/proc/{daemon.pid}/fd/{fd}")
    with (daemon.directory / "lock").open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    "arguments", [["--max-nodes", "0"], ["--lease", "nan"], ["--grace", "-1"], ["--durability", "x"], ["more"]]
)
def test_arguments_that_make_no_sense_are_a_usage_error(short_dir: Path, arguments: list[str]) -> None:
    """Status 2, and nothing made."""
    daemon = Daemon(short_dir / "d", *arguments)
    assert daemon.wait() == 2
    assert not (short_dir / "d").exists()
