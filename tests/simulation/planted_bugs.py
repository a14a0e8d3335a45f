"""Planted bugs: each one text of the package replaced by another, to show that the simulator, or the model, finds it.

`hunt` plants one in a copy of the package and runs the long tests there, in a process of their own. A mutant whose text
is not in the code any more fails loudly: it has to follow the code. Nothing here touches the checkout itself.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
#: What a run in the copy needs.
COPIED = (
    "claimdagd", "tests/simulation", "tests/soak", "tests/unit/core", "tests/model", "tests/support",
    "tests/conftest.py", "tests/benchmarks", "pyproject.toml",
)  # fmt: skip


class Mutant(NamedTuple):
    """`old`, which stands once in `file`, becomes `new`; the soak `by`, or the test module of that path, finds it."""

    name: str
    file: str
    old: str
    new: str
    by: str = "sim"
    #: It takes a rare turn of events: more than a few seconds.
    rare: bool = False


class Caught(NamedTuple):
    """How a hunt ended. `seconds` is the whole process's time, start and all."""

    mutant: Mutant
    caught: bool
    seconds: float
    said: str


class Stale(Exception):
    """The text that a mutant replaces is not in the code, or more than once."""


OPERATIONS = "claimdagd/core/operations"
CLAIMS, ENDINGS = f"{OPERATIONS}/claim.py", f"{OPERATIONS}/lifecycle.py"
GRAPH, GRANTS = "claimdagd/core/graph.py", "claimdagd/core/indexes/resources.py"
LINES, PRUNE = "claimdagd/core/indexes/ready_queue.py", f"{OPERATIONS}/prune.py"
SERVICE, BATCH, LEASES = "claimdagd/service/service.py", "claimdagd/service/batch.py", "claimdagd/service/leases.py"
PARKING, JOURNAL, STORE = "claimdagd/service/waiting.py", "claimdagd/store/journal.py", "claimdagd/store/store.py"
REPLAY, EDIT = "claimdagd/store/reader.py", "claimdagd/core/operations/upsert.py"
CHECKPOINTS, WATCHING = "claimdagd/service/snapshots.py", "claimdagd/service/watchers.py"

