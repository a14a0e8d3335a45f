"""Planted bugs, each hunted for in a copy of the checkout; a table of what was caught, by what, and when.

By default those of tests/simulation/planted_bugs.py; with `--random N`, N small changes chosen by the seed. `--seconds`
is how long each one is hunted for at most. The exit status is 1 if a bug survives or no longer applies.
"""

from __future__ import annotations

import argparse
import sys

from tests.simulation import random_bugs
from tests.simulation.planted_bugs import PLANTED_BUGS, Caught, DoesNotApply, hunt, misfits


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="", help="those whose name holds this text")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N changes by chance instead of the list")


def soak(options: argparse.Namespace) -> int:
    if options.random:
        return _hunt_random(options)
    gone = misfits()
    for line in gone:
        sys.stdout.write(f"DOES NOT APPLY {line}\n")
    results = []
    for bug in PLANTED_BUGS:
        if options.only not in bug.name:
            continue
        try:
            results.append(hunt(bug, seconds=options.seconds, seed=options.seed))
        except DoesNotApply as exc:
            sys.stdout.write(f"  BROKEN         {exc}\n")
            gone.append(bug.name)
            continue
        _print(results[-1])
    return _sum_up(results) or bool(gone)


def _hunt_random(options: argparse.Namespace) -> int:
    results = []
    for room, bug in random_bugs.choose(options.seed, options.random):
        results.append(random_bugs.hunt(room, bug, seconds=options.seconds, seed=options.seed))
        _print(results[-1])
    return _sum_up(results)


def _print(found: Caught) -> None:
    verdict = "caught" if found.caught else "LIVES "
    by = "" if found.bug.find == "" else f"{found.bug.by:8}  "
    sys.stdout.write(f"  {verdict} {found.seconds:6.1f} s  {by}{found.bug.name:48}  {found.reason[:90]}\n")
    sys.stdout.flush()


def _sum_up(results: list[Caught]) -> int:
    caught = sum(found.caught for found in results)
    slowest = max((found.seconds for found in results), default=0.0)
    sys.stdout.write(f"{caught} of {len(results)} caught, the slowest in {slowest:.1f} s\n")
    return 0 if caught == len(results) else 1
