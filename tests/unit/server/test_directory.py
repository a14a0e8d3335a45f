"""Which directory is chosen, and which ones are refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from claimdagd.server.host.directory import (
    SOCKET_PATH_MAX_BYTES,
    Unsafe,
    check_socket_path,
    choose_directory,
    choose_socket,
    open_directory,
)

UID = os.geteuid()
as_root = pytest.mark.skipif(UID != 0, reason="only root can make files of another user")


def test_choose_directory_goes_down_the_list_of_bases(short_dir: Path) -> None:
    """--dir, CLAIMDAG_DIR, the runtime directory, the state directory, the home directory, /tmp (law 9.5)."""
    environ = {"HOME": str(short_dir), "XDG_STATE_HOME": "/state", "XDG_RUNTIME_DIR": str(short_dir)}
    environ["CLAIMDAG_DIR"] = "/named"
    assert choose_directory("/given", environ, 7) == "/given"
    assert choose_directory(None, environ, 7) == "/named"
    del environ["CLAIMDAG_DIR"]
    assert choose_directory(None, environ, 7) == f"{short_dir}/claimdag"
    environ["XDG_RUNTIME_DIR"] = f"{short_dir}/gone"
    assert choose_directory(None, environ, 7) == "/state/claimdag"
    environ["XDG_STATE_HOME"] = "relative"
    assert choose_directory(None, environ, 7) == f"{short_dir}/.local/state/claimdag"
    environ["HOME"] = "/nonexistent"
    assert choose_directory(None, environ, 7) == "/tmp/claimdag-7"


@pytest.mark.parametrize("runtime", ["there", "missing", ""])
@pytest.mark.parametrize("state", ["/state", ""])
@pytest.mark.parametrize("home", ["there", "/nonexistent"])
@pytest.mark.parametrize("named", ["/named", ""])
@pytest.mark.parametrize("sock", ["/elsewhere/sock", ""])
def test_choice_is_the_one_that_clients_make(
    short_dir: Path, runtime: str, state: str, home: str, named: str, sock: str
) -> None:
    """The client has its own copy of the rule, because it may not import the daemon: they must not differ."""
    connection = pytest.importorskip("claimdag_client._transport.connection")
    (short_dir / "there").mkdir()
    environ = {
        "XDG_RUNTIME_DIR": f"{short_dir}/{runtime}" if runtime else "",
        "XDG_STATE_HOME": state,
        "HOME": f"{short_dir}/{home}" if home == "there" else home,
        "CLAIMDAG_DIR": named,
        "CLAIMDAG_SOCKET": sock,
    }
    directory = choose_directory(None, environ, os.getuid())
    assert directory == connection.directory_of(None, environ)
    assert choose_socket(None, environ, directory) == connection.socket_of(None, None, environ)


def test_choose_socket_is_in_the_directory_unless_it_is_named() -> None:
    """--socket, else CLAIMDAG_SOCKET, else DIR/sock."""
    assert choose_socket("/a", {"CLAIMDAG_SOCKET": "/b"}, "/d") == "/a"
    assert choose_socket(None, {"CLAIMDAG_SOCKET": "/b"}, "/d") == "/b"
    assert choose_socket(None, {}, "/d") == "/d/sock"


def test_socket_path_over_the_limit_is_refused_by_name() -> None:
    """Bytes count, not characters (law 9.4)."""
    check_socket_path("/" + "x" * (SOCKET_PATH_MAX_BYTES - 1))
    for path in ("/" + "x" * SOCKET_PATH_MAX_BYTES, "/" + "ä" * 54):
        with pytest.raises(Unsafe, match="107") as refusal:
            check_socket_path(path)
        assert refusal.value.path == path


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o027])
def test_directory_that_is_missing_is_made_private_under_any_umask(short_dir: Path, umask: int) -> None:
    """Also the directories above it, as far as the umask has a say (law 7.9)."""
    path = short_dir / "a" / "claimdag"
    before = os.umask(umask)
    try:
        os.close(open_directory(str(path), UID))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_directory_that_others_may_read_is_made_private(short_dir: Path) -> None:
    """Nobody else could have written there, so it can be trusted from now on."""
    short_dir.chmod(0o755)
    os.close(open_directory(str(short_dir), UID))
    assert stat.S_IMODE(short_dir.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("mode", "remedy"),
    [(0o770, "chmod 700"), (0o702, "chmod 700"), (0o777, "chmod 700"), (0o1777, "name one of your own")],
)
def test_directory_that_others_may_write_is_refused(short_dir: Path, mode: int, remedy: str) -> None:
    """It is left as it was, and the remedy is named; everybody's directory, such as /tmp, is not to be taken away."""
    short_dir.chmod(mode)
    with pytest.raises(Unsafe, match=remedy):
        open_directory(str(short_dir), UID)
    assert stat.S_IMODE(short_dir.stat().st_mode) == mode


def test_directory_below_one_that_everyone_may_write_is_refused(short_dir: Path) -> None:
    """Whoever may rename the directory away may put another in its place; where the sticky bit is set nobody can."""
    above = short_dir / "above"
    above.mkdir()
    (above / "claimdag").mkdir(mode=0o700)
    above.chmod(0o777)
    with pytest.raises(Unsafe, match="not sticky"):
        open_directory(str(above / "claimdag"), UID)
    above.chmod(0o1777)
    os.close(open_directory(str(above / "claimdag"), UID))


def test_symbolic_link_in_the_directory_s_place_is_never_followed(short_dir: Path) -> None:
    """Not even to a good one."""
    (short_dir / "good").mkdir(mode=0o700)
    (short_dir / "link").symlink_to(short_dir / "good")
    (short_dir / "dangling").symlink_to(short_dir / "nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(Unsafe, match="symbolic link"):
            open_directory(str(short_dir / name), UID)
    assert not (short_dir / "nowhere").exists()


def test_file_in_the_directory_s_place_is_refused(short_dir: Path) -> None:
    """And left alone."""
    (short_dir / "file").write_text("mine")
    with pytest.raises(Unsafe, match="not a directory"):
        open_directory(str(short_dir / "file"), UID)
    assert (short_dir / "file").read_text() == "mine"


@as_root
def test_directory_of_another_user_is_refused(short_dir: Path) -> None:
    """As a directory that was planted in /tmp before us is."""
    planted = short_dir / "claimdag"
    planted.mkdir(mode=0o700)
    os.chown(planted, 65534, 65534)
    with pytest.raises(Unsafe, match="belongs to user 65534"):
        open_directory(str(planted), UID)
