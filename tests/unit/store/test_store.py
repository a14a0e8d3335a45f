"""The store on a disk that works: what is written, when, in how many calls, and what is asked of the caller."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from claimdagd.model import Node, Status
from claimdagd.store.entry import decode_entry, entry_line
from claimdagd.store.errors import StorageError
from claimdagd.store.files import OsFiles
from claimdagd.store.recovery import recover
from claimdagd.store.snapshot import SLICE, SnapshotHead
from claimdagd.store.steps import BlockingCall
from claimdagd.store.store import Store
from tests.simulation.fault_disk import Disk, Fault, FaultyFiles
from tests.support.entries import Entry, encode_entry
from tests.unit.store.history import DIR, TAG, History, new_tag, state_of, unwanted_tag


def blank(seq: int) -> bytes:
    """An entry that changes nothing."""
    return encode_entry(Entry(seq=seq, at=1.0, op="noop", next=1))


def test_encode_entry_takes_encoded_nodes_as_they_are() -> None:
    """A node that is encoded already goes in byte for byte, and reads back as the node."""
    node = Node(id=f"{TAG}-1", summary="caf\u00e9")
    raw = msgspec.json.encode(node)
    line = encode_entry(Entry(seq=1, at=2.5, op="upsert", nodes=[msgspec.Raw(raw), node], next=2))
    assert line.count(raw) == 2
    assert decode_entry(line[:-1]).nodes == [node, node]


def test_encode_entry_ends_in_the_checksum_of_what_stands_before() -> None:
    """The rule that docs/reference/journal.md tells, computed by hand."""
    line = blank(7)
    head, seal = line.rsplit(b',"crc":"', 1)
    assert seal == b'%08x"}\n' % crc32(head)
    assert json.loads(line)["seq"] == 7


def test_encode_entry_writes_every_field() -> None:
    """No default is left out: a later version's defaults must not change what was written."""
    assert list(json.loads(blank(1))) == [
        "seq", "at", "op", "actor", "nodes", "flips", "gone", "capacity", "once", "reply", "next", "crc",
    ]  # fmt: skip


@pytest.mark.parametrize("paused", [None, [], [None], [f"{TAG}-1", None]])
def test_pause_is_in_the_entry_that_changes_it_alone(paused: list[str | None] | None) -> None:
    """An older daemon reads all that was written where nothing is paused."""
    line = entry_line(1, 1.5, "pause", None, [], None, [], None, None, None, 2, paused)
    assert decode_entry(line[:-1]).paused == paused
    assert (b"paused" in line.replace(b'"pause"', b"")) is (paused is not None)


@pytest.mark.parametrize("at", [0.0, 1.5, 1_700_000_000.123456, 4e9])
@pytest.mark.parametrize("full", [True, False])
def test_entry_line_is_what_encode_entry_makes(at: float, full: bool) -> None:
    """The quick way to a line and the plain one agree byte for byte."""
    node = msgspec.json.encode(Node(id=f"{TAG}-1", summary='"\u2028'))
    actor, flips, gone = ("codex-3@host", {"ready": [f"{TAG}-2"]}, [f"{TAG}-3"]) if full else (None, {}, [])
    capacity, once, reply = ({"cpu": 3}, 'tok"\n\u00e9', b'{"id":1}') if full else (None, None, None)
    nodes = [node, node] if full else []
    quick = entry_line(7, at, "claim", actor, nodes, flips, gone, capacity, once, reply, 9)
    plain = Entry(
        seq=7, at=at, op="claim", actor=actor, nodes=[msgspec.Raw(n) for n in nodes], flips=flips, gone=gone,
        capacity=capacity, once=once, reply=msgspec.Raw(reply) if reply else None, next=9,
    )  # fmt: skip
    assert quick == encode_entry(plain)
    assert decode_entry(quick[:-1]).at == at


@pytest.mark.parametrize("at", [float("nan"), float("inf")])
def test_encode_entry_without_a_time_is_refused(at: float) -> None:
    """JSON has no such numbers: the line would be written as null and never read back."""
    with pytest.raises(ValueError, match="read back"):
        encode_entry(Entry(seq=1, at=at, op="noop", next=1))


def test_append_batch_is_one_write() -> None:
    """However many mutations arrived together, the journal is written once."""
    files = FaultyFiles(Disk(DIR))
    history = History(files)
    before = files.counts["any"]
    assert history.write(50)
    assert files.counts["any"] == before + 1


