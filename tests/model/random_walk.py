"""Random requests to the core on graphs of hundreds of nodes, where work that is put off piles up.

No model: after some steps every index is compared with one rebuilt (`invariants`), a refusal and an undo must leave
the nodes as they were, and a graph loaded from the records must have the same order. Small graphs in depth are the
business of `tests.model.stateful`.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from claimdagd import wire
from claimdagd.core.indexes.links import subtree
from claimdagd.core.refusal import Refusal
from claimdagd.model import TERMINAL, Dep, Kind, Outcome, Role, Status, When
from tests.support.driver import Driver

CHECK_EVERY, RELOAD_EVERY = 10, 60
WHENS = (When.AFTER_OK, When.AFTER_ANY)


class Wanderer:
    """One walk; `tally` counts what was accepted and refused, by op."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.driver = Driver(
            max_nodes=self.random.choice([60, 300, 600]), lease=100.0, starvation=self.random.choice([2, 5, 100])
        )
        self.most = self.random.choice([15, 40, 120, 250])
        self.tally: Counter[str] = Counter()
        for resource in ("gpu", "net"):
            self.driver.apply(wire.SetCapacity(resource=resource, units=self.random.choice([1, 2, 4])))

    # ------------------------------------------------------------------------------------------------------ choosing

    def any(self) -> str:
        return self.random.choice(list(self.driver.graph.vertices) or ["none"])

    def open(self) -> str:
        """Mostly a node that is not finished."""
        vertices = self.driver.graph.vertices
        chosen = self.any()
        for _ in range(8):
            if chosen in vertices and vertices[chosen].record.status not in TERMINAL:
                break
            chosen = self.any()
        return chosen

    def root(self) -> str:
        """One of few nodes with much below them, so that the same scopes are asked for again and again."""
        tops = [v for v in self.driver.graph.vertices.values() if v.children and v.record.status not in TERMINAL]
        tops.sort(key=lambda v: len(subtree(v)), reverse=True)
        return self.random.choice(tops[:4]).record.id if tops else self.open()

    def expected(self, request: wire.ClaimNext) -> str | None:
        """The node that a claim of any role gets: the first that can run, of the whole order cut to the scope."""
        vertices = self.driver.graph.vertices
        inside = None if request.under is None else {v.record.id for v in subtree(vertices[request.under])}
        order = self.driver.apply(wire.Ready())["nodes"]
        return next((n["id"] for n in order if n["runnable"] and (inside is None or n["id"] in inside)), None)

    def held(self) -> str:
        live = [v.record.id for v in self.driver.graph.by_assignee.values()]
        return self.random.choice(live) if live else self.open()

    def actor(self) -> str:
        return f"worker-{self.random.randrange(8)}"

    def needs(self) -> dict[str, int]:
        choices: list[dict[str, int]] = [{}, {}, {"gpu": 1}, {"net": 1}, {"gpu": 1, "net": 1}]
        return self.random.choice([*choices, {"gpu": self.random.randint(1, 3)}])

    def capacity(self) -> wire.SetCapacity:
        return wire.SetCapacity(resource="gpu", units=self.random.randint(0, 4))

    def pause(self) -> wire.Pause | wire.Resume:
        """Lift a pause, as a rule, where there is one; or pause a subtree, rarely all."""
        paused = self.driver.graph.pauses.ids()
        if paused and self.random.random() < 0.6:
            return wire.Resume(under=self.random.choice(paused))
        return wire.Pause(under=self.random.choice([None, self.root(), self.open(), self.open()]))

    def submission(self) -> wire.Submit:
        """A layered piece of up to 30 nodes, tied to old ones here and there, whose deps point back or forward."""
        random = self.random
        count = random.randint(1, 30)
        forward = random.random() < 0.5
        nodes = []
        for number in range(count):
            deps: dict[str, Dep] = {}
            for _ in range(random.randint(0, 3)):
                other = random.randrange(count)
                if (other > number) if forward else (other < number):
                    deps[f"n{other}"] = Dep(f"n{other}", random.choice(WHENS))
                elif random.random() < 0.1:
                    old = self.open()
                    deps[old] = Dep(old, random.choice(WHENS))
            parent = random.choice([None, None, None, self.open(), f"n{count - 1 if forward else 0}"])
            nodes.append(
                wire.SubmitNode(
                    ref=f"n{number}",
                    kind=random.choice([Kind.TASK, Kind.TASK, Kind.TASK, Kind.GOAL]),
                    parent=parent if parent != f"n{number}" else None,
                    deps=tuple(deps.values()),
                    needs=self.needs() if random.random() < 0.4 else {},
                    cost=random.choice([1.0, 2.0, 0.5]),
                    priority=random.choice([0, 0, 3]),
                )
            )
        return wire.Submit(nodes=tuple(nodes))

    def request(self) -> wire.Request:
        random, kind = self.random, self.random.randrange(24)
        counts = self.driver.graph.counts
        unfinished = len(self.driver.graph.vertices) - sum(counts[status] for status in TERMINAL)
        if kind < 3 and unfinished < self.most:
            return self.submission()
        match kind:
            case 3:
                return wire.Upsert(id=self.open(), parent=random.choice([None, self.open()]))
            case 4:
                return wire.Upsert(id=self.open(), needs=self.needs())
            case 5:
                return wire.Upsert(id=self.open(), kind=random.choice([Kind.TASK, Kind.GOAL]))
            case 6:
                return wire.Upsert(id=self.open(), priority=random.randint(0, 5), cost=random.choice([1.0, 4.0]))
            case 7:
                status = random.choice([Status.TODO, Status.TODO, Status.BLOCKED])
                return wire.Upsert(id=self.open(), status=status)
            case 8:
                return wire.Link(before=self.open(), after=self.open(), when=random.choice(WHENS))
            case 9:
                after = self.open()
                v = self.driver.graph.vertices.get(after)
                before = random.choice(v.record.deps).on if v is not None and v.record.deps else self.any()
                return wire.Unlink(before=before, after=after)
            case 10:
                under = random.choice([None, self.open()])
                role = random.choice([None, Role.EXPLORE])
                return wire.ClaimNext(actor=self.actor(), role=role, slack=1.0, under=under)
            case 11:
                return wire.Claim(id=self.open(), actor=self.actor())
            case 12:
                return wire.Complete(id=self.held(), status=random.choice([Outcome.DONE] * 5 + [Outcome.FAILED]))
            case 13:
                return wire.Complete(id=self.open(), status=random.choice(list(Outcome)))
            case 14:
                return wire.Release(id=self.held())
            case 15:
                return wire.Reopen(id=self.any())
            case 16:
                return wire.Cancel(id=self.open()) if random.random() < 0.2 else wire.Ready()
            case 17:
                return self.pause() if random.random() < 0.5 else self.capacity()
            case 18:
                return wire.Archive(id=self.any())
            case _:
                under = random.choice([None, None, self.root()])
                return random.choice([wire.ClaimNext(actor=self.actor(), under=under), wire.Complete(id=self.held())])

    # ------------------------------------------------------------------------------------------------------- walking

    def step(self, number: int) -> None:
        driver = self.driver
        driver.now += self.random.choice([0.0, 0.0, 0.0, 1.0, 9.0])
        driver.expire()
        request = self.request()
        op = str(request.__struct_config__.tag)
        before = driver.nodes()
        judged = isinstance(request, wire.ClaimNext) and request.role is None and request.actor not in driver.actors()
        judged = judged and (request.under is None or request.under in driver.graph.vertices)
        best = self.expected(request) if judged else None
        try:
            came = driver.apply(request)
            if judged:
                assert came["id"] == best, f"seed {self.seed} step {number}: {request} took {came['id']}, not {best}"
        except Refusal:
            assert best is None, f"seed {self.seed} step {number}: {request} took nothing, and {best} can run"
            self.tally[f"{op} refused"] += 1
            assert driver.nodes() == before, f"seed {self.seed} step {number}: {request} was refused and changed nodes"
        else:
            self.tally[f"{op} ok"] += 1
            if self.random.random() < 0.1 and driver.mutation and not isinstance(request, wire.Ready):
                driver.undo()
                assert driver.nodes() == before, f"seed {self.seed} step {number}: {request} undone"
                driver.check()
                driver.apply(request)
        if number % CHECK_EVERY == 0:
            try:
                driver.check()
                driver.deadlocks()
            except AssertionError as error:
                raise AssertionError(f"seed {self.seed} step {number}: {request}: {error}") from error
        if number % RELOAD_EVERY == 0:
            again = driver.reloaded()
            again.check()
            assert again.nodes() == driver.nodes(), f"seed {self.seed} step {number}: reload"
            orders = [[node["id"] for node in side.apply(wire.Ready())["nodes"]] for side in (driver, again)]
            assert orders[0] == orders[1], f"seed {self.seed} step {number}: order after a reload"


def wander(seed: int, steps: int) -> Counter[str]:
    """One walk of so many requests; what was asked and answered."""
    wanderer = Wanderer(seed)
    for number in range(steps):
        wanderer.step(number)
    return wanderer.tally
