"""Other users of the machine: kept out by the directory, and by the peer's uid where the modes would let them in."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.security.users import ALICE, MALLORY, as_user, client, daemon, needs_root, said
from tests.support.daemon import Client, running

pytestmark = [needs_root, pytest.mark.slow]
DEFAULT = Path(f"/tmp/claimdag-{ALICE}")

CONNECT = """
s = socket.socket(socket.AF_UNIX)
s.settimeout(9)
try:
    s.connect({path!r})
    s.sendall(b'{{"op":"hello"}}\\n')
    print(s.recv(4096))
except OSError as exc:
    print(type(exc).__name__)
"""


@pytest.fixture
def open_dir(short_dir: Path) -> Path:
    """A directory that everybody may pass through."""
    short_dir.chmod(0o755)
    return short_dir


@pytest.fixture
def default_place() -> Iterator[Path]:
    """The place in /tmp that a user without a home or a runtime directory has: free before, gone after."""
    if os.path.lexists(DEFAULT):
        pytest.skip(f"{DEFAULT} is in use")
    yield DEFAULT
    if DEFAULT.is_symlink() or DEFAULT.is_file():
        DEFAULT.unlink()
    else:
        shutil.rmtree(DEFAULT, ignore_errors=True)


def test_stranger_does_not_even_reach_the_socket(open_dir: Path) -> None:
    """The directory's mode alone keeps another user out, of the socket and of every file in it (law 7.9)."""
    with running(open_dir / "claimdag") as served:
        path = str(served.path)
        status, out, err = said(as_user(MALLORY, CONNECT.format(path=path)))
        assert (status, out.strip()) == (0, "PermissionError"), err
        place = str(served.directory)
        code = f"print([n for n in ('journal.jsonl', 'lock', 'sock') if os.access({place!r} + '/' + n, os.F_OK)])"
        assert said(as_user(MALLORY, code))[1].strip() == "[]"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_stranger_whom_the_modes_let_in_is_refused_unheard(open_dir: Path, backend: str) -> None:
    """Whatever was done to the modes, another user's connection is closed before a byte of it is looked at."""
    with running(open_dir / "claimdag", "--backend", backend) as served:
        os.chmod(served.directory, 0o755)
        os.chmod(served.path, 0o666)
        status, out, err = said(as_user(MALLORY, CONNECT.format(path=str(served.path))))
        assert status == 0, err
        assert out.strip() in ("b''", "BrokenPipeError", "ConnectionResetError")
        with served.client() as own:
            assert own.ask("stats")["connections"] == 1
        served.terminate()
    assert f"user {MALLORY}" in served.stderr


def _closed_to_others() -> str | None:
    """The first directory above the installed packages that another user may not pass, if there is one."""
    package = Path(anyio.__file__).resolve()
    return next((str(place) for place in package.parents if not place.stat().st_mode & stat.S_IXOTH), None)


@pytest.mark.skipif(_closed_to_others() is not None, reason="the packages are in a directory closed to others")
def test_even_root_is_another_user(open_dir: Path) -> None:
    """The daemon of a user serves that user: root has other ways, and this is none of them."""
    place = open_dir / "theirs"
    place.mkdir()
    os.chown(place, ALICE, ALICE)
    process = daemon(ALICE, "--dir", str(place / "d"))
    try:
        _until_listens(place / "d" / "sock", process)
        with pytest.raises((EOFError, OSError)), Client(place / "d" / "sock") as intruder:
            intruder.ask("hello")
        status, _, err = client(ALICE, "--dir", str(place / "d"), "ping")
        assert status == 0, err
    finally:
        process.terminate()
        said(process)


def test_client_tells_nothing_to_another_users_daemon(open_dir: Path) -> None:
    """A socket that somebody else listens at is recognised by the peer's uid; what was to be said is not said."""
    path = open_dir / "trap"
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as trap:
        trap.bind(str(path))
        path.chmod(0o666)
        trap.listen()
        trap.settimeout(20)
        thread = threading.Thread(target=_overhear, args=(trap, heard))
        thread.start()
        status, _, err = client(ALICE, "--socket", str(path), "upsert", "--summary", "a secret")
        thread.join()
    assert status == 69
    assert "belongs to user 0" in err
    assert b"".join(heard) == b""


# ------------------------------------------------------------------------------------------- what was planted in /tmp


