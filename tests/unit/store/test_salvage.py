"""Salvage: the originals are kept, what verifies is taken, the rest is told; no id or generation comes twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from claimdagd.model import TERMINAL, Dep, Grant, Kind, Node, Outcome, Status, number_of
from claimdagd.store.entry import encode_journal_header
from claimdagd.store.errors import CorruptState, StorageError, UnknownFormat, UnreadableState
from claimdagd.store.files import OsFiles
from claimdagd.store.framing import with_crc
from claimdagd.store.recovery import Recovered, recover
from claimdagd.store.repair import repair
from claimdagd.store.store import Store
from tests.simulation.fault_disk import Disk, Fault, FaultyFiles, Killed
from tests.support.entries import Entry, encode_entry
from tests.unit.store.history import DIR, TAG, History, new_tag, state_of, unwanted_tag

JOURNAL_PATH = f"{DIR}/journal.jsonl"
SNAPSHOT_PATH = f"{DIR}/snapshot.jsonl"
AT = 1_800_000_000.0
KEPT = f"{DIR}/salvage-20270115T080000Z"


def written() -> tuple[Disk, History]:
    """A disk with a snapshot of 5 entries and a journal of 6 more."""
    disk = Disk(DIR)
    history = History(disk)
    assert history.write(5)
    assert history.snapshot()
    assert history.write(6)
    history.store.close()
    return disk, history


def salvaged(disk: Disk, tag: Callable[[], str] = unwanted_tag) -> Recovered:
    """CorruptState, salvaged, opened, closed, and whole from there on."""
    with pytest.raises(CorruptState):
        recover(disk, DIR, new_tag=unwanted_tag)
    before = disk.contents()
    found = recover(disk, DIR, salvage=True, new_tag=tag, at=AT)
    assert {path: data for path, data in disk.contents().items() if not path.startswith(KEPT)} == before
    kept = {path.removeprefix(KEPT): data for path, data in disk.contents().items() if path.startswith(KEPT)}
    assert kept == {path.removeprefix(DIR): data for path, data in before.items()}
    Store(disk, DIR, "process", found).close()
    again = recover(disk, DIR, new_tag=unwanted_tag)
    assert state_of(again) == state_of(found)
    assert (again.seq, again.at, again.tag) == (found.seq, found.at, found.tag)
    assert disk.open_files == 0
    return found


def assert_ahead(found: Recovered, history: History) -> None:
    """No id, generation or entry number of what ever was can come again, and nobody holds anything."""
    last = history.states[max(history.states)]
    assert found.next_number > last.next + 100_000
    assert found.seq > max(history.states) + 100_000
    gens = {i: n.gen for state in history.states.values() for i, n in state.nodes.items()}
    for node in found.nodes.values():
        assert node.gen > gens[node.id] + 100_000
        assert node.assignee is None
        assert node.grants == ()
        assert node.status not in (Status.CLAIMED, Status.RUNNING)


def flip(disk: Disk, path: str, line: int) -> None:
    """Flip one bit in the middle of a line."""
    lines = disk.contents()[path].splitlines(keepends=True)
    damaged = bytearray(lines[line - 1])
    damaged[len(damaged) // 2] ^= 1
    disk.put(path, b"".join([*lines[: line - 1], bytes(damaged), *lines[line:]]))


def test_salvage_of_a_sound_state_changes_nothing() -> None:
    """Nothing is damaged: it is read as always, and said."""
    disk, history = written()
    before = disk.contents()
    found = recover(disk, DIR, salvage=True, new_tag=unwanted_tag, at=AT)
    assert state_of(found) == history.state
    assert found.seq == 11
    assert not found.salvaged
    assert "nothing to salvage" in found.notes[-1]
    assert disk.contents() == before


def test_salvage_flipped_entry_takes_all_the_others() -> None:
    """One line of the journal is left out, by file and line; those after it are taken."""
    disk, history = written()
    flip(disk, JOURNAL_PATH, 3)
    found = salvaged(disk)
    assert_ahead(found, history)
    lost = {f"{TAG}-{history.states[6].next}"}
    assert set(history.state.nodes) - set(found.nodes) <= lost
    told = "\n".join(found.notes)
    assert f"{JOURNAL_PATH}, line 3: left out, the checksum does not match" in told
    assert "line 4: entry 7 is missing before it" in told
    assert "5 entries are taken" in told
    assert KEPT in told
    assert found.once == history.state.once


def test_salvage_flipped_snapshot_node_takes_all_the_others() -> None:
    """A node's line carries its own checksum: one flipped bit costs one node."""
    disk, history = written()
    whole = recover(disk, DIR, new_tag=unwanted_tag)
    flip(disk, SNAPSHOT_PATH, 2)
    found = salvaged(disk)
    assert_ahead(found, history)
    assert len(found.nodes) >= len(whole.nodes) - 1
    assert found.capacities == whole.capacities
    told = "\n".join(found.notes)
    assert f"{SNAPSHOT_PATH}, line 2: left out" in told
    assert "2 of its 3 nodes verify" in told


