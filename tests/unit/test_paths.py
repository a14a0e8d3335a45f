"""The choice of directory and socket, and the modes of what is made."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from claimdagd.limits import SOCKET_PATH_MAX_BYTES
from claimdagd.paths import (
    PROJECT_FILE,
    UnsafePathError,
    check_graph_name,
    check_socket_path,
    choose_directory,
    graph_name,
    locate,
    make_directory,
    open_private,
    project_graph,
)

UID = os.geteuid()

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


def located(**given: str | None) -> tuple[str, str]:
    """Directory and socket for options in lower case and an environment in upper case."""
    environ = {name: value for name, value in given.items() if name.isupper() and value is not None}
    found = locate(given.get("socket"), given.get("directory"), given.get("graph"), environ, UID)
    return found.directory, found.socket


@pytest.fixture
def project(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project below the home directory that is bound to the graph `site`; the working directory is inside it."""
    inside = short_dir / "home" / "project" / "src"
    inside.mkdir(parents=True)
    (inside.parent / PROJECT_FILE).write_text('graph = "site"\n')
    monkeypatch.chdir(inside)
    return inside.parent


def test_locate_takes_the_first_that_is_given(project: Path) -> None:
    """--socket, --dir, --graph, CLAIMDAG_SOCKET, CLAIMDAG_DIR, CLAIMDAG_GRAPH, project file, default (law 11.2)."""
    base = str(project.parent.parent)
    given: dict[str, str | None] = {
        "socket": "/s", "directory": "/d", "graph": "g", "CLAIMDAG_SOCKET": "/S", "CLAIMDAG_DIR": "/D",
        "CLAIMDAG_GRAPH": "G", "XDG_RUNTIME_DIR": base, "HOME": str(project.parent),
    }  # fmt: skip
    assert located(**given) == ("/d/graphs/g", "/s")
    del given["socket"]
    assert located(**given) == ("/d/graphs/g", "/d/graphs/g/sock")
    assert located(**{**given, "graph": None}) == ("/d", "/d/sock")
    del given["directory"]
    assert located(**given) == ("/D/graphs/g", "/D/graphs/g/sock")
    del given["graph"]
    assert located(**given) == ("/D", "/S")
    del given["CLAIMDAG_SOCKET"]
    assert located(**given) == ("/D", "/D/sock")
    del given["CLAIMDAG_DIR"]
    assert located(**given) == (f"{base}/claimdag/graphs/G", f"{base}/claimdag/graphs/G/sock")
    del given["CLAIMDAG_GRAPH"]
    assert located(**given) == (f"{base}/claimdag/graphs/site", f"{base}/claimdag/graphs/site/sock")
    (project / PROJECT_FILE).unlink()
    assert located(**given) == (f"{base}/claimdag", f"{base}/claimdag/sock")


def test_locate_takes_empty_variables_for_none(project: Path) -> None:
    """As a shell that clears a variable for one command leaves it."""
    base = str(project.parent.parent)
    empty = dict.fromkeys(("CLAIMDAG_SOCKET", "CLAIMDAG_DIR", "CLAIMDAG_GRAPH"), "")
    assert located(**empty, XDG_RUNTIME_DIR=base)[0] == f"{base}/claimdag/graphs/site"


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "-", "_", "0", "x" * 64])
def test_graph_name_is_taken(name: str) -> None:
    """Letters, digits, dot, underscore and hyphen (law 11.1)."""
    check_graph_name(name)
    assert graph_name(f"/d/graphs/{name}") == name
    assert graph_name("/d/claimdag") is None


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a b", "a\n", "ä", "x" * 65, "a\0"])
def test_graph_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    """It becomes a part of a path."""
    with pytest.raises(UnsafePathError, match="not the name of a graph"):
        located(graph=name, CLAIMDAG_DIR="/D")


def test_project_file_is_not_looked_for_past_the_home_directory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is above belongs to others; in the home directory itself it counts (law 11.3)."""
    home = project.parent
    (project / PROJECT_FILE).rename(home.parent / PROJECT_FILE)
    assert project_graph({"HOME": str(home)}, UID) is None
    (home.parent / PROJECT_FILE).rename(home / PROJECT_FILE)
    assert project_graph({"HOME": str(home)}, UID) == "site"
    monkeypatch.chdir("/")
    assert project_graph({"HOME": str(home)}, UID) is None


def test_project_file_without_a_working_directory_is_none(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that was removed is in no project."""
    (short_dir / "gone").mkdir()
    monkeypatch.chdir(short_dir / "gone")
    (short_dir / "gone").rmdir()
    assert project_graph({"HOME": "/nonexistent"}, UID) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('graph = "site"', "site"),
        ('# a comment\n\ngraph="a-b"\n', "a-b"),
        ("graph = 'a.b'  # why\n", "a.b"),
        ('other = 1\ngraph = "a_b"\n[later]\nx = 2\n', "a_b"),
        ('graph = "\\u0061"', "a"),
    ],
)
def test_project_file_is_toml(project: Path, text: str, name: str) -> None:
    """The line that `init` writes is read without a parser; everything else by one."""
    (project / PROJECT_FILE).write_text(text)
    assert project_graph({"HOME": str(project.parent)}, UID) == name


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_text("graph = site"), "not valid TOML"),
        (lambda path: path.write_bytes(b'graph = "\xff"'), "not valid TOML"),
        (lambda path: path.write_text('graph = "a/b"'), "its graph is 'a/b', which is not the name"),
        (lambda path: path.write_text('graph = ""'), "which is not the name"),
        (lambda path: path.write_text("graph = 3"), "names no graph"),
        (lambda path: path.write_text(""), "names no graph"),
        (os.mkdir, "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.symlink_to("/etc/hostname"), "symbolic link out of its project"),
        (lambda path: path.symlink_to("../../elsewhere.toml"), "symbolic link out of its project"),
        (lambda path: path.symlink_to(path.name), "cannot be read"),
        (lambda path: path.symlink_to("missing.toml"), "cannot be read"),
    ],
)
def test_project_file_that_cannot_be_trusted_is_refused_by_name(
    project: Path, make: Callable[[Path], object], reason: str
) -> None:
    """To pass over it in silence would hand out another graph's work (law 11.3)."""
    path = project / PROJECT_FILE
    path.unlink()
    make(path)
    with pytest.raises(UnsafePathError, match=reason) as refusal:
        project_graph({"HOME": str(project.parent)}, UID)
    assert refusal.value.path == os.path.realpath(project) + "/" + PROJECT_FILE
    assert refusal.value.remedy


@pytest.mark.skipif(UID != 0, reason="only root can make files of another user")
def test_project_file_of_another_user_is_refused(project: Path) -> None:
    """Who may write it would choose whose work is handed out (law 11.3)."""
    os.chown(project / PROJECT_FILE, 65534, 65534)
    with pytest.raises(UnsafePathError, match="belongs to user 65534"):
        project_graph({"HOME": str(project.parent)}, UID)


def test_project_file_that_is_a_link_inside_its_project_is_read(project: Path) -> None:
    """Such as one that is kept with other settings."""
    (project / PROJECT_FILE).rename(project / "settings.toml")
    (project / PROJECT_FILE).symlink_to("settings.toml")
    assert project_graph({"HOME": str(project.parent)}, UID) == "site"


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
