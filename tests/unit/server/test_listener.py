"""Binding, adopting, and whose socket file may be taken away."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from claimdagd.server.host.directory import UnsafePathError
from claimdagd.server.host.listener import adopt, bind

UID = os.geteuid()

ADOPT = """
import os, sys
fd = int(sys.argv[1])
os.dup2(fd, 3)
os.environ.update(LISTEN_PID=str(os.getpid() + int(sys.argv[2])), LISTEN_FDS=sys.argv[3], LISTEN_FDNAMES="x")
from claimdagd.server.host.listener import adopt
try:
    listener = adopt(os.environ, os.getpid())
except Exception as exc:
    print("refused", exc)
else:
    print(listener and listener.path, os.get_inheritable(3), sorted(k for k in os.environ if k.startswith("LISTEN")))
    if listener:
        listener.close()
"""


def adopted_by_a_child(sock: socket.socket, *, pid_off: int = 0, count: str = "1") -> str:
    command = [sys.executable, "-c", ADOPT, str(sock.fileno()), str(pid_off), count]
    return subprocess.run(command, pass_fds=[sock.fileno()], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_socket_is_private_from_the_first_instant(short_dir: Path, umask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """When listen is called the mode is right already, whatever the umask; the umask is put back."""
    path = short_dir / "sock"
    seen: list[int] = []

    class Spy(socket.socket):
        def listen(self, backlog: int = 0, /) -> None:
            seen.append(stat.S_IMODE(path.lstat().st_mode))
            super().listen(backlog)

    monkeypatch.setattr(socket, "socket", Spy)
    before = os.umask(umask)
    try:
        listener = bind(str(path), UID)
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert seen == [0o600]
    listener.close()
    assert not path.exists()


def test_stale_socket_is_replaced(short_dir: Path) -> None:
    """The caller has the lock, so what is there belongs to nobody who lives."""
    path = short_dir / "sock"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    listener = bind(str(path), UID)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    assert listener.is_ours()
    listener.close()
    stale.close()


@pytest.mark.parametrize("kind", ["file", "directory", "link", "link to a socket"])
def test_anything_else_in_the_socket_s_place_is_refused_and_left_alone(short_dir: Path, kind: str) -> None:
    """Only a socket is ever unlinked."""
    path = short_dir / "sock"
    target = socket.socket(socket.AF_UNIX)
    target.bind(str(short_dir / "target"))
    match kind:
        case "file":
            path.write_text("mine")
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to(short_dir / "nowhere")
        case _:
            path.symlink_to(short_dir / "target")
    before = path.lstat()
    with pytest.raises(UnsafePathError, match="not a socket"):
        bind(str(path), UID)
    assert path.lstat() == before
    assert (short_dir / "target").exists()
    target.close()


@pytest.mark.skipif(UID != 0, reason="only root can make files of another user")
def test_socket_of_another_user_is_refused(short_dir: Path) -> None:
    """In /tmp it may have been planted."""
    planted = socket.socket(socket.AF_UNIX)
    planted.bind(str(short_dir / "sock"))
    os.chown(short_dir / "sock", 65534, 65534)
    with pytest.raises(UnsafePathError, match="user 65534"):
        bind(str(short_dir / "sock"), UID)
    planted.close()


def test_path_that_was_replaced_is_noticed_and_left_alone(short_dir: Path) -> None:
    """The socket of whoever came after is not unlinked on the way out."""
    path = short_dir / "sock"
    listener = bind(str(path), UID)
    path.unlink()
    assert not listener.is_ours()
    later = bind(str(path), UID)
    assert not listener.is_ours()
    listener.close()
    assert later.is_ours()
    later.close()


def test_socket_passed_by_systemd_is_adopted_and_never_unlinked(short_dir: Path) -> None:
    """The descriptor is not inherited further and the variables are gone."""
    path = short_dir / "sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        sock.listen()
        assert adopted_by_a_child(sock) == f"{path} False []"
        assert path.exists()


def test_variables_meant_for_another_process_are_dropped(short_dir: Path) -> None:
    """As they are when a parent has leaked them."""
    with socket.socket(socket.AF_UNIX) as sock:
        assert adopted_by_a_child(sock, pid_off=1) == "None True []"
        assert adopted_by_a_child(sock, count="0") == "None True []"


def test_passed_socket_that_cannot_be_served_is_refused(short_dir: Path) -> None:
    """Two of them, one that does not listen, one of another kind."""
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_INET) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "2 sockets were passed" in adopted_by_a_child(silent, count="2")
        assert "not a listening Unix stream socket" in adopted_by_a_child(silent)
        assert "not a listening Unix stream socket" in adopted_by_a_child(other)
    assert adopt({}, os.getpid()) is None