def test_append_nothing_writes_nothing() -> None:
    """An empty batch is not a system call."""
    files = FaultyFiles(Disk(DIR))
    history = History(files)
    before = files.counts["any"]
    history.store.append([])
    assert files.counts["any"] == before


@pytest.mark.parametrize(
    "lines", [[blank(2)], [blank(1), blank(1)], [blank(1), blank(3)], [blank(1)[:-1]], [b'{"seq":1,\n']]
)
def test_append_lines_that_do_not_follow_are_refused(lines: list[bytes]) -> None:
    """A bug in the caller is caught before it makes a journal that nobody can read."""
    disk = Disk(DIR)
    history = History(disk)
    before = disk.contents()
    with pytest.raises(ValueError, match="not journal entry"):
        history.store.append(lines)
    assert disk.contents() == before
    assert history.store.seq == 0


def test_append_short_write_is_finished() -> None:
    """Where the system takes half of a batch, the rest is written after it."""
    disk = Disk(DIR)
    files = FaultyFiles(disk)
    history = History(files)
    files.arm("write", "short")
    assert history.write(3)
    assert files.struck == 1
    history.assert_recovers(disk, at_least=3)


def test_append_that_takes_nothing_is_an_error() -> None:
    """A disk that takes no bytes and gives no reason is not asked for ever."""

    class Full(Disk):
        def write(self, fd: int, data: bytes) -> int:
            return 0 if b'"op"' in data else super().write(fd, data)

    history = History(Full(DIR))
    assert not history.write(1)
    assert not history.store.broken


def test_append_interrupted_is_repaired_by_the_next() -> None:
    """Whatever else ends a write half-way, the next append begins by putting the file right."""

    class Interrupted(Disk):
        interrupt = False

        def write(self, fd: int, data: bytes) -> int:
            if self.interrupt:
                super().write(fd, data[:20])
                self.interrupt = False
                raise KeyboardInterrupt
            return super().write(fd, data)

    disk = Interrupted(DIR)
    history = History(disk)
    assert history.write(2)
    disk.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        history.write(1)
    assert history.store.broken
    assert history.write(1)
    history.assert_recovers(disk, at_least=3, at_most=3)


def test_storage_error_names_file_and_reason() -> None:
    """What a person is told: which file, and the system's words."""
    files = FaultyFiles(Disk(DIR))
    history = History(files)
    files.arm("write", code=errno.EDQUOT)
    with pytest.raises(StorageError) as caught:
        history.store.append([blank(1)])
    assert caught.value.path == f"{DIR}/journal.jsonl"
    assert caught.value.strerror == os.strerror(errno.EDQUOT)
    assert str(caught.value) == f"{DIR}/journal.jsonl: {os.strerror(errno.EDQUOT)}"


def test_repair_when_the_name_is_gone_writes_the_journal_anew() -> None:
    """The open file is the truth: a journal whose name was lost is written again from it."""
    disk = Disk(DIR)
    files = FaultyFiles(disk)
    history = History(files)
    assert history.write(3)
    disk.unlink(f"{DIR}/journal.jsonl")
    files.arm("write", "tear")
    assert not history.write(1)
    assert not history.store.broken
    assert history.write(1)
    history.assert_recovers(disk, at_least=4, at_most=4)


def test_undo_to_drops_the_tail() -> None:
    """After a failed flush what was not flushed is taken back, and its numbers are given again."""
    disk = Disk(DIR)
    files = FaultyFiles(disk)
    history = History(files, "fsync")
    assert history.write(3)
    assert history.flush()
    flushed = disk.contents()
    mark = history.store.seq
    assert history.write(2)
    files.arm("fsync")
    assert not history.flush()
    assert history.store.seq == mark == history.store.flushed
    assert disk.contents() == flushed
    assert history.write(1)
    assert history.flush()
    history.assert_recovers(disk, at_least=4, at_most=4)


@pytest.mark.parametrize("mark", [-1, 2, 9])
def test_undo_to_a_place_that_is_not_in_the_journal_is_refused(mark: int) -> None:
    """Entries that the snapshot holds, or that never were, cannot be undone."""
    history = History(Disk(DIR))
    assert history.write(3)
    assert history.snapshot(ledger=2)
    assert history.write(2)
    with pytest.raises(ValueError, match="entry"):
        history.store.undo_to(mark)
    assert history.store.seq == 5


