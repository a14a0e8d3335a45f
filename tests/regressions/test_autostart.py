"""A daemon that the command line starts: its environment, its log, odd places, and shells that are short of things."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimdag_client import connect as connect_async
from claimdag_client._transport.autostart import Autostart, daemon_command, daemon_environment
from claimdag_client._transport.endpoint import Endpoint
from claimdag_client._transport.transport import connect
from claimdag_client.errors import Mismatch, Unreachable

CLAIMDAG = f"{sys.executable} -P -m claimdag_client.cli"
ROOT = Path(__file__).parents[2]


def shell(script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a script in which `claimdag` is the command line, with nothing but `environ` and a path."""
    return subprocess.run(
        ["sh", "-c", f'claimdag() {{ {CLAIMDAG} "$@"; }}; {script}'],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environ},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.fixture
def place(short_dir: Path) -> Iterator[Path]:
    """A directory whose daemon, if one was started, is told to leave at the end."""
    yield short_dir
    shell(f"claimdag --dir {short_dir} --no-start shutdown")


@pytest.mark.slow
def test_an_autostarted_daemon_keeps_nothing_of_the_shell_but_its_place_and_locale(place: Path) -> None:
    """No secret, nothing that steers Python or the loader, nothing of the claim or service that the shell runs in.

    Law 9.9.
    """
    kept = {"XDG_DATA_DIRS": "/x", "HOME": str(place), "LC_ALL": "C.UTF-8", "LANG": "C", "CLAIMDAG_FOO": "1"}
    dropped = {
        "GITHUB_TOKEN": "secret", "PYTHONWARNINGS": "error", "PYTHONPATH": "/nonexistent", "LD_LIBRARY_PATH": "/x",
        "NOTIFY_SOCKET": "/x", "LISTEN_PID": "1", "CLAIMDAG_ID": "7q2f-1", "CLAIMDAG_GEN": "2", "CLAIMDAG_SUMMARY": "x",
        "http_proxy": "http://user:password@host",
    }  # fmt: skip
    ran = shell(f"claimdag --dir {place} hello --json", **kept, **dropped)
    environ = Path(f"/proc/{json.loads(ran.stdout)['pid']}/environ").read_bytes().split(b"\0")
    found = dict(line.decode().split("=", 1) for line in environ if line)
    # A /bin/sh that is bash adds two of its own.
    assert {k: v for k, v in found.items() if k not in ("_", "SHLVL")} == {**kept, "PATH": os.environ["PATH"]}


def test_the_environment_of_a_daemon_is_chosen_by_name() -> None:
    """Without a daemon."""
    given = {"HOME": "/h", "PATH": "/p", "LC_CTYPE": "C", "XDG_RUNTIME_DIR": "/r", "CLAIMDAG_DIR": "/d", "AWS_KEY": "x"}
    assert daemon_environment(given) == {k: v for k, v in given.items() if k != "AWS_KEY"}


@pytest.mark.slow
def test_a_package_found_by_pythonpath_alone_starts_its_daemon(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon does not get PYTHONPATH, and needs its package all the same."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    command = daemon_command("/d", "/s")
    assert str(ROOT) in command
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.setattr(sys, "path", [""])
    monkeypatch.chdir("/")
    assert "-m" in daemon_command("/d", "/s")
    assert shell(f"claimdag --dir {place} ping", PYTHONPATH=str(ROOT)).stdout == "pong\n"


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "2>&-", ">&- 2>&-", "<&-"])
def test_a_shell_with_closed_outputs_gets_a_daemon_whose_failure_is_in_the_log(place: Path, closed: str) -> None:
    """The log takes no number of a standard stream, so nothing else is written to it or in its place."""
    (place / "lock").mkdir()
    ran = shell(f"claimdag --dir {place} ping {closed}")
    assert ran.returncode == 69
    assert "lock" in (place / "daemon.log").read_text()
    (place / "lock").rmdir()
    assert shell(f"claimdag --dir {place} ping {closed}").returncode in (0, 74)
    for name in ("journal.jsonl", "lock"):
        for line in (place / name).read_text().splitlines():
            assert "claimdagd[" not in line


@pytest.mark.parametrize("kind", ["fifo", "directory", "link", "dangling"])
def test_a_log_that_is_no_file_is_named(place: Path, kind: str) -> None:
    """A pipe must not be waited for, a link not followed."""
    log = place / "daemon.log"
    if kind == "fifo":
        os.mkfifo(log)
    elif kind == "directory":
        log.mkdir()
    else:
        log.symlink_to("/etc/hostname" if kind == "link" else "/nonexistent/log")
    with pytest.raises(Unreachable, match=rf"its log {log} cannot be written: it is a") as caught:
        connect(Endpoint(directory=str(place)))
    assert "--dir" in caught.value.remedy


