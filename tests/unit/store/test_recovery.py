"""Recovery: what was written comes back, and whatever is not as it was written is refused by file and line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from claimdagd.model import Node
from claimdagd.store import reader as replay
from claimdagd.store.entry import encode_journal_header
from claimdagd.store.errors import CorruptState, StateError, UnknownFormat, UnreadableState
from claimdagd.store.files import OsFiles
from claimdagd.store.framing import with_crc
from claimdagd.store.journal import JOURNAL
from claimdagd.store.recovery import recover
from claimdagd.store.snapshot import SNAPSHOT
from claimdagd.store.store import Store
from tests.simulation.fault_disk import Disk
from tests.support.entries import Entry, encode_entry
from tests.unit.store.history import DIR, TAG, History, new_tag, state_of, unwanted_tag

JOURNAL_PATH = f"{DIR}/{JOURNAL}"
SNAPSHOT_PATH = f"{DIR}/{SNAPSHOT}"


def written(entries: int = 5, after: int = 4) -> tuple[Disk, History]:
    """A disk with a snapshot of `entries` entries and a journal of `after` more."""
    disk = Disk(DIR)
    history = History(disk)
    assert history.write(entries)
    assert history.snapshot()
    assert history.write(after)
    history.store.close()
    return disk, history


def refusal(disk: Disk, kind: type[StateError] = CorruptState) -> StateError:
    """What recovery says; it must refuse, change nothing, and name salvage for damage alone."""
    before = disk.contents()
    with pytest.raises(kind) as caught:
        recover(disk, DIR, new_tag=unwanted_tag)
    assert type(caught.value) is kind
    assert disk.contents() == before
    assert disk.open_files == 0
    text = str(caught.value)
    assert caught.value.path in text
    assert ("--salvage" in text) is (kind is CorruptState)
    return caught.value


def test_recover_empty_directory_is_a_new_graph() -> None:
    """No files at all: a graph that is new, with a tag minted for it, and nothing written."""
    disk = Disk(DIR)
    found = recover(disk, DIR, new_tag=new_tag)
    assert (found.tag, found.seq, found.next_number, found.nodes, found.at) == (TAG, 0, 1, {}, 0.0)
    assert disk.contents() == {}


def test_recover_fresh_graph_keeps_its_tag() -> None:
    """The tag is on disk before the first entry, so a second start cannot mint another."""
    disk = Disk(DIR)
    History(disk).store.close()
    assert recover(disk, DIR, new_tag=unwanted_tag).tag == TAG


def test_recover_snapshot_and_journal_gives_back_all() -> None:
    """Nodes, capacities, answers, the next number and the ledger come back as they were (law 7.3)."""
    disk, history = written()
    found = history.assert_recovers(disk, at_least=9)
    assert state_of(found) == history.state
    assert found.ledger == [history.lines[seq][:-1] for seq in range(6, 10)]
    assert found.notes == []
    assert found.snapshot_bytes == len(disk.contents()[SNAPSHOT_PATH])
    assert found.at == 1_700_000_000.0 + 9 / 8


def test_recover_keeps_the_order_of_nodes_and_tokens() -> None:
    """Oldest first, as the last 4,096 tokens are counted from."""
    disk, history = written(30, 30)
    found = recover(disk, DIR, new_tag=unwanted_tag)
    assert list(found.once) == list(history.state.once)
    assert list(found.once.items())[-1] == list(history.state.once.items())[-1]


def test_recover_forgets_the_oldest_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more tokens than are remembered, the last ones come back."""
    monkeypatch.setattr(replay, "ONCE_TOKENS_MAX", 3)
    disk, history = written(40, 30)
    found = recover(disk, DIR, new_tag=unwanted_tag)
    assert list(found.once) == list(history.state.once)[-3:]


