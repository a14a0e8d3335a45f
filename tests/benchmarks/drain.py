"""What a node costs when all of them wait for one unit of one resource, as their number grows.

`python -m tests.benchmarks.drain [--nodes 1000,10000,100000] [--rounds 3]`. CPU microseconds per node in the core
alone: to submit (in batches of 4,000), and to drain (claim_next and complete, one worker). The cost per node should not
grow with the number of nodes; the last column is the ratio to the smallest. Rounds of all sizes are interleaved and
the median is shown.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time

from claimdagd import wire
from tests.support.driver import Driver

BATCH = 4000


def submit(driver: Driver, count: int) -> None:
    node = wire.SubmitNode(needs={"gpu": 1})
    for begin in range(0, count, BATCH):
        driver.apply(wire.Submit(nodes=(node,) * min(BATCH, count - begin), returns=()))


def drain(driver: Driver, count: int) -> None:
    for _ in range(count):
        driver.complete(driver.next())


def measure(count: int) -> tuple[float, float]:
    """CPU microseconds per node: to submit, to drain."""
    driver = Driver(max_nodes=count + 1)
    gc.collect()
    began = time.process_time()
    submit(driver, count)
    between = time.process_time()
    drain(driver, count)
    ended = time.process_time()
    assert driver.used("gpu") == 0
    return 1e6 * (between - began) / count, 1e6 * (ended - between) / count


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.drain", description=__doc__)
    parser.add_argument("--nodes", default="1000,10000,100000", help="sizes, by comma (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of each size (default %(default)s)")
    options = parser.parse_args(argv)
    sizes = [int(word) for word in options.nodes.split(",")]
    figures: dict[int, list[tuple[float, float]]] = {size: [] for size in sizes}
    for _ in range(options.rounds):
        for size in sizes:
            figures[size].append(measure(size))
    print("All nodes need one resource of capacity 1: CPU microseconds per node")
    print(f"{'nodes':>9} {'submit':>8} {'drain':>8} {'ratio':>6}")
    least = statistics.median(drained for _, drained in figures[sizes[0]])
    for size in sizes:
        submitted = statistics.median(value for value, _ in figures[size])
        drained = statistics.median(value for _, value in figures[size])
        print(f"{size:9} {submitted:8.2f} {drained:8.2f} {drained / least:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
