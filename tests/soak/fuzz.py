"""Fuzz the protocol and the state's files (tests/fuzz): Hypothesis by turns, and atheris where it is installed.

Batch k of seed S is seeded S + k. atheris has a third of the time, in a process of its own for each target.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz import hostile
from tests.fuzz.guided import SKIPPED
from tests.fuzz.targets import Protocol, state_files
from tests.fuzz.test_state_files import bent, forged


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--examples", type=int, default=400, help="examples a batch (default %(default)s)")


def soak(options: argparse.Namespace) -> int:
    logging.disable(logging.NOTSET)
    tally: Counter[str] = Counter()

    def requests(lines: list[bytes]) -> None:
        tally["lines"] += len(lines)
        target = Protocol()
        target.say(lines)
        target.check()

    def raw(data: bytes) -> None:
        tally["bytes"] += 1
        Protocol().bytes(data)

    def files(found: dict[str, bytes]) -> None:
        tally["states"] += 1
        state_files(found)

    batches: list[tuple[Any, Callable[[Any], None]]] = [
        (st.lists(hostile.lines(), min_size=1, max_size=30), requests),
        (st.binary(max_size=2000), raw),
        (bent(), files),
        (forged(), files),
    ]
    config = settings(
        max_examples=options.examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    began = time.monotonic()
    number = options.seed
    while time.monotonic() - began < options.seconds * 2 / 3:
        for strategy, check in batches:
            try:
                seed(number)(config(given(strategy)(check)))()
            except Exception:
                traceback.print_exc()
                sys.stdout.write(f"FAILED {check.__name__} in the batch of seed {number}\n")
                return 1
        number += 1
    sys.stdout.write("".join(f"  {name:8} {count:10}\n" for name, count in sorted(tally.items())))
    return _guided(options)


def _guided(options: argparse.Namespace) -> int:
    for target in ("protocol", "files"):
        seconds = max(1, int(options.seconds / 6))
        more = ["--seconds", str(seconds), "--seed", str(options.seed)]
        command = [sys.executable, "-m", "tests.fuzz.guided", target, *more]
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONWARNINGS": "ignore"}
        )
        if ran.returncode == SKIPPED:
            sys.stdout.write("  atheris is not installed: skipped\n")
            return 0
        done = [line for line in ran.stderr.splitlines() if "number_of_executed_units" in line or "peak_rss" in line]
        sys.stdout.write(f"  atheris, {target}: {', '.join(done)}\n")
        if ran.returncode:
            sys.stdout.write(f"FAILED\n{ran.stderr[-4000:]}\n")
            return 1
    return 0
