"""Programs started with closed standard streams: no file of the state, lock or socket becomes descriptor 0 to 2."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import running

CLOSED = [set(some) for count in (1, 2, 3) for some in itertools.combinations(range(3), count)]


def close_all_of(descriptors: set[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_daemon_started_with_closed_streams_keeps_its_files_above_them(tmp_path: Path, closed: set[int]) -> None:
    """Journal, lock, directory and socket are numbered 3 and up, and the closed streams are the null
    device (law 7.11)."""
    with running(tmp_path / "d", preexec_fn=lambda: close_all_of(closed)) as daemon:
        with daemon.client() as client:
            client.ask("upsert", summary="kept")
            client.ask("checkpoint")
            client.ask("upsert", summary="kept too")
        links = Path(f"/proc/{daemon.pid}/fd")
        assert {os.readlink(links / str(number)) for number in closed} == {os.devnull}
        named = {int(link.name): os.readlink(link) for link in links.iterdir()}
        of_the_daemon = [number for number, name in named.items() if str(tmp_path) in name or "socket" in name]
        assert of_the_daemon
        assert min(of_the_daemon) > 2
        daemon.terminate()
    assert (tmp_path / "d" / "journal.jsonl").read_bytes().endswith(b"}\n")
    with running(tmp_path / "d") as again, again.client() as client:
        assert {node["summary"] for node in client.ask("list")["nodes"]} == {"kept", "kept too"}


def test_store_files_lock_and_socket_avoid_descriptors_that_were_closed_later(tmp_path: Path) -> None:
    """Even if something closes the standard streams after the start, nothing of the project takes their numbers."""
    code = f"""
import os, sys
from claimdagd.store.files import OsFiles
from claimdagd.server.host.directory import open_directory
from claimdagd.server.host.listener import bind
from claimdagd.server.host.lock import Lock
for number in range(3):
    os.close(number)
path = {str(tmp_path / "d")!r}
directory = open_directory(path, os.geteuid())
lock = Lock.take(path + "/lock", os.geteuid())
listener = bind(path + "/sock", os.geteuid())
made = OsFiles().create(path + "/file")
opened = OsFiles().open_append(path + "/file"), OsFiles().open_read(path + "/file")
numbers = [directory, lock._descriptor, listener.sock.fileno(), made, *opened]
os._exit(0 if min(numbers) > 2 and not any(map(os.get_inheritable, numbers)) else 1)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
