"""The choice of directory and socket, and the modes of what is made."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimdagd.limits import SOCKET_PATH_MAX_BYTES
from claimdagd.paths import (
    UnsafePathError,
    check_socket_path,
    choose_directory,
    choose_socket,
    make_directory,
    open_private,
)

UMASKS = [0o000, 0o022, 0o077, 0o700, 0o777]


@pytest.fixture(params=UMASKS, ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """The process's umask during a test."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


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


def test_choose_socket_is_in_the_directory_unless_it_is_named() -> None:
    """--socket, else CLAIMDAG_SOCKET, else DIR/sock."""
    assert choose_socket("/a", {"CLAIMDAG_SOCKET": "/b"}, "/d") == "/a"
    assert choose_socket(None, {"CLAIMDAG_SOCKET": "/b"}, "/d") == "/b"
    assert choose_socket(None, {}, "/d") == "/d/sock"


def test_socket_path_over_the_limit_is_refused_by_name() -> None:
    """Bytes count, not characters (law 9.4)."""
    check_socket_path("/" + "x" * (SOCKET_PATH_MAX_BYTES - 1))
    for path in ("/" + "x" * SOCKET_PATH_MAX_BYTES, "/" + "ä" * 54):
        with pytest.raises(UnsafePathError, match="107") as refusal:
            check_socket_path(path)
        assert refusal.value.path == path


def test_make_directory_makes_every_missing_one_for_its_owner_alone(tmp_path: Path, umask: int) -> None:
    """The parents too: a `~/.local` that everybody may write would be refused the next time."""
    made = [tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/c"]
    make_directory(str(made[-1]))
    assert [mode_of(path) for path in made] == [0o700] * 3


def test_make_directory_leaves_what_exists_as_it_is(tmp_path: Path, umask: int) -> None:
    """The mode of a directory that somebody else made is not ours to change."""
    path = tmp_path / "d"
    path.mkdir()
    path.chmod(0o755)
    make_directory(str(path))
    make_directory(f"{path}/")
    assert mode_of(path) == 0o755


def test_make_directory_below_a_dangling_link_is_refused(tmp_path: Path) -> None:
    """It ends, with the system's error."""
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        make_directory(str(tmp_path / "link/a/b"))
    assert not (tmp_path / "nothing").exists()


def test_open_private_makes_a_file_for_its_owner_alone(tmp_path: Path, umask: int) -> None:
    """Whatever the umask adds or takes away; the second time it is opened as it is."""
    path = tmp_path / "log"
    os.close(open_private(str(path), os.O_WRONLY | os.O_APPEND))
    assert mode_of(path) == 0o600
    path.chmod(0o640)
    os.close(open_private(str(path), os.O_RDONLY))
    assert mode_of(path) == 0o640


def test_open_private_refuses_links_pipes_and_directories(tmp_path: Path) -> None:
    """A pipe is not waited for, a link not followed, and nothing is made at its other end."""
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    for name in ("link", "pipe", "directory"):
        for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
            with pytest.raises(OSError, match=r".+"):
                open_private(str(tmp_path / name), flags)
    assert not (tmp_path / "target").exists()