MUTANTS = (
    # The fence.
    Mutant(
        "a claim keeps the old gen",
        CLAIMS,
        "            gen=rec.gen + 1,\n            attempts",
        "            attempts",
    ),
    Mutant("a hand-back keeps the gen", CLAIMS, "            gen=rec.gen + 1,\n            lease", "            lease"),
    Mutant("a cancel does not fence the holder", ENDINGS, "gen=rec.gen + 1 if graph.is_live(x) else rec.gen,", ""),
    Mutant(
        "a reopen keeps the gen", ENDINGS, "            gen=rec.gen + 1,\n            outcome", "            outcome"
    ),
    Mutant(
        "an old gen passes",
        CLAIMS,
        "if gen is not None and gen != v.rec.gen:",
        "if gen is not None and gen > v.rec.gen:",
    ),
    Mutant(
        "anybody may speak for a held node",
        CLAIMS,
        "if actor is not None and v.rec.assignee is not None and",
        "if False and",
    ),
    # Units.
    Mutant("a grant is forgotten", CLAIMS, "                grants = taken\n", "                grants = taken[1:]\n"),
    Mutant(
        "a group's units are not taken",
        CLAIMS,
        "graph.put(holder, replace(holder.rec, grants=taken,",
        "graph.put(holder, replace(holder.rec,",
    ),
    Mutant("units are not given back at the end", ENDINGS, "grants=() if over else rec.grants,", "grants=rec.grants,"),
    Mutant(
        "one unit too many",
        GRANTS,
        "return max(0, self.capacity(resource) -",
        "return max(0, 1 + self.capacity(resource) -",
    ),
    # Endings.
    Mutant(
        "a failure does not cascade",
        ENDINGS,
        "if v.rec.status in _NOT_DONE and v.dependents:",
        "if v.rec.status is Status.CANCELLED and v.dependents:",
    ),
    Mutant("a cascade takes after_any too", ENDINGS, "if not edge & (EDGE_ANY | EDGE_OWN))", "if not edge & EDGE_OWN)"),
    Mutant(
        "a cascade names no cause",
        ENDINGS,
        "cause=self._first.rec.id if self._first is not None and v is not self._first else None,",
        "cause=None,",
    ),
    Mutant(
        "the last attempt is not the last",
        CLAIMS,
        "rec.attempts >= rec.max_attempts",
        "rec.attempts > rec.max_attempts",
    ),
    Mutant("the count of unmet deps is off", GRAPH, "x.unmet += -1 if met else 1", "x.unmet += -1 if met else 0"),
    Mutant(
        "prunes what others wait on",
        PRUNE,
        "if any(map(_is_hung_on, tree)):",
        "if False:",
    ),
    # Leases.
    Mutant(
        "a lease is too short",
        CLAIMS,
        "return Lease(now + lease_s, lease_s, now,",
        "return Lease(now + lease_s * 0.9, lease_s, now,",
    ),
    Mutant(
        "a renew moves no deadline", CLAIMS, "return v, Lease(graph.now + lease_s,", "return v, Lease(old.deadline,"
    ),
    Mutant("no grace after a gap", LEASES, "now + max(self._grace_s, UNHEARD_S)", "now"),
    Mutant(
        "a crashed worker keeps its node",
        LEASES,
        "deadline = min(lease.deadline, now if unheard else now + self._grace_s)",
        "deadline = lease.deadline",
    ),
    Mutant("nobody is warned", LEASES, "            session.deliver(b'{\"event\":%b}\\n' % _encode(event))\n", ""),
    Mutant("nobody is told of a loss", LEASES, "            found.append((v, lease.conn, event))\n", ""),
    Mutant(
        "an undo forgets the lease",
        GRAPH,
        "self._apply(v, v.rec if v.present else None, old, lease)",
        "self._apply(v, v.rec if v.present else None, old, v.lease)",
    ),
    # Who waits.
    Mutant(
        "lost wake-up of who is parked",
        SERVICE,
        "        if changed and self._lot.claims:\n            self._wake()\n",
        "",
    ),
    Mutant(
        "lost wake-up at an expiry", SERVICE, "            if self._lot.claims:\n                self._wake()\n", ""
    ),
    Mutant("lost wake-up after an undo", SERVICE, "self._wake_at = now + RETRY_S", "self._wake_at = None", rare=True),
    Mutant(
        "lost wake-up of the reaper",
        SERVICE,
        "        if deadlines and deadlines[0][0] < self._tick_at:\n            self._call()\n",
        "",
    ),
    Mutant(
        "the last come is served first",
        PARKING,
        "return list(self.claims.values())",
        "return list(self.claims.values())[::-1]",
    ),
    Mutant(
        "a wait ends with the first of many",
        PARKING,
        "found = [w for w in candidates if all(map(is_over,",
        "found = [w for w in candidates if any(map(is_over,",
    ),
    Mutant(
        "a watcher misses one",
        WATCHING,
        "session.watch_from = max(start, ledger.last + 1)",
        "session.watch_from = max(start, ledger.last + 2)",
    ),
    Mutant(
        "a parked complete is answered by its own token",
        SERVICE,
        "if known is not None and parked.completed is None:",
        "if known is not None:",
    ),
    # Once.
    Mutant(
        "tokens are forgotten at a restart",
        REPLAY,
        "    if record.once is not None:\n",
        "    if record.once is not None and False:\n",
    ),
    Mutant("tokens are not in the snapshot", CHECKPOINTS, "list(self._once.items())", "[]"),
    Mutant("an undo forgets the token", BATCH, "self._once.restore(act.once, act.once_before)", "pass"),
    Mutant(
        "a reply without a change is not journaled",
        SERVICE,
        "changed = bool(mutation) or (once is not None and type(r) not in UNJOURNALED)",
        "changed = bool(mutation)",
    ),
    # The journal.
    Mutant("a journal write is dropped", JOURNAL, 'lines[0] if len(lines) == 1 else b"".join(lines))', "lines[0])"),
    Mutant(
        "answers before the write",
        BATCH,
        "        self.acts = []\n        if len(acts) == 1:",
        "        self.acts = []\n        for act in [a for a in acts if a.answer and a.session]:\n"
        "            act.session.deliver(act.answer)\n            act.answer = None\n        if len(acts) == 1:",
    ),
    Mutant("answers before the flush", BATCH, "if self._fsync and (journaled or self.unflushed):", "if False:"),
    Mutant(
        "a flush answers what came after it",
        BATCH,
        "while self.unflushed and self.unflushed[0][0] <= flushed:",
        "while self.unflushed:",
    ),
    Mutant("a failed write stays in the graph", BATCH, "                self._graph.undo(act.mutation)\n", ""),
    Mutant("a failed write stays in the file", JOURNAL, "            self._files.truncate(self._fd, self.size)\n", ""),
    Mutant(
        "a torn tail is written on",
        JOURNAL,
        "                self._files.truncate(self._fd, layout.size)\n",
        "                pass\n",
    ),
    Mutant(
        "a snapshot loses newer entries",
        STORE,
        "self._journal.restart(self._journal.base_before(head.seq, ledger, LEDGER_BYTES),",
        "self._journal.restart(self._journal.seq,",
    ),
    Mutant(
        "a snapshot is not flushed", STORE, "                yield from blocking(lambda: self._files.fsync(fd))\n", ""
    ),
    # What only the model can tell.
    Mutant(
        "depth before priority",
        LINES,
        "[(-v.prio_start, -v.tail_start, v.num, v) for v",
        "[(-v.prio_start, v.tail_start, v.num, v) for v",
        "stateful",
    ),
    Mutant(
        "slack is ignored",
        LINES,
        "-entry[1] >= -best[1] - slack:",
        "-entry[1] >= -best[1]:",
        "tests/unit/core/test_order.py",
    ),
    Mutant(
        "a passed-over node starves",
        GRANTS,
        "            if s.passes >= self.starvation:\n",
        "            if s.passes < 0:\n",
        "tests/unit/core/test_resources.py",
    ),
)


