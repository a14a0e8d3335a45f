"""Files of the state that somebody else removes, replaces or cuts under a living daemon: nothing answered is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.daemon import Client, Daemon, running, until

NAMES = ["journal.jsonl", "snapshot.jsonl"]


def unlink(path: Path) -> None:
    path.unlink()


def rename_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("somebody else's\n")
    other.rename(path)


def replace_by_a_copy(path: Path) -> None:
    shutil.copyfile(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def replace_by_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def empty(path: Path) -> None:
    os.truncate(path, 0)


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def append_to(path: Path) -> None:
    with path.open("a") as file:
        file.write("a line of somebody else\n")


def close_to_all(path: Path) -> None:
    path.chmod(0)


MEDDLING = [
    unlink, rename_away, replace, replace_by_a_copy, replace_by_a_directory, replace_by_a_link, empty, halve, append_to,
    close_to_all,
]  # fmt: skip


def summaries(client: Client) -> set[str]:
    return {node["summary"] for node in client.ask("list")["nodes"]}


def prepared(client: Client) -> None:
    """A snapshot, and entries of the journal after it."""
    client.ask("upsert", summary="in the snapshot", once="first")
    client.ask("checkpoint")
    client.ask("upsert", summary="in the journal")


def killed_and_started_again(daemon: Daemon, directory: Path, *arguments: str) -> set[str]:
    daemon.kill()
    with running(directory, *arguments) as again, again.client() as client:
        return summaries(client)


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["process", "fsync"])
@pytest.mark.parametrize("names", [NAMES[:1], NAMES[1:], NAMES], ids="+".join)
@pytest.mark.parametrize("meddle", MEDDLING, ids=lambda f: f.__name__)
def test_next_mutation_is_kept_whatever_befell_the_files(
    short_dir: Path, meddle: Callable[[Path], None], names: list[str], durability: str
) -> None:
    """It is answered, the daemon is killed at once, and all that was answered is there; the log says what was
    done (law 7.10)."""
    directory = short_dir / "d"
    arguments = ("--durability", durability)
    with running(directory, *arguments) as daemon, daemon.client() as client:
        prepared(client)
        for name in names:
            meddle(directory / name)
        node = client.ask("upsert", summary="after it")["id"]
        client.ask("upsert", id=node, priority=3)
        expected = {"in the snapshot", "in the journal", "after it"}
        assert killed_and_started_again(daemon, directory, *arguments) == expected
    assert "by another program" in daemon.stderr
    assert "written anew" in daemon.stderr


@pytest.mark.parametrize("names", [NAMES[:1], NAMES[1:], NAMES], ids="+".join)
@pytest.mark.parametrize("meddle", [unlink, replace, empty], ids=lambda f: f.__name__)
def test_idle_daemon_notices_by_itself(short_dir: Path, meddle: Callable[[Path], None], names: list[str]) -> None:
    """With its next heartbeat, without any request: a kill after that loses nothing."""
    directory = short_dir / "d"
    with running(directory) as daemon:
        with daemon.client() as client:
            prepared(client)
        for name in names:
            meddle(directory / name)
        files = [directory / name for name in names]
        until(lambda: all(f.exists() and f.read_bytes()[:10] == b'{"format":' for f in files), "files made anew")
        assert killed_and_started_again(daemon, directory) == {"in the snapshot", "in the journal"}


def test_what_was_put_in_the_place_of_a_file_is_kept(short_dir: Path) -> None:
    """It may be a backup that somebody meant to restore: it is set aside under a name of its own."""
    directory = short_dir / "d"
    with running(directory) as daemon, daemon.client() as client:
        prepared(client)
        for name in NAMES:
            replace(directory / name)
        client.ask("upsert", summary="after it")
        assert {(directory / f"{name}.replaced").read_text() for name in NAMES} == {"somebody else's\n"}


@pytest.mark.parametrize("in_its_place", [False, True])
def test_directory_that_was_moved_refuses_the_mutation_and_ends_the_daemon(short_dir: Path, in_its_place: bool) -> None:
    """What is answered is at neither place afterwards; the new directory, if there is one, is left alone."""
    directory, moved = short_dir / "d", short_dir / "moved"
    with running(directory) as daemon, daemon.client() as client:
        prepared(client)
        directory.rename(moved)
        if in_its_place:
            directory.mkdir(mode=0o700)
        answer = client.try_to("upsert", summary="after it")
        assert answer["error"]["code"] in ("storage", "shutting_down")
        assert daemon.wait() == 74
    assert "no longer this daemon's own" in daemon.stderr
    if in_its_place:
        assert list(directory.iterdir()) == []
    with running(moved) as again, again.client() as client:
        assert summaries(client) == {"in the snapshot", "in the journal"}


@pytest.mark.parametrize("name", NAMES)
def test_mutation_is_refused_while_the_files_cannot_be_made_anew(short_dir: Path, name: str) -> None:
    """The graph stays as it was, and the first mutation after the trouble is kept."""
    directory = short_dir / "d"
    with running(directory) as daemon, daemon.client() as client:
        prepared(client)
        empty(directory / name)
        # A directory that is not empty cannot be unlinked, so no new file can be written under that name.
        for temporary in NAMES:
            (directory / f"{temporary}.tmp" / "in the way").mkdir(parents=True)
        for _ in range(2):
            assert client.try_to("upsert", summary="refused")["error"]["code"] == "storage"
        assert summaries(client) == {"in the snapshot", "in the journal"}
        for temporary in NAMES:
            shutil.rmtree(directory / f"{temporary}.tmp")
        client.ask("upsert", summary="after it")
        expected = {"in the snapshot", "in the journal", "after it"}
        assert killed_and_started_again(daemon, directory) == expected
