"""A small service without rules: it makes entries of every kind, and remembers what the state was after each.

The tests of the store drive it over disks that fail, and hold what recovers against what it was told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from claimdagd.model import Dep, Grant, Node, Status, When
from claimdagd.store.errors import StorageError
from claimdagd.store.files import Files
from claimdagd.store.recovery import Recovered, recover
from claimdagd.store.snapshot import SnapshotHead
from claimdagd.store.store import Durability, Store
from tests.support.entries import Entry, encode_entry

DIR = "/run/claimdag"
TAG = "7q2f"
BASE_AT = 1_700_000_000.0


@dataclass
class State:
    """What must come back."""

    nodes: dict[str, Node] = field(default_factory=dict)
    capacities: dict[str, int] = field(default_factory=dict)
    once: dict[str, bytes] = field(default_factory=dict)
    next: int = 1

    def copy(self) -> State:
        return State(dict(self.nodes), dict(self.capacities), dict(self.once), self.next)


def state_of(recovered: Recovered) -> State:
    """The part of a recovered state that answers depend on."""
    return State(recovered.nodes, recovered.capacities, recovered.once, recovered.next_number)


def new_tag() -> str:
    """The tag of every new graph here."""
    return TAG


def unwanted_tag() -> str:
    """For a recovery that must find a graph."""
    raise AssertionError("the state was taken for an empty graph")


class History:
    """Makes one mutation after another. `states[seq]` is the state after entry seq; `answered` the last told of."""

    def __init__(self, files: Files, durability: Durability = "process", directory: str = DIR) -> None:
        self.files = files
        self.directory = directory
        self.durability = durability
        recovered = recover(files, directory, new_tag=new_tag)
        self.tag = recovered.tag
        self.state = state_of(recovered)
        self.store = Store(files, directory, durability, recovered)
        self.states: dict[int, State] = {self.store.seq: self.state.copy()}
        #: Entries that were answered, and those of which an answer was ever tried.
        self.answered = self.store.seq
        self.attempted = self.store.seq
        self.refused = 0
        self.lines: dict[int, bytes] = {}

    def entry(self, seq: int, state: State) -> Entry:
        """The entry that seq gets, and `state` moved on by it. Every kind of content comes round."""
        at = BASE_AT + seq / 8
        turn = seq % 6
        nodes: list[Node] = []
        flips: dict[Status, list[str]] = {}
        gone: list[str] = []
        capacity = once = reply = None
        if turn in (1, 2, 3) or not state.nodes:
            node_id = f"{self.tag}-{state.next}"
            deps = tuple(Dep(i, When.AFTER_ANY) for i in list(state.nodes)[-2:])
            nodes = [Node(id=node_id, summary=f'"n{seq}" of \N{SNOWMAN}\n', deps=deps, needs={"cpu": 2}, created_at=at)]
            state.next += 1
        elif turn == 4:
            held = next(reversed(state.nodes.values()))
            nodes = [
                msgspec.structs.replace(
                    held,
                    status=Status.CLAIMED,
                    assignee="codex-3",
                    gen=held.gen + 1,
                    lease=900.0,
                    bound=True,
                    grants=(Grant("cpu", 2),),
                    started_at=at,
                )
            ]
            flips = {Status.READY: [next(iter(state.nodes))]}
            once, reply = f"token-{seq}", b'{"id":"%s","gen":%d}' % (held.id.encode(), held.gen + 1)
        elif turn == 5:
            capacity = {f"cpu{seq % 4}": seq}
        elif len(state.nodes) > 3:
            gone = list(state.nodes)[:2]
        for node in nodes:
            state.nodes[node.id] = node
        for status, ids in flips.items():
            for i in ids:
                state.nodes[i] = msgspec.structs.replace(state.nodes[i], status=status)
        for i in gone:
            del state.nodes[i]
        state.capacities.update(capacity or {})
        if once is not None and reply is not None:
            state.once[once] = reply
        return Entry(
            seq=seq,
            at=at,
            op="upsert",
            actor="codex-3",
            nodes=nodes,
            flips=flips,
            gone=gone,
            capacity=capacity,
            once=once,
            reply=msgspec.Raw(reply) if reply else None,
            next=state.next,
        )

    def write(self, count: int = 1) -> bool:
        """A batch of so many mutations; whether it was accepted."""
        state = self.state.copy()
        seq = self.store.seq
        lines = []
        states: dict[int, State] = {}
        for number in range(seq + 1, seq + count + 1):
            lines.append(encode_entry(self.entry(number, state)))
            states[number] = state.copy()
            self.lines[number] = lines[-1]
        self.attempted = max(self.attempted, seq + count)
        self.states.update(states)
        try:
            self.store.append(lines)
        except StorageError:
            self.refused += 1
            return False
        self.state = state
        if self.durability == "process":
            self.answered = self.store.seq
        return True

    def flush(self) -> bool:
        """What the shell does in fsync mode: flush, then answer; or take everything back that was not flushed."""
        if self.durability == "process":
            return True
        try:
            self.store.sync()
        except StorageError:
            self.refused += 1
            self.answered = max(self.answered, self.store.flushed)
            try:
                self.store.undo_to(self.store.flushed)
            except StorageError:
                assert self.store.broken
            assert self.store.seq == self.store.flushed
            self.state = self.states[self.store.seq].copy()
            return False
        self.answered = self.store.flushed
        return True

    def head(self) -> SnapshotHead:
        """The head of a snapshot of this moment."""
        seq = self.store.seq
        return SnapshotHead(self.tag, seq, BASE_AT + seq / 8, self.state.next, dict(self.state.capacities))

    def snapshot(self, between: Callable[[], object] = lambda: None, *, ledger: int = 0) -> bool:
        """A snapshot, with `between` done at every turn; whether it succeeded."""
        try:
            work = self.store.snapshot(self.head(), self.state.nodes.values(), self.state.once.items(), ledger=ledger)
            for step in work:
                if step is not None:
                    step()
                between()
        except StorageError:
            self.refused += 1
            return False
        return True

    def script(self, check: Callable[[], object] = lambda: None) -> None:
        """Appends and snapshots in every order that matters, with `check` after each answer."""

        def batch(count: int) -> None:
            self.write(count)
            check()
            self.flush()
            check()

        def between() -> None:
            self.write(1)
            check()

        batch(1)
        batch(7)
        self.snapshot()
        check()
        batch(3)
        self.snapshot(between, ledger=2)
        check()
        self.flush()
        check()
        batch(2)
        self.snapshot(lambda: batch(2))
        check()
        batch(1)

    def assert_recovers(self, files: Files, *, at_least: int | None = None, at_most: int | None = None) -> Recovered:
        """Nothing that was answered is lost, and nothing is there that was never tried; what is there is whole."""
        found = recover(files, self.directory, new_tag=new_tag if not self.answered else unwanted_tag)
        low = self.answered if at_least is None else at_least
        high = self.attempted if at_most is None else at_most
        assert low <= found.seq <= high, (low, found.seq, high)
        assert state_of(found) == self.states[found.seq]
        return found
