"""Bugs chosen at random: small changes of any comparison, condition, number or call of the rooms that hold the rules.

`python -m tests.soak mutants --random 20` plants so many, one after the other, and runs the tests that ought to find
each. What survives is either a test to write or a change without effect; those go on the list below, with the reason.
"""

from __future__ import annotations

import ast
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.simulation import patterns
from tests.simulation.planted_bugs import CORE, ROOT, SERVICE, STORE, Caught, PlantedBug, copy_checkout, run_hunt

#: The tests that a bug of a room is hunted with, the fast ones first.
HUNTERS = {
    CORE: ("tests/unit/core tests/contract/test_design.py", "stateful", "sim"),
    SERVICE: ("tests/unit/service tests/contract/test_protocol.py", "sim"),
    STORE: ("tests/unit/store", "sim"),
}
#: Changes without an effect that a caller could see: room, function, what was changed, and why it does not matter.
EQUIVALENT: dict[tuple[str, str, str], str] = {}

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


class RandomBug(NamedTuple):
    """One change: `before` becomes `after` in `function` of `file`."""

    file: Path
    function: str
    before: str
    after: str
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What EQUIVALENT knows it by."""
        return str(self.file.relative_to(ROOT)), self.function, f"{self.before} -> {self.after}"


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Return what `node` might become by a slip."""
    match node:
        case ast.Compare(left, [operator], [right]):
            yield ast.Compare(left, [_COMPARISONS[type(operator)]()], [right])
        case ast.BoolOp(ast.And(), values):
            yield ast.BoolOp(ast.Or(), values)
        case ast.BoolOp(ast.Or(), values):
            yield ast.BoolOp(ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() as value):
            yield ast.Constant(value + 1)
        case ast.Call(ast.Name("min" | "max" as name), arguments, keywords):
            yield ast.Call(ast.Name("max" if name == "min" else "min", ast.Load()), arguments, keywords)
        case ast.Expr(ast.Call()):
            yield ast.Pass()


def all_sites(room: str) -> list[tuple[Path, int]]:
    """Return every place of a room that can be changed: file, and the number of the node in it."""
    found = []
    for path in sorted((ROOT / room).rglob("*.py")):
        for number, (function, node) in enumerate(patterns.nodes_of(ast.parse(path.read_text(encoding="utf-8")))):
            if function != patterns.MODULE and any(True for _ in changes(node)):
                found.append((path, number))
    return found


def plant(path: Path, number: int) -> RandomBug:
    """Return the change of one place."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    function, node = patterns.nodes_of(tree)[number]
    after = next(changes(node))
    before, text = ast.unparse(node), ast.unparse(ast.fix_missing_locations(after))
    match = patterns.Match(function, [node])
    return RandomBug(path, function, before, text, ast.unparse(patterns.replace(tree, match, text)))


def choose(seed: int, count: int) -> Iterator[tuple[str, RandomBug]]:
    """Return `count` bugs, each with its room, without those known to have no effect."""
    chance = random.Random(seed)
    sites = [(room, path, number) for room in HUNTERS for path, number in all_sites(room)]
    for room, path, number in chance.sample(sites, min(count, len(sites))):
        bug = plant(path, number)
        if bug.key not in EQUIVALENT:
            yield room, bug


def hunt(room: str, bug: RandomBug, *, seconds: float, seed: int) -> Caught:
    """Hunt for one bug with each hunter of its room until one finds it."""
    name = " | ".join(bug.key)
    with tempfile.TemporaryDirectory(prefix="claimdag-bug-") as at:
        directory = Path(at)
        copy_checkout(directory)
        (directory / bug.file.relative_to(ROOT)).write_text(bug.source, encoding="utf-8")
        took = 0.0
        for hunter in HUNTERS[room]:
            caught = run_hunt(PlantedBug(name, room, "", "", by=hunter), directory, seconds=seconds, seed=seed)
            took += caught.seconds
            if caught.caught:
                return caught._replace(seconds=took, reason=f"{hunter}: {caught.reason}")
    return caught._replace(seconds=took)
