"""How good the order of `claim_next` is: real task graphs worked off in virtual time, against the best known makespans.

`python -m tests.benchmarks.stg`. The graphs are half of the Standard Task Graph Set with 50 and 100 tasks; simulated
workers take what claim_next gives them as soon as they are idle. Four ways: with the true costs; with costs unknown
(all 1); first come first served (in the order in which nodes became ready, by `claim ID`); and with workers of two
speeds (every second one twice as fast), where no best is known and the bound max(critical path on a fast worker, work
/ speed of all) stands in, so that those figures are upper limits of the loss. Nothing here measures time.
"""

from __future__ import annotations

import csv
import heapq
import os
import statistics
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from claimdagd import wire
from claimdagd.core.refusal import Refusal
from claimdagd.model import Dep
from tests.support.driver import Driver

SIZES = (50, 100)
WORKERS = (2, 4, 8, 16)


@dataclass(frozen=True)
class Task:
    number: int
    time: int
    after: tuple[int, ...]


def data_directory() -> Path:
    """Where the task graphs are; CLAIMDAG_DATA names another place."""
    root = Path(__file__).resolve().parents[2]
    return Path(os.environ.get("CLAIMDAG_DATA", root.parent / "shared" / "data")) / "stg"


def read_graph(path: Path) -> list[Task]:
    """The tasks of one graph without its two dummies (time 0, first and last), which order nothing else."""
    rows = [[int(word) for word in line.split("#")[0].split()] for line in path.read_text().splitlines()]
    tasks = [Task(row[0], row[1], tuple(row[3 : 3 + row[2]])) for row in rows[1:] if len(row) >= 3]
    real = {task.number for task in tasks if task.time > 0}
    dummies = [task for task in tasks if task.number not in real]
    assert [task.number for task in dummies] == [0, len(tasks) - 1], path
    return [Task(t.number, t.time, tuple(n for n in t.after if n in real)) for t in tasks if t.time > 0]


def read_best(directory: Path, size: int, workers: int) -> dict[str, int]:
    with (directory / f"best_{size}_{workers}.csv").open() as lines:
        return {row[0]: int(row[2]) for row in csv.reader(lines) if row and row[0].startswith(f"{size}/")}


def graphs(directory: Path, size: int) -> Iterator[tuple[str, list[Task]]]:
    for path in sorted((directory / str(size)).glob("*.stg")):
        yield f"{size}/{path.name}", read_graph(path)


def lower_bound(tasks: list[Task], speeds: list[float]) -> float:
    """No schedule is shorter: the critical path on the fastest worker, and the work shared by all."""
    finish: dict[int, int] = {}
    for task in tasks:
        finish[task.number] = task.time + max((finish[n] for n in task.after), default=0)
    return max(max(finish.values()) / max(speeds), sum(task.time for task in tasks) / sum(speeds))


def makespan(tasks: list[Task], speeds: list[float], *, known: bool = True, first_come: bool = False) -> float:
    """The virtual time at which the last task ends when idle workers take the next node at once."""
    driver = Driver()
    answer = driver.apply(
        wire.Submit(
            nodes=tuple(
                wire.SubmitNode(
                    ref=str(task.number),
                    cost=float(task.time) if known else 1.0,
                    deps=tuple(Dep(str(number)) for number in task.after),
                )
                for task in tasks
            )
        )
    )
    times = {node_id: task.time for node_id, task in zip(answer["ids"], tasks, strict=True)}
    came = deque(node_id for node_id, task in zip(answer["ids"], tasks, strict=True) if not task.after)
    idle = deque(range(len(speeds)))
    busy: list[tuple[float, int, str]] = []
    now = 0.0
    left = len(tasks)
    while left:
        while idle:
            worker = idle[0]
            try:
                if first_come:
                    if not came:
                        break
                    node_id = came.popleft()
                    driver.claim(node_id, f"w{worker}")
                else:
                    node_id = driver.next(f"w{worker}")
            except Refusal:
                break
            idle.popleft()
            heapq.heappush(busy, (now + times[node_id] / speeds[worker], worker, node_id))
        now = driver.now = busy[0][0]
        while busy and busy[0][0] == now:
            _, worker, node_id = heapq.heappop(busy)
            came.extend(driver.complete(node_id)["ready"])
            idle.append(worker)
            left -= 1
    return now


@dataclass(frozen=True)
class Row:
    """Percent over the best known (over the bound for two speeds): means, and the worst of those with costs."""

    sizes: tuple[int, ...]
    workers: int
    costs: float
    worst: float
    unknown: float
    first_come: float
    two_speeds: float
    two_speeds_first_come: float


def measure(directory: Path, sizes: tuple[int, ...], workers: int) -> Row:
    best = {name: length for size in sizes for name, length in read_best(directory, size, workers).items()}
    even = [1.0] * workers
    mixed = [2.0 if worker % 2 == 0 else 1.0 for worker in range(workers)]
    over: dict[str, list[float]] = {}
    for name, tasks in (graph for size in sizes for graph in graphs(directory, size)):

        def note(kind: str, length: float, least: float) -> None:
            over.setdefault(kind, []).append(100.0 * (length / least - 1.0))

        note("costs", makespan(tasks, even), best[name])
        note("unknown", makespan(tasks, even, known=False), best[name])
        note("first come", makespan(tasks, even, first_come=True), best[name])
        bound = lower_bound(tasks, mixed)
        note("mixed", makespan(tasks, mixed), bound)
        note("mixed first come", makespan(tasks, mixed, first_come=True), bound)
    mean = {kind: statistics.fmean(values) for kind, values in over.items()}
    return Row(
        sizes,
        workers,
        mean["costs"],
        max(over["costs"]),
        mean["unknown"],
        mean["first come"],
        mean["mixed"],
        mean["mixed first come"],
    )


def main() -> int:
    directory = data_directory()
    if not directory.is_dir():
        print(f"no task graphs at {directory}; CLAIMDAG_DATA names another place")
        return 0
    print("Mean percent over the best known makespan (two speeds: over a lower bound)")
    print(" tasks workers   costs  (worst)  unknown    fcfs  2 speeds    fcfs")
    for sizes in (*((size,) for size in SIZES), SIZES):
        for workers in WORKERS:
            row = measure(directory, sizes, workers)
            tasks = "+".join(map(str, sizes))
            print(
                f"{tasks:>6} {workers:7} {row.costs:7.2f} {row.worst:8.2f} {row.unknown:8.2f} {row.first_come:7.2f}"
                f" {row.two_speeds:9.2f} {row.two_speeds_first_come:7.2f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
