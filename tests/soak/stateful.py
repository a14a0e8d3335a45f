"""The core and the reference model side by side (tests/model/stateful.py), batch after batch.

Batch k of seed S is seeded S + k, so the seed that a failure prints can be given again to begin with the batch that
failed. A failure is cut down to the fewest requests that show it and printed as lines for a test.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.differential import Pair, Step, minimise, told
from tests.model.stateful import Machine


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=60, help="requests per example (default %(default)s)")
    parser.add_argument("--examples", type=int, default=100, help="examples per batch (default %(default)s)")


def show(pair_settings: dict[str, int], steps: list[Step]) -> None:
    """The failure, made small."""
    steps = minimise(pair_settings, steps)
    sys.stdout.write(f"{len(steps)} steps show it:\n{told(pair_settings, steps)}\n")
    try:
        Pair.play(pair_settings, steps)
    except Exception:
        sys.stdout.write(traceback.format_exc())


def soak(options: argparse.Namespace) -> int:
    config = settings(
        max_examples=options.examples,
        stateful_step_count=options.steps,
        deadline=None,
        database=None,
        phases={Phase.generate},
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    Pair.tally.clear()
    began = time.monotonic()
    seed = options.seed
    failed = False
    while time.monotonic() - began < options.seconds and not failed:
        try:
            run_state_machine_as_test(hypothesis.seed(seed)(Machine), settings=config)
        except Exception:
            failed = True
        if failed:
            sys.stdout.write(f"FAILED in the batch of seed {seed}\n")
            show(Machine.last.settings, Machine.last.trace)
        seed += 1
    tally = Pair.tally
    steps = sum(count for name, count in tally.items() if " " in name)
    sys.stdout.write(
        f"{tally['examples']} examples, {steps} requests, {tally['undone']} undone and done again;"
        f" after {tally['deadlocked']} there was a deadlock, after {tally['starving']} a starving node\n"
    )
    for name, count in sorted(tally.items()):
        if " " in name:
            sys.stdout.write(f"  {name:32} {count:9}\n")
    return 1 if failed else 0
