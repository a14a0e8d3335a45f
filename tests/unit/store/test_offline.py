"""Reading the state without the daemon: the last whole state, its age, never a write and never a mixture."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from claimdagd.store.errors import CorruptState
from claimdagd.store.files import OsFiles
from claimdagd.store.recovery import read_offline
from tests.simulation.fault_disk import Disk
from tests.unit.store.history import BASE_AT, DIR, History, state_of


def test_read_offline_beside_a_writer_reads_the_last_state() -> None:
    """While the daemon has the files open a reader gets all that was answered, and how long ago that was (law 7.5)."""
    disk = Disk(DIR)
    history = History(disk)
    assert history.write(8)
    assert history.snapshot()
    assert history.write(3)
    before = disk.contents()
    found = read_offline(DIR, BASE_AT + 11 / 8 + 60, disk)
    assert state_of(found.state) == history.state
    assert found.state.seq == 11
    assert found.age == 60.0
    assert found.at == BASE_AT + 11 / 8
    assert disk.contents() == before


def test_read_offline_clock_set_back_has_age_zero() -> None:
    """A clock that was set back does not make a state come from the future."""
    disk = Disk(DIR)
    assert History(disk).write(1)
    assert read_offline(DIR, 5.0, disk).age == 0.0


def test_read_offline_without_state_says_so(tmp_path: Path) -> None:
    """No files are not an empty graph."""
    with pytest.raises(FileNotFoundError):
        read_offline(str(tmp_path), 0.0)


def test_read_offline_torn_tail_is_left_in_place() -> None:
    """A line that is just being written is not shown, and not touched."""
    disk = Disk(DIR)
    history = History(disk)
    assert history.write(2)
    path = f"{DIR}/journal.jsonl"
    disk.put(path, disk.contents()[path] + b'{"seq":3,')
    before = disk.contents()
    assert read_offline(DIR, 0.0, disk).state.seq == 2
    assert disk.contents() == before


class _Swapping(Disk):
    """A disk on which the daemon takes a snapshot whenever a reader has opened the old one."""

    history: History | None = None
    swaps = 0

    def open_read(self, path: str) -> int:
        fd = super().open_read(path)
        if self.swaps and self.history is not None and path.endswith("snapshot.jsonl"):
            self.swaps -= 1
            history, self.history = self.history, None
            assert history.write(1)
            assert history.snapshot()
            self.history = history
        return fd


@pytest.mark.parametrize("swaps", [1, 3, 7])
def test_read_offline_files_swapped_under_it_looks_again(swaps: int) -> None:
    """Snapshot and journal of two moments are never put together: the reader starts over."""
    disk = _Swapping(DIR)
    history = History(disk)
    assert history.write(8)
    assert history.snapshot()
    disk.history, disk.swaps = history, swaps
    found = read_offline(DIR, 0.0, disk)
    assert state_of(found.state) == history.state
    assert found.state.seq == 8 + swaps


def test_read_offline_damage_is_refused() -> None:
    """Damage that stays is damage."""
    disk = Disk(DIR)
    assert History(disk).write(2)
    disk.put(f"{DIR}/journal.jsonl", b"{}\n")
    with pytest.raises(CorruptState):
        read_offline(DIR, 0.0, disk)


def test_read_offline_writes_nothing(tmp_path: Path) -> None:
    """A reader leaves names, sizes and times as they are, even in a directory that it could not write to."""
    history = History(OsFiles(), directory=str(tmp_path))
    assert history.write(4)
    assert history.snapshot()
    before = {p.name: (p.stat().st_mtime_ns, p.stat().st_size) for p in tmp_path.iterdir()}
    os.chmod(tmp_path, 0o500)
    try:
        assert read_offline(str(tmp_path), 0.0).state.seq == 4
    finally:
        os.chmod(tmp_path, 0o700)
    assert before == {p.name: (p.stat().st_mtime_ns, p.stat().st_size) for p in tmp_path.iterdir()}
    history.store.close()