def test_salvage_at_every_line_of_both_files_is_ahead_of_all() -> None:
    """Whichever line is lost, nothing that was lost in it can come twice."""
    for path in (JOURNAL_PATH, SNAPSHOT_PATH):
        disk, history = written()
        for line in range(1, disk.contents()[path].count(b"\n") + 1):
            broken = disk.copy()
            flip(broken, path, line)
            assert_ahead(salvaged(broken), history)


def test_salvage_at_every_truncation_of_the_snapshot_is_ahead_of_all() -> None:
    """A snapshot cut anywhere gives the nodes that are whole."""
    disk, history = written()
    snapshot = disk.contents()[SNAPSHOT_PATH]
    for size in range(0, len(snapshot), 7):
        broken = disk.copy()
        broken.put(SNAPSHOT_PATH, snapshot[:size])
        found = salvaged(broken)
        assert_ahead(found, history)
        assert any("cut short" in note or "empty" in note for note in found.notes)


def test_salvage_missing_snapshot_takes_the_journal() -> None:
    """The entries after the lost snapshot are all there is, and they are taken."""
    disk, history = written()
    disk.unlink(SNAPSHOT_PATH)
    found = salvaged(disk)
    assert_ahead(found, history)
    assert found.nodes
    assert any("entries 1 to 5 are missing" in note for note in found.notes)


def test_salvage_missing_journal_takes_the_snapshot() -> None:
    """The snapshot is whole; what came after it is not known, so all counters jump."""
    disk, history = written()
    disk.unlink(JOURNAL_PATH)
    found = salvaged(disk)
    assert_ahead(found, history)
    assert set(found.nodes) == set(history.states[5].nodes)


def test_salvage_foreign_journal_is_left_out_whole() -> None:
    """A journal of another graph is kept aside and not mixed in."""
    disk, history = written()
    disk.put(JOURNAL_PATH, encode_journal_header("zzzz", 5, 1))
    found = salvaged(disk)
    assert_ahead(found, history)
    assert any("the journal is of graph zzzz" in note for note in found.notes)


def test_salvage_refuses_a_newer_format() -> None:
    """The file is not damaged, and its lines may mean something else: nothing is changed."""
    disk, _ = written()
    header, rest = disk.contents()[JOURNAL_PATH].split(b"\n", 1)
    disk.put(JOURNAL_PATH, with_crc(header.rsplit(b',"crc"', 1)[0].replace(b'"format":1', b'"format":2') + b"}") + rest)
    flip(disk, SNAPSHOT_PATH, 2)  # a file beside it that a salvage would mend
    before = disk.contents()
    with pytest.raises(UnknownFormat, match="newer than 1"):
        recover(disk, DIR, salvage=True, new_tag=unwanted_tag, at=AT)
    assert disk.contents() == before


def test_salvage_snapshot_without_header_does_not_go_back() -> None:
    """Where it is not known how new the snapshot is, an older entry does not replace a newer node."""
    disk = Disk(DIR)
    history = History(disk)
    old = Node(id=f"{TAG}-1", updated_at=1.0, gen=1)
    new = replace(old, updated_at=2.0, gen=5, summary="newer", status=Status.DONE)
    history.store.append([encode_entry(Entry(seq=1, at=1.0, op="upsert", nodes=[old], next=2))])
    history.store.append([encode_entry(Entry(seq=2, at=2.0, op="upsert", nodes=[new], next=2))])
    history.state.nodes[new.id] = new
    assert history.snapshot(ledger=2)
    history.store.close()
    flip(disk, SNAPSHOT_PATH, 1)
    lines = disk.contents()[JOURNAL_PATH].splitlines(keepends=True)
    disk.put(JOURNAL_PATH, b"".join(lines[:2]))
    found = salvaged(disk)
    assert found.nodes[new.id].summary == "newer"
    assert found.nodes[new.id].gen > 1_000_005


