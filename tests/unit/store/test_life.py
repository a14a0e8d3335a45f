"""Long lives of a state: writes, snapshots, faults, deaths, power cuts and salvages in any order, from a seed.

`CLAIMDAG_SEEDS=N` runs so many more seeds than the suite does.
"""

from __future__ import annotations

import os
import random
from collections.abc import Generator

import pytest

from claimdagd.model import number_of
from claimdagd.store.errors import CorruptState, StorageError
from claimdagd.store.recovery import recover
from claimdagd.store.steps import Step
from claimdagd.store.store import Durability, Store
from tests.simulation.fault_disk import Disk, FaultyFiles, How, Killed
from tests.unit.store.history import DIR, History, new_tag, state_of, unwanted_tag

SEEDS = 30 + int(os.environ.get("CLAIMDAG_SEEDS", "0"))
OPS = ["write", "rename", "truncate", "fsync", "create", "unlink", "any"]
HOWS: list[How] = ["fail", "short", "tear", "kill", "kill_torn", "kill_after"]


class Life:
    """One graph over many processes on one disk."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.durability: Durability = self.chance.choice(["process", "fsync"])
        self.disk = Disk(DIR)
        #: What was seen by anybody: the highest number minted, the highest entry, the generation of each node.
        self.top_number = self.top_seq = 0
        self.gens: dict[str, int] = {}
        self.salvages = 0
        self.open()

    def open(self) -> None:
        self.files = FaultyFiles(self.disk)
        self.history = History(self.files, self.durability)
        self.work: Generator[Step, None, int] | None = None
        self.see()

    def see(self) -> None:
        """What is answered now is ahead of all that was answered before, or is the same."""
        history = self.history
        state = history.states[history.answered]
        assert state.next > self.top_number
        assert history.answered >= self.top_seq
        for node_id, node in state.nodes.items():
            assert node.gen >= self.gens.get(node_id, 0)
            self.gens[node_id] = node.gen
        self.top_number = max([self.top_number, *map(number_of, state.nodes)])
        self.top_seq = history.answered

    def die(self) -> None:
        """The process is gone, or the machine; what was answered is there."""
        self.files.dead = True
        if self.durability == "fsync" and self.chance.random() < 0.5:
            kept = self.chance.randint(0, self.disk.unflushed_names)
            self.disk.cut_power(name_changes_kept=kept, data_kept=self.chance.random() < 0.5)
        self.disk.kill()
        before = self.history
        found = before.assert_recovers(self.disk)
        self.open()
        assert state_of(found) == self.history.state
        before.states.update(self.history.states)
        self.history.states = before.states

    def damage(self) -> None:
        """Bytes of the files change between two lives, or a file is gone: it is found, and salvaged."""
        self.files.dead = True
        self.disk.kill()
        for _ in range(self.chance.randint(1, 2)):
            path = f"{DIR}/{self.chance.choice(['journal.jsonl', 'snapshot.jsonl'])}"
            data = bytearray(self.disk.contents().get(path, b""))
            if not data:
                continue
            match self.chance.randrange(6):
                case 0:
                    self.disk.unlink(path)
                case 1 | 2:
                    self.disk.put(path, bytes(data[: self.chance.randrange(len(data))]))
                case _:
                    offset = self.chance.randrange(len(data))
                    data[offset] ^= 1 << self.chance.randrange(8)
                    self.disk.put(path, bytes(data))
        if not {f"{DIR}/journal.jsonl", f"{DIR}/snapshot.jsonl"} & set(self.disk.contents()):
            return self.open_new()  # both are gone: nobody could tell
        try:
            found = recover(self.disk, DIR, new_tag=unwanted_tag)
        except CorruptState:
            pass
        else:
            # A journal cut between or in its lines, or a change that came to nothing.
            if found.seq < self.top_seq:
                return self.open_new()
            return self.open()
        found = recover(self.disk, DIR, salvage=True, new_tag=new_tag, at=2e9)
        Store(self.disk, DIR, self.durability, found).close()
        self.salvages += 1
        if not any(note.startswith("nothing verifies") for note in found.notes):
            return self.open()
        return self.open_new()

    def open_new(self) -> None:
        """Nothing is left that could be known: a new graph, which would have a tag of its own, or an earlier state."""
        self.top_number = self.top_seq = 0
        self.gens.clear()
        self.open()

    def turn(self) -> None:
        chance, history = self.chance, self.history
        match chance.randrange(12):
            case 0 | 1 | 2 | 3:
                history.write(chance.randint(1, 6))
            case 4 | 5:
                history.flush()
            case 6 | 7 if self.work is None:
                self.work = history.store.snapshot(
                    history.head(),
                    history.state.nodes.values(),
                    history.state.once.items(),
                    ledger=chance.randint(0, 5),
                )
            case 6 | 7 | 8:
                self.drive(chance.randint(1, 5))
            case 9:
                self.files.arm(
                    chance.choice(OPS), chance.choice(HOWS), nth=chance.randint(1, 6), persistent=chance.random() < 0.3
                )
            case 10:
                self.files.heal()
            case _:
                if chance.random() < 0.3:
                    self.die()
                elif chance.random() < 0.3:
                    self.flush_and_damage()
        self.see()

    def flush_and_damage(self) -> None:
        self.files.heal()
        if self.history.store.broken and not self.history.write(1):
            raise AssertionError("a healthy disk and a broken store")
        self.history.flush()
        self.see()
        self.damage()

    def drive(self, steps: int) -> None:
        try:
            for _ in range(steps):
                if self.work is not None:
                    step = next(self.work)
                    if step is not None and self.chance.random() < 0.5:
                        step()
        except (StopIteration, StorageError, ValueError):
            self.work = None


@pytest.mark.parametrize("seed", range(SEEDS))
def test_life_of_any_shape_loses_nothing_answered(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens in whatever order: what was answered is there, numbers go on, generations never go back."""
    monkeypatch.setattr("claimdagd.store.snapshot.SLICE", 3)
    monkeypatch.setattr("claimdagd.store.journal.CHUNK", 900)
    life = Life(seed)
    for _ in range(150):
        try:
            life.turn()
        except Killed:
            life.die()
    life.files.heal()
    assert life.history.write(1)
    assert life.history.flush()
    life.die()
