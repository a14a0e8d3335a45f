"""Planted bugs: each one a small change of the package, to show that the simulator, or the model, finds it.

`hunt` plants one in a copy of the checkout and runs the long tests there, in a process of their own. A bug names the
place that it changes by the shape of its syntax tree (`tests.simulation.patterns`), within one room and, where the
shape alone is not unique, within functions of given names. So it outlives renames and reformatting; one that no longer
applies exactly once fails loudly. Nothing here touches the checkout itself.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.simulation import patterns

ROOT = Path(__file__).parents[2]
#: What a run in the copy needs.
COPIED = ("claimdagd", "claimdag_client", "tests", "pyproject.toml")


class PlantedBug(NamedTuple):
    """In `room`, the one match of `find` becomes `put`; the soak `by`, or the test module of that path, finds it.

    `where` is a regular expression for the qualified name of the function. `rare` ones take more than a few seconds.
    """

    name: str
    room: str
    find: str
    put: str
    where: str = ".*"
    by: str = "sim"
    rare: bool = False


class Caught(NamedTuple):
    """How a hunt ended. `seconds` is the time of the whole process."""

    bug: PlantedBug
    caught: bool
    seconds: float
    reason: str


class DoesNotApply(Exception):
    """The place that a bug changes is not in the code, or more than once."""


CORE, SERVICE, STORE = "claimdagd/core", "claimdagd/service", "claimdagd/store"

PLANTED_BUGS = (
    # The fence.
    PlantedBug("a claim keeps the old gen", CORE, "_(..., gen=HERE(_A.gen + 1), attempts=_A.attempts + 1)", "_A.gen"),
    PlantedBug(
        "a hand-back keeps the gen",
        CORE,
        "_(..., gen=HERE(_A.gen + 1), lease=None, grants=())",
        "_A.gen",
        where="hand_back",
    ),
    PlantedBug("a cancel does not fence the holder", CORE, "_(..., gen=HERE(_A.gen + 1 if _B else _A.gen))", "_A.gen"),
    PlantedBug(
        "a reopen keeps the gen", CORE, "_(..., status=Status.TODO, gen=HERE(_A.gen + 1), outcome=None)", "_A.gen"
    ),
    PlantedBug("an old gen passes", CORE, "gen is not None and HERE(gen != _A)", "gen > _A"),
    PlantedBug(
        "anybody may speak for a held node",
        CORE,
        "HERE(actor is not None) and _A is not None and _A != actor",
        "False",
    ),
    # Units.
    PlantedBug("a grant is forgotten", CORE, "if _A is _B:\n    grants = HERE(_C)\nelse:\n    ...", "_C[1:]"),
    PlantedBug(
        "a group's units are not taken",
        CORE,
        "if _:\n    grants = _T\nelse:\n    _F(_A, replace(..., grants=HERE(_T)))",
        "()",
    ),
    PlantedBug(
        "units are not given back at the end", CORE, "_(..., grants=HERE(() if _A else _B.grants))", "_B.grants"
    ),
    PlantedBug("one unit too many", CORE, "max(0, HERE(_A.capacity(_B)) - _C)", "1 + _A.capacity(_B)"),
    # Endings.
    PlantedBug(
        "a failure does not cascade", CORE, "HERE(_A.ANY.status in _B) and _A.dependents", "_A.record.status is None"
    ),
    PlantedBug("a cascade takes after_any too", CORE, "HERE(_A & (_B | _C)) ", "_A & _C", where=r".*\._end"),
    PlantedBug("a cascade names no cause", CORE, "_(..., cause=HERE(_A if _B is not None and _C else None))", "None"),
    PlantedBug(
        "the last attempt is not the last", CORE, "_A.attempts >= _A.max_attempts", "_A.attempts > _A.max_attempts"
    ),
    PlantedBug("the count of unmet deps is off", CORE, "_A.unmet += HERE(-1 if _B else 1)", "-1 if _B else 0"),
    PlantedBug("prunes what others wait on", CORE, "any(map(_A, _B))", "False", where="make_room"),
    # Shape.
    PlantedBug(
        "a new edge is put, not reshaped",
        CORE,
        "HERE(_G.reshape)(_A, _B)",
        "_G.put",
        where="link",
        by="tests/unit/core/test_load.py",
    ),
    PlantedBug(
        "a move may be put",
        CORE,
        "HERE(_A.parent is not _B.parent) or _A.deps is not _B.deps or ...",
        "False",
        where=r"Graph\.put",
        by="tests/regressions/test_core_put.py",
    ),
    # Retries and times.
    PlantedBug(
        "a retry waits the same time each time",
        CORE,
        "HERE(_A * 2.0**_B)",
        "_A",
        by="tests/unit/core/operations/test_retries.py",
    ),
    PlantedBug(
        "a retry keeps the gen",
        CORE,
        "HERE(hand_back)(_A, _B, _C)",
        "_A.put",
        by="tests/unit/core/operations/test_retries.py",
    ),
    PlantedBug(
        "final is tried again",
        CORE,
        "_A and _B and HERE(not r.final) and ...",
        "True",
        by="tests/unit/core/operations/test_retries.py",
    ),
    PlantedBug(
        "one try too many",
        CORE,
        "HERE((_A or 0) < (_B or 0))",
        "(_A or 0) <= (_B or 0)",
        by="tests/unit/core/operations/test_retries.py",
    ),
    PlantedBug(
        "a step back of the clock is missed",
        CORE,
        "_A = HERE(wall < self.judged)",
        "False",
        by="tests/unit/core/indexes/test_start_times.py",
    ),
    PlantedBug(
        "a node begins too early",
        CORE,
        "HERE(_A <= self.judged)",
        "_A <= self.judged + 100.0",
        by="tests/unit/core/indexes/test_start_times.py",
    ),
    # Many at once.
    PlantedBug(
        "what the same request has ended is a fault",
        CORE,
        "HERE(isinstance(_A, Complete | Cancel) and _B is Code.TERMINAL and _C)",
        "False",
        by="tests/unit/core/operations/test_many.py",
    ),
    PlantedBug(
        "a refused renewal of several moves a lease",
        CORE,
        "if HERE(isinstance(_A, Renew | Running)):\n    ...",
        "False",
        where="run",
        by="tests/unit/core/operations/test_many.py",
    ),
    PlantedBug(
        "reopen failed takes a group whose child failed",
        CORE,
        "_A.record.status is Status.FAILED and HERE(_F(_A))",
        "True",
        where="_failed",
        by="tests/unit/core/operations/test_many.py",
    ),
    PlantedBug(
        "a group is completed before its children",
        CORE,
        "HERE(-_F(_A[_B[_C]])) if _ else 0",
        "_F(_A[_B[_C]])",
        where="_order.*",
        by="tests/unit/core/operations/test_many.py",
    ),
    PlantedBug(
        "one of several names what another has ended as ready",
        CORE,
        "tuple(_A for _A in _B if HERE(_A in _C))",
        "True",
        where="_remember_completions",
        by="tests/unit/core/operations/test_many.py",
    ),
    # Leases.
    PlantedBug("a lease is too short", CORE, "Lease(HERE(_A + _B), _B, _A, ...)", "_A + _B * 0.9", where="lease_of"),
    PlantedBug(
        "a renew moves no deadline", CORE, "Lease(HERE(_A + _B), _B, _A, ...)", "old.deadline", where="_renewed"
    ),
    PlantedBug("no grace after a gap", SERVICE, "_A + max(_B, UNHEARD_S)", "_A"),
    PlantedBug(
        "a crashed worker keeps its node",
        SERVICE,
        "min(_A.deadline, _B + (_C if _D else _E))",
        "_A.deadline",
    ),
    PlantedBug("nobody is warned", SERVICE, "_A.deliver(_B)", "None", where=r".*\.warn"),
    PlantedBug("nobody is told of a loss", SERVICE, "_A.append((_B, _C.conn, _D))", "None"),
    PlantedBug("an undo forgets the lease", CORE, "_F(_A, _A.ANY if _A.present else None, _B, HERE(_C))", "_A.lease"),
    # Who waits.
    PlantedBug(
        "lost wake-up of who is parked", SERVICE, "if HERE(_A.line is not None) and _B.claims:\n    _F()", "False"
    ),
    PlantedBug("lost wake-up at an expiry", SERVICE, "if HERE(_B.claims):\n    _F()", "False", where=r".*\._reap"),
    PlantedBug("lost wake-up after an undo", SERVICE, "if _:\n    _A.ANY = HERE(_B + RETRY_S)", "None", rare=True),
    PlantedBug(
        "lost wake-up of the reaper",
        SERVICE,
        "if _A and HERE(_A[0][0] < _B):\n    _F()",
        "False",
    ),
    PlantedBug("the last come is served first", SERVICE, "list(_A.claims.values())", "list(_A.claims.values())[::-1]"),
    PlantedBug(
        "a wait ends with the first of many",
        SERVICE,
        "[_A for _A in _B if HERE(all(map(_C, _D.request.ids)))]",
        "any(map(_C, _D.request.ids))",
        where=r".*\.ended",
    ),
    PlantedBug("a watcher misses one", SERVICE, "max(_A, _B.last + HERE(1))", "2"),
    PlantedBug(
        "a parked complete is answered by its own token",
        SERVICE,
        "_A is not None and HERE(_B.completed is None)",
        "True",
    ),
    # Once.
    PlantedBug(
        "tokens are forgotten at a restart",
        STORE,
        "if HERE(_A.once is not None):\n    _F(_B, _A.once, _)",
        "False",
        where=r".*\._apply",
    ),
    PlantedBug("tokens are not in the snapshot", SERVICE, "list(_A.items())", "[]", where=".*Snapshots.*"),
    PlantedBug("an undo forgets the token", SERVICE, "_A.restore(_B.once, _B.once_before)", "None"),
    PlantedBug("a reply without a change is not journaled", SERVICE, "bool(_A) or (_B is not None and _C)", "bool(_A)"),
    # The journal.
    PlantedBug("a journal write is dropped", STORE, "_A[0] if len(_A) == 1 else b''.join(_A)", "_A[0]"),
    PlantedBug(
        "answers before the write",
        SERVICE,
        "self.items = []\nif len(items) == 1:\n    ...\nelse:\n    ...",
        "self.items = []\nfor item in items:\n    if isinstance(item, Changed) and item.answer and item.session:\n"
        "        item.session.deliver(item.answer)\n        item.answer = None\n"
        "lines = [item.line for item in items if item.line is not None]",
    ),
    PlantedBug("answers before the flush", SERVICE, "HERE(_A.ANY) and (_B or _A.unflushed)", "False"),
    PlantedBug(
        "a flush answers what came after it",
        SERVICE,
        "_A and HERE(_A[0][0] <= _B)",
        "True",
        where=r".*\.committed",
    ),
    PlantedBug("a failed write stays in the graph", SERVICE, "_A.undo(_B.mutation)", "None"),
    PlantedBug("a failed write stays in the file", STORE, "_A.truncate(_B, self.size)", "None"),
    PlantedBug("a torn tail is written on", STORE, "_A.truncate(_B, _C.size)", "None", where=r"Journal\.open"),
    PlantedBug(
        "a snapshot loses newer entries",
        STORE,
        "_A.ANY(HERE(_A.base_before(_B.seq, _C, LEDGER_BYTES)), _B.next)",
        "_A.seq",
    ),
    PlantedBug(
        "a snapshot is not flushed",
        STORE,
        "_F(lambda: HERE(_A.fsync(_B)))",
        "None",
        where=r"Store\..*",
    ),
    # Pauses.
    PlantedBug(
        "a pause leaks one claim",
        CORE,
        "HERE(_A.pauses.roots) and _A.pauses.hold_back(_B)",
        "len(_A.pauses.roots) > 1",
        by="tests/unit/core/operations/test_pause.py",
    ),
    PlantedBug(
        "a pause is lost on restart",
        STORE,
        "if HERE(_A.paused is not None):\n    ...",
        "False",
        by="tests/unit/service/test_pause.py",
    ),
    # What only the model can tell.
    PlantedBug(
        "depth before priority",
        CORE,
        "(-_A.ANY, HERE(-_B), _A.ANY, _A)",
        "_B",
        where=r".*\.refresh",
        by="stateful",
    ),
    PlantedBug(
        "slack is ignored", CORE, "-_A[1] >= HERE(-_B[1] - slack)", "-_B[1]", by="tests/unit/core/test_order.py"
    ),
    PlantedBug(
        "a passed-over node starves",
        CORE,
        "HERE(_A.bypass_count < self.limit)",
        "True",
        by="tests/unit/core/test_resources.py",
    ),
)

#: Soak by which a bug is hunted for, where it is not a test module.
_SOAKS = {"sim", "stateful", "large"}


class Site(NamedTuple):
    """The one place in the code where a bug applies."""

    file: Path
    match: patterns.Match
    tree: ast.Module


_parsed: dict[Path, tuple[ast.Module, patterns.Nodes]] = {}


def _parse(path: Path) -> tuple[ast.Module, patterns.Nodes]:
    if path not in _parsed:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        _parsed[path] = tree, patterns.nodes_of(tree)
    return _parsed[path]


def sites(bug: PlantedBug, root: Path = ROOT) -> list[Site]:
    """Return every place where `bug` applies: one, unless the code has moved away from it."""
    found = []
    for path in sorted((root / bug.room).rglob("*.py")):
        tree, nodes = _parse(path)
        found += [Site(path, match, tree) for match in patterns.find(nodes, bug.find, bug.where)]
    return found


def misfits() -> list[str]:
    """Return the bugs that do not apply exactly once, each with where it does."""
    found = []
    for bug in PLANTED_BUGS:
        places = [f"{site.file.name}:{site.match.function}" for site in sites(bug)]
        if len(places) != 1:
            found.append(f"{bug.name}: {bug.find!r} fits {len(places)} places in {bug.room}, not one: {places}")
    return found


def planted(bug: PlantedBug, root: Path = ROOT) -> tuple[Path, str]:
    """Return the file that `bug` changes and its source with the bug in it."""
    found = sites(bug, root)
    if len(found) != 1:
        raise DoesNotApply(f"{bug.name}: {bug.find!r} fits {len(found)} places in {bug.room}, not one")
    (site,) = found
    del _parsed[site.file]  # its tree is changed below
    return site.file, ast.unparse(patterns.replace(site.tree, site.match, bug.put))


def copy_checkout(directory: Path) -> None:
    """Copy what a run needs to `directory`."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, directory / name)