def test_salvage_nothing_verifies_begins_a_new_graph() -> None:
    """Not a line is whole: a new graph with a tag of its own, so that no old id can name anything in it."""
    disk, _ = written()
    disk.put(JOURNAL_PATH, b"\0" * 500)
    disk.put(SNAPSHOT_PATH, b"nonsense\n" * 100)
    found = salvaged(disk, lambda: "a1b2")
    assert (found.tag, found.nodes, found.next_number, found.seq) == ("a1b2", {}, 1, 0)
    told = "\n".join(found.notes)
    assert "nothing verifies" in told
    assert "82 more faults are not listed" in told


def test_salvage_twice_jumps_twice() -> None:
    """Salvage after salvage: everything is ahead of what was before, again."""
    disk, _ = written()
    flip(disk, JOURNAL_PATH, 3)
    first = salvaged(disk)
    heir = History(disk)
    assert heir.write(4)
    heir.store.close()
    flip(disk, JOURNAL_PATH, 3)
    before = recover(disk.copy(), DIR, salvage=True, new_tag=unwanted_tag, at=AT)
    assert before.next_number > heir.state.next + 100_000 > first.next_number
    assert before.seq > first.seq + 100_000
    assert all(node.gen > first.nodes[node.id].gen for node in before.nodes.values() if node.id in first.nodes)
    assert f"{KEPT}-2" in "\n".join(before.notes)


def test_salvage_goes_on_with_new_work() -> None:
    """After a salvage the store takes entries and snapshots as ever."""
    disk, _ = written()
    flip(disk, JOURNAL_PATH, 2)
    found = recover(disk, DIR, salvage=True, new_tag=unwanted_tag, at=AT)
    Store(disk, DIR, "fsync", found).close()
    heir = History(disk)
    heir.script()
    assert heir.refused == 0
    heir.assert_recovers(disk, at_least=heir.store.seq)


@pytest.mark.parametrize("how", ["kill", "kill_after", "kill_torn"])
@pytest.mark.parametrize("damaged", [JOURNAL_PATH, SNAPSHOT_PATH])
def test_salvage_killed_anywhere_can_be_done_again(damaged: str, how: str) -> None:
    """A daemon that dies during a salvage leaves damage still, or the salvaged state; never a smaller graph."""
    disk, history = written()
    flip(disk, damaged, 2)
    expected = set(recover(disk.copy(), DIR, salvage=True, new_tag=unwanted_tag, at=AT).nodes)
    for nth in range(1, 100):
        twin = disk.copy()
        try:
            files = FaultyFiles(twin, Fault("any", nth, how))  # type: ignore[arg-type]
            Store(files, DIR, "fsync", recover(files, DIR, salvage=True, new_tag=unwanted_tag, at=AT)).close()
        except Killed:
            pass
        else:
            assert nth > 8
            break
        twin.kill()
        try:
            found = recover(twin, DIR, new_tag=unwanted_tag)
        except CorruptState:
            found = recover(twin, DIR, salvage=True, new_tag=unwanted_tag, at=AT)
        assert set(found.nodes) == expected
        assert_ahead(found, history)
        assert disk.contents()[damaged] in twin.contents().values()


@pytest.mark.parametrize("op", ["mkdir", "link", "create", "write", "rename", "fsync"])
def test_salvage_on_a_failing_disk_refuses_or_succeeds_and_loses_nothing(op: str) -> None:
    """The originals are in their place or in the kept directory, whatever fails."""
    disk, history = written()
    flip(disk, JOURNAL_PATH, 2)
    originals = set(disk.contents().values())
    for nth in (1, 2, 3):
        twin = disk.copy()
        files = FaultyFiles(twin, Fault(op, nth, persistent=True))
        try:
            found = recover(files, DIR, salvage=True, new_tag=unwanted_tag, at=AT)
            Store(files, DIR, "fsync", found).close()
        except StorageError:
            assert files.struck
        else:
            assert_ahead(found, history)
        assert originals <= set(twin.contents().values())


