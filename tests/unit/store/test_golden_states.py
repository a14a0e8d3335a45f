"""States of an earlier version, whole and damaged, come back as that version read them, byte for byte."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from claimdagd.model import Node
from claimdagd.store.errors import CorruptState
from claimdagd.store.files import OsFiles
from claimdagd.store.recovery import Recovered, recover
from claimdagd.store.snapshot import SnapshotHead, encode_snapshot
from claimdagd.store.store import Store
from tests.unit.store.history import unwanted_tag

STATES = Path(__file__).parents[2] / "data" / "format-1" / "states"
CASES = sorted(path.name for path in STATES.iterdir() if path.is_dir())
SALVAGED_AT = 1_800_000_000.0
NODE_DEFAULTS = msgspec.to_builtins(Node(id=""))


def as_snapshot(state: Recovered) -> bytes:
    head = SnapshotHead(state.tag, state.seq, state.at, state.next_number, state.capacities)
    return b"".join(encode_snapshot(head, list(state.nodes.values()), list(state.once.items())))


def assert_same(found: bytes, golden: bytes) -> None:
    """Assert equal bytes, or equal nodes but for fields that the node has gained since, at their defaults."""
    if found == golden:
        return
    ours, theirs = ([json.loads(line) for line in text.splitlines()] for text in (found, golden))
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        new = mine.keys() - other.keys()
        assert {name: mine.pop(name) for name in new} == {name: NODE_DEFAULTS[name] for name in new}
        for line in (mine, other):
            line.pop("crc", None)
            line.pop("sum", None)
        assert mine == other


@pytest.mark.parametrize("case", CASES)
def test_state_of_an_earlier_version_is_read_as_it_was_then(case: str, tmp_path: Path) -> None:
    """What was whole is recovered, what was refused is refused at the same line, and nothing is changed."""
    directory = tmp_path / "d"
    shutil.copytree(STATES / case, directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    expected = json.loads(before["expected.json"])
    if expected["refused"]:
        with pytest.raises(CorruptState) as refusal:
            recover(OsFiles(), str(directory), new_tag=unwanted_tag)
        assert Path(refusal.value.path).name == expected["refused"]["file"]
        assert refusal.value.line == expected["refused"]["line"]
        assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
        found = recover(OsFiles(), str(directory), salvage=True, new_tag=unwanted_tag, at=SALVAGED_AT)
    else:
        found = recover(OsFiles(), str(directory), new_tag=unwanted_tag)
    golden = before["salvaged.jsonl" if expected["refused"] else "recovered.jsonl"]
    assert_same(as_snapshot(found), golden)
    assert len(found.ledger) == expected["ledger"]
    assert crc32(b"\n".join(found.ledger)) == expected["ledger_crc"]
    Store(OsFiles(), str(directory), "process", found).close()
    again = recover(OsFiles(), str(directory), new_tag=unwanted_tag)
    assert_same(as_snapshot(again), golden)
    assert again.notes == []
