"""The planted bugs fit the code, and two of them a day are found; `python -m tests.soak mutants` hunts for all."""

from __future__ import annotations

import ast
import datetime
import random

import pytest

from tests.simulation import patterns, random_bugs
from tests.simulation.planted_bugs import PLANTED_BUGS, PlantedBug, hunt, misfits, planted

QUICK = [bug for bug in PLANTED_BUGS if bug.by == "sim" and not bug.rare]
A_DAY = 2
#: Which ones are hunted for changes from day to day.
TODAY = [QUICK[(datetime.date.today().toordinal() * A_DAY + n) % len(QUICK)] for n in range(A_DAY)]


def test_each_planted_bug_applies_exactly_once() -> None:
    """A check that plants nothing finds nothing."""
    assert len(PLANTED_BUGS) >= 15
    assert not misfits(), "\n".join(misfits())


@pytest.mark.slow
@pytest.mark.parametrize("bug", PLANTED_BUGS, ids=[bug.name.replace(" ", "-") for bug in PLANTED_BUGS])
def test_planted_bug_changes_the_code(bug: PlantedBug) -> None:
    """The file with the bug in it is Python, and another program than without."""
    path, source = planted(bug)
    assert ast.dump(ast.parse(source)) != ast.dump(ast.parse(path.read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("bug", TODAY, ids=[bug.name.replace(" ", "-") for bug in TODAY])
def test_planted_bug_is_caught(bug: PlantedBug) -> None:
    """The simulator finds a planted bug within seconds."""
    found = hunt(bug, seconds=25.0, seed=1)
    assert found.caught, f"{bug.name} lives: {found.reason}"


def test_random_bugs_are_changes_of_one_place() -> None:
    """Each is a program that can be compiled, and another one than before."""
    for _, bug in random_bugs.choose(random.randrange(1_000_000), 10):
        compile(bug.source, str(bug.file), "exec")
        assert ast.dump(ast.parse(bug.source)) != ast.dump(ast.parse(bug.file.read_text())), bug.key


@pytest.mark.parametrize(
    ("code", "pattern", "put", "result"),
    [
        ("def f():\n    g(a=1, b=x.y + 1)", "_(..., b=HERE(_A + 1))", "_A", "def f():\n    g(a=1, b=x.y)"),
        ("def f():\n    if a and b:\n        g()", "if HERE(_A) and _B:\n    _F()", "False", None),
        ("def f():\n    a = []\n    g(a)\n    h(a)", "_A = []\ng(_A)", "pass", "def f():\n    pass\n    h(a)"),
        ("def f():\n    return a - b", "_A - _A", "0", ""),
        ("def f():\n    return a.x - a.x", "_A.ANY - _A.ANY", "0", "def f():\n    return 0"),
    ],
)
def test_pattern_is_matched_by_shape(code: str, pattern: str, put: str, result: str | None) -> None:
    """Metavariables stand for one expression each, dots for any number, and only the marked part is replaced."""
    tree = ast.parse(code)
    matches = patterns.find(patterns.nodes_of(tree), pattern)
    if result == "":
        assert not matches
        return
    (match,) = matches
    assert match.function == "f"
    source = ast.unparse(patterns.replace(tree, match, put))
    assert source == (result if result is not None else code.replace("if a", "if False"))