def test_salvage_without_hard_links_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has no links gets a copy."""
    disk, history = written()
    flip(disk, JOURNAL_PATH, 2)

    def no_links(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted", source)

    monkeypatch.setattr(disk, "link", no_links)
    assert_ahead(salvaged(disk), history)


@pytest.mark.parametrize("path", [JOURNAL_PATH, SNAPSHOT_PATH])
def test_salvage_refuses_a_file_that_cannot_be_read(path: str) -> None:
    """It may be whole: nothing is changed, also if the other file is damaged."""
    disk, _ = written()
    flip(disk, SNAPSHOT_PATH if path == JOURNAL_PATH else JOURNAL_PATH, 2)
    disk.make_unreadable(path)
    before = disk.contents()
    with pytest.raises(UnreadableState) as caught:
        recover(disk, DIR, salvage=True, new_tag=unwanted_tag, at=AT)
    assert caught.value.path == path
    assert disk.contents() == before


def test_salvage_of_an_unreadable_directory_is_refused() -> None:
    """Where nothing can be kept nothing is done."""
    with pytest.raises(UnreadableState):
        recover(Disk(), DIR, salvage=True, new_tag=unwanted_tag, at=AT)


def test_salvage_on_real_files(tmp_path: Path) -> None:
    """The same on a real disk: kept by a directory of the owner's alone, opened again without --salvage."""
    directory = str(tmp_path)
    history = History(OsFiles(), directory=directory)
    assert history.write(9)
    history.store.close()
    journal = tmp_path / "journal.jsonl"
    original = journal.read_bytes().replace(b'"seq":4,', b'"seq":5,')
    journal.write_bytes(original)
    found = recover(OsFiles(), directory, salvage=True, new_tag=unwanted_tag, at=AT)
    Store(OsFiles(), directory, "process", found).close()
    (kept,) = tmp_path.glob("salvage-*")
    assert kept.stat().st_mode & 0o777 == 0o700
    assert (kept / "journal.jsonl").read_bytes() == original
    assert state_of(recover(OsFiles(), directory, new_tag=unwanted_tag)) == state_of(found)
    assert_ahead(found, history)


def test_salvage_keeps_new_tags_out() -> None:
    """A graph whose header is lost keeps the tag that its nodes carry."""
    disk, history = written()
    flip(disk, SNAPSHOT_PATH, 1)
    flip(disk, JOURNAL_PATH, 1)
    found = recover(disk, DIR, salvage=True, new_tag=unwanted_tag, at=AT)
    assert found.tag == TAG == new_tag()
    assert_ahead(found, history)


# ---------------------------------------------------------------------------------------------------------- mending


def graph(*nodes: Node) -> dict[str, Node]:
    """Nodes by id."""
    return {node.id: node for node in nodes}


def test_mend_hands_every_claim_back() -> None:
    """Whoever held something is fenced, so nobody holds it; units and leases go with it."""
    held = Node(
        id="aaaa-1", status=Status.RUNNING, assignee="x", lease=9.0, bound=True, grants=(Grant("cpu", 1),), attempts=2
    )
    nodes = graph(held)
    notes = repair(nodes, 50)
    assert nodes["aaaa-1"] == Node(id="aaaa-1", status=Status.READY, gen=50, attempts=2)
    assert notes == ["claims are handed back: 1"]


def test_mend_drops_parents_that_are_lost_or_circular() -> None:
    """Every chain of parents ends."""
    nodes = graph(
        Node(id="aaaa-1", parent="aaaa-9"),
        Node(id="aaaa-2", parent="aaaa-3"),
        Node(id="aaaa-3", parent="aaaa-2"),
        Node(id="aaaa-4", parent="aaaa-2"),
    )
    notes = repair(nodes, 2)
    assert nodes["aaaa-1"].parent is None
    assert nodes["aaaa-4"].parent == "aaaa-2"
    assert [nodes["aaaa-2"].parent, nodes["aaaa-3"].parent].count(None) == 1
    assert notes == ["nodes stand without the parent that they had: 2"]


