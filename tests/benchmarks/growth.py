"""What each op costs in the core as the graph grows, by shape (c): CPU microseconds, and ratios.

Graphs are built by submits of 4,000 nodes and then sampled: claim_next, release, claim by id and complete in cycles;
then upsert of a new node, upsert of a change and link; then claim_next when each claim comes after an upsert at the
end of the longest chain, which moves the depth of everything above it. Each graph has a process of its own. Sizes are
interleaved; figures are medians over rounds of the mean within a round, so what is paid once in a while (heaps, the
collector) is in them, and of the median within a round in brackets.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from claimdagd.core.apply import apply_request
from claimdagd.core.graph import Graph
from claimdagd.model import Dep
from claimdagd.wire import Claim, ClaimNext, Complete, Link, Release, Request, Upsert
from tests.benchmarks.shapes import SHAPES, batches
from tests.benchmarks.table import Cell, Scale, median, show

TAG = "b3nc"
SAMPLES = 2000
#: Of the costly kind, where one op may be as dear as the graph is deep.
FEW = 20
#: Samples of one op on one graph end after so long, however few they are.
PATIENCE_S = 5.0

CYCLE = ("claim_next", "release", "claim", "complete")
COLUMNS = ("submit", "first claim", *CYCLE, "upsert new", "upsert", "link", "claim after")


class Bench:
    """One graph, and the times in nanoseconds of what is done to it."""

    def __init__(self, shape: str, count: int, seed: int) -> None:
        self.graph = Graph(TAG, max_nodes=2 * count + 100_000)
        self.shape = shape
        self.count = count
        self.chance = random.Random(seed)
        self.times: dict[str, list[int]] = {name: [] for name in COLUMNS}
        self.now = 0.0
        laps = [-(time.thread_time_ns() - time.thread_time_ns()) for _ in range(1000)]
        self.overhead = int(median(laps))

    def do(self, column: str | None, request: Request) -> Any:
        """Perform and note the time."""
        self.now += 0.001
        # CPU time: on a machine that others use too, time by the clock says more of them.
        began = time.thread_time_ns()
        result, _ = apply_request(self.graph, request, self.now, self.now)
        if column is not None:
            self.times[column].append(time.thread_time_ns() - began - self.overhead)
        return result

    def build(self) -> None:
        """The graph; the time of submit is that of all its batches, by node."""
        for submit in batches(self.shape, self.count, TAG):
            self.do("submit", submit)
        total = sum(self.times["submit"])
        self.times["submit"] = [total // self.count]
        if self.shape == "fan-in":
            deps = tuple(Dep(f"{TAG}-{n}") for n in range(1, self.count + 1))
            self.do(None, Upsert(deps=deps))

    def cycles(self, count: int) -> None:
        """Claim and complete in the graph's own order, by claim_next and by id."""
        v = self.do("first claim", ClaimNext(actor="w")).v
        self.do(None, Complete(id=v.record.id))
        self._settle()  # of a star every node has become ready: `stalls` shows what that takes
        for _ in range(count):
            v = self.do("claim_next", ClaimNext(actor="w")).v
            self.do("release", Release(id=v.record.id, actor="w"))
            self.do("claim", Claim(id=v.record.id, actor="w"))
            self.do("complete", Complete(id=v.record.id, actor="w"))

    def edits(self, count: int) -> None:
        """New nodes, changed nodes, new edges among what is unfinished."""
        last = self.graph.next_number - 1
        first = self.count // 2 + 2
        for i in range(count):
            self.do("upsert new", Upsert(summary=f"added {i}", deps=(Dep(self._some(first, last)),)))
            self.do("upsert", Upsert(id=self._some(first, last), summary=f"changed {i}"))
        self._settle()
        give_up_at = time.monotonic() + PATIENCE_S
        for _ in range(count):
            if time.monotonic() > give_up_at:
                break
            one, other = sorted(self.chance.sample(range(first, last), 2))
            self.do("link", Link(before=f"{TAG}-{one}", after=f"{TAG}-{other}"))
        self._settle()

    def deepen(self, count: int) -> None:
        """The worst for a depth that is kept up to date: the chain grows at its end before each claim."""
        end = f"{TAG}-{self.count}"
        give_up_at = time.monotonic() + PATIENCE_S
        for _ in range(count):
            if time.monotonic() > give_up_at:
                break
            end = self.do(None, Upsert(deps=(Dep(end),))).v.record.id
            v = self.do("claim after", ClaimNext(actor="w")).v
            self.do(None, Release(id=v.record.id, actor="w"))

    def _settle(self) -> None:
        """Have the depths follow what was changed, so that it is not the next op that pays for it."""
        v = self.do(None, ClaimNext(actor="w")).v
        self.do(None, Release(id=v.record.id, actor="w"))

    def _some(self, first: int, last: int) -> str:
        return f"{TAG}-{self.chance.randint(first, last)}"


def measure(shape: str, count: int, seed: int) -> dict[str, tuple[float, float]]:
    """Mean and median in microseconds of each op on a graph of `count` nodes."""
    samples = min(SAMPLES, count // 4)
    times: dict[str, list[int]] = {name: [] for name in COLUMNS}
    for part in range(SAMPLES // samples):
        bench = Bench(shape, count, seed + part)
        bench.build()
        bench.cycles(samples)
        bench.edits(samples)
        bench.deepen(FEW)
        for name, found in bench.times.items():
            times[name] += found
    return {name: (sum(found) / len(found) / 1e3, median(found) / 1e3) for name, found in times.items()}


def in_its_own_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run `work` in a fresh process, so that memory and the collector's state are its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


def run(scale: Scale, sizes: list[int] | None = None, shapes: list[str] | None = None, rounds: int = 0) -> None:
    """Print the tables."""
    sizes = sizes or [1000, 10_000, 100_000, 1_000_000][: scale.pick(2, 3, 4)]
    rounds = rounds or scale.pick(1, 3, 3)
    for shape in shapes or list(SHAPES):
        found: dict[int, list[dict[str, tuple[float, float]]]] = {size: [] for size in sizes}
        for number in range(rounds):
            for size in sizes:
                if number and size >= 100_000 and scale is not Scale.FULL:
                    continue  # one of these is long enough to be a median by itself
                found[size].append(in_its_own_process(measure, shape, size, number))
        rows: list[list[Cell]] = []
        base: dict[str, tuple[float, float]] = {}
        for size in sizes:
            cost = {
                name: (median(f[name][0] for f in found[size]), median(f[name][1] for f in found[size]))
                for name in COLUMNS
            }
            base = base or cost
            rows.append([f"{size:,}", *(cost[name][0] for name in COLUMNS)])
            rows.append(["  median", *(cost[name][1] for name in COLUMNS)])
            if cost is not base:
                rows.append(["  ratios", *(_ratio(cost[name], base[name]) for name in COLUMNS)])
        show(f"{shape}: microseconds per op in the core (submit: per node)", ("nodes", *COLUMNS), rows)
    print(
        "Ratios: to the smallest graph, of means and of medians. first claim: the one after building, which may have\n"
        "to bring depths up to date. claim after: each claim_next follows an upsert at the end of the longest chain."
    )


def _ratio(cost: tuple[float, float], base: tuple[float, float]) -> str:
    return f"{cost[0] / base[0]:.2f} {cost[1] / base[1]:.2f}"
