"""The store over disks that fail at every single operation, in every way: nothing answered is lost, nothing is torn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimdagd.store.errors import StorageError
from claimdagd.store.recovery import recover
from claimdagd.store.store import Durability
from tests.simulation.fault_disk import Disk, Fault, FaultyFiles, How, Killed
from tests.unit.store.history import DIR, History, state_of, unwanted_tag

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many steps in little data: a snapshot has several slices, and a journal is copied in several chunks."""
    monkeypatch.setattr("claimdagd.store.snapshot.SLICE", 6)
    monkeypatch.setattr("claimdagd.store.journal.CHUNK", 1500)
    monkeypatch.setattr("claimdagd.store.framing.CHUNK", 3000)


MODES: list[Durability] = ["process", "fsync"]
OPS = ["create", "write", "fsync", "truncate", "rename", "unlink"]


def operations(durability: Durability, op: str) -> int:
    """How many operations the script takes when nothing fails."""
    files = FaultyFiles(Disk(DIR))
    History(files, durability).script()
    return files.counts[op]


def test_script_without_faults_recovers_whole() -> None:
    """The script itself is sound: every state it passes through is the one that a reader would find."""
    for durability in MODES:
        disk = Disk(DIR)
        history = History(disk, durability)
        history.script(lambda h=history, d=disk: h.assert_recovers(d, at_least=h.store.seq, at_most=h.store.seq))
        assert history.refused == 0
        assert history.store.seq > 20
        history.store.close()
        assert disk.open_files == 0


@pytest.mark.parametrize("persistent", [False, True], ids=["once", "persistent"])
@pytest.mark.parametrize(("op", "how"), [*((op, how) for op in OPS for how in ("fail", "tear")), ("write", "short")])
@pytest.mark.parametrize("durability", MODES)
def test_store_operation_fails_leaves_file_as_answered(
    durability: Durability, op: str, how: How, persistent: bool
) -> None:
    """Whichever operation fails, the files hold what was accepted, and when the disk is well again so is the store."""
    for nth in range(1, operations(durability, op) + 1):
        disk = Disk(DIR)
        files = FaultyFiles(disk, Fault(op, nth, how, persistent))
        try:
            history = History(files, durability)
        except StorageError:
            files.heal()
            history = History(files, durability)

        def check(history: History = history, disk: Disk = disk) -> None:
            if not history.store.broken:
                history.assert_recovers(disk, at_least=history.store.seq, at_most=history.store.seq)

        history.script(check)
        if op not in ("truncate", "unlink"):
            assert files.struck
        files.heal()
        assert history.write(2)
        assert history.flush()
        assert not history.store.broken
        found = history.assert_recovers(disk, at_least=history.store.seq)
        assert history.snapshot()
        assert state_of(history.assert_recovers(disk)) == state_of(found)
        assert not [name for name in disk.listdir(DIR) if name.endswith(".tmp")]
        history.store.close()
        assert disk.open_files == 0


@pytest.mark.parametrize("second", ["truncate", "create", "rename", "write", "fsync"])
@pytest.mark.parametrize("durability", MODES)
def test_append_restore_fails_too_is_refused_until_repaired(durability: Durability, second: str) -> None:
    """A write that cannot be taken back makes the store refuse, until a later append has put the file right."""
    disk = Disk(DIR)
    files = FaultyFiles(disk)
    history = History(files, durability)
    assert history.write(3)
    assert history.flush()
    before = disk.contents()
    files.arm("write", "tear", persistent=second == "write")
    files.arm("truncate", persistent=True)
    files.arm(second, persistent=True)
    assert not history.write(2)
    if second == "truncate" or (second == "fsync" and durability == "process"):
        # The journal was written anew under its name instead.
        assert not history.store.broken
        assert disk.contents() == before
    else:
        assert history.store.broken
        for _ in range(3):
            assert not history.write(1)
        # What a reader finds is what was answered, and the part of a line that never was.
        assert history.assert_recovers(disk).seq == 3
    files.heal()
    assert history.write(2)
    assert not history.store.broken
    history.assert_recovers(disk, at_least=5, at_most=5)


