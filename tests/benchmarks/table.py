"""How the benchmarks show what they measured: columns of text, medians, ratios. Must not measure anything itself."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Sequence
from enum import Enum


class Scale(Enum):
    """How much of the machine's time a run may take: all of them in under a minute, in six, or as long as it takes."""

    QUICK = "quick"
    USUAL = "usual"
    FULL = "full"

    def pick(self, quick: int, usual: int, full: int) -> int:
        """One of three numbers."""
        return {Scale.QUICK: quick, Scale.USUAL: usual, Scale.FULL: full}[self]


Cell = str | int | float | None


def show(title: str, head: Sequence[str], rows: Iterable[Sequence[Cell]], note: str = "") -> None:
    """Print a table: the first column to the left, all others to the right."""
    lines = [list(head), *([cell(value) for value in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines if i < len(line)) for i in range(len(head))]
    print(f"\n{title}")
    for line in lines:
        first, *others = line
        right = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        print("  ".join([first.ljust(widths[0]), *right]))
    if note:
        print(note)
    sys.stdout.flush()


def cell(value: Cell) -> str:
    """Three digits that count, or so."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else value


def median(values: Iterable[float]) -> float:
    """The middle one; nan of nothing."""
    found = list(values)
    return statistics.median(found) if found else float("nan")


def percentile(ordered: Sequence[float], part: float) -> float:
    """The value below which `part` (0 to 1) of the ordered values lie."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
