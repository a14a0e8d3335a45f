"""Random requests to the core on graphs of hundreds of nodes (tests/model/random_walk.py), walk after walk.

Walk k of seed S is seeded S + k, and a failure names its own.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from tests.model.random_walk import wander


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=600, help="requests per walk (default %(default)s)")


def soak(options: argparse.Namespace) -> int:
    began = time.monotonic()
    tally: Counter[str] = Counter()
    seed = options.seed
    failed = False
    while time.monotonic() - began < options.seconds and not failed:
        try:
            tally += wander(seed, options.steps)
        except Exception:
            sys.stdout.write(f"FAILED in the walk of seed {seed}\n{traceback.format_exc()}")
            failed = True
        seed += 1
    sys.stdout.write(f"{seed - options.seed} walks, {tally.total()} requests\n")
    for name, count in sorted(tally.items()):
        sys.stdout.write(f"  {name:32} {count:9}\n")
    return 1 if failed else 0
