"""How long the daemon takes to its first answer (e): with no state, and with nodes to recover.

Twice over: from a snapshot, and from a journal of submits alone. The time is that of the whole start, from exec to the
answer to a ping, as a command line that started it would wait; what it is over an empty start is recovery. Beside it
what recovery is made of, in this process: reading and checking the files, and building the graph.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from claimdagd.core.graph import Graph
from claimdagd.store.files import OsFiles
from claimdagd.store.recovery import gc_paused, recover
from tests.benchmarks.growth import TAG, in_its_own_process
from tests.benchmarks.inside import new_service, reopened
from tests.benchmarks.processes import claimdagd, directory
from tests.benchmarks.shapes import batches
from tests.benchmarks.table import Cell, Scale, median, show


def make_states(count: int, journal: str, snapshot: str, shape: str = "layered") -> None:
    """The same graph of `count` nodes as a journal in one directory, as a snapshot in the other."""
    service = new_service(Graph(TAG, max_nodes=count + 1), journal)
    session = service.open(lambda line: None, lambda: None)
    for submit in batches(shape, count, TAG):
        service.receive(session, [msgspec.json.encode(submit)])
    for name in os.listdir(journal):
        shutil.copy(Path(journal, name), Path(snapshot, name))
    for _ in reopened(snapshot, count + 1).snapshot():
        pass


@dataclass
class Parts:
    """CPU seconds of recovery by part."""

    files: float
    graph: float


def recovery_parts(path: str, count: int) -> Parts:
    began = time.process_time()
    recovered = recover(OsFiles(), path, new_tag=lambda: TAG)
    read = time.process_time()
    graph = Graph(recovered.tag, max_nodes=count + 1)
    with gc_paused():
        graph.load(recovered.nodes, recovered.capacities, recovered.next_number, 0.0)
    return Parts(read - began, time.process_time() - read)


def first_answers(where: Path, nodes: int) -> tuple[float, float]:
    """Seconds from the start of a daemon on `where` to its first answer; and of the first claim_next after that."""
    began = time.perf_counter()
    with claimdagd(where) as daemon:
        up = time.perf_counter()
        if not nodes:
            return up - began, 0.0
        asked = time.perf_counter()
        claim = daemon.ask("claim_next", actor="w")
        answered = time.perf_counter()
        daemon.ask("release", id=claim["id"])
        return up - began, answered - asked


def run(scale: Scale) -> None:
    """Print the tables."""
    rounds = scale.pick(2, 5, 9)
    sizes = [4096, 200_000] if scale is not Scale.QUICK else [4096, 20_000]
    if scale is Scale.FULL:
        sizes.append(1_000_000)
    with directory() as where:
        states: list[tuple[int, str]] = []
        for size in sizes:
            for kind in ("snapshot", "journal"):
                (where / f"{size}-{kind}").mkdir()
                states.append((size, kind))
            in_its_own_process(make_states, size, str(where / f"{size}-journal"), str(where / f"{size}-snapshot"))
        empty: list[float] = []
        times: dict[tuple[int, str], list[tuple[float, float]]] = {state: [] for state in states}
        parts: dict[tuple[int, str], list[Parts]] = {state: [] for state in states}
        for n in range(rounds):
            (where / f"empty-{n}").mkdir()
            empty.append(first_answers(where / f"empty-{n}", 0)[0])
            for state in states:
                if n >= 3 and state[0] > 100_000 and scale is not Scale.FULL:
                    continue  # three of these are enough
                path = where / f"{state[0]}-{state[1]}"
                times[state].append(first_answers(path, state[0]))
                parts[state].append(in_its_own_process(recovery_parts, str(path), state[0]))
    least = median(empty)
    rows: list[list[Cell]] = [["no state", None, 1e3 * least, None, None, None, None, None]]
    for size, kind in states:
        found = median(up for up, _ in times[size, kind])
        claim = median(claim for _, claim in times[size, kind])
        files, graph = (median(getattr(p, name) for p in parts[size, kind]) for name in ("files", "graph"))
        by_part = [1e6 * files / size, 1e6 * graph / size, size / (files + graph)]
        rows.append([kind, size, 1e3 * found, size / (found - least), *by_part, 1e3 * claim])
    show(
        "Start-up: milliseconds to the first answer, and recovery",
        (
            "state",
            "nodes",
            "first answer ms",
            "nodes/s",
            "files us/node",
            "graph us/node",
            "nodes per CPU s",
            "claim_next ms",
        ),
        rows,
        "nodes/s: by the clock, over what an empty start takes. The parts are CPU time in a process of its own.\n"
        "claim_next: the first one after the start.",
    )
