"""What a node takes in memory (d): resident bytes of the process per node, by shape, with and without a summary.

In the core, and in the service as the daemon drives it (with the journal's table and the ledger), each in a process of
its own. Resident size is what the operating system counts, so what the allocator wastes is in it.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from pathlib import Path

import msgspec

from claimdagd.core.apply import apply_request
from claimdagd.core.graph import Graph
from claimdagd.wire import ClaimNext, Submit
from tests.benchmarks.growth import TAG, in_its_own_process
from tests.benchmarks.inside import new_service
from tests.benchmarks.shapes import batches
from tests.benchmarks.table import Cell, Scale, show

SHAPES = ("layered", "chain", "star", "resource", "group")
SUMMARY = "7q2f-17: read the parser's tests and say what is missing"


def resident_bytes() -> int:
    """What this process takes of the machine's memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(shape: str, count: int, summary: bool, whole: bool) -> float:
    """Bytes per node of a graph whose first node is claimed, so that everything derived is there."""
    with tempfile.TemporaryDirectory() as directory:
        graph = Graph(TAG, max_nodes=count + 1)
        session = service = None
        if whole:
            service = new_service(graph, directory)
            session = service.open(lambda line: None, lambda: None)
        gc.collect()
        before = resident_bytes()
        for n, submit in enumerate(batches(shape, count, TAG)):
            if summary:
                submit = _told(submit, n)
            if service is not None and session is not None:
                service.receive(session, [msgspec.json.encode(submit)])
            else:
                apply_request(graph, submit, 0.0, 0.0)
        apply_request(graph, ClaimNext(actor="w"), 0.0, 0.0)
        gc.collect()
        return (resident_bytes() - before) / count


def _told(submit: Submit, batch: int) -> Submit:
    nodes = [msgspec.structs.replace(node, summary=f"{SUMMARY} ({batch}.{i})") for i, node in enumerate(submit.nodes)]
    return msgspec.structs.replace(submit, nodes=tuple(nodes))


def run(scale: Scale, sizes: list[int] | None = None, shapes: list[str] | None = None) -> None:
    """Print the table."""
    sizes = sizes or [scale.pick(10_000, 100_000, 1_000_000)]
    rows: list[list[Cell]] = []
    for shape in shapes or SHAPES:
        for size in sizes:
            core, told = (in_its_own_process(measure, shape, size, summary, False) for summary in (False, True))
            whole = in_its_own_process(measure, shape, size, True, True)
            rows.append([shape, size, core, told, whole, whole / 1024])
    show(
        "Memory: resident bytes per node",
        ("shape", "nodes", "core", f"with {len(SUMMARY) + 6} B summary", "service too", "KiB"),
        rows,
        f"Python {sys.version.split()[0]}. service too: with the ledger of recent entries and the journal's table.",
    )