def test_snapshot_keeps_large_entries_for_the_log_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the new journal keeps of what the snapshot holds is read at every start, so it is bounded in bytes too."""
    disk = Disk(DIR)
    history = History(disk)
    assert history.write(3)
    before = history.store.journal_bytes
    assert history.write(3)
    monkeypatch.setattr("claimdagd.store.store.LEDGER_BYTES", history.store.journal_bytes - before)
    assert history.snapshot(ledger=5)
    assert history.store.journal_bytes < before
    assert len(history.assert_recovers(disk, at_least=6).ledger) == 3
    monkeypatch.setattr("claimdagd.store.store.LEDGER_BYTES", 10)
    assert history.write(1)
    assert history.snapshot(ledger=5)
    assert history.assert_recovers(disk, at_least=7).ledger == []


def test_undo_below_a_running_snapshot_ends_it() -> None:
    """A snapshot that holds an entry which was taken back must never stand."""
    disk = Disk(DIR)
    history = History(disk, "fsync")
    assert history.write(2)
    assert history.flush()
    assert history.write(2)
    work = history.store.snapshot(history.head(), history.state.nodes.values(), [])
    next(work)
    history.store.undo_to(2)
    history.state = history.states[2].copy()
    assert history.write(4)
    with pytest.raises(StorageError, match="rolled back"):
        for _ in work:
            pass
    assert history.flush()
    assert history.assert_recovers(disk, at_least=6).snapshot_bytes == 0
    assert history.snapshot()


def test_undo_while_the_journal_is_restarted_leaves_the_old_one() -> None:
    """What was copied may be among what is taken back: the restart gives up, and the next snapshot does it."""
    disk = Disk(DIR)
    history = History(disk, "fsync")
    assert history.write(2)
    assert history.flush()
    head = history.head()
    work = history.store.snapshot(head, history.state.nodes.values(), history.state.once.items())
    assert history.write(2)
    while disk.contents().get(f"{DIR}/journal.jsonl.tmp", b"").count(b"\n") < 3:
        step = next(work)
        if f"{DIR}/journal.jsonl.tmp" not in disk.contents() and step is not None:
            step()
    history.store.undo_to(2)
    history.state = history.states[2].copy()
    with pytest.raises(StorageError, match="rolled back"):
        for _ in work:
            pass
    assert history.write(1)
    assert history.flush()
    history.assert_recovers(disk, at_least=3, at_most=3)
    assert sorted(disk.listdir(DIR)) == ["journal.jsonl", "snapshot.jsonl"]


def test_flushed_never_names_an_entry_that_was_taken_back() -> None:
    """Wherever in a snapshot one is written and taken back: its number is given to another, which is not on disk."""
    steps = 0
    while True:
        history = History(Disk(DIR), "fsync")
        assert history.write(2)
        assert history.flush()
        work = history.store.snapshot(history.head(), history.state.nodes.values(), history.state.once.items())
        taken_back = False
        try:
            for number, step in enumerate(work):
                if number == steps // 2:
                    assert history.write(1)
                if number == steps // 2 + steps % 2:
                    history.store.undo_to(2)
                    history.state = history.states[2].copy()
                    taken_back = True
                if step is not None:
                    step()
        except StorageError:
            assert taken_back
        assert history.store.flushed <= history.store.seq
        if not taken_back:
            break
        assert history.write(1)
        assert history.store.flushed < history.store.seq
        steps += 1
    assert steps > 6


def test_entry_taken_back_while_it_is_flushed_is_not_flushed() -> None:
    """The flush runs in a thread, and nobody waits for it: what it was for may be undone before it ends."""
    disk = Disk(DIR)
    history = History(disk, "fsync")
    assert history.write(2)
    assert history.flush()
    assert history.write(2)
    flush = disk.fsync

    def interrupted(fd: int) -> None:
        flush(fd)
        disk.fsync = flush  # type: ignore[method-assign]
        history.store.undo_to(2)

    disk.fsync = interrupted  # type: ignore[method-assign]
    history.store.sync()
    assert (history.store.flushed, history.store.seq) == (2, 2)


def test_snapshot_carries_entries_of_meanwhile_into_the_new_journal() -> None:
    """Entries after the head, written before or during the snapshot, are what the new journal holds."""
    disk = Disk(DIR)
    history = History(disk)
    assert history.write(6)
    head, nodes = history.head(), list(history.state.nodes.values())
    once = list(history.state.once.items())
    assert history.write(2)
    for _ in history.store.snapshot(head, nodes, once):
        assert history.write(1)
    found = history.assert_recovers(disk, at_least=history.store.seq)
    assert found.ledger == [history.lines[seq][:-1] for seq in range(7, history.store.seq + 1)]
    assert history.store.journal_bytes == len(disk.contents()[f"{DIR}/journal.jsonl"])


def test_snapshot_yields_after_every_slice_and_returns_its_bytes() -> None:
    """No more than a slice of nodes is written between two turns of the loop."""
    disk = Disk(DIR)
    store = Store(disk, DIR, "process", recover(disk, DIR, new_tag=new_tag))
    nodes = [Node(id=f"{TAG}-{n}") for n in range(1, 3 * SLICE + 2)]
    once = [(f"t{n}", b"{}") for n in range(10)]
    work = store.snapshot(SnapshotHead(TAG, 0, 1.0, 3 * SLICE + 2), nodes, once)
    turns, seen = 0, 0
    try:
        while True:
            next(work)
            turns += 1
            lines = disk.contents().get(f"{DIR}/snapshot.jsonl.tmp", b"").count(b"\n")
            assert lines - seen <= SLICE
            seen = max(seen, lines)
    except StopIteration as stop:
        size = stop.value
    assert turns == 1 + 4 + 1 + 1 + 2
    assert size == store.snapshot_bytes == len(disk.contents()[f"{DIR}/snapshot.jsonl"])
    found = recover(disk, DIR, new_tag=unwanted_tag)
    assert list(found.nodes.values()) == nodes
    assert list(found.once) == [f"t{n}" for n in range(10)]


def test_snapshot_reads_its_nodes_at_once() -> None:
    """What the caller does to its own table afterwards is not in the snapshot."""
    disk = Disk(DIR)
    history = History(disk)
    assert history.write(3)
    table = dict(history.state.nodes)
    work = history.store.snapshot(history.head(), table.values(), history.state.once.items())
    table.clear()
    for _ in work:
        pass
    history.assert_recovers(disk, at_least=3)


def test_snapshot_of_a_moment_out_of_reach_is_refused() -> None:
    """A head before the journal's first entry or after its last is a bug in the caller."""
    history = History(Disk(DIR))
    assert history.write(3)
    assert history.snapshot()
    for seq in (2, 4):
        with pytest.raises(ValueError, match="snapshot at"):
            history.store.snapshot(SnapshotHead(TAG, seq, 1.0, 1), [], [])