def test_a_log_that_may_not_be_written_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user who is not its owner."""
    (place / "daemon.log").touch()

    def refused(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("claimdagd.paths.open_private", refused)
    with pytest.raises(Unreachable, match=rf"{place}/daemon.log cannot be written: Permission denied"):
        Autostart(Endpoint(directory=str(place))).ensure_running()


@pytest.mark.parametrize("target", ["/nonexistent/sock", "sock2"])
def test_a_socket_that_is_a_link_to_nothing_is_named(place: Path, target: str) -> None:
    """No daemon is started for it: it could not listen there."""
    (place / "sock").symlink_to(target)
    with pytest.raises(Unreachable, match=f"{place}/sock is a symbolic link to {target}") as caught:
        connect(Endpoint(directory=str(place)))
    assert "remove the link" in caught.value.remedy
    assert [path.name for path in place.iterdir()] == ["sock"]


def test_a_socket_link_that_leads_to_itself_or_through_a_file_is_named(place: Path) -> None:
    """Whatever the system says of the path."""
    (place / "loop").symlink_to(place / "loop")
    (place / "file").touch()
    for path in (place / "loop", place / "file" / "sock"):
        with pytest.raises(Unreachable, match=str(path)) as caught:
            connect(Endpoint(str(path)))
        assert "name another" in caught.value.remedy


@pytest.mark.slow
@pytest.mark.parametrize("limit", [6, 12, 19, 40])
def test_a_shell_with_few_descriptors_is_told_how_many_are_needed(place: Path, limit: int) -> None:
    """Not a daemon that fails, nor a traceback."""
    ran = shell(f"ulimit -n {limit}; claimdag --dir {place} ping")
    assert ran.returncode == 69
    assert f"only {limit} open files" in ran.stderr
    assert "ulimit" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.slow
def test_a_descriptor_from_before_the_limit_was_lowered_is_no_obstacle(place: Path) -> None:
    """Bash and its like keep descriptors at 255; the daemon gets none of them."""
    reader, writer = os.pipe()
    high = 200
    os.dup2(writer, high, inheritable=True)
    os.close(writer)
    try:
        ran = subprocess.run(
            ["sh", "-c", f"ulimit -n 100; {CLAIMDAG} --dir {place} ping"],
            pass_fds=[high], capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    finally:
        os.close(high)
    assert (ran.returncode, ran.stdout) == (0, "pong\n"), ran.stderr
    # Only the end of the last writer lets this return.
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_no_connection_for_want_of_descriptors_is_said_so(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket itself is the one too many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
    hold = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
    try:
        while True:
            try:
                hold.append(os.dup(hold[0]))
            except OSError:
                break
        with pytest.raises(Unreachable, match="Too many open files") as caught:
            connect(Endpoint(directory=str(place), start=False))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in hold:
            os.close(fd)
    assert "ulimit" in caught.value.remedy


@pytest.mark.parametrize(("mode", "remedy"), [(0o1777, "such as "), (0o777, "chmod 700"), (0o720, "chmod 700")])
def test_a_directory_that_others_write_is_refused_with_a_remedy_that_harms_nobody(
    place: Path, mode: int, remedy: str
) -> None:
    """A shared directory such as /tmp must not be taken from its users."""
    place.chmod(mode)
    with pytest.raises(Unreachable, match=f"mode {mode:04o}") as caught:
        connect(Endpoint(directory=str(place)))
    assert remedy in caught.value.remedy
    place.chmod(0o700)


def flood(path: str) -> threading.Thread:
    """Something that is no daemon: it sends a line that never ends."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)

    def serve() -> None:
        peer, _ = listener.accept()
        with peer, listener:
            try:
                while True:
                    peer.sendall(b"x" * 65536)
            except OSError:
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def test_a_line_without_end_is_no_hello(place: Path) -> None:
    """The memory is not filled with it."""
    thread = flood(str(place / "flood"))
    with pytest.raises(Mismatch, match="does not speak"):
        connect(Endpoint(str(place / "flood"), start=False))
    thread.join(10)


@pytest.mark.anyio
async def test_a_line_without_end_is_no_hello_to_the_async_client(place: Path) -> None:
    """On both event loops."""
    thread = flood(str(place / "flood"))
    with pytest.raises(Mismatch, match="does not speak"):
        async with connect_async(str(place / "flood")):
            pass
    thread.join(10)