@pytest.mark.parametrize("how", ["kill", "kill_torn", "kill_after"])
@pytest.mark.parametrize("durability", MODES)
def test_store_killed_at_every_operation_recovers_what_was_answered(durability: Durability, how: How) -> None:
    """A process that dies at any operation leaves a state that recovers, goes on, and dies again (law 7.1)."""
    for nth in range(1, operations(durability, "any") + 1):
        disk = Disk(DIR)
        history: History | None = None
        try:
            history = History(FaultyFiles(disk, Fault("any", nth, how)), durability)
            history.script()
        except Killed:
            pass
        else:
            raise AssertionError(nth)
        disk.kill()
        if history is None:
            # It died before it had answered anything.
            assert recover(disk, DIR, new_tag=lambda: "abcd").seq == 0
            continue
        found = history.assert_recovers(disk)
        heir = History(disk, durability)
        assert heir.store.seq == found.seq
        assert not [name for name in disk.listdir(DIR) if name.endswith(".tmp")]
        heir.script()
        assert heir.refused == 0
        heir.assert_recovers(disk, at_least=heir.store.seq)


def test_store_power_cut_at_every_operation_recovers_what_was_flushed() -> None:
    """In fsync mode what was answered survives the machine, whichever unflushed writes and renames reached the disk.

    Law 7.1.
    """
    for nth in range(1, operations("fsync", "any") + 1):
        for how in ("kill_torn", "kill_after"):
            disk = Disk(DIR)
            history: History | None = None
            try:
                history = History(FaultyFiles(disk, Fault("any", nth, how)), "fsync")
                history.script()
            except Killed:
                pass
            if history is None:
                continue
            for kept in range(disk.unflushed_names + 1):
                for data_kept in (False, True):
                    after = disk.copy()
                    after.cut_power(name_changes_kept=kept, data_kept=data_kept)
                    history.assert_recovers(after)