def test_recover_ledger_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long journal only the last lines are kept in memory for readers of the log."""
    monkeypatch.setattr(replay, "LEDGER_ENTRIES_MAX", 2)
    disk, history = written()
    assert recover(disk, DIR, new_tag=unwanted_tag).ledger == [history.lines[8][:-1], history.lines[9][:-1]]


def test_snapshot_keeps_entries_for_the_log_over_a_restart() -> None:
    """Entries that the snapshot holds already may be carried along for the log: they are listed, not replayed."""
    disk = Disk(DIR)
    history = History(disk)
    assert history.write(9)
    assert history.snapshot(ledger=3)
    found = history.assert_recovers(disk, at_least=9)
    assert found.ledger == [history.lines[seq][:-1] for seq in (7, 8, 9)]
    assert history.write(2)
    assert history.snapshot(ledger=100)
    assert recover(disk, DIR, new_tag=unwanted_tag).ledger == [history.lines[seq][:-1] for seq in range(7, 12)]


def test_recover_at_every_truncation_of_the_journal_is_an_earlier_state() -> None:
    """A journal cut anywhere behind its header is the state after its last whole entry, and says what it dropped.

    Law 7.2, 7.6.
    """
    disk, history = written()
    journal = disk.contents()[JOURNAL_PATH]
    header = journal.index(b"\n") + 1
    for size in range(len(journal)):
        disk.put(JOURNAL_PATH, journal[:size])
        if size < header:
            assert refusal(disk).line == 1
            continue
        found = recover(disk, DIR, new_tag=unwanted_tag)
        whole = journal[:size].count(b"\n") - 1
        assert found.seq == 5 + whole
        assert state_of(found) == history.states[found.seq]
        torn = size - journal[:size].rindex(b"\n") - 1
        assert bool(found.notes) is bool(torn)
        if torn:
            assert f"{JOURNAL_PATH}, line {whole + 2}" in found.notes[0]


def test_store_opens_torn_journal_cuts_it_and_goes_on() -> None:
    """The torn tail is gone from the file once the store is open, and the next entry takes its number."""
    disk, history = written()
    whole = disk.contents()[JOURNAL_PATH]
    disk.put(JOURNAL_PATH, whole + b'{"seq":10,"at":17')
    store = Store(disk, DIR, "process", recover(disk, DIR, new_tag=unwanted_tag))
    assert disk.contents()[JOURNAL_PATH] == whole
    assert store.journal_bytes == len(whole)
    store.close()
    heir = History(disk)
    assert heir.write(1)
    assert heir.assert_recovers(disk).seq == 10
    assert heir.states[9] == history.states[9]


def test_recover_at_every_truncation_of_the_snapshot_is_refused() -> None:
    """A snapshot cut short anywhere is noticed, be it by its newline."""
    disk, _ = written()
    snapshot = disk.contents()[SNAPSHOT_PATH]
    for size in range(len(snapshot)):
        disk.put(SNAPSHOT_PATH, snapshot[:size])
        damage = refusal(disk)
        assert damage.path == SNAPSHOT_PATH
        assert damage.line == snapshot[:size].count(b"\n") + 1


@pytest.mark.parametrize("path", [JOURNAL_PATH, SNAPSHOT_PATH])
def test_recover_with_any_bit_flipped_is_refused(path: str) -> None:
    """No single flipped bit is misread: it is refused, and the line named is the damaged one (or the one it joins)."""
    disk, _ = written(3, 2)
    data = disk.contents()[path]
    line = 1
    for offset, byte in enumerate(data):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[offset] = byte ^ (1 << bit)
            disk.put(path, bytes(damaged))
            with pytest.raises(CorruptState) as caught:
                recover(disk, DIR, new_tag=unwanted_tag)
            assert caught.value.path == path
            assert caught.value.line in (line, line + 1)
        line += byte == 10


def test_recover_with_any_bit_flipped_in_a_torn_tail_is_refused_or_torn() -> None:
    """A tail that was never answered is dropped or refused, but never read as an entry."""
    disk, history = written(3, 2)
    journal = disk.contents()[JOURNAL_PATH][:-3]
    start = journal.rindex(b"\n") + 1
    for offset in range(start, len(journal)):
        for bit in range(8):
            damaged = bytearray(journal)
            damaged[offset] ^= 1 << bit
            disk.put(JOURNAL_PATH, bytes(damaged))
            try:
                found = recover(disk, DIR, new_tag=unwanted_tag)
            except CorruptState:
                continue
            assert state_of(found) == history.states[4]
            assert found.notes


def _without_line(number: int) -> Callable[[bytes], bytes]:
    def cut(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join([*lines[: number - 1], *lines[number:]])

    return cut


def _swapped(first: int, second: int) -> Callable[[bytes], bytes]:
    def swap(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        lines[first - 1], lines[second - 1] = lines[second - 1], lines[first - 1]
        return b"".join(lines)

    return swap


def _doubled(number: int) -> Callable[[bytes], bytes]:
    def double(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join([*lines[:number], *lines[number - 1 :]])

    return double


def _header(**fields: object) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        first, rest = data.split(b"\n", 1)
        header = msgspec.json.decode(first)
        del header["crc"]
        header.update(fields)
        return with_crc(msgspec.json.encode(header)) + rest

    return change


@pytest.mark.parametrize(
    ("path", "change", "line", "reason"),
    [
        (JOURNAL_PATH, _without_line(3), 3, "entry 7 is missing before it"),
        (JOURNAL_PATH, _without_line(1), 1, "not the header"),
        (JOURNAL_PATH, _swapped(3, 4), 3, "entry 7 is missing before it"),
        (JOURNAL_PATH, _doubled(3), 4, "entry 7 stands after entry 7"),
        (JOURNAL_PATH, _header(graph="zzzz"), 1, "of graph zzzz, the snapshot of 7q2f"),
        (JOURNAL_PATH, _header(seq=6), 1, "entry 6 is missing before it"),
        (JOURNAL_PATH, _header(seq=4), 2, "entry 5 is missing before it"),
        (JOURNAL_PATH, _header(more=1), 1, "not the header"),
        (JOURNAL_PATH, lambda _: b"", 1, "the file is empty"),
        (JOURNAL_PATH, lambda _: encode_journal_header(TAG, 0, 1), 2, "ends with entry 0, before the snapshot's 5"),
        (JOURNAL_PATH, lambda data: data.rstrip(b"\n") + b"x", 5, "newline"),
        (JOURNAL_PATH, lambda data: data + b"\n", 6, "checksum"),
        (JOURNAL_PATH, lambda data: data + with_crc(b'{"seq":10}'), 6, "not an entry"),
        (JOURNAL_PATH, lambda data: data + b"\0" * 40 + b"\n", 6, "checksum"),
        (SNAPSHOT_PATH, _without_line(3), None, "checksum of the whole file"),
        (SNAPSHOT_PATH, _without_line(1), 1, "not the header"),
        (SNAPSHOT_PATH, _swapped(2, 3), None, "checksum of the whole file"),
        (SNAPSHOT_PATH, _doubled(2), None, "checksum of the whole file"),
        (SNAPSHOT_PATH, _header(graph="zzzz"), 2, "is of another graph than zzzz"),
        (SNAPSHOT_PATH, lambda _: b"", 1, "the file is empty"),
        (SNAPSHOT_PATH, lambda data: data + b"{", None, "bytes follow"),
        (SNAPSHOT_PATH, lambda data: data + with_crc(b'{"a":1}'), None, "lines follow"),
        (SNAPSHOT_PATH, lambda data: data * 2, None, "lines follow"),
    ],
)
def test_recover_damaged_file_is_refused_by_file_and_line(
    path: str, change: Callable[[bytes], bytes], line: int | None, reason: str
) -> None:
    """Whatever is missing, double, swapped, foreign or newer is refused, and where and why is said (law 7.6)."""
    disk, _ = written()
    disk.put(path, change(disk.contents()[path]))
    damage = refusal(disk)
    assert damage.path == path
    if line is not None:
        assert damage.line == line
    assert reason in str(damage)


@pytest.mark.parametrize("path", [JOURNAL_PATH, SNAPSHOT_PATH])
@pytest.mark.parametrize(
    ("number", "checksum", "reason"),
    [(2, "ours", "format 2 is newer than 1"), (2, "another", "format 2 is newer"), (0, "ours", "format 0 is unknown")],
)
def test_recover_another_format_is_refused_by_name(path: str, number: int, checksum: str, reason: str) -> None:
    """A newer format may have other checksums; none of it is damage."""
    disk, _ = written()
    data = _header(format=number)(disk.contents()[path])
    disk.put(path, data if checksum == "ours" else data.replace(b'"crc":"', b'"sum":"', 1))
    refused = refusal(disk, UnknownFormat)
    assert (refused.path, refused.line) == (path, 1)
    assert reason in str(refused)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"flips": {"ready": [f"{TAG}-99"]}}, f"changes {TAG}-99, which does not exist"),
        ({"gone": [f"{TAG}-99"]}, f"prunes {TAG}-99, which does not exist"),
        ({"nodes": [Node(id="zzzz-1")]}, "zzzz-1 is of another graph"),
        ({"flips": {"asleep": []}}, "not an entry"),
    ],
)
def test_recover_entry_that_does_not_fit_is_refused(fields: dict[str, object], reason: str) -> None:
    """An entry that verifies and yet speaks of what is not there shows that something before it is gone."""
    disk, _ = written()
    entry = Entry(seq=10, at=1.0, op="upsert", next=20, **fields)  # type: ignore[arg-type]
    disk.put(JOURNAL_PATH, disk.contents()[JOURNAL_PATH] + encode_entry(entry))
    damage = refusal(disk)
    assert damage.line == 6
    assert reason in str(damage)


@pytest.mark.parametrize(("missing", "kept"), [(JOURNAL_PATH, SNAPSHOT_PATH), (SNAPSHOT_PATH, JOURNAL_PATH)])
def test_recover_with_one_file_missing_is_refused(missing: str, kept: str) -> None:
    """Half of a state is never taken for all of it."""
    disk, _ = written()
    disk.unlink(missing)
    assert "missing" in str(refusal(disk))
    assert list(disk.contents()) == [kept]


@pytest.mark.parametrize("path", [JOURNAL_PATH, SNAPSHOT_PATH])
def test_recover_unreadable_file_is_refused(path: str) -> None:
    """A file that cannot be opened is neither absent nor damaged."""
    disk, _ = written()
    disk.make_unreadable(path)
    refused = refusal(disk, UnreadableState)
    assert refused.path == path
    assert "Permission denied" in refused.reason
    assert "chmod" in refused.remedy


def test_recover_unreadable_directory_is_refused() -> None:
    """A directory that cannot be listed is not an empty one."""
    with pytest.raises(UnreadableState, match="No such file"):
        recover(Disk(), DIR, new_tag=unwanted_tag)


def test_recover_both_renames_apart_skips_what_the_snapshot_holds() -> None:
    """Killed between the renames, the old journal stands under the new snapshot: its entries are not applied twice."""
    disk, history = written(0, 9)
    journal = disk.contents()[JOURNAL_PATH]
    heir = History(disk)
    heir.states = history.states
    assert heir.snapshot()
    heir.store.close()
    disk.put(JOURNAL_PATH, journal)
    found = heir.assert_recovers(disk, at_least=9, at_most=9)
    assert len(found.ledger) == 9


def test_recover_deeply_nested_line_is_refused() -> None:
    """A line that would exhaust the decoder's stack is damage like any other."""
    disk, _ = written()
    line = with_crc(b'{"seq":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    disk.put(JOURNAL_PATH, disk.contents()[JOURNAL_PATH] + line)
    assert refusal(disk).line == 6


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_recover_what_is_no_file_is_refused_without_waiting(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A directory or a pipe in the journal's place is refused; the pipe is not waited for."""
    make(tmp_path / JOURNAL)
    with pytest.raises(UnreadableState, match="not a regular file"):
        recover(OsFiles(), str(tmp_path), new_tag=unwanted_tag)


def test_recover_line_longer_than_a_chunk_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of the file may end anywhere in a line, and a line may span many."""
    for chunk in (1, 7, 64, 1000):
        monkeypatch.setattr("claimdagd.store.framing.CHUNK", chunk)
        disk, history = written(7, 7)
        history.assert_recovers(disk, at_least=14)


def test_recover_turns_the_collector_on_again() -> None:
    """Loading is done without garbage collections, whatever comes of it; afterwards all is as before."""
    import gc

    disk, _ = written()
    recover(disk, DIR, new_tag=unwanted_tag)
    assert gc.isenabled()
    disk.put(JOURNAL_PATH, b"")
    refusal(disk)
    assert gc.isenabled()
