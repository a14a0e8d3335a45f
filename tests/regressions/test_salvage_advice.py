"""Salvage is named for damage alone; for everything else the cause and its own remedy, and a salvage refuses too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from tests.support.daemon import running

#: Takes from root the right to read what its mode forbids.
WITHOUT_RIGHTS = (shutil.which("setpriv") or "", "--bounding-set", "-dac_override,-dac_read_search")
NAMES = ["journal.jsonl", "snapshot.jsonl"]


def contents(directory: Path) -> dict[str, object]:
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
        for path in sorted(directory.rglob("*"))
        if path.name != "lock"
    }


def state(directory: Path) -> None:
    """A directory with a snapshot and a journal after it."""
    with running(directory) as daemon, daemon.client() as client:
        client.ask("upsert", summary="one")
        client.ask("checkpoint")
        client.ask("upsert", summary="two")
        daemon.terminate()


def started(directory: Path, *arguments: str, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
    """The exit status and log of a daemon that must refuse to start."""
    command = [*prefix, sys.executable, "-m", "claimdagd", "--dir", str(directory), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return ran.returncode, ran.stderr


def later_format(path: Path) -> None:
    header, rest = path.read_bytes().split(b"\n", 1)
    head = header[:-18].replace(b'"format":1', b'"format":2')
    path.write_bytes(b'%b,"crc":"%08x"}\n' % (head, crc32(head)) + rest)


def later_format_with_other_checksums(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":2', 1).replace(b'"crc"', b'"sha"', 1))


def directory_in_its_place(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe_in_its_place(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "status", "remedy"),
    [
        (later_format, 65, "pip install --upgrade"),
        (later_format_with_other_checksums, 65, "pip install --upgrade"),
        (directory_in_its_place, 74, "Put the file back"),
        (pipe_in_its_place, 74, "Put the file back"),
        (link_to_itself, 74, "Put the file back"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.parametrize("arguments", [(), ("--salvage",)], ids=["start", "salvage"])
def test_what_is_not_damage_is_refused_with_its_own_remedy(
    short_dir: Path, name: str, change: Callable[[Path], None], status: int, remedy: str, arguments: tuple[str, ...]
) -> None:
    """The file is named, salvage is not, and nothing is changed, whether or not a salvage was asked for."""
    directory = short_dir / "d"
    state(directory)
    change(directory / name)
    before = contents(directory)
    code, log = started(directory, *arguments)
    assert code == status
    assert str(directory / name) in log
    assert remedy in log
    assert "--salvage" not in log
    assert contents(directory) == before


@pytest.mark.skipif(os.geteuid() == 0 and not WITHOUT_RIGHTS[0], reason="root reads everything without setpriv")
@pytest.mark.parametrize("arguments", [(), ("--salvage",)], ids=["start", "salvage"])
@pytest.mark.parametrize("name", NAMES)
def test_file_that_is_closed_to_its_owner_is_refused_with_chmod(
    short_dir: Path, name: str, arguments: tuple[str, ...]
) -> None:
    """Mode 0000, as umask 0777 or a careless chmod leaves it."""
    directory = short_dir / "d"
    state(directory)
    (directory / name).chmod(0)
    before = contents(directory)
    prefix = WITHOUT_RIGHTS if os.geteuid() == 0 else ()
    code, log = started(directory, *arguments, prefix=prefix)
    assert code == 74
    assert f"{directory / name}: unreadable: Permission denied" in log
    assert "chmod u+rwX" in log
    assert "--salvage" not in log
    assert contents(directory) == before


@pytest.mark.parametrize("arguments", [[], ["salvage"]], ids=["start", "salvage"])
def test_running_out_of_descriptors_while_opening_is_not_damage(short_dir: Path, arguments: list[str]) -> None:
    """Whichever file it strikes: the limit is named, and nothing is changed."""
    directory = short_dir / "d"
    state(directory)
    before = contents(directory)
    code = f"""
import os, resource, sys
from claimdagd.store.errors import UnreadableState
from claimdagd.store.files import OsFiles
from claimdagd.store.recovery import recover
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
spare = os.dup(0)
resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
os.close(spare)
while True:
    try:
        os.dup(0)
    except OSError:
        break
try:
    recover(OsFiles(), {str(directory)!r}, salvage={bool(arguments)}, new_tag=lambda: "zzzz")
except UnreadableState as exc:
    print(exc)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Too many open files" in ran.stdout
    assert "ulimit -n" in ran.stdout
    assert "--salvage" not in ran.stdout
    assert contents(directory) == before


def test_damage_names_salvage_and_salvage_mends_it(short_dir: Path) -> None:
    """A flipped bit, also in the number of the format, is what a salvage is for."""
    for number, offset in enumerate((10, 200)):
        directory = short_dir / str(number)
        state(directory)
        data = bytearray((directory / "journal.jsonl").read_bytes())
        data[offset] ^= 2
        (directory / "journal.jsonl").write_bytes(data)
        code, log = started(directory)
        assert code == 65
        assert "--salvage" in log
        with running(directory, "--salvage") as daemon, daemon.client() as client:
            assert "one" in {node["summary"] for node in client.ask("list")["nodes"]}
