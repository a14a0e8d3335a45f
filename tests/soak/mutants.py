"""Planted bugs (tests/simulation/planted_bugs.py), each hunted for in a copy of the package; a table of those caught.

`--seconds` is how long each one is hunted for at most. The exit status is 1 where one lives or no longer fits the code.
"""

from __future__ import annotations

import argparse
import sys

from tests.simulation.planted_bugs import MUTANTS, Stale, hunt, stale


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="", help="those whose name holds this text")


def soak(options: argparse.Namespace) -> int:
    gone = stale()
    for line in gone:
        sys.stdout.write(f"STALE {line}\n")
    caught = hunted = 0
    worst = 0.0
    for mutant in MUTANTS:
        if options.only not in mutant.name:
            continue
        hunted += 1
        try:
            found = hunt(mutant, seconds=options.seconds, seed=options.seed)
        except Stale as exc:
            sys.stdout.write(f"  BROKEN         {exc}\n")
            continue
        caught += found.caught
        worst = max(worst, found.seconds)
        verdict = "caught" if found.caught else "LIVES "
        sys.stdout.write(f"  {verdict} {found.seconds:6.1f} s  {mutant.by:8}  {mutant.name:48}  {found.said[:90]}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{caught} of {hunted} caught, the slowest in {worst:.1f} s\n")
    return 0 if caught == hunted and not gone else 1