def hunt(bug: PlantedBug, *, seconds: float, seed: int) -> Caught:
    """Run the soak or the test that is to find `bug`, in a copy of the checkout, for at most `seconds`."""
    with tempfile.TemporaryDirectory(prefix="claimdag-bug-") as name:
        directory = Path(name)
        copy_checkout(directory)
        path, source = planted(bug)
        (directory / path.relative_to(ROOT)).write_text(source, encoding="utf-8")
        return run_hunt(bug, directory, seconds=seconds, seed=seed)


def run_hunt(bug: PlantedBug, directory: Path, *, seconds: float, seed: int) -> Caught:
    """Run what is to find `bug` in `directory`, where it is planted."""
    if bug.by in _SOAKS:
        command = [sys.executable, "-m", "tests.soak", bug.by, "--seconds", str(seconds), "--seed", str(seed)]
        if bug.by == "sim":
            command += ["--trace", "0"]
    else:
        command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "--tb=line", *bug.by.split()]
    began = time.monotonic()
    try:
        ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=seconds + 120, check=False)
    except subprocess.TimeoutExpired:
        return Caught(bug, True, time.monotonic() - began, "it hung")
    took = time.monotonic() - began
    if ran.returncode == 0:
        return Caught(bug, False, took, ran.stdout.strip().splitlines()[-1] if ran.stdout else "")
    if "FAILED" not in ran.stdout and "ERROR" not in ran.stdout:
        raise DoesNotApply(f"{bug.name}: the run broke off by itself: {ran.stderr[-2000:]}")
    return Caught(bug, True, took, _reason(ran.stdout))


def _reason(output: str) -> str:
    lines = output.splitlines()
    at = next(n for n, line in enumerate(lines) if "FAILED" in line or "ERROR" in line)
    if lines[at].startswith("FAILED tests/"):
        return lines[at][len("FAILED ") :][:160]
    reasons = [line.strip() for line in lines[at : at + 60] if line and not line.startswith((" ", "Traceback"))]
    return (reasons[1] if len(reasons) > 1 else reasons[0])[:160]