@pytest.mark.parametrize("second", OPS)
@pytest.mark.parametrize("first", ["write", "rename", "fsync"])
def test_store_two_faults_then_killed_loses_nothing_answered(first: str, second: str) -> None:
    """Failures in a row, then death: what was answered is there, whatever was refused in between."""
    for nth in range(1, operations("process", first) + operations("fsync", "fsync"), 2):
        for durability in MODES:
            disk = Disk(DIR)
            files = FaultyFiles(disk)
            history = History(files, durability)
            files.arm(first, "tear", nth=nth)
            files.arm(second, "fail", nth=max(1, nth // 2), persistent=True)
            history.script()
            disk.kill()
            history.assert_recovers(disk)


def test_disk_full_refuses_and_goes_on_when_there_is_room() -> None:
    """ENOSPC in the middle of a line: refused, nothing changed, and accepted again once there is room (law 7.7)."""
    disk = Disk(DIR)
    history = History(disk)
    assert history.write(4)
    full = disk.contents()
    disk.capacity = disk.used + 100
    for _ in range(3):
        assert not history.write(1)
        assert disk.contents() == full
    assert not history.snapshot()
    assert disk.contents() == full
    disk.capacity = None
    assert history.write(1)
    history.assert_recovers(disk, at_least=5)


def test_snapshot_dropped_half_way_leaves_no_trace() -> None:
    """A caller that stops driving a snapshot loses only the snapshot."""
    disk = Disk(DIR)
    history = History(disk)
    assert history.write(4)
    before = disk.contents()
    work = history.store.snapshot(history.head(), history.state.nodes.values(), [])
    next(work)
    assert len(disk.contents()) == 2
    work.close()
    assert disk.contents() == before
    assert history.write(1)
    assert history.snapshot()
    history.assert_recovers(disk, at_least=5)


def test_sync_right_after_a_restart_flushes_the_new_name_too() -> None:
    """What is answered between the rename and its flush is in a file whose name a power cut could still take."""
    disk = Disk(DIR)
    history = History(disk, "fsync")
    assert history.write(3)
    assert history.flush()
    work = history.store.snapshot(history.head(), history.state.nodes.values(), history.state.once.items())
    before = disk.contents()[f"{DIR}/journal.jsonl"]
    while disk.contents()[f"{DIR}/journal.jsonl"] == before:
        next(work)
    assert history.write(2)
    assert history.flush()
    assert history.answered == 5
    disk.cut_power()
    history.assert_recovers(disk)


def test_store_opened_after_a_kill_flushes_what_it_shows() -> None:
    """Entries that a killed daemon never flushed are shown to clients by the next one: they must survive from then."""
    disk = Disk(DIR)
    history = History(disk, "fsync")
    assert history.write(3)
    assert history.answered == 0
    disk.kill()
    heir = History(disk, "fsync")
    assert heir.answered == 3
    heir.states.update(history.states)
    disk.cut_power()
    heir.assert_recovers(disk)


@pytest.mark.parametrize("rename_fails", [True, False])
def test_restart_under_which_the_journal_was_rewritten_gives_up(rename_fails: bool) -> None:
    """A repair that takes over the temporary file of a waiting restart, and may leave it, loses no later entry."""
    disk = Disk(DIR)
    files = FaultyFiles(disk)
    history = History(files)
    assert history.write(2)
    head, nodes, once = history.head(), list(history.state.nodes.values()), list(history.state.once.items())
    assert history.write(20)
    work = history.store.snapshot(head, nodes, once)
    while f"{DIR}/journal.jsonl.tmp" not in disk.contents():
        next(work)
    files.arm("write", "tear")
    files.arm("truncate")
    if rename_fails:
        files.arm("rename")
        # The first one is of the waiting restart's file, the second of the repair's own.
        files.arm("unlink", nth=2)
    assert not history.write(1)
    assert history.store.broken is rename_fails
    files.heal()
    with pytest.raises(StorageError):
        for _ in work:
            pass
    assert history.write(1)
    history.assert_recovers(disk, at_least=23, at_most=23)
    assert history.snapshot()
    assert history.write(1)
    history.assert_recovers(disk, at_least=24, at_most=24)


def test_restart_whose_rename_is_in_doubt_is_repaired_by_the_next_append() -> None:
    """Neither the rename nor the look at its outcome succeeds: the journal is broken until it is written anew."""

    class Blind(Disk):
        blind = False

        def same(self, path: str, fd: int) -> bool:
            if self.blind:
                raise OSError(5, "input/output error")
            return super().same(path, fd)

    disk = Blind(DIR)
    files = FaultyFiles(disk)
    history = History(files)
    assert history.write(4)
    files.arm("rename", "tear", nth=2)
    disk.blind = True
    assert not history.snapshot()
    assert history.store.broken
    assert history.write(1)
    assert not history.store.broken
    history.assert_recovers(disk, at_least=5, at_most=5)


def test_faulty_files_persistent_fault_strikes_until_healed() -> None:
    """The tool itself: a persistent fault goes on, a single one does not."""
    disk = Disk(DIR)
    files = FaultyFiles(disk, Fault("write", 2, "fail", persistent=True))
    fd = files.create(f"{DIR}/x")
    assert files.write(fd, b"ab") == 2
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            files.write(fd, b"cd")
    files.heal()
    files.arm("write", "short")
    assert files.write(fd, b"cdef") == 2
    assert files.write(fd, b"ef") == 2
    assert disk.contents() == {f"{DIR}/x": b"abcdef"}
    assert replace(Fault("write", 1), nth=2).nth == 2


def test_recover_of_a_state_never_mints_a_tag() -> None:
    """The tag of a graph that is there is never asked for anew."""
    disk = Disk(DIR)
    History(disk).script()
    assert recover(disk, DIR, new_tag=unwanted_tag).tag == "7q2f"
