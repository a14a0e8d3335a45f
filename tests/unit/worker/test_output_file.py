"""The file of one attempt stays within its bound, and its readers see every byte that it keeps, once."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from claimdag_client import outputs
from claimdag_client.worker.output_file import LIMIT_MIN_BYTES, OutputFile, OutputWriter

ID = "7q2f-17"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / outputs.file_name(ID, 1)


def test_short_output_is_kept_whole_and_for_the_user_alone(path: Path) -> None:
    """Byte for byte, mode 0600 whatever the umask."""
    before = os.umask(0)
    try:
        file = OutputFile(str(path), LIMIT_MIN_BYTES)
    finally:
        os.umask(before)
    file.write(b"\x00\xff one\n")
    file.write(b"two")
    file.close()
    assert path.read_bytes() == b"\x00\xff one\ntwo"
    assert path.stat().st_mode & 0o777 == 0o600


def test_long_output_loses_its_middle_and_the_mark_counts_it(path: Path) -> None:
    """The head and the tail are right, the count is exact, and the bound holds at every moment."""
    file = OutputFile(str(path), LIMIT_MIN_BYTES)
    written = bytes(random.Random(7).randbytes(50_000))
    for start in range(0, len(written), 777):
        file.write(written[start : start + 777])
        assert path.stat().st_size <= LIMIT_MIN_BYTES
    file.close()
    kept = path.read_bytes()
    mark = outputs.find_mark(kept)
    assert mark is not None
    head, tail = kept[: mark.offset], kept[mark.offset + mark.length :]
    assert len(head) + mark.left_out + len(tail) == len(written)
    assert written.startswith(head)
    assert written.endswith(tail)
    assert len(head) == LIMIT_MIN_BYTES // 2
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("chunk", [100, 1500, 9000])
def test_follower_sees_every_byte_once_over_replacements(path: Path, chunk: int) -> None:
    """A follower that keeps up reads what was written, though the file never held it all at once."""
    file = OutputFile(str(path), LIMIT_MIN_BYTES)
    follower = outputs.Follower(str(path.parent), ID, 1)
    written = bytes(random.Random(8).randbytes(60_000))
    seen = b""
    for start in range(0, len(written), chunk):
        file.write(written[start : start + chunk])
        seen += b"".join(follower.read())
        assert not follower.ended()
    file.close()
    assert follower.ended()
    seen += b"".join(follower.read())
    follower.close()
    if chunk <= LIMIT_MIN_BYTES // 4:
        assert seen == written
    else:
        # More than the tail at once: what it missed is marked.
        assert seen.startswith(written[:chunk][: LIMIT_MIN_BYTES // 2])
        assert seen.endswith(written[-LIMIT_MIN_BYTES // 4 :])


def test_follower_that_comes_late_goes_on_behind_the_mark(path: Path) -> None:
    """It shows the mark that it found, and then what is new."""
    file = OutputFile(str(path), LIMIT_MIN_BYTES)
    written = bytes(random.Random(9).randbytes(20_000))
    file.write(written)
    follower = outputs.Follower(str(path.parent), ID, 1)
    seen = b"".join(follower.read())
    assert outputs.find_mark(seen) is not None
    more = bytes(random.Random(10).randbytes(9_000))
    for start in range(0, len(more), 500):
        file.write(more[start : start + 500])
        seen += b"".join(follower.read())
    file.close()
    follower.close()
    assert seen.endswith(more)
    assert seen.startswith(written[: LIMIT_MIN_BYTES // 2])


def test_disk_that_is_full_loses_bytes_with_a_mark(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And goes on once there is room."""
    file = OutputFile(str(path), LIMIT_MIN_BYTES)
    file.write(b"before\n")
    with monkeypatch.context() as patch:

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        patch.setattr(os, "write", full)
        file.write(b"lost\n")
    file.write(b"after\n")
    file.close()
    assert path.read_bytes() == b"before\n\n[claimdag: 5 bytes could not be written]\nafter\n"


def test_writer_never_waits_for_a_disk_that_hangs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the queue does not hold is left out, with a mark."""
    monkeypatch.setattr("claimdag_client.worker.output_file.QUEUED_MAX_BYTES", 100)
    hold = threading.Event()
    write = OutputFile.write

    def slow(file: OutputFile, data: bytes) -> None:
        hold.wait(10)
        write(file, data)

    monkeypatch.setattr(OutputFile, "write", slow)
    writer = OutputWriter(LIMIT_MIN_BYTES)
    writer.open(str(path))
    for _ in range(10):
        writer.write(b"x" * 60)
    hold.set()
    writer.close()
    writer.open(str(path.with_name("other")))
    kept = path.read_bytes()
    assert b"bytes left out: the disk is too slow" in kept
    assert kept.endswith(b"x" * 60)
    assert len(kept) < 600


def test_file_that_cannot_be_made_keeps_nothing_and_stops_nothing(tmp_path: Path) -> None:
    """The command runs on."""
    writer = OutputWriter(LIMIT_MIN_BYTES)
    writer.open(str(tmp_path / "missing" / "file"))
    writer.write(b"data")
    writer.close()


def test_sweep_removes_pruned_nodes_then_the_oldest_but_no_file_in_use(tmp_path: Path) -> None:
    """Names that are not output files are not touched."""
    for number, id in enumerate(("7q2f-1", "7q2f-2", "7q2f-3", "abcd-1")):
        file = tmp_path / outputs.file_name(id, 1)
        file.write_bytes(b"x" * 1000)
        os.utime(file, (number, number))
    (tmp_path / "notes.txt").write_bytes(b"mine")
    in_use = OutputFile(str(tmp_path / outputs.file_name("7q2f-9", 1)), LIMIT_MIN_BYTES)
    outputs.sweep(str(tmp_path), {"7q2f-1", "7q2f-2", "7q2f-3"}, 2000)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "7q2f-2.1.log",
        "7q2f-3.1.log",
        "7q2f-9.1.log",
        "notes.txt",
    ]
    in_use.close()


def test_attempts_are_those_of_the_node_in_order(tmp_path: Path) -> None:
    """Not those of a node whose id begins alike."""
    for name in ("7q2f-1.10.log", "7q2f-1.2.log", "7q2f-11.1.log", "7q2f-1.x.log"):
        (tmp_path / name).touch()
    assert outputs.attempts_of(str(tmp_path), "7q2f-1") == [2, 10]
    assert outputs.attempts_of(str(tmp_path / "none"), "7q2f-1") == []


@pytest.mark.parametrize(
    ("directory", "socket", "expected"),
    [(None, "/run/x/sock", "/run/x/output"), ("/d", "/elsewhere/s", "/d/output"), ("/d", "/run/x/sock", "/d/output")],
)
def test_directory_is_the_daemons(directory: str | None, socket: str, expected: str) -> None:
    """Beside the socket if that is where the daemon puts it."""
    assert outputs.output_directory(directory, socket) == expected


def test_directory_of_a_stranger_is_refused(tmp_path: Path) -> None:
    """A link in its place leads elsewhere."""
    (tmp_path / "output").symlink_to(tmp_path)
    with pytest.raises(OSError, match="not a directory"):
        outputs.make_output_directory(str(tmp_path / "output"))
