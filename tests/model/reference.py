"""The slow, obvious model of sections 3-6 of the design, to drive side by side with the core.

It is written from the design and shares nothing with `claimdagd.core`: every question (is it ready, how deep is it,
who holds what, is there a deadlock) is answered by looking at all nodes again. It must stay free of indexes, caches
and cleverness; it is meant for graphs of a dozen nodes.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from claimdagd import wire
from claimdagd.model import GROUPS, STARTED, Dep, Grant, Kind, Outcome, Role, Status, When
from claimdagd.wire import Code

#: A moment of a node: "start", "own" (its own result) or "end".
Moment = tuple[str, str]


class Refused(Exception):
    """The model refuses; `code` is the error code of the answer and `details` what rides beside it."""

    def __init__(self, code: Code, **details: Any) -> None:
        super().__init__(code.value)
        self.code = code
        self.details = details


@dataclass
class Item:
    """One node. Values are replaced, never mutated, so that a shallow copy of an item is a whole one."""

    id: str
    kind: Kind = Kind.TASK
    role: Role = Role.UNSET
    summary: str = ""
    parent: str | None = None
    deps: tuple[Dep, ...] = ()
    needs: dict[str, int] = dataclasses.field(default_factory=dict)
    cost: float = 1.0
    priority: int = 0
    max_attempts: int | None = None
    retries: int = 0
    retry_delay: float = 30.0
    not_before: float | None = None
    failures: int = 0
    last_error: str | None = None
    blocked: bool = False
    held: Status | None = None
    assignee: str | None = None
    lease: float | None = None
    bound: bool = False
    spoke: float = 0.0
    deadline: float = 0.0
    gen: int = 1
    attempts: int = 0
    outcome: Outcome | None = None
    final: Outcome | None = None
    cause: str | None = None
    error: str | None = None
    archived: bool = False
    created_at: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None
    grants: tuple[Grant, ...] = ()
    #: How often it was passed over while it waits, and since when, in order, it counts as starving.
    passes: int = 0
    starved: int | None = None
    #: What its last complete made ready, at the generation of that time.
    made_ready: tuple[int, frozenset[str]] = (0, frozenset())

    @property
    def number(self) -> int:
        return int(self.id.split("-")[1])

    @property
    def is_group(self) -> bool:
        return self.kind in GROUPS

    @property
    def is_open(self) -> bool:
        """Neither finished nor held nor with a result of its own: what a cascade may cancel."""
        return self.final is None and self.outcome is None and self.held is None


@dataclass(frozen=True)
class Take:
    """Units that a claim would take: `owner` (the node or a group above it) gets them, from `lender` or afresh."""

    owner: str
    resource: str
    units: int
    lender: str | None


def names_several(request: wire.Request) -> bool:
    """Whether a request is about several nodes, or about whatever is in some state."""
    by_state = isinstance(request, wire.Reopen) and request.failed
    by_scope = isinstance(request, wire.Cancel) and request.under is not None
    return by_state or by_scope or (not isinstance(request, wire.Wait) and bool(getattr(request, "ids", ())))


class Model:
    """The whole graph. `now` is monotonic seconds, `wall` Unix seconds."""

    def __init__(self, tag: str, max_nodes: int = 4096, lease: float = 900.0, starvation: int = 100) -> None:
        self.tag = tag
        self.max_nodes = max_nodes
        self.lease = lease
        self.starvation = starvation
        self.items: dict[str, Item] = {}
        self.capacities: dict[str, int] = {}
        #: The paused scopes, None for the whole graph.
        self.paused: list[str | None] = []
        self.minted = 0
        self.last_starved = 0
        self.now = 0.0
        self.wall = 0.0
        #: The Unix time by which `not_before` was last judged.
        self.judged = 0.0
        #: The node whose ending began the cascade of the mutation at hand.
        self.root: str | None = None
        #: Everything that the mutation at hand cancelled, in no particular order.
        self.cancelled: list[str] = []

    # ------------------------------------------------------------------------------------------------ whole states

    def save(self) -> Model:
        """A copy that later changes of this model leave alone."""
        other = copy.copy(self)
        other.items = {key: copy.copy(item) for key, item in self.items.items()}
        other.capacities = dict(self.capacities)
        other.paused = list(self.paused)
        return other

    def restore(self, saved: Model) -> None:
        """Go back to a saved state."""
        self.__dict__.update(saved.save().__dict__)

    def apply(self, request: wire.Request, now: float, wall: float) -> dict[str, Any]:
        """Do what a request asks and answer, or raise Refused with nothing changed."""
        saved = self.save()
        self.now, self.wall, self.root, self.cancelled = now, wall, None, []
        try:
            verb: Callable[[Any], dict[str, Any]] = getattr(self, "do_" + str(request.__struct_config__.tag))
            answer = self.several(request, verb) if names_several(request) else verb(request)
        except Refused:
            self.restore(saved)
            raise
        self.forget_passes()
        return answer

    # -------------------------------------------------------------------------------------------------- many at once

    def several(self, request: Any, verb: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Do one thing with each of several nodes; refuse with what is wrong with each."""
        ids = self.named(request)
        before = {node_id: copy.copy(item) for node_id, item in self.items.items()}
        ready_before = {item.id for item in self.ready_work()}
        results: dict[int, dict[str, Any]] = {}
        faults: list[tuple[int, Code]] = []
        places = list(range(len(ids)))
        if isinstance(request, wire.Complete):  # children first: they decide a group, and its failure would cancel them
            places.sort(key=lambda place: -len(self.above(self.items[ids[place]])) if ids[place] in self.items else 0)
        for place in places:
            node_id = ids[place]
            only = {name: None if name == "under" else False for name in ("under", "failed") if hasattr(request, name)}
            self.root, self.cancelled = None, []
            try:
                results[place] = verb(msgspec.structs.replace(request, id=node_id, ids=(), **only))
            except Refused as refused:
                if node_id in self.items and self.was_brought_there(request, before[node_id], refused):
                    results[place] = {"id": node_id, "ids": set(), "ready": set(), "next": None, "code": None}
                else:
                    faults.append((place, refused.code))
        if faults:
            raise Refused(min(faults)[1], faults=sorted(faults))
        ready_now = {item.id for item in self.ready_work()} - ready_before
        for place, node_id in enumerate(ids):
            result, item = results[place], self.items[node_id]
            if isinstance(request, wire.Complete):
                result["node"] = self.view(node_id)
                if before[node_id].outcome is None and before[node_id].final is None and "id" not in result:
                    result["ready"] = result["ready"] & ready_now
                    item.made_ready = (item.gen, frozenset(result["ready"]))
            elif not isinstance(request, wire.Cancel | wire.Renew | wire.Running):
                results[place] = {"id": node_id, "gen": item.gen}
        return {"results": [results[place] for place in range(len(ids))]}

    def named(self, request: Any) -> list[str]:
        """The ids of the nodes that a request for several is about."""
        under, failed = getattr(request, "under", None), getattr(request, "failed", False)
        if under is None and not failed:
            return list(request.ids)
        scope = self.scope(under)
        if failed:
            own = [item for item in scope if item.final == Outcome.FAILED]
            own = [item for item in own if (not self.children(item) if item.is_group else item.outcome == item.final)]
            return [item.id for item in sorted(own, key=lambda item: (len(self.above(item)), item.number))]
        return [under] if self.item(under).final is None else []

    def was_brought_there(self, request: Any, before: Item, refused: Refused) -> bool:
        """Whether another node of the same request has ended, or reopened, this one."""
        if isinstance(request, wire.Reopen):
            return refused.code == Code.NOT_TERMINAL and before.final is not None
        ends = isinstance(request, wire.Complete | wire.Cancel)
        return ends and refused.code == Code.TERMINAL and before.final is None and before.outcome is None

    def expire(self, now: float, wall: float) -> list[str]:
        """Hand back every claim that has been quiet past its lease; the ids, first to run out first."""
        self.now, self.wall, self.cancelled = now, wall, []
        due = [item for item in self.items.values() if item.held and item.deadline <= now]
        ids = self.take_back(sorted(due, key=lambda item: (item.deadline, item.number)))
        self.forget_passes()
        return ids

    # ------------------------------------------------------------------------------------------------- the forest

    def item(self, node_id: str) -> Item:
        """The node, or not_found."""
        if node_id not in self.items:
            raise Refused(Code.NOT_FOUND, id=node_id)
        return self.items[node_id]

    def children(self, item: Item) -> list[Item]:
        return [other for other in self.items.values() if other.parent == item.id]

    def below(self, item: Item) -> list[Item]:
        """The subtree without its root, nearest first."""
        found = [item]
        for other in found:
            found += self.children(other)
        return found[1:]

    def above(self, item: Item) -> list[Item]:
        """The ancestors, nearest first."""
        chain: list[Item] = []
        while item.parent is not None and item.parent not in (seen.id for seen in chain):
            item = self.items[item.parent]
            chain.append(item)
        return chain

    def groups_above(self, item: Item) -> list[Item]:
        return [other for other in self.above(item) if other.is_group]

    def has_started(self, group: Item) -> bool:
        """Whether work under a group has begun; a group that ended by hand is no work."""
        return any(self.status(other) in STARTED for other in self.below(group) if not other.is_group)

    # ------------------------------------------------------------------------------------------------ the wait graph

    def moment_of(self, owner: Item, dep: Dep) -> Moment:
        """What a dep of `owner` looks at: the target's end, or the own result of an ancestor that is no group."""
        ancestor = next((other for other in self.above(owner) if other.id == dep.on), None)
        return ("own" if ancestor is not None and not ancestor.is_group else "end", dep.on)

    def wait_graph(self) -> dict[Moment, set[Moment]]:
        """Every moment of every node, with the moments that it waits on."""
        graph: dict[Moment, set[Moment]] = {}
        for item in self.items.values():
            graph["start", item.id] = {
                self.moment_of(owner, dep)
                for owner in (item, *self.groups_above(item))
                for dep in owner.deps
                if dep.on in self.items
            }
            graph["own", item.id] = {("start", item.id)}
            graph["end", item.id] = {("own", item.id), *(("end", child.id) for child in self.children(item))}
        return graph

    def has_cycle(self) -> bool:
        graph = self.wait_graph()
        state: dict[Moment, str] = {}

        def visit(moment: Moment) -> bool:
            if moment in state:
                return state[moment] == "open"
            state[moment] = "open"
            found = any(visit(other) for other in graph[moment])
            state[moment] = "closed"
            return found

        return any(visit(moment) for moment in graph)

    def pending_graph(self) -> dict[Moment, set[Moment]]:
        """The wait graph of what has still to happen."""

        def pending(moment: Moment) -> bool:
            item = self.items[moment[1]]
            return item.final is None and (item.outcome is None or moment[0] == "end")

        graph = self.wait_graph()
        return {key: {other for other in value if pending(other)} for key, value in graph.items() if pending(key)}

    def depths(self) -> dict[str, float]:
        """The bottom level of every node: its own cost plus the costliest chain of what waits on it."""
        graph = self.pending_graph()
        waiters: dict[Moment, set[Moment]] = {moment: set() for moment in graph}
        for moment, others in graph.items():
            for other in others:
                waiters[other].add(moment)
        after: dict[Moment, float] = {}

        def weight(moment: Moment) -> float:
            item = self.items[moment[1]]
            return item.cost if moment[0] == "own" and not item.is_group else 0.0

        def chain(moment: Moment) -> float:
            if moment not in after:
                after[moment] = max((weight(other) + chain(other) for other in waiters[moment]), default=0.0)
            return after[moment]

        depths: dict[str, float] = {}
        for item in self.items.values():
            if item.final is not None:
                depths[item.id] = 0.0
            elif item.is_group or item.outcome is not None:
                depths[item.id] = chain(("end", item.id))
            else:
                depths[item.id] = item.cost + chain(("own", item.id))
        return depths

    def priorities(self) -> dict[str, int]:
        """The effective priority of every unfinished node: the highest of its own and of all that waits on it."""
        graph = self.pending_graph()
        best = {item.id: item.priority for item in self.items.values() if item.final is None}
        for node_id in best:
            seen: set[Moment] = set()
            todo = [moment for moment in graph if moment[1] == node_id]
            while todo:
                moment = todo.pop()
                if moment not in seen:
                    seen.add(moment)
                    todo.extend(graph[moment])
            for moment in seen:
                best[moment[1]] = max(best[moment[1]], self.items[node_id].priority)
        return best

    # ------------------------------------------------------------------------------------------------------ status

    def is_met(self, owner: Item, dep: Dep) -> bool:
        if dep.on not in self.items:
            return True
        moment, target = self.moment_of(owner, dep)[0], self.items[dep.on]
        result = target.outcome if moment == "own" else target.final
        return result == Outcome.DONE if dep.when == When.AFTER_OK else result is not None

    def has_failed(self, owner: Item, dep: Dep) -> bool:
        """Whether the dep waits after_ok on what failed or was cancelled."""
        if dep.on not in self.items or dep.when != When.AFTER_OK:
            return False
        moment, target = self.moment_of(owner, dep)[0], self.items[dep.on]
        result = target.outcome if moment == "own" else target.final
        return result in (Outcome.FAILED, Outcome.CANCELLED)

    def unmet(self, item: Item) -> list[Dep]:
        return [dep for dep in item.deps if not self.is_met(item, dep)]

    def waits(self, item: Item) -> list[Dep]:
        """Every unmet dep that keeps a node from being ready, its own and those of the groups above it."""
        if self.status(item) not in (Status.TODO, Status.BLOCKED):
            return []
        return [dep for owner in (item, *self.groups_above(item)) for dep in self.unmet(owner)]

    def is_gated(self, item: Item) -> bool:
        """Whether a group above holds it up."""
        return any(group.blocked or self.unmet(group) or self.is_early(group) for group in self.groups_above(item))

    def is_early(self, item: Item) -> bool:
        """Whether its time to begin is still to come."""
        return item.not_before is not None and item.not_before > self.judged

    def status(self, item: Item) -> Status:
        if item.final is not None:
            return Status(item.final.value)
        if item.held is not None:
            return item.held
        if item.outcome is not None:
            return Status.COMPLETING
        if item.blocked:
            return Status.BLOCKED
        if self.unmet(item) or self.is_gated(item) or self.is_early(item):
            return Status.TODO
        return Status.RUNNING if item.is_group and self.has_started(item) else Status.READY

    def is_pending(self, item: Item) -> bool:
        """Work that somebody may yet be given."""
        return item.is_open and not item.is_group

    def is_paused(self, item: Item) -> bool:
        """Whether it may not be claimed: the graph is paused, or it, or anything above it."""
        return None in self.paused or self.is_set_aside(item)

    def is_set_aside(self, item: Item) -> bool:
        """Whether a pause of it or of a node above keeps it out of every line."""
        return any(other.id in self.paused for other in (item, *self.above(item)))

    def ready_work(self) -> list[Item]:
        return [item for item in self.items.values() if not item.is_group and self.status(item) == Status.READY]

    # --------------------------------------------------------------------------------------------------- resources

    def capacity(self, resource: str) -> int:
        return self.capacities.get(resource, 1)

    def grants(self) -> Iterator[tuple[Item, Grant]]:
        for item in self.items.values():
            for grant in item.grants:
                yield item, grant

    def used(self, resource: str) -> int:
        return sum(grant.units for _, grant in self.grants() if grant.resource == resource and grant.lender is None)

    def grant_of(self, item: Item, resource: str) -> Grant | None:
        return next((grant for grant in item.grants if grant.resource == resource), None)

    def borrower(self, lender: str, resource: str) -> Item | None:
        """Who uses a grant now, if anyone: one branch at a time."""
        return next((item for item, g in self.grants() if g.resource == resource and g.lender == lender), None)

    def takes(self, item: Item) -> list[Take]:
        """What a claim of this node would take, the groups above it first."""
        takes: list[Take] = []
        for owner in (*reversed(self.groups_above(item)), item):
            for resource, units in sorted(owner.needs.items()):
                if self.grant_of(owner, resource) is None:
                    planned = {take.owner for take in takes if take.resource == resource}
                    lender = next(
                        (
                            other.id
                            for other in self.above(owner)
                            if self.grant_of(other, resource) is not None or other.id in planned
                        ),
                        None,
                    )
                    takes.append(Take(owner.id, resource, units, lender))
        return takes

    def lacks(self, item: Item, kept: dict[str, int] | None = None) -> list[Take]:
        """What cannot be had at this moment of what a claim would take; `kept` are units that wait for another."""
        lacking: list[Take] = []
        for take in self.takes(item):
            if take.lender is None:
                free = max(self.capacity(take.resource) - self.used(take.resource), 0)
                if free - (kept or {}).get(take.resource, 0) < take.units:
                    lacking.append(take)
            else:
                lent = self.grant_of(self.items[take.lender], take.resource)
                if lent is not None and (lent.units < take.units or self.borrower(take.lender, take.resource)):
                    lacking.append(take)
        return lacking

    def starving(self) -> list[Item]:
        """Those for whom units are kept, the longest starving first.

        Nothing is kept for a node that could not run even with all units back, nor while nobody at work could bring
        back what it lacks.
        """
        live = [item for item in self.items.values() if item.held]
        moving = {item.id for held in live for item in (held, *self.above(held))}

        def awaits_somebody(item: Item) -> bool:
            holders: set[str] = set()
            for take in self.lacks(item):
                for other, grant in self.grants():
                    if grant.resource == take.resource and grant.lender == take.lender:
                        holders.add(other.id)
            return not self.lacks(item) or bool(holders & moving)

        return [
            item
            for item in sorted(self.ready_work(), key=lambda item: item.starved or 0)
            if item.starved is not None
            and not self.is_set_aside(item)
            and live
            and not any(t.lender is None and t.units > self.capacity(t.resource) for t in self.takes(item))
            and awaits_somebody(item)
        ]

    def is_below_units(self, item: Item) -> bool:
        """Work below held units must go on, or they would never come back."""
        return any(other.grants for other in self.above(item))

    def kept_from(self, item: Item) -> dict[str, int]:
        """Units that are kept from this node for those that were passed over too often."""
        kept: dict[str, int] = {}
        for other in [] if self.is_below_units(item) else self.starving():
            if other is item:
                break
            for take in self.takes(other):
                if take.lender is None:
                    kept[take.resource] = kept.get(take.resource, 0) + take.units
        return kept

    def is_runnable(self, item: Item) -> bool:
        return self.status(item) == Status.READY and not self.lacks(item, self.kept_from(item))

    def order(self) -> Callable[[Item], tuple[int, float, int]]:
        """The sort key of claim order, roles aside."""
        depths, priorities = self.depths(), self.priorities()
        return lambda item: (-priorities[item.id], -depths[item.id], item.number)

    def demand(self, item: Item) -> Any:
        """What a claim takes from outside itself: nodes alike in this wait in one line."""
        takes = self.takes(item)
        owners = {take.owner for take in takes}
        outside = tuple((t.resource, t.units, t.lender) for t in takes if t.lender is None or t.lender not in owners)
        return outside, self.is_below_units(item)

    def pass_over(self, chosen: Item) -> None:
        """Count the front of each line that stands ahead of a claim which takes units that the line waits for."""
        key = self.order()
        taken = {take.resource for take in self.takes(chosen) if take.lender is None}
        fronts: dict[Any, Item] = {}
        for item in sorted(self.ready_work(), key=key):
            if self.is_set_aside(item):
                continue
            if item.starved is None and (chosen.starved is not None or self.demand(item) != self.demand(chosen)):
                fronts.setdefault(self.demand(item), item)
        for item in [item for item in fronts.values() if key(item) < key(chosen) and not self.is_runnable(item)]:
            if any(take.resource in taken for take in self.takes(item) if take.lender is None):
                item.passes += 1
                if item.passes >= self.starvation:
                    self.last_starved += 1
                    item.starved = self.last_starved

    def forget_passes(self) -> None:
        """Whoever waits no more has not been passed over."""
        waiting = self.ready_work()
        for item in self.items.values():
            if item not in waiting:
                item.passes, item.starved = 0, None

    def give_up(self, item: Item) -> None:
        """Let go of a node's grants; what somebody below is using passes to that one."""
        for grant in item.grants:
            heir = self.borrower(item.id, grant.resource)
            if heir is not None:
                passed = self.grant_of(heir, grant.resource)
                assert passed is not None
                others = tuple(other for other in heir.grants if other is not passed)
                heir.grants = (*others, Grant(passed.resource, passed.units, grant.lender))
        item.grants = ()

    def deadlocks(self) -> list[tuple[set[str], set[str]]]:
        """Every deadlock: the holders that keep each other from ending, and the work that lacks what they hold.

        The most hopeful future: every live claim ends well, so does everything that can run, and empty groups are
        ended by hand. What then still waits for units waits for good; it is in a deadlock if a holder of what it lacks
        cannot end for want of it, by whatever way round.
        """
        owns: set[str] = set()
        ends: set[str] = set()

        def hopeful(owner: Item, dep: Dep) -> bool:
            if self.is_met(owner, dep):
                return True
            if self.has_failed(owner, dep):
                return False
            return dep.on in (owns if self.moment_of(owner, dep)[0] == "own" else ends)

        def may_start(item: Item) -> bool:
            owners = (item, *self.groups_above(item))
            return not any(o.blocked for o in owners) and all(hopeful(o, dep) for o in owners for dep in o.deps)

        def in_the_way(item: Item) -> set[str]:
            """Who holds for good what this node needs."""
            culprits: set[str] = set()
            for take in self.takes(item):
                if take.lender is None:
                    holders = [
                        (other, grant.units)
                        for other, grant in self.grants()
                        if grant.resource == take.resource and grant.lender is None and other.id not in ends
                    ]
                    if self.capacity(take.resource) - sum(units for _, units in holders) < take.units:
                        culprits |= {other.id for other, _ in holders}
                else:
                    user = self.borrower(take.lender, take.resource)
                    if user is not None and user.id not in ends:
                        culprits.add(user.id)
            return culprits

        def beyond_hope(item: Item) -> bool:
            fresh = [] if item.is_group else [take for take in self.takes(item) if take.lender is None]
            return any(take.units > self.capacity(take.resource) for take in fresh)

        moved = True
        while moved:
            moved = False
            for item in self.items.values():
                kids = self.children(item)
                if item.id not in owns and (
                    not item.is_open
                    or (item.is_group and kids)
                    or (may_start(item) and (item.is_group or not in_the_way(item)) and not beyond_hope(item))
                ):
                    owns.add(item.id)
                    moved = True
                if item.id not in ends and item.id in owns and all(kid.id in ends for kid in kids):
                    ends.add(item.id)
                    moved = True
        lost = {
            item.id: in_the_way(item)
            for item in self.items.values()
            if self.is_pending(item) and item.id not in owns and may_start(item) and in_the_way(item)
        }
        graph = self.pending_graph()

        def keeps_open(holder: str) -> set[str]:
            """The lost work that the end of a holder waits for."""
            seen: set[Moment] = set()
            todo: list[Moment] = [("end", holder)]
            while todo:
                moment = todo.pop()
                happens = moment[1] in (ends if moment[0] == "end" else owns)
                if moment not in seen and not happens:
                    seen.add(moment)
                    todo += graph.get(moment, ()) if moment[0] != "start" or moment[1] not in lost else ()
            return {moment[1] for moment in seen if moment[0] == "start" and moment[1] in lost}

        blocks = {holder: keeps_open(holder) for culprits in lost.values() for holder in culprits}
        after = {holder: {other for node in nodes for other in lost[node]} for holder, nodes in blocks.items()}

        def reach(holder: str) -> set[str]:
            seen: set[str] = set()
            todo = list(after[holder])
            while todo:
                other = todo.pop()
                if other not in seen:
                    seen.add(other)
                    todo += after[other]
            return seen

        parties = {frozenset(k for k in reach(h) if h in reach(k)) for h in after if h in reach(h)}
        return [
            (set(party), {node for holder in party for node in blocks[holder] if lost[node] & party})
            for party in parties
        ]

    # ------------------------------------------------------------------------------------------------ consequences

    def unhold(self, item: Item) -> None:
        item.held = item.assignee = item.lease = None
        item.bound = False

    def finish(self, item: Item, result: Outcome) -> None:
        """The node is terminal from here on, with all that follows: the parent, then dependents."""
        item.final = result
        item.finished_at = self.wall
        item.grants = ()
        item.blocked = False
        self.unhold(item)
        if result == Outcome.CANCELLED:
            self.cancelled.append(item.id)
        if result != Outcome.DONE:
            self.root = self.root or item.id
        if item.parent is not None:  # before all else: a group whose last child has ended is decided by its children
            self.roll_up(self.items[item.parent])
        if result != Outcome.DONE:
            self.cancel_dependents(item, "end")

    def cancel_dependents(self, item: Item, moment: str) -> None:
        for other in list(self.items.values()):
            if any(dep.when == When.AFTER_OK and self.moment_of(other, dep) == (moment, item.id) for dep in other.deps):
                self.cancel_by_cascade(other)

    def cancel_by_cascade(self, item: Item) -> None:
        """Cancel what has not started; of a group that has, the unstarted part: the rest decides it."""
        if not item.is_open:
            return
        if not item.is_group:
            item.cause = self.root
            self.set_outcome(item, Outcome.CANCELLED)
        elif any(child.final is None for child in self.children(item)):
            for child in self.children(item):
                self.cancel_by_cascade(child)
        else:
            item.cause = self.root
            self.finish(item, Outcome.CANCELLED)

    def set_outcome(self, item: Item, outcome: Outcome) -> None:
        """Give work its own result, with all that follows."""
        item.outcome = outcome
        item.blocked = False
        self.unhold(item)
        if outcome != Outcome.DONE:
            self.root = self.root or item.id
            for child in self.children(item):
                self.cancel_by_cascade(child)
            self.cancel_dependents(item, "own")
        self.roll_up(item)

    def roll_up(self, item: Item) -> None:
        """End a node whose children have all ended, if its own result allows."""
        children = self.children(item)
        if item.final is not None or any(child.final is None for child in children):
            return
        results = {child.final for child in children}
        if item.outcome is not None and item.outcome != Outcome.DONE:
            self.finish(item, item.outcome)
        elif item.outcome == Outcome.DONE:
            self.finish(item, Outcome.FAILED if Outcome.FAILED in results else Outcome.DONE)
        elif item.is_group and children:
            if results == {Outcome.CANCELLED}:
                item.cause = self.root
                self.finish(item, Outcome.CANCELLED)
            else:
                self.finish(item, Outcome.FAILED if Outcome.FAILED in results else Outcome.DONE)

    def hand_back(self, item: Item) -> None:
        """A claim ends without a result."""
        self.unhold(item)
        item.gen += 1
        self.give_up(item)
        for group in self.groups_above(item):
            if not any(other.held or self.status(other) == Status.COMPLETING for other in self.below(group)):
                self.give_up(group)

    def take_back(self, items: Iterable[Item]) -> list[str]:
        """Hand back claims whose holders fell silent; at the last attempt the node fails instead."""
        ids: list[str] = []
        for item in items:
            ids.append(item.id)
            if item.max_attempts is not None and item.attempts >= item.max_attempts:
                self.root = None
                item.gen += 1
                item.error = f"lease expired on attempt {item.attempts} of {item.max_attempts}"
                self.set_outcome(item, Outcome.FAILED)
            else:
                self.hand_back(item)
        return ids

    # ------------------------------------------------------------------------------------------- making and changing

    def do_upsert(self, request: wire.Upsert) -> dict[str, Any]:
        if request.id is None:
            item = self.mint()
            self.change(item, request, created=True)
        else:
            item = self.item(request.id)
            self.change(item, request, created=False)
        return self.view(item.id)

    def do_submit(self, request: wire.Submit) -> dict[str, Any]:
        refs: dict[str, str] = {}
        items = [self.mint() for _ in request.nodes]
        for node, item in zip(request.nodes, items, strict=True):
            if node.ref is not None:
                if node.ref in refs:
                    raise Refused(Code.BAD_REQUEST)
                refs[node.ref] = item.id
        self.restate(request, items, refs)
        if request.returns is None:
            return {"ids": [item.id for item in items]}
        if any(ref not in refs for ref in request.returns):
            raise Refused(Code.NOT_FOUND)
        return {"ids": [refs[ref] for ref in request.returns]}

    def restate(self, request: wire.Submit, items: list[Item], refs: dict[str, str]) -> None:
        """Put a submission's fields in place: all edges first, for they may point forwards, then the judgement."""
        changes: list[wire.SubmitNode] = []
        for node in request.nodes:
            if node.deps:
                deps = tuple(Dep(refs.get(dep.on, dep.on), dep.when) for dep in node.deps)
                node = msgspec.structs.replace(node, deps=deps)
            if node.parent:
                node = msgspec.structs.replace(node, parent=refs.get(node.parent, node.parent))
            changes.append(node)
        for item, change in zip(items, changes, strict=True):
            self.write(item, change)
        for item in items:
            for named in (*(dep.on for dep in item.deps), *([item.parent] if item.parent else [])):
                self.item(named)
        for item in items:
            self.check_parent(item)
        for item in items:
            self.check(item, moved=False, weighed=True)
        judged: list[Item] = []
        for item in items:  # each after those above it
            judged += [one for one in (*reversed(self.above(item)), item) if one in items and one not in judged]
        self.make_room(items)  # before the judgement: what that ends is no room for anybody yet
        self.judge(judged, set())

    def mint(self) -> Item:
        self.minted += 1
        item = Item(f"{self.tag}-{self.minted}", created_at=self.wall)
        self.items[item.id] = item
        return item

    def make_room(self, new: list[Item]) -> None:
        """Prune finished work until all fits, but nothing of what is new; or refuse."""
        while len(self.items) > self.max_nodes:
            wanted = {dep.on for item in self.items.values() if item.final is None for dep in item.deps}
            roots = [
                item
                for item in self.items.values()
                if item.final is not None
                and item.parent is None
                and item not in new
                and not wanted & {item.id, *(other.id for other in self.below(item))}
            ]
            if not roots:
                raise Refused(Code.FULL)
            oldest = min(roots, key=lambda item: (not item.archived, item.finished_at or 0.0, item.number))
            for item in [oldest, *self.below(oldest)]:
                del self.items[item.id]
                self.paused = [scope for scope in self.paused if scope != item.id]

    def change(self, item: Item, request: wire.Upsert | wire.SubmitNode, *, created: bool) -> None:
        """Set fields, check the result, and judge the edges that were added."""
        old_parent, old_needs, old_deps = item.parent, item.needs, item.deps
        known = self.edges([item, *self.below(item)])
        self.write(item, request)
        if created or item.parent != old_parent:
            self.check_parent(item)
        for dep in item.deps:
            if dep.on == item.id:
                raise Refused(Code.CYCLE)
            if dep.on not in {old.on for old in old_deps}:  # a pruned node may stay named, it counts as met
                self.item(dep.on)
        moved = created or item.parent != old_parent
        self.check(item, moved=moved, weighed=moved or item.needs != old_needs)
        if created:
            self.make_room([item])
        self.judge([item, *self.below(item)], known)
        if old_parent is not None and old_parent != item.parent:
            self.roll_up(self.items[old_parent])

    def edges(self, items: Iterable[Item]) -> set[tuple[str, Dep, Moment]]:
        """What each of these waits on, and how."""
        return {(item.id, dep, self.moment_of(item, dep)) for item in items for dep in item.deps}

    def write(self, item: Item, request: wire.Upsert | wire.SubmitNode) -> None:
        """The fields, and what can be said of each alone."""
        given = {
            name: getattr(request, name)
            for name in wire.NodeFields.__struct_fields__
            if getattr(request, name) is not msgspec.UNSET
        }
        if item.final is not None:
            raise Refused(Code.TERMINAL)
        status = given.pop("status", None)
        if status is not None:
            if status not in (Status.TODO, Status.READY, Status.BLOCKED) or item.held or item.outcome:
                raise Refused(Code.BAD_STATUS)
            item.blocked = status == Status.BLOCKED
        if "deps" in given:
            given["deps"] = tuple(dict.fromkeys(given["deps"]))
            if len({dep.on for dep in given["deps"]}) < len(given["deps"]):
                raise Refused(Code.BAD_REQUEST)
            if set(given["deps"]) == set(item.deps):
                given["deps"] = item.deps
        moved = {name for name, value in given.items() if value != getattr(item, name)}
        if (item.held or item.outcome) and moved & {"parent", "deps", "needs"}:
            raise Refused(Code.BAD_STATUS)
        if "parent" in moved and any(other.grants for other in (item, *self.below(item))):
            raise Refused(Code.BAD_STATUS)
        if "kind" in moved and (item.is_group != (given["kind"] in GROUPS)):
            tree = (item, *self.below(item))
            if any(self.status(other) in STARTED and not other.is_group for other in tree):
                raise Refused(Code.BAD_STATUS)
            if any(other.grants for other in tree):
                raise Refused(Code.BAD_STATUS)
        if "needs" in moved and item.grants:
            raise Refused(Code.BAD_STATUS)
        for name, value in given.items():
            setattr(item, name, (value or None) if name == "not_before" else value)

    def check(self, item: Item, *, moved: bool, weighed: bool) -> None:
        """What can be said of a node in its place."""
        if moved:
            self.check_parent(item)
        if self.has_cycle():
            raise Refused(Code.CYCLE)
        for other in (item, *self.below(item)) if weighed else ():
            for resource, units in other.needs.items():
                lender = next((a for a in self.above(other) if resource in a.needs), None)
                most = lender.needs[resource] if lender is not None else self.capacity(resource)
                if other.final is None and units > most:
                    raise Refused(Code.WOULD_NOT_RUN)

    def check_parent(self, item: Item) -> None:
        parent = self.item(item.parent) if item.parent is not None else None
        if parent is not None and parent.final is not None:
            raise Refused(Code.TERMINAL)
        if parent is not None and parent.outcome in (Outcome.FAILED, Outcome.CANCELLED):
            raise Refused(Code.BAD_STATUS)

    def judge(self, items: list[Item], known: set[tuple[str, Dep, Moment]]) -> None:
        """An edge is judged when it is added: onto work already failed it cancels at once."""
        for item in items:
            for dep in item.deps:
                if (item.id, dep, self.moment_of(item, dep)) not in known and self.has_failed(item, dep):
                    self.root = dep.on
                    self.cancel_by_cascade(item)

    def do_link(self, request: wire.Link) -> dict[str, Any]:
        self.item(request.before)
        item = self.item(request.after)
        if item.final is not None:
            raise Refused(Code.TERMINAL)
        if request.before == request.after:
            raise Refused(Code.CYCLE)
        dep = Dep(request.before, request.when)
        if dep not in item.deps:
            deps = tuple(dep if other.on == dep.on else other for other in item.deps)
            self.change(item, wire.Upsert(deps=deps if dep in deps else (*deps, dep)), created=False)
        return self.view(item.id)

    def do_unlink(self, request: wire.Unlink) -> dict[str, Any]:
        item = self.item(request.after)
        if item.final is not None:
            raise Refused(Code.TERMINAL)
        gone = [d for d in item.deps if d.on == request.before and request.when in (None, d.when)]
        if not gone:
            raise Refused(Code.NOT_FOUND)
        self.change(item, wire.Upsert(deps=tuple(dep for dep in item.deps if dep not in gone)), created=False)
        return self.view(item.id)

    def do_capacity(self, request: wire.SetCapacity) -> dict[str, Any]:
        self.capacities[request.resource] = request.units
        return {"name": request.resource, "capacity": request.units, "used": self.used(request.resource)}

    # ------------------------------------------------------------------------------------------------------- claims

    def check_gen(self, item: Item, gen: int | None) -> None:
        if gen is not None and gen != item.gen:
            raise Refused(Code.GEN_MISMATCH, gen=item.gen)

    def holding(self, actor: str) -> Item | None:
        return next((item for item in self.items.values() if item.held and item.assignee == actor), None)

    def do_claim(self, request: wire.Claim) -> dict[str, Any]:
        item = self.item(request.id)
        if item.is_group:
            raise Refused(Code.NOT_CLAIMABLE)
        if item.final is not None:
            raise Refused(Code.TERMINAL)
        self.check_gen(item, request.gen)
        if item.held and item.assignee == request.actor:
            raise Refused(Code.ASSIGNEE_BUSY, id=item.id, gen=item.gen)
        if item.held or item.outcome or item.blocked:
            raise Refused(Code.NOT_CLAIMABLE)
        if self.is_early(item) or self.is_paused(item):
            raise Refused(Code.NOT_CLAIMABLE)
        if self.status(item) != Status.READY:
            raise Refused(Code.DEPS_UNSATISFIED)
        busy = self.holding(request.actor)
        if busy is not None:
            raise Refused(Code.ASSIGNEE_BUSY, id=busy.id, gen=busy.gen)
        if not self.is_runnable(item):
            raise Refused(Code.RESOURCES_BUSY)
        return self.take(item, request.actor, request.lease, bound=request.bound)

    def take(self, item: Item, actor: str, lease: float | None, *, bound: bool) -> dict[str, Any]:
        self.pass_over(item)
        for take in self.takes(item):
            owner = self.items[take.owner]
            owner.grants = (*owner.grants, Grant(take.resource, take.units, take.lender))
        item.held = Status.CLAIMED
        item.assignee = actor
        item.gen += 1
        item.attempts += 1
        item.bound = bound
        item.lease = lease or self.lease
        if item.started_at is None:
            item.started_at = self.wall
        self.speak(item)
        return {**self.claim_view(item), "node": self.view(item.id)}

    def speak(self, item: Item) -> None:
        item.spoke = self.now
        item.deadline = self.now + (item.lease or 0.0)

    def claim_view(self, item: Item) -> dict[str, Any]:
        return {"id": item.id, "gen": item.gen, "expires_in": item.deadline - self.now}

    def queue(self, pool: list[Item], role: Role | None, slack: float, *, strict: bool) -> list[Item]:
        """The pool in the order in which claim_next would take it."""

        def fit(item: Item) -> int:
            if role is None or item.role == role:
                return 0
            return 1 if item.role in (Role.UNSET, Role.GENERAL) else 2

        depths, priorities = self.depths(), self.priorities()
        left = [item for item in pool if not (strict and fit(item) == 2)]
        chosen: list[Item] = []
        while left:
            top = max(priorities[item.id] for item in left)
            best = [item for item in left if priorities[item.id] == top]
            deepest = max(depths[item.id] for item in best)
            window = [item for item in best if deepest - depths[item.id] <= slack]
            chosen.append(min(window, key=lambda item: (fit(item), -depths[item.id], item.number)))
            left.remove(chosen[-1])
        return chosen

    def do_ready(self, request: wire.Ready) -> dict[str, Any]:
        queue = self.queue(self.ready_work(), request.role, request.slack, strict=request.strict)
        return {"nodes": [{"id": item.id, "runnable": self.may_run(item)} for item in queue]}

    def may_run(self, item: Item) -> bool:
        return not self.is_paused(item) and self.is_runnable(item)

    def do_pause(self, request: wire.Pause | wire.Resume) -> dict[str, Any]:
        """Law 10.4, 10.5."""
        self.scope(request.under)
        if request.under not in self.paused:
            self.paused.append(request.under)
        return {"paused": list(self.paused)}

    def do_resume(self, request: wire.Resume) -> dict[str, Any]:
        self.scope(request.under)
        self.paused = [scope for scope in self.paused if scope != request.under]
        return {"paused": list(self.paused)}

    def do_claim_next(self, request: wire.ClaimNext) -> dict[str, Any]:
        busy = self.holding(request.actor)
        if busy is not None:
            raise Refused(Code.ASSIGNEE_BUSY, id=busy.id, gen=busy.gen)
        # Law 5.11.
        scope = self.scope(request.under)
        pool = [item for item in self.ready_work() if item in scope and self.may_run(item)]
        queue = self.queue(pool, request.role, request.slack, strict=request.strict)
        if not queue:
            raise self.nothing(scope)
        return self.take(queue[0], request.actor, request.lease, bound=request.bound)

    def scope(self, under: str | None) -> list[Item]:
        """All items, or an item and all that is below it."""
        if under is None:
            return list(self.items.values())
        root = self.item(under)
        return [item for item in self.items.values() if item is root or root in self.above(item)]

    def nothing(self, scope: list[Item]) -> Refused:
        """Why there is nothing to take."""
        pending = [item for item in scope if self.is_pending(item)]
        live = [item for item in scope if item.held]
        if not pending and not live:
            return Refused(Code.NOTHING_PENDING)
        states = [self.status(item) for item in pending]
        everywhere = [item for item in self.items.values() if item.is_open and not item.blocked and self.is_early(item)]
        early = [item for item in everywhere if item in scope]
        later = sum(not item.is_group for item in early)
        ready = self.ready_work()
        begins: dict[str, Any] = {}
        if early:
            soonest = min(item.not_before for item in early if item.not_before is not None)
            begins = {"later": later, "next_begin": max(0.0, soonest - self.wall)}
        return Refused(
            Code.NOTHING_RUNNABLE,
            deps=states.count(Status.TODO) - later,
            blocked=states.count(Status.BLOCKED),
            leases=len(live),
            resources=sum(1 for i in ready if i in scope and not self.is_paused(i) and not self.is_runnable(i)),
            **({"paused": sum(1 for item in ready if item in scope and self.is_paused(item))} if self.paused else {}),
            next_expiry=min((item.deadline - self.now for item in live), default=None),
            # A claim, a time or a resume, anywhere, may free what the scope waits for.
            stuck=not any(item.held for item in self.items.values())
            and not everywhere
            and not any(map(self.is_paused, ready)),
            **begins,
        )

    def held_item(self, request: wire.Renew | wire.Running | wire.Release) -> Item:
        item = self.item(request.id)
        self.check_gen(item, request.gen)
        if not item.held:
            raise Refused(Code.TERMINAL if item.final else Code.BAD_STATUS)
        self.check_actor(item, request.actor)
        return item

    def check_actor(self, item: Item, actor: str | None) -> None:
        if item.held and actor is not None and actor != item.assignee:
            raise Refused(Code.NOT_ASSIGNEE)

    def do_renew(self, request: wire.Renew | wire.Running) -> dict[str, Any]:
        item = self.held_item(request)
        if request.lease is not None:
            item.lease = request.lease
        item.bound = item.bound or request.bound
        self.speak(item)
        return self.claim_view(item)

    def do_running(self, request: wire.Running) -> dict[str, Any]:
        answer = self.do_renew(request)
        self.items[request.id].held = Status.RUNNING
        return answer

    def do_release(self, request: wire.Release) -> dict[str, Any]:
        item = self.held_item(request)
        self.hand_back(item)
        return {"id": item.id, "gen": item.gen}

    def do_reclaim(self, request: wire.Reclaim) -> dict[str, Any]:
        def is_quiet(item: Item) -> bool:
            return self.now >= (item.deadline if request.lease is None else item.spoke + request.lease)

        quiet = [item for item in self.items.values() if item.held and is_quiet(item)]
        return {"ids": self.take_back(quiet)}

    # ------------------------------------------------------------------------------------------------------ endings

    def do_complete(self, request: wire.Complete) -> dict[str, Any]:
        item = self.item(request.id)
        if request.error is not None and request.status == Outcome.DONE:
            raise Refused(Code.BAD_REQUEST)
        if request.final and request.status != Outcome.FAILED:
            raise Refused(Code.BAD_REQUEST)
        self.check_gen(item, request.gen)
        before = {other.id for other in self.ready_work()}
        result = item.outcome or item.final
        if result is not None:
            if result != request.status:
                raise Refused(Code.TERMINAL)
        else:
            self.check_actor(item, request.actor)
            self.complete(item, request)
            self.forget_passes()
            item.made_ready = (item.gen, frozenset({other.id for other in self.ready_work()} - before))
        answer: dict[str, Any] = {
            "node": self.view(item.id),
            "ready": item.made_ready[1] if item.made_ready[0] == item.gen else set(),
            "next": None,
            "code": None,
        }
        if request.next is not None:
            actor = request.next.actor or request.actor
            if actor is None:
                raise Refused(Code.BAD_REQUEST)
            names = ("role", "slack", "strict", "lease", "bound", "under")
            fields = {name: getattr(request.next, name) for name in names}
            try:
                answer["next"] = self.do_claim_next(wire.ClaimNext(actor=actor, **fields))
            except Refused as refused:
                answer["code"] = refused.code
        return answer

    def complete(self, item: Item, request: wire.Complete) -> None:
        if item.is_group and any(child.final is None for child in self.children(item)):
            raise Refused(Code.BAD_STATUS)
        if request.summary is not None:
            item.summary = request.summary
        if (
            request.status == Outcome.FAILED
            and not request.final
            and not item.is_group
            and item.failures < item.retries
        ):
            item.not_before = self.wall + min(3600.0, item.retry_delay * 2.0**item.failures)
            item.failures += 1
            item.last_error = request.error
            self.hand_back(item)
            return
        item.error = request.error
        if item.is_group:
            self.finish(item, request.status)
        else:
            self.set_outcome(item, request.status)

    def do_cancel(self, request: wire.Cancel) -> dict[str, Any]:
        top = self.item(request.id)
        if top.final is not None:
            raise Refused(Code.TERMINAL)
        self.root = top.id
        victims = [item for item in (top, *self.below(top)) if item.final is None]
        for item in victims:
            if item.held:
                item.gen += 1
            item.final = Outcome.CANCELLED
            item.outcome = None if item.is_group else Outcome.CANCELLED
            item.cause = top.id if item is not top else None
            item.error = request.error if item is top else None
        for item in victims:
            self.cancel_dependents(item, "own")
            self.finish(item, Outcome.CANCELLED)
        return {"ids": {item.id for item in victims} | set(self.cancelled), "first": top.id}

    def do_reopen(self, request: wire.Reopen) -> dict[str, Any]:
        item = self.item(request.id)
        self.check_gen(item, request.gen)
        if item.final is None:
            raise Refused(Code.NOT_TERMINAL)
        back = {item.id}
        lifted: set[str] = set()
        while True:
            more = {one.id for node_id in back for one in self.above(self.items[node_id]) if one.final is not None}
            came = {one.id for one in self.items.values() if one.cause in {item.id} | lifted}
            if more <= lifted and came <= back:
                break
            lifted |= more
            back |= came
        for node_id in back:
            self.bring_back(self.items[node_id])
        for node_id in lifted - back:
            self.lift(self.items[node_id])
        for one in [one for one in self.items.values() if one.id in back and one is not item]:
            for dep in one.deps:
                if self.has_failed(one, dep):
                    self.root = dep.on
                    self.cancel_by_cascade(one)
        return {"id": item.id, "gen": item.gen}

    def bring_back(self, item: Item) -> None:
        item.gen += 1
        item.outcome = item.final = item.cause = item.error = None
        item.started_at = item.finished_at = None
        item.archived = item.blocked = False
        item.failures = 0

    def lift(self, item: Item) -> None:
        """A terminal ancestor of work that came back waits for it again."""
        item.final = item.finished_at = None
        item.archived = False
        if item.is_group:
            item.cause = item.error = None

    def do_archive(self, request: wire.Archive | wire.Unarchive) -> dict[str, Any]:
        item = self.item(request.id)
        self.check_gen(item, request.gen)
        if item.final is None:
            raise Refused(Code.NOT_TERMINAL)
        item.gen += 1
        item.archived = isinstance(request, wire.Archive)
        return {"id": item.id, "gen": item.gen}

    do_unarchive = do_archive

    # -------------------------------------------------------------------------------------------------------- views

    def view(self, node_id: str) -> dict[str, Any]:
        """What a caller sees of a node, as far as the design settles it."""
        item = self.items[node_id]
        return {
            **{
                name: getattr(item, name)
                for name in (
                    *("id", "kind", "role", "summary", "parent", "needs", "cost", "priority", "assignee", "gen"),
                    *("retries", "retry_delay", "not_before", "failures", "last_error"),
                    *("attempts", "max_attempts", "outcome", "cause", "error", "archived"),
                    *("created_at", "started_at", "finished_at"),
                )
            },
            "deps": {(dep.on, dep.when) for dep in item.deps},
            "grants": {(grant.resource, grant.units, grant.lender) for grant in item.grants},
            "status": self.status(item),
            "unmet": {(dep.on, dep.when) for dep in self.waits(item)},
            "lacking": {
                (take.resource, take.units, take.lender)
                for take in (
                    self.lacks(item, self.kept_from(item))
                    if item in self.ready_work() and not self.is_set_aside(item)
                    else ()
                )
            },
            "depth": self.depths()[node_id],
            "expires_in": item.deadline - self.now if item.held else None,
            "quiet": self.now - item.spoke if item.held else None,
        }