def test_place_in_tmp_that_somebody_else_made_is_refused(default_place: Path) -> None:
    """Mallory makes Alice's directory before her, with a socket in it: neither her daemon nor her client goes near."""
    default_place.mkdir(mode=0o777)
    with socket.socket(socket.AF_UNIX) as trap:
        trap.bind(str(default_place / "sock"))
        trap.listen()
        trap.setblocking(False)
        for name in (default_place, default_place / "sock"):
            os.chown(name, MALLORY, MALLORY)
            os.chmod(name, 0o777)
        before = _listing(default_place)
        status, _, err = said(daemon(ALICE))
        assert status == 77
        assert f"belongs to user {MALLORY}" in err
        status, _, err = client(ALICE, "upsert", "--summary", "a secret")
        assert status == 69
        assert str(default_place) in err
        assert _listing(default_place) == before
        try:
            peer, _ = trap.accept()
        except BlockingIOError:
            return
        with peer:
            peer.settimeout(5)
            assert peer.recv(100) == b""


@pytest.mark.parametrize("whose", [ALICE, MALLORY])
def test_place_in_tmp_that_is_a_symlink_is_never_followed(default_place: Path, open_dir: Path, whose: int) -> None:
    """A link in the place of the directory is refused, whoever's directory it leads to."""
    target = open_dir / "target"
    target.mkdir(mode=0o700)
    os.chown(target, whose, whose)
    default_place.symlink_to(target)
    os.lchown(default_place, MALLORY, MALLORY)
    status, _, err = said(daemon(ALICE))
    assert status == 77
    assert "symbolic link" in err
    assert list(target.iterdir()) == []


PLANTED = ["lock", "sock", "journal.jsonl", "journal.jsonl.tmp", "snapshot.jsonl", "snapshot.jsonl.tmp"]


@pytest.mark.parametrize("name", PLANTED)
def test_symlink_planted_inside_is_never_written_through(open_dir: Path, name: str) -> None:
    """Even in a directory that was open to others once: what a link leads to is not touched."""
    victim = open_dir / "victim"
    victim.write_text("precious")
    place = open_dir / "claimdag"
    place.mkdir(mode=0o700)
    (place / name).symlink_to(victim)
    try:
        with running(place) as served:
            served.client().ask("upsert", summary="one")
            served.client().ask("checkpoint")
            served.terminate()
    except AssertionError as exc:
        assert "claimdagd ended with" in str(exc)  # noqa: PT017 - it refuses, or it replaces the link: both are right
    assert victim.read_text() == "precious"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644


def test_directory_that_others_may_write_is_refused(open_dir: Path) -> None:
    """Group or world writable: somebody may have planted anything."""
    place = open_dir / "claimdag"
    for mode in (0o770, 0o707, 0o777, 0o1777):
        place.mkdir(exist_ok=True)
        place.chmod(mode)
        os.chown(place, ALICE, ALICE)
        status, _, err = said(daemon(ALICE, "--dir", str(place)))
        assert status == 77
        assert "others may write it" in err
        assert list(place.iterdir()) == []


@pytest.mark.parametrize("umask", ["000", "022", "077", "777"])
def test_modes_are_private_under_any_umask(open_dir: Path, umask: str) -> None:
    """Directory 0700 and every file in it 0600, also those of a snapshot and of a salvage."""
    place = open_dir / "claimdag"
    with running(place, umask=int(umask, 8)) as served:
        served.client().ask("upsert", summary="one")
        served.client().ask("checkpoint")
        served.terminate()
    (place / "journal.jsonl").write_bytes(b"damaged\n")
    with running(place, "--salvage", umask=int(umask, 8)) as served:
        served.client().ask("checkpoint")
        modes = {path.relative_to(place): stat.S_IMODE(path.lstat().st_mode) for path in place.rglob("*")}
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        for path, mode in modes.items():
            assert mode == (0o700 if (place / path).is_dir() else 0o600), path
        assert any("salvage" in str(path) for path in modes)


def _listing(place: Path) -> list[tuple[str, int, int]]:
    return sorted((path.name, path.lstat().st_uid, path.lstat().st_ino) for path in place.iterdir())


def _overhear(trap: socket.socket, heard: list[bytes]) -> None:
    peer, _ = trap.accept()
    with peer:
        peer.settimeout(10)
        try:
            while data := peer.recv(4096):
                heard.append(data)
        except OSError:
            pass


def _until_listens(path: Path, process: subprocess.Popen[str]) -> None:
    give_up_at = time.monotonic() + 20
    while not path.is_socket():
        assert process.poll() is None, said(process)
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