def test_mend_opens_what_unfinished_work_stands_under() -> None:
    """A finished node above unfinished work is finished no more; its own result stays."""
    nodes = graph(
        Node(id="aaaa-1", kind=Kind.GOAL, status=Status.DONE, outcome=Outcome.DONE, finished_at=3.0, archived=True),
        Node(id="aaaa-2", parent="aaaa-1", status=Status.FAILED, error="e", finished_at=3.0),
        Node(id="aaaa-3", parent="aaaa-2", status=Status.TODO),
    )
    repair(nodes, 2)
    goal, above, work = nodes.values()
    assert (goal.status, goal.outcome, goal.finished_at, goal.archived) == (Status.RUNNING, None, None, False)
    assert (above.status, above.outcome, above.finished_at) == (Status.COMPLETING, Outcome.FAILED, None)
    assert work.status is Status.READY


def test_mend_completing_without_children_is_ready_again() -> None:
    """Nothing would ever end it: it is to be done again, which is the side to err on."""
    nodes = graph(
        Node(id="aaaa-1", status=Status.COMPLETING, outcome=Outcome.DONE),
        Node(id="aaaa-2", parent="aaaa-1", status=Status.DONE),
    )
    repair(nodes, 2)
    assert (nodes["aaaa-1"].status, nodes["aaaa-1"].outcome) == (Status.READY, None)


@pytest.mark.parametrize(
    "nodes",
    [
        [Node(id="aaaa-1", deps=(Dep("aaaa-2"),)), Node(id="aaaa-2", deps=(Dep("aaaa-1"),))],
        [Node(id="aaaa-1", deps=(Dep("aaaa-1"),)), Node(id="aaaa-2")],
        [Node(id="aaaa-1", kind=Kind.GOAL), Node(id="aaaa-2", parent="aaaa-1", deps=(Dep("aaaa-1"),))],
        [
            Node(id="aaaa-1", kind=Kind.GOAL, deps=(Dep("aaaa-3"),)),
            Node(id="aaaa-2", parent="aaaa-1"),
            Node(id="aaaa-3", deps=(Dep("aaaa-2"),)),
        ],
    ],
    ids=["pair", "self", "group above", "through a group"],
)
def test_mend_breaks_circles(nodes: list[Node]) -> None:
    """Dependencies that wait on each other are dropped, and others are kept."""
    kept = Node(id="aaaa-8", deps=(Dep("aaaa-1"),))
    table = graph(*nodes, kept)
    notes = repair(table, 2)
    assert any("circle" in note for note in notes)
    assert table["aaaa-8"].deps == kept.deps
    again = dict(table)
    assert not any("circle" in note for note in repair(again, 2))


def test_mend_keeps_what_is_sound() -> None:
    """A dep on an own ancestor that is no group, and one on a parent's dependency, are no circles."""
    nodes = graph(
        Node(id="aaaa-1", status=Status.BLOCKED, deps=(Dep("aaaa-4"),)),
        Node(id="aaaa-2", parent="aaaa-1", deps=(Dep("aaaa-1"), Dep("aaaa-4"))),
        Node(id="aaaa-4", status=Status.DONE),
        Node(id="aaaa-5", deps=(Dep("aaaa-77"),)),
    )
    before = dict(nodes)
    notes = repair(nodes, 2)
    assert {i: n.deps for i, n in nodes.items()} == {i: n.deps for i, n in before.items()}
    assert nodes["aaaa-1"].status is Status.BLOCKED
    assert notes == ["dependencies on nodes that are lost count as met, those of: aaaa-5"]
    assert all(number_of(i) for i in nodes)
    assert nodes["aaaa-4"].status in TERMINAL


def test_claims_that_are_handed_back_have_no_process_any_more() -> None:
    """Nor a lease or a holder."""
    held = Node(id="t3st-1", status=Status.CLAIMED, assignee="a", lease=14400.0, gen=2, pid=7, pid_start=9)
    nodes = {held.id: held}
    repair(nodes, 5)
    assert nodes[held.id] == Node(id="t3st-1", status=Status.READY, gen=5)
