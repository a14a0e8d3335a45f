"""The core and the reference model fed with the same requests, compared at every step; and traces made small.

It must not hold any rule of the design itself (those are in `tests.model.reference`), nor choose what to ask (that is
`tests.model.stateful`). What was asked is kept as a trace of plain requests, so that a failure can be played again
without Hypothesis, cut down by `minimise` and printed as a test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import UNSET

from claimdagd import wire
from claimdagd.core.queries import deadlock
from claimdagd.core.refusal import Refusal
from claimdagd.model import GROUPS, LIVE, TERMINAL, Dep, Node, Status
from tests.model.reference import Model, Refused
from tests.support.driver import TAG, Driver

#: After how many steps the records are loaded into a fresh graph.
RELOAD_EVERY = 7


@dataclass(frozen=True)
class Step:
    """One request after a pause (seconds; None: time stood still and nothing was looked at), perhaps undone and redone.

    `made` are the ids that it created when it was recorded, so that a shortened trace can name its nodes anew.
    """

    request: wire.Request | None
    pause: float | None = None
    undo: bool = False
    made: tuple[str, ...] = ()


class Pair:
    """Both sides. `tally` counts over all that a process ran, by op and outcome."""

    tally: Counter[str] = Counter()

    def __init__(self, max_nodes: int = 4096, starvation: int = 100, every: int = 1) -> None:
        """All is compared after every so many steps: a core that is asked seldom puts off more of its work."""
        self.settings = {"max_nodes": max_nodes, "starvation": starvation, "every": every}
        self.core = Driver(max_nodes=max_nodes, lease=100.0, starvation=starvation)
        self.model = Model(TAG, max_nodes=max_nodes, lease=100.0, starvation=starvation)
        self.trace: list[Step] = []

    @property
    def is_watched(self) -> bool:
        return len(self.trace) % self.settings["every"] == 0

    def look(self) -> None:
        if self.is_watched:
            self.agree()
            self.holds()
        if len(self.trace) % RELOAD_EVERY == 0:
            self.reload()

    def wait(self, pause: float) -> None:
        """Time goes by, and the daemon hands back what ran out."""
        self.trace.append(Step(None, pause))
        self.core.now += pause
        expired = self.model.expire(self.core.now, self.core.wall)
        assert self.core.expire() == expired, "expire"
        self.model.judged = self.core.wall
        self.core.begin_due()

    def run(self, request: wire.Request, *, undo: bool = False) -> None:
        """Send a request to both, compare what they say, and perhaps undo and redo it in the core."""
        op = str(request.__struct_config__.tag)
        self.trace.append(Step(request, None, undo))
        before = self.full_state()
        earlier = self.model.save()
        try:
            expected: dict[str, Any] | Refused = self.model.apply(request, self.core.now, self.core.wall)
        except Refused as refused:
            expected = refused
        reply: Any
        try:
            reply = self.core.apply(request)
        except Refusal as refused:
            reply = refused
        if isinstance(reply, Refusal):
            self.tally[f"{op} {reply.code.value}"] += 1
            assert isinstance(expected, Refused), f"{request}: core refuses {reply.code}: {reply}, model does not"
            self.compare_refusals(request, reply, expected)
            assert self.full_state() == before, f"{request}: refused, but something changed"
            return
        self.tally[f"{op} ok"] += 1
        assert not isinstance(expected, Refused), f"{request}: core accepts, model refuses {expected.code}"
        self.check_units(before[0], request)
        self.check_entry(before[0], request, before[-1])
        made = tuple(node_id for node_id in self.core.nodes() if node_id not in before[0])
        self.trace[-1] = replace(self.trace[-1], made=made)
        self.compare_replies(request, reply, expected)
        # That a holder spoke is not journaled, so no failed write takes it back.
        if undo and self.core.mutation and not isinstance(request, wire.Renew | wire.Running):
            self.undo_and_redo(request, before, earlier)

    def check_units(self, before: dict[str, Node], request: wire.Request) -> None:
        """No request takes more than there is, whatever was held when the capacity was lowered."""
        was, now = used(before), used(self.core.nodes())
        for resource, units in now.items():
            assert units <= max(self.model.capacity(resource), was.get(resource, 0)), f"{request}: {resource}"

    def check_entry(self, before: dict[str, Node], request: wire.Request, before_pauses: list[str | None]) -> None:
        """What the journal is told of a mutation is all that changed: put onto the nodes before, it makes them."""
        if isinstance(request, wire.Ready):
            return
        mutation = self.core.mutation
        assert mutation is not None
        replayed = dict(before)
        for v in mutation.nodes:
            replayed[v.record.id] = v.record
        for status, ids in (mutation.status_changes or {}).items():
            for node_id in ids:
                replayed[node_id] = msgspec.structs.replace(replayed[node_id], status=Status(status))
        for node_id in mutation.pruned:
            del replayed[node_id]
        paused = before_pauses if mutation.paused is None else mutation.paused
        assert paused == self.core.graph.pauses.ids(), f"{request}: the journal would not tell of a pause"
        assert replayed == self.core.nodes(), f"{request}: the journal would not tell all of it"
        ended = {n.id for n in replayed.values() if n.status in TERMINAL and not is_over(before.get(n.id))}
        assert {v.record.id for v in mutation.ended} == ended, f"{request}: ended"

    def reload(self) -> None:
        """A graph that is loaded from the records alone is the same one."""
        again = self.core.reloaded()
        again.check()
        assert again.nodes() == self.core.nodes(), "reload changes records"
        for node_id in self.model.items:
            ours, theirs = self.core.view(node_id), again.view(node_id)
            assert {**ours, "quiet": 0, "expires_in": 0, "waiting_on": 0} == {
                **{**theirs, "quiet": 0, "expires_in": 0, "waiting_on": 0}
            }, "reload"
        ours, theirs = (side.apply(wire.Ready())["nodes"] for side in (self.core, again))
        if self.settings["starvation"] < 100:  # who was passed over is not in the records
            ours, theirs = ([node["id"] for node in nodes] for nodes in (ours, theirs))
        assert ours == theirs, "reload: ready"

    def undo_and_redo(self, request: wire.Request, before: Any, earlier: Model) -> None:
        self.tally["undone"] += 1
        after, later = self.full_state(), self.model.save()
        self.core.undo()
        self.core.check()
        assert self.full_state() == before, f"{request}: undo did not bring back what was"
        self.model.restore(earlier)
        self.agree()
        self.model.restore(later)
        self.core.apply(request)
        assert self.full_state() == after, f"{request}: done again after undo, it came out otherwise"

    def full_state(self) -> Any:
        graph = self.core.graph
        queue = []
        if self.is_watched:
            queue = [(node["id"], node["runnable"]) for node in self.core.apply(wire.Ready())["nodes"]]
        passes = {node_id: self.core.passes(node_id) for node_id in graph.vertices}
        return self.core.nodes(), self.core.capacities(), graph.next_number, queue, passes, graph.pauses.ids()

    def compare_refusals(self, request: wire.Request, refusal: Refusal, expected: Refused) -> None:
        faults = refusal.details.get("faults")
        if faults:  # a submission is told of all its faults, the model stops at the first that it meets
            codes = {fault["code"] for fault in faults}
            assert expected.code in codes, f"{request}: core {codes}: {refusal}, model {expected.code}"
            assert refusal.code == (expected.code if len(codes) == 1 else wire.Code.BAD_REQUEST)
            if "faults" in expected.details:
                told = [(fault["index"], fault["code"]) for fault in faults]
                assert told == expected.details["faults"], f"{request}: core {told}, model {expected.details}"
            return
        assert refusal.code == expected.code, f"{request}: core {refusal.code}: {refusal}, model {expected.code}"
        for name in ("id", "gen"):
            if name in expected.details:
                assert refusal.details[name] == expected.details[name], f"{refusal.code}: {name}"
        if refusal.code == wire.Code.NOTHING_RUNNABLE:
            assert refusal.details.get("paused") == expected.details.get("paused"), "nothing_runnable: paused"
            for name in ("deps", "blocked", "leases", "resources", "next_expiry", "stuck"):
                assert refusal.details[name] == expected.details[name], f"nothing_runnable: {name}"
        if refusal.code == wire.Code.CYCLE:
            path = refusal.details["path"]
            assert path
            assert path[0] == path[-1]

    def compare_replies(self, request: wire.Request, reply: Any, expected: dict[str, Any]) -> None:
        what = f"answer to {request}"
        if "results" in expected:
            for one, other in zip(reply["results"], expected["results"], strict=True):
                self.compare_replies(request, one, other)
            return
        match request:
            case wire.Cancel() if not expected["ids"]:
                assert reply["ids"] == [], what
            case wire.Upsert() | wire.Link() | wire.Unlink():
                self.compare_views(reply, expected, what)
            case wire.Claim() | wire.ClaimNext():
                assert (reply["id"], reply["gen"], reply["expires_in"]) == (
                    *(expected["id"], expected["gen"], expected["expires_in"]),
                ), what
                self.compare_views(reply["node"], expected["node"], what)
            case wire.Complete():
                self.compare_views(reply["node"], expected["node"], what)
                assert len(set(reply["ready"])) == len(reply["ready"]), what
                assert set(reply["ready"]) == expected["ready"], what
                assert reply["code"] == expected["code"], what
                assert (reply["next"] is None) == (expected["next"] is None), what
                if reply["next"] is not None:
                    assert (reply["next"]["id"], reply["next"]["gen"]) == (
                        *(expected["next"]["id"], expected["next"]["gen"]),
                    ), what
            case wire.Cancel():
                assert reply["ids"][0] == expected["first"], what
                assert len(set(reply["ids"])) == len(reply["ids"]), what
                assert set(reply["ids"]) == expected["ids"], what
            case wire.Submit() | wire.Reclaim():
                assert list(reply["ids"]) == expected["ids"], what
            case wire.SetCapacity():
                assert {name: reply[name] for name in expected} == expected, what
            case _:
                assert dict(reply) == expected, what

    def compare_views(self, view: Any, expected: dict[str, Any], what: str) -> None:
        waits = view["waiting_on"]
        shown = {
            **{"retries": 0, "retry_delay": 30.0, "not_before": None, "failures": 0, "last_error": None},
            **{name: view[name] for name in expected if name in view},
            "unmet": {(dep["on"], dep["when"]) for dep in waits["deps"]},
            "lacking": {(lack["resource"], lack["units"], lack["lender"]) for lack in waits["resources"]},
            "deps": {(dep["on"], dep["when"]) for dep in view["deps"]},
            "grants": {(grant["resource"], grant["units"], grant["lender"]) for grant in view["grants"]},
        }
        wrong = {name: (shown[name], expected[name]) for name in expected if shown[name] != expected[name]}
        assert not wrong, f"{what}: {expected['id']}: core, model: {wrong}"

    def agree(self) -> None:
        """Every node, the queue, the resources and the deadlocks are the same in both."""
        self.core.check()
        assert set(self.core.nodes()) == set(self.model.items)
        assert self.core.graph.pauses.ids() == self.model.paused
        for node_id in self.model.items:
            self.compare_views(self.core.view(node_id), self.model.view(node_id), "state")
            assert self.core.passes(node_id) == self.model.items[node_id].passes, f"passes of {node_id}"
        queue = [(node["id"], node["runnable"]) for node in self.core.apply(wire.Ready())["nodes"]]
        wanted = [(node["id"], node["runnable"]) for node in self.model.do_ready(wire.Ready())["nodes"]]
        assert queue == wanted, f"ready: core, model: {queue}, {wanted}"
        for resource in self.core.apply(wire.Resources())["resources"]:
            name = resource["name"]
            assert resource["capacity"] == self.model.capacity(name), name
            assert resource["used"] == self.model.used(name), name
        named = sorted((sorted(knot["subtrees"]), sorted(knot["nodes"])) for knot in self.core.deadlocks())
        expected = sorted((sorted(holders), sorted(nodes)) for holders, nodes in self.model.deadlocks())
        assert named == expected, f"deadlocks: core, model: {named}, {expected}"
        self.tally["deadlocked"] += bool(expected)
        self.tally["starving"] += bool(self.model.starving())
        stands_still = not any(item.held for item in self.model.items.values()) and not any(ok for _, ok in wanted)
        ready = {node_id for node_id, _ in wanted}
        if stands_still and any(ready.intersection(nodes) for _, nodes in expected):
            assert deadlock.deadlock_possible(self.core.graph), "a deadlock that claim_next would not tell of"

    def holds(self) -> None:
        """What must hold of any graph, whoever is right about the rest."""
        nodes = self.core.nodes()
        held = [node.assignee for node in nodes.values() if node.assignee is not None]
        assert len(held) == len(set(held))
        for node in nodes.values():
            assert (node.status in LIVE and node.kind not in GROUPS) == (node.assignee is not None)
            if node.status in TERMINAL:
                assert all(child.status in TERMINAL for child in nodes.values() if child.parent == node.id)
        for node in self.core.apply(wire.Ready())["nodes"]:
            assert nodes[node["id"]].status == Status.READY

    # -------------------------------------------------------------------------------------------------------- traces

    @classmethod
    def play(cls, settings: dict[str, int], steps: list[Step]) -> Pair:
        """Go through a trace, shortened or not, and compare after every step."""
        pair = cls(**settings)
        names: dict[str, str] = {}
        for step in steps:
            if step.request is None:
                pair.wait(step.pause or 0.0)
            else:
                known = set(pair.core.nodes())
                pair.run(renamed(step.request, names), undo=step.undo)
                made = [node_id for node_id in pair.core.nodes() if node_id not in known]
                names.update(zip(step.made, made, strict=False))
            pair.look()
        pair.agree()
        return pair


def is_over(node: Node | None) -> bool:
    return node is not None and node.status in TERMINAL


def used(nodes: dict[str, Node]) -> dict[str, int]:
    """Units of each resource that are not borrowed; only unfinished nodes hold any."""
    units: dict[str, int] = {}
    for node in nodes.values():
        assert node.status not in TERMINAL or not node.grants
        for grant in node.grants:
            if grant.lender is None:
                units[grant.resource] = units.get(grant.resource, 0) + grant.units
    return units


def renamed(request: wire.Request, names: dict[str, str]) -> wire.Request:
    """The request with its ids as they are called in a shortened trace; those not there any more are unknown ids."""

    def name(node_id: Any) -> Any:
        return names.get(node_id, f"{TAG}-999") if isinstance(node_id, str) and node_id.startswith(TAG) else node_id

    def fields(part: Any) -> dict[str, Any]:
        changed: dict[str, Any] = {
            field: name(getattr(part, field)) for field in ("id", "parent", "before", "after") if hasattr(part, field)
        }
        if getattr(part, "deps", UNSET) is not UNSET:
            changed["deps"] = tuple(Dep(name(dep.on), dep.when) for dep in part.deps)
        return changed

    changed = fields(request)
    if isinstance(request, wire.Submit):
        changed["nodes"] = tuple(msgspec.structs.replace(node, **fields(node)) for node in request.nodes)
    return msgspec.structs.replace(request, **changed)


def failure(settings: dict[str, int], steps: list[Step]) -> str | None:
    """How a trace fails, in one word or so; None if it does not."""
    try:
        Pair.play(settings, steps)
    except Refused:
        raise
    except Exception as error:
        trail = error.__traceback__
        while trail is not None and trail.tb_next is not None:
            trail = trail.tb_next
        where = f"{trail.tb_frame.f_code.co_name}:{trail.tb_lineno}" if trail is not None else ""
        return f"{type(error).__name__} in {where}"
    return None


def minimise(settings: dict[str, int], steps: list[Step]) -> list[Step]:
    """A shorter trace that fails in the same place: steps left out, then fields of the rest."""
    want = failure(settings, steps)
    if want is None:
        return steps
    size = len(steps)
    while size:
        begin = 0
        while begin < len(steps):
            shorter = steps[:begin] + steps[begin + size :]
            if failure(settings, shorter) == want:
                steps = shorter
            else:
                begin += size
        size //= 2
    moved = True
    while moved:
        moved = False
        for index in range(len(steps)):
            for simpler in plainer(steps[index]):
                shorter = [*steps[:index], simpler, *steps[index + 1 :]]
                if failure(settings, shorter) == want:
                    steps, moved = shorter, True
                    break
        for index in reversed(range(len(steps))):
            shorter = steps[:index] + steps[index + 1 :]
            if failure(settings, shorter) == want:
                steps, moved = shorter, True
    return steps


def plainer(step: Step) -> Iterator[Step]:
    """The same step with one thing less."""
    if step.undo:
        yield replace(step, undo=False)
    request = step.request
    if request is None:
        return
    for field in msgspec.structs.fields(request):
        value = getattr(request, field.name)
        if field.default is not msgspec.NODEFAULT and value != field.default:
            yield replace(step, request=msgspec.structs.replace(request, **{field.name: field.default}))
        if field.name in ("deps", "nodes") and value is not UNSET:
            for index in range(len(value)):
                less = (*value[:index], *value[index + 1 :])
                yield replace(step, request=msgspec.structs.replace(request, **{field.name: less}))
        if field.name == "nodes":
            for index, node in enumerate(value):
                for simple in plainer(Step(node)):
                    nodes = (*value[:index], simple.request, *value[index + 1 :])
                    yield replace(step, request=msgspec.structs.replace(request, nodes=nodes))


def told(settings: dict[str, int], steps: list[Step]) -> str:
    """The trace as lines to paste into a test."""
    lines = [f"pair = Pair({', '.join(f'{key}={value}' for key, value in settings.items())})"]
    for step in steps:
        if step.request is None:
            lines.append(f"pair.wait({step.pause})")
            continue
        request = step.request
        given = [
            f"{field.name}={getattr(request, field.name)!r}"
            for field in msgspec.structs.fields(request)
            if field.default is msgspec.NODEFAULT or getattr(request, field.name) != field.default
        ]
        made = f"  # makes {', '.join(step.made)}" if step.made else ""
        undo = ", undo=True" if step.undo else ""
        lines.append(f"pair.run(wire.{type(request).__name__}({', '.join(given)}){undo}){made}")
    return "\n".join(lines)