def test_snapshot_while_another_is_written_is_refused() -> None:
    """One at a time: the second would take the first one's file."""
    history = History(Disk(DIR))
    assert history.write(3)
    first = history.store.snapshot(history.head(), [], [])
    next(first)
    with pytest.raises(RuntimeError):
        next(history.store.snapshot(history.head(), [], []))
    first.close()
    assert history.snapshot()


def test_snapshot_offers_its_flushes_to_a_thread() -> None:
    """In fsync mode each blocking flush is handed out, is done once, and is done anyway if the caller does not."""
    for run in (True, False):
        files = FaultyFiles(Disk(DIR))
        history = History(files, "fsync")
        assert history.write(3)
        before = files.counts["fsync"]
        flushes = []
        for step in history.store.snapshot(history.head(), history.state.nodes.values(), []):
            if isinstance(step, BlockingCall):
                flushes.append(step)
                if run:
                    step()
        # snapshot, journal up to it, its name, the old one closed; new journal, its name, the old one closed
        assert len(flushes) == 7
        assert files.counts["fsync"] == before + 5
        assert history.store.flushed == 3


def test_snapshot_flush_that_fails_in_the_thread_is_raised_by_the_generator() -> None:
    """The thread never raises: the one who drives the snapshot is told."""
    disk = Disk(DIR)
    files = FaultyFiles(disk)
    history = History(files, "fsync")
    assert history.write(3)
    assert history.flush()
    before = disk.contents()
    files.arm("fsync")
    assert not history.snapshot()
    assert disk.contents() == before
    history.assert_recovers(disk, at_least=3)


def test_store_in_process_mode_never_flushes() -> None:
    """The runtime directory is memory: no flush is paid for."""
    files = FaultyFiles(Disk(DIR))
    History(files).script()
    assert files.counts["fsync"] == 0


