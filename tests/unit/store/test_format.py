"""Golden files: what format 1 is on disk. A later version must read them as they are, for ever.

If this version no longer writes them byte for byte, then what it writes is another format: raise FORMAT in
claimdagd/store/framing.py, keep these files and the reading tests, and add the new format's files beside them.
`python -m tests.unit.store.test_format` writes what this version writes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from claimdagd.model import Dep, Grant, Kind, Node, Outcome, Role, Status, When
from claimdagd.store.files import OsFiles
from claimdagd.store.framing import FORMAT
from claimdagd.store.recovery import Recovered, read_offline, recover
from claimdagd.store.snapshot import SnapshotHead
from claimdagd.store.store import Store
from tests.simulation.fault_disk import Disk
from tests.support.entries import Entry, encode_entry
from tests.unit.store.history import DIR, unwanted_tag

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "data" / "format-1"
NAMES = ("snapshot.jsonl", "journal.jsonl")

GOAL = Node(id="7q2f-1", kind=Kind.GOAL, summary="ship it", priority=5, created_at=1.5, updated_at=1.5)
FULL = Node(
    id="7q2f-2",
    kind=Kind.TASK,
    role=Role.IMPLEMENTOR,
    status=Status.CLAIMED,
    summary='caf\u00e9 \u2603 "quoted" \\ \t\n\u2028 ,"crc":"00000000"}',
    parent="7q2f-1",
    deps=(Dep("7q2f-3"), Dep("7q2f-4", When.AFTER_ANY)),
    needs={"cpu": 2, "repo:main@x/y-z_1.2": 1},
    cost=2.5,
    priority=-100,
    assignee="codex-3",
    gen=7,
    attempts=3,
    max_attempts=5,
    created_at=1.5,
    updated_at=1_700_000_000.123456,
    started_at=1_700_000_000.0,
    lease=900.0,
    bound=True,
    grants=(Grant("cpu", 2), Grant("repo:main@x/y-z_1.2", 1, "7q2f-1")),
)
FAILED = Node(
    id="7q2f-3",
    kind=Kind.STEP,
    role=Role.VERIFIER,
    status=Status.CANCELLED,
    outcome=Outcome.CANCELLED,
    cause="7q2f-4",
    error="exit status 7",
    archived=True,
    finished_at=2.0,
)
WAITING = Node(id="7q2f-5", status=Status.TODO, deps=(Dep("7q2f-2"),))


def entries() -> Iterator[Entry]:
    """One entry of each shape."""
    yield Entry(seq=1, at=1.5, op="submit", actor="ana@host", nodes=[GOAL, FULL, FAILED, WAITING], next=6)
    yield Entry(seq=2, at=2.0, op="capacity", capacity={"cpu": 8, "gpu": 0}, next=6)
    yield Entry(
        seq=3, at=1_700_000_001.25, op="claim", actor="codex-3", nodes=[FULL], once="tok-1",
        reply=msgspec.Raw(b'{"id":"7q2f-2","gen":7,"expires_in":900.0}'), next=6,
    )  # fmt: skip
    done = msgspec.structs.replace(FULL, status=Status.DONE, outcome=Outcome.DONE, assignee=None, grants=(), lease=None)
    yield Entry(
        seq=4, at=1_700_000_002.5, op="complete", actor=None, nodes=[done],
        flips={Status.READY: ["7q2f-5"], Status.RUNNING: ["7q2f-1"]}, gone=["7q2f-3"], once="tok-2",
        reply=msgspec.Raw(b'{"node":{},"ready":["7q2f-5"]}'), next=6,
    )  # fmt: skip


def write() -> dict[str, bytes]:
    """The two files as this version writes them: a snapshot after entry 3, a journal that keeps one entry before it."""
    disk = Disk(DIR)
    store = Store(disk, DIR, "process", recover(disk, DIR, new_tag=lambda: "7q2f"))
    *before, last = [encode_entry(entry) for entry in entries()]
    store.append(before)
    head = SnapshotHead("7q2f", 3, 1_700_000_001.25, 6, {"cpu": 8, "gpu": 0})
    once = [("tok-1", b'{"id":"7q2f-2","gen":7,"expires_in":900.0}')]
    for _ in store.snapshot(head, [GOAL, FULL, FAILED, WAITING], once, ledger=1):
        pass
    store.append([last])
    return {name: disk.contents()[f"{DIR}/{name}"] for name in NAMES}


def check(found: Recovered) -> None:
    """What the golden files say."""
    assert (found.tag, found.seq, found.next_number, found.at) == ("7q2f", 4, 6, 1_700_000_002.5)
    assert list(found.nodes) == ["7q2f-1", "7q2f-2", "7q2f-5"]
    assert found.nodes["7q2f-1"] == msgspec.structs.replace(GOAL, status=Status.RUNNING)
    assert found.nodes["7q2f-2"] == msgspec.structs.replace(
        FULL, status=Status.DONE, outcome=Outcome.DONE, assignee=None, grants=(), lease=None
    )
    assert found.nodes["7q2f-5"] == msgspec.structs.replace(WAITING, status=Status.READY)
    assert found.capacities == {"cpu": 8, "gpu": 0}
    assert list(found.once.items()) == [
        ("tok-1", b'{"id":"7q2f-2","gen":7,"expires_in":900.0}'),
        ("tok-2", b'{"node":{},"ready":["7q2f-5"]}'),
    ]
    assert [msgspec.json.decode(line)["op"] for line in found.ledger] == ["claim", "complete"]
    assert found.notes == []


def test_golden_format_1_is_read() -> None:
    """What version 0.1 wrote is read, to the last field."""
    check(recover(OsFiles(), str(GOLDEN), new_tag=unwanted_tag))
    check(read_offline(str(GOLDEN), 1_700_000_003.0).state)


def test_golden_format_1_snapshot_node_with_every_field_is_read() -> None:
    """The node that has every field set survives the snapshot too."""
    disk = Disk(DIR)
    for name in NAMES:
        disk.put(f"{DIR}/{name}", (GOLDEN / name).read_bytes())
    journal = disk.contents()[f"{DIR}/journal.jsonl"]
    disk.put(f"{DIR}/journal.jsonl", b"".join(journal.splitlines(keepends=True)[:2]))
    found = recover(disk, DIR, new_tag=unwanted_tag)
    assert list(found.nodes.values()) == [GOAL, FULL, FAILED, WAITING]


def test_golden_format_1_is_what_is_written() -> None:
    """Byte for byte; see the head of this file for what to do where this fails (law 7.2)."""
    assert FORMAT == 1
    assert write() == {name: (GOLDEN / name).read_bytes() for name in NAMES}


def test_document_shows_the_golden_lines() -> None:
    """Every line that docs/reference/journal.md shows is one of the golden files, and verifies."""
    text = (ROOT.parent / "docs" / "reference" / "journal.md").read_text(encoding="utf-8")
    shown = [line for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL) for line in block.split("\n") if line]
    golden = [line for name in NAMES for line in (GOLDEN / name).read_text(encoding="utf-8").split("\n") if line]
    assert len(shown) > 4
    assert set(shown) <= set(golden)


def test_document_commands_work_on_the_golden_files() -> None:
    """Every command that docs/reference/journal.md shows says something about the golden files."""
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    text = (ROOT.parent / "docs" / "reference" / "journal.md").read_text(encoding="utf-8")
    commands = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert len(commands) > 3
    for command in commands:
        done = subprocess.run(["sh", "-ec", command], cwd=GOLDEN, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.strip()


def test_process_of_a_claim_is_written_only_where_there_is_one() -> None:
    """So a state without such claims is byte for byte what it was before there were any."""
    held = msgspec.structs.replace(FULL, pid=7, pid_start=9)
    assert b'"pid"' not in msgspec.json.encode(FULL)
    assert msgspec.json.encode(held).endswith(b'"pid":7,"pid_start":9}')
    assert msgspec.json.decode(msgspec.json.encode(held), type=Node) == held


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for file, data in write().items():
        (GOLDEN / file).write_bytes(data)
