"""The real file layer: each operation does what the Files protocol says, and the disk in memory does the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimdagd.store.files import Files, OsFiles
from tests.simulation.fault_disk import Disk


@pytest.fixture(params=["real", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Files, str]]:
    """A file layer and a directory in it."""
    if request.param == "real":
        yield OsFiles(), str(tmp_path)
    else:
        yield Disk("/d"), "/d"


def test_files_append_read_truncate(place: tuple[Files, str]) -> None:
    """Writes go to the end, also after a truncation; reads leave the place alone."""
    files, d = place
    fd = files.create(f"{d}/a")
    assert files.write(fd, b"hello ") == 6
    other = files.open_append(f"{d}/a")
    assert files.write(other, b"world") == 5
    assert files.read_at(fd, 100, 0) == b"hello world"
    assert files.read_at(fd, 3, 6) == b"wor"
    assert files.read_at(fd, 3, 11) == b""
    assert files.size(fd) == 11
    files.truncate(fd, 5)
    assert files.write(other, b"!") == 1
    files.fsync(fd)
    files.close(other)
    files.close(fd)
    reader = files.open_read(f"{d}/a")
    assert files.read_at(reader, 100, 0) == b"hello!"
    files.close(reader)
    with pytest.raises(OSError, match="descriptor"):
        files.size(reader)


def test_files_names(place: tuple[Files, str]) -> None:
    """Renames replace, links are second names, and a name says whether it is that very file."""
    files, d = place
    one, two = files.create(f"{d}/one"), files.create(f"{d}/two")
    with pytest.raises(FileExistsError):
        files.create(f"{d}/one")
    assert files.same(f"{d}/one", one)
    assert not files.same(f"{d}/none", one)
    files.rename(f"{d}/two", f"{d}/one")
    assert files.same(f"{d}/one", two)
    assert not files.same(f"{d}/one", one)
    files.mkdir(f"{d}/kept")
    with pytest.raises(FileExistsError):
        files.mkdir(f"{d}/kept")
    files.link(f"{d}/one", f"{d}/kept/one")
    with pytest.raises(FileExistsError):
        files.link(f"{d}/one", f"{d}/kept/one")
    files.unlink(f"{d}/one")
    assert files.listdir(d) == ["kept"]
    assert files.same(f"{d}/kept/one", two)
    files.sync_directory(d)
    for call in (files.unlink, files.open_read, files.open_append, files.listdir, files.sync_directory):
        with pytest.raises(FileNotFoundError):
            call(f"{d}/none")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{d}/none", f"{d}/x")
    files.close(one)
    files.close(two)


def test_os_files_descriptors_are_not_inherited(tmp_path: Path) -> None:
    """A child process of the daemon holds no file of the store."""
    files = OsFiles()
    fds = [files.create(str(tmp_path / "a")), files.open_read(str(tmp_path / "a"))]
    assert not any(os.get_inheritable(fd) for fd in fds)
    for fd in fds:
        files.close(fd)


def test_os_files_follows_no_link_when_it_makes_a_file(tmp_path: Path) -> None:
    """A symbolic link in the way is not written through, even one that leads nowhere."""
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        OsFiles().create(str(tmp_path / "a"))
    assert not (tmp_path / "elsewhere").exists()


def test_disk_power_cut_keeps_what_was_flushed() -> None:
    """The tool itself: names and data come back as they were flushed, or as far as is told."""
    for kept, data_kept, expected in [
        (0, False, {"/d/a": b"ab"}),
        (0, True, {"/d/a": b"abcd"}),
        (1, False, {"/d/a": b"ab", "/d/b": b"ab"}),
        (2, True, {"/d/b": b"abcd"}),
    ]:
        disk = Disk("/d")
        fd = disk.create("/d/a")
        disk.write(fd, b"ab")
        disk.fsync(fd)
        disk.sync_directory("/d")
        disk.write(fd, b"cd")
        disk.rename("/d/a", "/d/b")
        assert disk.unflushed_names == 2
        disk.cut_power(name_changes_kept=kept, data_kept=data_kept)
        assert disk.contents() == expected
        assert disk.open_files == 0


def test_disk_kill_keeps_what_was_written() -> None:
    """The tool itself: a process that dies loses its descriptors and nothing else."""
    disk = Disk("/d")
    fd = disk.create("/d/a")
    disk.write(fd, b"ab")
    disk.kill()
    with pytest.raises(OSError, match="descriptor"):
        disk.write(fd, b"cd")
    assert disk.contents() == {"/d/a": b"ab"}


def test_disk_capacity_is_given_back() -> None:
    """The tool itself: a full disk takes what fits, and has room again when a file is gone."""
    disk = Disk("/d")
    disk.capacity = 5
    fd = disk.create("/d/a")
    assert disk.write(fd, b"abcdef") == 5
    with pytest.raises(OSError, match="No space"):
        disk.write(fd, b"f")
    disk.unlink("/d/a")
    other = disk.create("/d/b")
    with pytest.raises(OSError, match="No space"):
        disk.write(other, b"f")
    disk.close(fd)
    assert disk.write(other, b"f") == 1