def test_sync_fails_although_a_restart_flushed_the_same_entries_is_no_failure() -> None:
    """A flush of the old file that fails after its entries came to rest in the new one has lost nothing."""

    class Slow(Disk):
        store: Store | None = None
        head: SnapshotHead | None = None

        def fsync(self, fd: int) -> None:
            if self.head is not None and self.store is not None:
                head, self.head = self.head, None
                for _ in self.store.snapshot(head, [], []):
                    pass
                raise OSError(errno.EIO, "input/output error")
            super().fsync(fd)

    disk = Slow(DIR)
    store = disk.store = Store(disk, DIR, "fsync", recover(disk, DIR, new_tag=new_tag))
    store.append([blank(1)])
    disk.head = SnapshotHead(TAG, 0, 1.0, 1)
    store.sync()
    assert store.flushed == 1
    assert disk.open_files == 2  # journal and snapshot


def test_sync_in_a_thread_beside_appends_and_restarts(tmp_path: Path) -> None:
    """Real files: flushes in a thread, appends and snapshots beside them; nothing is lost and no descriptor leaks."""
    descriptors = len(os.listdir("/proc/self/fd"))
    history = History(OsFiles(), "fsync", str(tmp_path))
    done = threading.Event()
    problems: list[BaseException] = []

    def flush() -> None:
        try:
            while not done.is_set():
                history.store.sync()
        except BaseException as exc:
            problems.append(exc)

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        for turn in range(40):
            assert history.write(5)
            if turn % 4 == 0:
                assert history.snapshot(lambda: history.write(1))
    finally:
        done.set()
        thread.join()
    assert not problems
    history.store.sync()
    assert history.store.flushed == history.store.seq
    history.assert_recovers(OsFiles(), at_least=history.store.seq)
    history.store.close()
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_store_files_are_the_owners_alone(tmp_path: Path) -> None:
    """0600 whatever the umask gives or takes away (law 7.9)."""
    for umask in (0o000, 0o777):
        old = os.umask(umask)
        try:
            directory = tmp_path / oct(umask)
            directory.mkdir()
            directory.chmod(0o700)
            history = History(OsFiles(), directory=str(directory))
            assert history.write(3)
            assert history.snapshot()
            history.store.close()
        finally:
            os.umask(old)
        assert {p.name: p.stat().st_mode & 0o7777 for p in directory.iterdir()} == {
            "journal.jsonl": 0o600,
            "snapshot.jsonl": 0o600,
        }


def test_store_open_removes_left_overs() -> None:
    """Temporary files of a killed daemon are gone, whole or not, and were never read."""
    disk = Disk(DIR)
    history = History(disk)
    assert history.write(3)
    disk.put(f"{DIR}/journal.jsonl.tmp", b"left")
    disk.put(f"{DIR}/snapshot.jsonl.tmp", b"over")
    disk.put(f"{DIR}/other", b"mine")
    heir = History(disk)
    assert sorted(disk.listdir(DIR)) == ["journal.jsonl", "other"]
    assert state_of(recover(disk, DIR, new_tag=unwanted_tag)) == heir.state


@pytest.mark.parametrize(("op", "entries"), [("create", 0), ("write", 0), ("rename", 0), ("truncate", 3)])
def test_store_that_cannot_be_opened_says_so(op: str, entries: int) -> None:
    """A daemon that cannot write its journal does not start; nothing is open and what was there stays."""
    disk = Disk(DIR)
    if entries:
        assert History(disk).write(entries)
        disk.put(f"{DIR}/journal.jsonl", disk.contents()[f"{DIR}/journal.jsonl"] + b"torn")
        disk.kill()
    before = disk.contents()
    with pytest.raises(StorageError):
        History(FaultyFiles(disk, Fault(op, 1, persistent=True)))
    assert disk.contents() == before
    assert disk.open_files == 0


def test_store_imports_nothing_heavy() -> None:
    """The store brings in neither the event loop nor the socket."""
    code = (
        "import sys, claimdagd.store.recovery, claimdagd.store.store;"
        "print([m for m in ('anyio', 'asyncio', 'socket', 'logging') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_flips_move_the_status_alone() -> None:
    """A derived change of status is replayed as that: the rest of the node stays as it was."""
    disk = Disk(DIR)
    store = Store(disk, DIR, "process", recover(disk, DIR, new_tag=new_tag))
    node = Node(id=f"{TAG}-1", summary="s", updated_at=3.0)
    flips = {Status.READY: [node.id]}
    store.append(
        [
            encode_entry(Entry(seq=1, at=1.0, op="upsert", nodes=[node], next=2)),
            encode_entry(Entry(seq=2, at=2.0, op="complete", flips=flips, next=2)),
        ]
    )
    found = recover(disk, DIR, new_tag=unwanted_tag).nodes[node.id]
    assert found == msgspec.structs.replace(node, status=Status.READY)