def plant(mutant: Mutant, directory: Path) -> None:
    """Copy what a run needs to `directory`, with the mutant in it."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, directory / name)
    path = directory / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise Stale(f"{mutant.name}: {mutant.file} has {text.count(mutant.old)} times, not once: {mutant.old!r}")
    path.write_text(text.replace(mutant.old, mutant.new))


def stale() -> list[str]:
    """The mutants that no longer fit the code, each with why."""
    found = []
    for mutant in MUTANTS:
        count = (ROOT / mutant.file).read_text().count(mutant.old)
        if count != 1:
            found.append(f"{mutant.name}: {mutant.file} has {count} times, not once: {mutant.old!r}")
    return found


def hunt(mutant: Mutant, *, seconds: float, seed: int) -> Caught:
    """Run the soak that is to find it, in a copy, for so long."""
    with tempfile.TemporaryDirectory(prefix="claimdag-mutant-") as name:
        directory = Path(name)
        plant(mutant, directory)
        command = [sys.executable, "-m", "tests.soak", mutant.by, "--seconds", str(seconds), "--seed", str(seed)]
        if mutant.by.startswith("tests/"):
            command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "--tb=line", mutant.by]
        elif mutant.by == "sim":
            command += ["--trace", "0"]
        began = time.monotonic()
        try:
            ran = subprocess.run(
                command, cwd=directory, capture_output=True, text=True, timeout=seconds + 120, check=False
            )
        except subprocess.TimeoutExpired:
            return Caught(mutant, True, time.monotonic() - began, "it hung")
        took = time.monotonic() - began
    if ran.returncode == 0:
        return Caught(mutant, False, took, ran.stdout.strip().splitlines()[-1] if ran.stdout else "")
    if "FAILED" not in ran.stdout:
        raise Stale(f"{mutant.name}: the run broke off by itself: {ran.stderr[-2000:]}")
    return Caught(mutant, True, took, _reason(ran.stdout))


def _reason(output: str) -> str:
    lines = output.splitlines()
    at = next(n for n, line in enumerate(lines) if "FAILED" in line)
    if lines[at].startswith("FAILED tests/"):
        return lines[at][len("FAILED ") :][:160]
    told = [line.strip() for line in lines[at : at + 60] if line and not line.startswith((" ", "Traceback"))]
    return (told[1] if len(told) > 1 else told[0])[:160]
