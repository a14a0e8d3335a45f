"""The rules by which Hypothesis chooses what to ask of the core and the reference model.

Graphs are kept small and dense (3-10 nodes, three resources), for that is where rules collide. Every accepted
mutation must leave both with equal nodes, order, resources and deadlocks; every refusal must be of the same code and
change nothing; a share of the mutations is undone and done again (`tests.model.differential`).
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import UNSET

from claimdagd import wire
from claimdagd.model import Dep, Kind, Outcome, Role, Status, When
from tests.model.differential import Pair
from tests.model.reference import Item, Model
from tests.support.driver import TAG

ACTORS = ("ann", "bob", "cyd", "dan", "eve")
RESOURCES = ("gpu", "net")

indexes = st.integers(0, 99)
kinds = st.sampled_from([Kind.TASK, Kind.TASK, Kind.TASK, Kind.STEP, Kind.GOAL, Kind.GOAL, Kind.MOLECULE])
whens = st.sampled_from([When.AFTER_OK, When.AFTER_OK, When.AFTER_ANY])
roles = st.sampled_from([Role.UNSET, Role.GENERAL, Role.EXPLORE, Role.VERIFIER])
costs = st.sampled_from([1.0, 1.0, 2.0, 3.0, 0.5, 8.0])
priorities = st.sampled_from([0, 0, 0, 1, -1, 5])
statuses = st.sampled_from([UNSET, UNSET, UNSET, UNSET, Status.TODO, Status.READY, Status.BLOCKED])
attempts = st.sampled_from([None, None, None, 1, 2])
needs = st.one_of(
    st.just({}),
    st.just({"gpu": 1}),
    st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from([1, 1, 1, 2]), min_size=1, max_size=2),
)
edges = st.lists(st.tuples(indexes, whens), max_size=2)
actors = st.sampled_from(ACTORS)
gens = st.sampled_from(["none", "none", "right", "wrong"])
leases = st.sampled_from([None, None, 10.0, 25.0, 60.0])
outcomes = st.sampled_from([Outcome.DONE, Outcome.DONE, Outcome.DONE, Outcome.FAILED, Outcome.CANCELLED])
slacks = st.sampled_from([0.0, 0.0, 1.0, 3.0])
pauses = st.sampled_from([0.0, 0.0, 0.0, 0.0, 1.0, 7.0, 30.0])
#: What becomes of a mutation: kept, or undone and done again.
undoes = st.sampled_from([False, False, False, False, False, True])


class Machine(RuleBasedStateMachine):
    """See the module. The pair of the machine that ran last is kept, for its trace."""

    last: Pair

    def __init__(self) -> None:
        super().__init__()
        self.pair = Machine.last = Pair()
        Pair.tally["examples"] += 1

    @property
    def model(self) -> Model:
        return self.pair.model

    def run(self, request: wire.Request, *, undo: bool = False) -> None:
        self.pair.run(request, undo=undo)

    def wait(self, pause: float) -> None:
        if pause:
            self.pair.wait(pause)

    @initialize(
        max_nodes=st.sampled_from([6, 10, 40, 40]),
        starvation=st.sampled_from([1, 2, 3, 100]),
        every=st.sampled_from([1, 1, 1, 4, 15]),
        capacity=st.lists(st.sampled_from([1, 1, 2, 3]), min_size=2, max_size=2),
        first=st.lists(
            st.tuples(kinds, st.one_of(st.none(), indexes), edges, needs, priorities), min_size=3, max_size=7
        ),
    )
    def begin(self, max_nodes: int, starvation: int, every: int, capacity: list[int], first: list[Any]) -> None:
        """With a few nodes, for Hypothesis leaves out some of the rules in every example."""
        self.pair = Machine.last = Pair(max_nodes=max_nodes, starvation=starvation, every=every)
        for resource, units in zip(RESOURCES, capacity, strict=True):
            self.run(wire.SetCapacity(resource=resource, units=units))
        for kind, parent, picks, wanted, priority in first:
            self.run(
                wire.Upsert(
                    kind=kind,
                    parent=None if parent is None or not self.model.items else self.choose(parent, self.a_parent),
                    deps=self.deps(picks if self.model.items else []),
                    needs=wanted,
                    priority=priority,
                )
            )

    @invariant()
    def look(self) -> None:
        self.pair.look()

    def teardown(self) -> None:
        self.pair.agree()

    # ----------------------------------------------------------------------------------------------------- choosing

    def choose(self, index: int, like: Any = None) -> str:
        """A node id: mostly one of those that `like` holds for, else any; now and then one that never was."""
        items = sorted(self.model.items.values(), key=lambda item: item.number)
        fitting = [item for item in items if like is None or like(item)]
        if index == 99 or not items:
            return f"{TAG}-999"
        pool = fitting if fitting and index < 80 else items
        return pool[index % len(pool)].id

    def gen(self, node_id: str, gen: str) -> int | None:
        if gen == "none" or node_id not in self.model.items:
            return None
        return self.model.items[node_id].gen - (gen == "wrong")

    def deps(self, picks: list[tuple[int, When]]) -> tuple[Dep, ...]:
        return tuple(Dep(self.choose(index), when) for index, when in picks)

    def is_crowded(self) -> bool:
        """Enough nodes are open for rules to collide; more would only make it slow."""
        return sum(item.final is None for item in self.model.items.values()) >= 9 or len(self.model.items) >= 24

    def unfinished(self, item: Item) -> bool:
        return item.final is None

    def finished(self, item: Item) -> bool:
        return item.final is not None

    def held(self, item: Item) -> bool:
        return item.held is not None

    def is_open(self, item: Item) -> bool:
        return item.is_open

    def ready(self, item: Item) -> bool:
        return not item.is_group and self.model.status(item) == Status.READY

    def a_parent(self, item: Item) -> bool:
        return item.final is None and item.outcome in (None, Outcome.DONE)

    # -------------------------------------------------------------------------------------------------------- rules

    @rule(
        kind=kinds,
        parent=st.one_of(st.none(), indexes, indexes),
        picks=edges,
        needs=needs,
        cost=costs,
        priority=priorities,
        role=roles,
        status=statuses,
        attempts=attempts,
        undo=undoes,
    )
    def create(
        self,
        kind: Kind,
        parent: int | None,
        picks: list[tuple[int, When]],
        needs: dict[str, int],
        cost: float,
        priority: int,
        role: Role,
        status: Any,
        attempts: int | None,
        undo: bool,
    ) -> None:
        if self.is_crowded():
            return
        self.run(
            wire.Upsert(
                kind=kind,
                parent=None if parent is None or not self.model.items else self.choose(parent, self.a_parent),
                deps=self.deps(picks if self.model.items else []),
                needs=needs,
                cost=cost,
                priority=priority,
                role=role,
                status=status,
                max_attempts=attempts,
            ),
            undo=undo,
        )

    @rule(
        nodes=st.lists(
            st.tuples(kinds, st.one_of(st.none(), indexes), edges, needs, st.booleans()), min_size=1, max_size=3
        ),
        named=st.booleans(),
        undo=undoes,
    )
    def submit(self, nodes: list[Any], named: bool, undo: bool) -> None:
        """Several at once; an index below the submission's length names a ref of it, forwards too."""
        if self.is_crowded():
            return

        def point(index: int, like: Any = None) -> str:
            return f"n{index % len(nodes)}" if index % 2 else self.choose(index, like)

        made = tuple(
            wire.SubmitNode(
                ref=f"n{number}",
                kind=kind,
                parent=UNSET if parent is None else point(parent, self.a_parent),
                deps=tuple(Dep(point(index), when) for index, when in picks),
                needs=wanted if has_needs else UNSET,
            )
            for number, (kind, parent, picks, wanted, has_needs) in enumerate(nodes)
        )
        returns = tuple(f"n{number}" for number in reversed(range(len(nodes)))) if named else None
        self.run(wire.Submit(nodes=made, returns=returns), undo=undo)

    @precondition(lambda self: self.model.items)
    @rule(index=indexes, parent=st.one_of(st.none(), indexes), undo=undoes)
    def move(self, index: int, parent: int | None, undo: bool) -> None:
        target = None if parent is None else self.choose(parent, self.a_parent)
        self.run(wire.Upsert(id=self.choose(index, self.is_open), parent=target), undo=undo)

    @precondition(lambda self: self.model.items)
    @rule(index=indexes, picks=edges, undo=undoes)
    def rewire(self, index: int, picks: list[tuple[int, When]], undo: bool) -> None:
        self.run(wire.Upsert(id=self.choose(index, self.is_open), deps=self.deps(picks)), undo=undo)

    @precondition(lambda self: self.model.items)
    @rule(index=indexes, needs=needs, undo=undoes)
    def change_needs(self, index: int, needs: dict[str, int], undo: bool) -> None:
        self.run(wire.Upsert(id=self.choose(index, self.is_open), needs=needs), undo=undo)

    @precondition(lambda self: self.model.items)
    @rule(index=indexes, cost=costs, priority=priorities, role=roles, attempts=attempts, undo=undoes)
    def change_worth(
        self, index: int, cost: float, priority: int, role: Role, attempts: int | None, undo: bool
    ) -> None:
        request = wire.Upsert(
            id=self.choose(index, self.unfinished),
            cost=cost,
            priority=priority,
            role=role,
            max_attempts=attempts,
            summary=f"worth {cost}",
        )
        self.run(request, undo=undo)

    @precondition(lambda self: self.model.items)
    @rule(
        index=indexes,
        retries=st.sampled_from([0, 1, 2]),
        delay=st.sampled_from([0.0, 5.0, 20.0]),
        later=st.sampled_from([None, -5.0, 1.0, 15.0]),
        undo=undoes,
    )
    def put_off(self, index: int, retries: int, delay: float, later: float | None, undo: bool) -> None:
        """Give a node retries and a time to begin."""
        begin = None if later is None else self.pair.core.wall + later
        node_id = self.choose(index, self.unfinished)
        self.run(wire.Upsert(id=node_id, retries=retries, retry_delay=delay, not_before=begin), undo=undo)

    @precondition(lambda self: self.model.items)
    @rule(index=indexes, kind=kinds, undo=undoes)
    def change_kind(self, index: int, kind: Kind, undo: bool) -> None:
        self.run(wire.Upsert(id=self.choose(index, self.is_open), kind=kind), undo=undo)

    @precondition(lambda self: self.model.items)
    @rule(
        index=indexes,
        status=st.sampled_from([Status.TODO, Status.READY, Status.BLOCKED, Status.BLOCKED, Status.DONE]),
        undo=undoes,
    )
    def change_status(self, index: int, status: Status, undo: bool) -> None:
        self.run(wire.Upsert(id=self.choose(index, self.is_open), status=status), undo=undo)

    @precondition(lambda self: self.model.items)
    @rule(before=indexes, after=indexes, when=whens, undo=undoes)
    def link(self, before: int, after: int, when: When, undo: bool) -> None:
        request = wire.Link(before=self.choose(before), after=self.choose(after, self.is_open), when=when)
        self.run(request, undo=undo)

    @precondition(lambda self: self.model.items)
    @rule(before=indexes, after=indexes, when=st.one_of(st.none(), whens), undo=undoes)
    def unlink(self, before: int, after: int, when: When | None, undo: bool) -> None:
        target = self.choose(after, lambda item: item.is_open and item.deps)
        deps = self.model.items[target].deps if target in self.model.items else ()
        source = deps[before % len(deps)].on if deps and before < 80 else self.choose(before)
        self.run(wire.Unlink(before=source, after=target, when=when), undo=undo)

    @rule(resource=st.sampled_from(RESOURCES), units=st.integers(0, 3), undo=undoes)
    def set_capacity(self, resource: str, units: int, undo: bool) -> None:
        self.run(wire.SetCapacity(resource=resource, units=units), undo=undo)

    @rule(index=st.one_of(st.none(), indexes), lift=st.booleans(), undo=undoes)
    def pause(self, index: int | None, lift: bool, undo: bool) -> None:
        """Pause the graph or a subtree, or lift a pause, more often one that there is."""
        paused = self.model.paused
        if lift and paused:
            self.run(wire.Resume(under=paused[(index or 0) % len(paused)]), undo=undo)
        elif index is None or not self.model.items:
            self.run(wire.Pause(), undo=undo)
        else:
            self.run(wire.Pause(under=self.choose(index, self.a_parent)), undo=undo)

    @precondition(lambda self: self.model.items)
    @rule(index=indexes, actor=actors, gen=gens, lease=leases, bound=st.booleans(), undo=undoes)
    def claim(self, index: int, actor: str, gen: str, lease: float | None, bound: bool, undo: bool) -> None:
        node_id = self.choose(index, self.ready)
        request = wire.Claim(id=node_id, actor=actor, gen=self.gen(node_id, gen), lease=lease, bound=bound)
        self.run(request, undo=undo)

    @rule(
        actor=actors,
        role=st.one_of(st.none(), roles),
        slack=slacks,
        strict=st.booleans(),
        lease=leases,
        pause=pauses,
        undo=undoes,
    )
    def claim_next(
        self, actor: str, role: Role | None, slack: float, strict: bool, lease: float | None, pause: float, undo: bool
    ) -> None:
        self.wait(pause)
        request = wire.ClaimNext(actor=actor, role=role, slack=slack, strict=strict, lease=lease)
        self.run(request, undo=undo)

    @precondition(lambda self: self.model.items)
    @rule(index=indexes, actor=actors, role=st.one_of(st.none(), roles), strict=st.booleans(), undo=undoes)
    def claim_next_under(self, index: int, actor: str, role: Role | None, strict: bool, undo: bool) -> None:
        under = self.choose(index, self.a_parent if index % 3 else self.is_open)
        self.run(wire.ClaimNext(actor=actor, role=role, strict=strict, under=under), undo=undo)

    @rule(actor=actors, undo=undoes)
    def claim_the_next(self, actor: str, undo: bool) -> None:
        self.run(wire.ClaimNext(actor=actor), undo=undo)

    @precondition(lambda self: any(item.held for item in self.model.items.values()))
    @rule(index=indexes, undo=undoes)
    def finish_held(self, index: int, undo: bool) -> None:
        self.run(wire.Complete(id=self.choose(index % 80, self.held)), undo=undo)

    @rule(role=st.one_of(st.none(), roles), slack=slacks, strict=st.booleans())
    def list_ready(self, role: Role | None, slack: float, strict: bool) -> None:
        request = wire.Ready(role=role, slack=slack, strict=strict)
        self.run(request)

    @precondition(lambda self: self.model.items)
    @rule(
        verb=st.sampled_from([wire.Renew, wire.Running, wire.Release, wire.Release]),
        index=indexes,
        actor=st.one_of(st.none(), actors),
        gen=gens,
        lease=leases,
        pause=pauses,
        undo=undoes,
    )
    def speak(
        self,
        verb: type[wire.Renew] | type[wire.Running] | type[wire.Release],
        index: int,
        actor: str | None,
        gen: str,
        lease: float | None,
        pause: float,
        undo: bool,
    ) -> None:
        self.wait(pause)
        node_id = self.choose(index, self.held)
        fields: dict[str, Any] = {} if verb is wire.Release else {"lease": lease}
        self.run(verb(id=node_id, actor=actor, gen=self.gen(node_id, gen), **fields), undo=undo)

    @precondition(lambda self: self.model.items)
    @rule(
        index=indexes,
        by_hand=st.sampled_from([True, False, False, False]),
        status=outcomes,
        actor=st.one_of(st.none(), actors),
        gen=gens,
        error=st.booleans(),
        more=st.booleans(),
        undo=undoes,
    )
    def complete(
        self,
        index: int,
        by_hand: bool,
        status: Outcome,
        actor: str | None,
        gen: str,
        error: bool,
        more: bool,
        undo: bool,
    ) -> None:
        node_id = self.choose(index, self.unfinished if by_hand else self.held)
        request = wire.Complete(
            id=node_id,
            status=status,
            actor=actor,
            gen=self.gen(node_id, gen),
            error="broke" if error and status != Outcome.DONE else None,
            final=by_hand and status == Outcome.FAILED,
            next=wire.Next(actor="bob") if more else None,
        )
        self.run(request, undo=undo)

    @precondition(lambda self: any(item.final is None for item in self.model.items.values()))
    @rule(index=indexes, sure=st.sampled_from([True, False, False]), undo=undoes)
    def cancel(self, index: int, sure: bool, undo: bool) -> None:
        if not sure:
            return
        self.run(wire.Cancel(id=self.choose(index, self.unfinished), error="enough"), undo=undo)

    @precondition(lambda self: any(item.final is not None for item in self.model.items.values()))
    @rule(index=indexes, gen=gens, undo=undoes)
    def reopen(self, index: int, gen: str, undo: bool) -> None:
        node_id = self.choose(index, self.finished)
        self.run(wire.Reopen(id=node_id, gen=self.gen(node_id, gen)), undo=undo)

    @precondition(lambda self: any(item.final is not None for item in self.model.items.values()))
    @rule(verb=st.sampled_from([wire.Archive, wire.Unarchive]), index=indexes, gen=gens, undo=undoes)
    def archive(self, verb: type[wire.Archive] | type[wire.Unarchive], index: int, gen: str, undo: bool) -> None:
        node_id = self.choose(index, self.finished)
        self.run(verb(id=node_id, gen=self.gen(node_id, gen)), undo=undo)

    @rule(
        verb=st.sampled_from([wire.Complete, wire.Complete, wire.Reopen, wire.Archive, wire.Release, wire.Renew]),
        picks=st.lists(st.integers(0, 85), min_size=1, max_size=4),
        status=outcomes,
        undo=undoes,
    )
    def several(self, verb: Any, picks: list[int], status: Outcome, undo: bool) -> None:
        """Several nodes in one step, mostly such as it can be done with (law 10.6)."""
        like = {wire.Complete: self.unfinished, wire.Release: self.held, wire.Renew: self.held}.get(verb, self.finished)
        ids = tuple(self.choose(index, like) for index in picks)
        self.run(verb(ids=ids, **({"status": status} if verb is wire.Complete else {})), undo=undo)

    @precondition(lambda self: any(item.final == Outcome.FAILED for item in self.model.items.values()))
    @rule(under=st.one_of(st.none(), indexes), undo=undoes)
    def reopen_failed(self, under: int | None, undo: bool) -> None:
        """All that failed, everywhere or in a scope (law 10.7)."""
        self.run(wire.Reopen(failed=True, under=None if under is None else self.choose(under)), undo=undo)

    @rule(picks=st.lists(indexes, min_size=1, max_size=3), under=st.booleans(), sure=st.booleans(), undo=undoes)
    def cancel_several(self, picks: list[int], under: bool, sure: bool, undo: bool) -> None:
        """Seldom, or nothing would be left."""
        if not sure or len(picks) < 2:
            return
        ids = tuple(self.choose(index, self.unfinished) for index in picks)
        self.run(wire.Cancel(under=ids[0]) if under else wire.Cancel(ids=ids, error="enough"), undo=undo)

    @precondition(lambda self: any(item.held for item in self.model.items.values()))
    @rule(lease=st.one_of(st.none(), st.sampled_from([0.0, 5.0, 20.0])), undo=undoes)
    def reclaim(self, lease: float | None, undo: bool) -> None:
        self.run(wire.Reclaim(lease=lease), undo=undo)

    @precondition(lambda self: any(item.held for item in self.model.items.values()))
    @rule(pause=st.sampled_from([1.0, 12.0, 30.0, 120.0]))
    def pass_time(self, pause: float) -> None:
        self.wait(pause)
