"""What makes a request wait: latency under load while snapshots are written (g), and the longest pauses (h).

First the daemon as it runs: round trips of workers (`complete` with `next`), with snapshots written one after the other
and without, interleaved. On a machine that others use too, the far percentiles of both show those others; what a
snapshot adds is the difference. So then, in this process and in CPU time, the longest single steps during which nobody
else can be served: a slice of a snapshot, a full collection, and the requests that are largest by nature.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from claimdagd.core.apply import apply_request
from claimdagd.core.graph import Graph
from claimdagd.main import collect_young_objects, freeze_gc
from claimdagd.model import Dep, Kind
from claimdagd.service import Service
from claimdagd.wire import Cancel, ClaimNext, Complete, Link, List, Release, Submit, SubmitNode, Upsert
from tests.benchmarks.growth import TAG, in_its_own_process
from tests.benchmarks.inside import new_service
from tests.benchmarks.processes import LOOPS, Daemon, claimdagd, directory, run_load
from tests.benchmarks.shapes import BATCH, batches
from tests.benchmarks.table import Cell, Scale, median, percentile, show

PERCENTILES = ((0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"))


class Checkpoints:
    """Snapshots one after the other, as long as it is entered."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.count = 0

    def _work(self) -> None:
        while not self._over.is_set():
            self._daemon.ask("checkpoint")
            self.count += 1

    def __enter__(self) -> Checkpoints:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def latencies(scale: Scale, sizes: list[int]) -> None:
    """The first table."""
    rounds = scale.pick(1, 3, 7)
    count = scale.pick(1000, 4000, 20_000)
    rows: list[list[Cell]] = []
    for size in sizes:
        without: list[tuple[float, ...]] = []
        during: list[tuple[float, ...]] = []
        written = 0
        with directory() as where, claimdagd(where, *LOOPS["asyncio"]) as daemon:
            daemon.submit(size)
            for _ in range(rounds):
                daemon.submit(4 * count + 16)
                without.append(_laps(daemon, count))
                with Checkpoints(daemon) as checkpoints:
                    during.append(_laps(daemon, count))
                written += checkpoints.count
        for name, found in (("without", without), (f"{written} snapshots", during)):
            laps = [sorted(part) for part in found]
            row: list[Cell] = [name, size]
            row += [median(percentile(part, p) for part in laps) / 1e3 for p, _ in PERCENTILES]
            row += [median(part[-1] for part in laps) / 1e3, max(part[-1] for part in laps) / 1e3]
            rows.append(row)
    show(
        "Round trips under load, milliseconds, medians of rounds",
        ("", "nodes", *(name for _, name in PERCENTILES), "max", "worst of all"),
        rows,
    )


def _laps(daemon: Daemon, count: int) -> tuple[float, ...]:
    return run_load(daemon.pid, daemon.path, "next", count, workers=2, laps=True).laps


# ------------------------------------------------------------------------------------------------------------- pauses


#: Milliseconds, and a word on what it is.
Step = tuple[float, str]


def timed(work: Callable[[], Any]) -> float:
    """CPU milliseconds."""
    began = time.thread_time()
    work()
    return 1e3 * (time.thread_time() - began)


def longest_steps(count: int) -> dict[str, Step]:
    """The steps of a daemon with `count` nodes that nothing can interrupt."""
    found: dict[str, Step] = {}
    with directory() as where:
        graph = Graph(TAG, max_nodes=count + 10 * BATCH)
        service = new_service(graph, str(where))
        session = service.open(lambda line: None, lambda: None)

        def ask(request: Any) -> float:
            line = msgspec.json.encode(request)
            return timed(lambda: service.receive(session, [line]))

        freeze_gc()
        submits = []
        for submit in batches("layered", count, TAG):
            submits.append(ask(submit))
            collect_young_objects()  # as the daemon does twice a second
        found["submit of 4,000 nodes"] = (max(submits), f"the longest; the median is {median(submits):.0f}")
        found["first claim_next after these"] = (ask(ClaimNext(actor="w")), "depths follow the submits")
        ask(Release(id=next(iter(graph.by_assignee.values())).record.id, actor="w"))
        ask(Upsert(deps=(Dep(f"{TAG}-{count}"),)))
        found["claim_next after an upsert"] = (ask(ClaimNext(actor="w")), "at the end of the longest chain")
        link = Link(before=f"{TAG}-{count // 4}", after=f"{TAG}-{3 * count // 4}")
        found["link"] = (ask(link), "right through the middle")
        found["list"] = (ask(List()), "all unfinished nodes, in one answer")
        gc.unfreeze()
        found["full collection"] = (timed(gc.collect), "if nothing were frozen")
        gc.freeze()
        laps = snapshot_steps(service)
        found["snapshot, first step"] = (laps[0], "takes down what the nodes are at that moment")
        found["snapshot, longest slice"] = (max(laps[1:-1]), f"of {len(laps)} steps, {sum(laps):.0f} ms in all")
        found["snapshot, last step"] = (laps[-1], "the files change names")
    return found


def snapshot_steps(service: Service) -> list[float]:
    """CPU milliseconds of each step of a snapshot, without what the daemon does in a thread besides."""
    steps = service.snapshot()
    laps = []
    while True:
        began = time.thread_time()
        step = next(steps, StopIteration)
        laps.append(1e3 * (time.thread_time() - began))
        if step is StopIteration:
            return laps
        if step is not None:
            step()


def longest_cascades(count: int) -> dict[str, Step]:
    """Requests that change as many nodes as there are."""
    freeze_gc()
    graph = Graph(TAG, max_nodes=count + BATCH)
    for submit in batches("star", count, TAG):
        apply_request(graph, submit, 0.0, 0.0)
    collect_young_objects()
    v = apply_request(graph, ClaimNext(actor="w"), 0.0, 0.0)[0].v
    assert v is not None
    star = timed(lambda: apply_request(graph, Complete(id=v.record.id), 0.0, 0.0))
    after = timed(lambda: apply_request(graph, ClaimNext(actor="w"), 0.0, 0.0))
    graph = Graph(TAG, max_nodes=count + BATCH)
    apply_request(graph, Submit(nodes=(SubmitNode(kind=Kind.GOAL),)), 0.0, 0.0)
    for start in range(1, count, BATCH):
        nodes = (SubmitNode(parent=f"{TAG}-1"),) * min(BATCH, count - start)
        apply_request(graph, Submit(nodes=nodes, returns=()), 0.0, 0.0)
    collect_young_objects()
    cancel = timed(lambda: apply_request(graph, Cancel(id=f"{TAG}-1"), 0.0, 0.0))
    return {
        "complete of a star's centre": (star, "every other node becomes ready"),
        "claim_next after it": (after, "they find their places in the queue"),
        "cancel of the goal above all": (cancel, "every node is cancelled"),
    }


def pauses(sizes: list[int]) -> None:
    """The second table."""
    columns = [
        {**in_its_own_process(longest_steps, size), **in_its_own_process(longest_cascades, size)} for size in sizes
    ]
    rows: list[list[Cell]] = [
        [f"{name} ({columns[-1][name][1]})", *(column[name][0] for column in columns)] for name in columns[0]
    ]
    show("The longest single steps, CPU milliseconds", ("nodes", *(f"{size:,}" for size in sizes)), rows)


def run(scale: Scale) -> None:
    """Print both tables."""
    sizes = [4096, scale.pick(20_000, 200_000, 200_000)]
    latencies(scale, sizes)
    pauses([*sizes, 1_000_000] if scale is Scale.FULL else sizes)
