"""Whole histories of the daemon on a disk that fails, each from its seed (tests/simulation), until the time is over.

History k of seed S is seeded S + k. A failing one is run again with its story told; `--seed` with the seed that it
names, and `--histories 1`, does so later.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import time
from collections import Counter

from tests.simulation.history import Failed, run


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--histories", type=int, default=None, help="stop after so many")
    parser.add_argument("--trace", type=int, default=60, help="lines of a failing story (default %(default)s)")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure, tell each in one line")


def soak(options: argparse.Namespace) -> int:
    logging.disable(logging.CRITICAL)
    tally: Counter[str] = Counter()
    began = time.monotonic()
    seed = options.seed
    failed = 0
    while time.monotonic() - began < options.seconds and tally["histories"] != options.histories:
        try:
            tally += run(seed)
        except Failed as failure:
            failed += 1
            tally["histories"] += 1
            if options.keep_going:
                sys.stdout.write(f"{failure}"[:400] + "\n")
            else:
                tell(failure, options.trace)
                break
        seed += 1
    took = time.monotonic() - began
    rate = tally["histories"] / took * 60
    sys.stdout.write(f"{tally['histories']} histories in {took:.1f} s ({rate:.0f} a minute)\n")
    for name, count in sorted(tally.items()):
        sys.stdout.write(f"  {name:12} {count:10}\n")
    gc.collect()
    return 1 if failed else 0


def tell(failure: Failed, lines: int) -> None:
    """The story of a history that failed, and why."""
    try:
        run(failure.seed, tracing=True)
    except Failed as again:
        sys.stdout.write("\n".join(line[:1500] for line in again.trace[-lines:]) + "\n")
        failure = again
    sys.stdout.write(f"FAILED seed {failure.seed}\n{failure.reason}\n")
