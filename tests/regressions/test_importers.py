"""Faults of the importers that use in the field showed, with the real command and a real daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Claimdag = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def claimdag(short_dir: Path) -> Iterator[Claimdag]:
    """Run the command as the process that it is for a shell, on a fresh directory."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(*argv: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "claimdag_client.cli", "--dir", str(short_dir), *argv],
            input=text, capture_output=True, text=True, timeout=30, check=False, env=environ,
        )  # fmt: skip

    yield run
    run("--no-start", "stop")


def row(issue_id: str, *deps: tuple[str, str], **fields: Any) -> str:
    """A line of a tracker's export; `deps` are (type, issue) pairs."""
    listed = [{"issue_id": issue_id, "depends_on_id": on, "type": kind} for kind, on in deps]
    record = {"id": issue_id, "title": "t", "status": "open", "priority": 2, "issue_type": "task"}
    return json.dumps({**record, **({"dependencies": listed} if listed else {}), **fields}) + "\n"


def test_import_offers_nothing_that_the_tracker_holds_back(claimdag: Claimdag) -> None:
    """Of all these rows one is work that may start; the reason of each other is in `why` of it (law 17.1)."""
    text = "".join(
        (
            row("p-1", issue_type="gate"), row("p-2", ("blocks", "p-1")),
            row("p-3", defer_until="2999-01-01T00:00:00Z"), row("p-4", pinned=True), row("p-5", is_template=True),
            row("p-6", ephemeral=True), row("p-7", status="odd"),
            row("p-8", issue_type="molecule"), row("p-9", ("blocks", "p-7")), row("p-10", ("waits-for", "p-20")),
            row("p-11", ("conditional-blocks", "p-20")), row("p-12", ("blocks", "external:a:b")),
            row("p-13", issue_type="agent"), row("p-14", ("blocks", "p-13")), row("p-15", ("sings", "p-20")),
            row("p-16", ("blocks", "p-gone")), row("p-17", status="hooked"), row("p-18", ("parent-child", "p-3")),
            row("p-20", status="open"),
        )
    )  # fmt: skip
    assert claimdag("import", "beads", "-", "--keep-holders", text=text).returncode == 1
    ran = claimdag("import", "beads", "-", "--keep-holders", "--skip-bad", text=text)
    assert ran.returncode == 0, ran.stderr
    ready = [json.loads(line) for line in claimdag("ready", "--json").stdout.splitlines()]
    assert [node["summary"] for node in ready] == ["p-20 t"]
    nodes = [json.loads(line) for line in claimdag("list", "--json").stdout.splitlines()]
    by_issue = {node["summary"].split()[0]: node for node in nodes}
    assert set(by_issue) == {f"p-{n}" for n in range(1, 21) if n not in (13, 19)}
    assert by_issue["p-8"]["kind"] == "molecule"
    shown = claimdag("why", by_issue["p-3"]["id"])
    assert "put off until 2999-01-01T00:00:00Z" in shown.stdout


def test_import_reads_a_pretty_array_and_reports_each_fault_once(claimdag: Claimdag) -> None:
    """It was reported as bad JSON once for each of its lines."""
    rows = [json.loads(row("p-1")), json.loads(row("p-2", ("blocks", "p-1"), ("blocks", "p-gone")))]
    ran = claimdag("import", "beads", "-", text=json.dumps(rows, indent=2))
    assert ran.returncode == 1
    assert ran.stderr.count("which is not in the file") == 1
    assert "line 9: p-2" in ran.stderr
    ran = claimdag("import", "beads", "-", "--skip-bad", text=json.dumps({"issues": rows}))
    assert ran.stdout.splitlines()[-1].startswith("2 nodes")


BAD_PLAN = """\
nodes:
- ref: a
  cost: much
- ref: b
  after: [zz, a]
  children:
  - role: boss
    needs: {gpu: 2}
  - parent: 99
- ref: c
  after: d
- ref: d
  after: c
  colour: red
"""


def test_a_plan_is_told_all_its_faults_in_one_round(claimdag: Claimdag, tmp_path: Path) -> None:
    """Form, values, names, roles, needs and cycles once took four rounds; a dry run found none of the values."""
    pytest.importorskip("yaml")
    path = tmp_path / "plan.yaml"
    path.write_text(BAD_PLAN)
    places = ["line 3: nodes[0].cost", "line 5: nodes[1].after[0]", "line 7: nodes[1].children[0].role",
              "line 9: nodes[1].children[1].parent", "line 13: nodes[3].after", "line 12: nodes[3]"]  # fmt: skip
    alone = claimdag("submit", str(path), "--dry-run")
    assert alone.returncode == 1
    assert [place for place in places if place not in alone.stderr] == []
    claimdag("ping")
    submitted, tried = claimdag("submit", str(path)), claimdag("submit", str(path), "--dry-run")
    assert submitted.returncode == tried.returncode == 1
    assert submitted.stderr == tried.stderr
    assert [place for place in [*places, "line 7: nodes[1].children[0]: "] if place not in tried.stderr] == []
    assert tried.stderr.count("plan.yaml: line ") == 7
    assert claimdag("list").stdout == ""


def test_a_dry_run_of_a_sound_plan_changes_nothing(claimdag: Claimdag, tmp_path: Path) -> None:
    """What the daemon alone can tell is told: an id that does not exist, a need over its capacity."""
    path = tmp_path / "plan.json"
    path.write_text('{"capacities": {"gpu": 2}, "nodes": [{"summary": "x", "needs": {"gpu": 2}}]}')
    claimdag("capacity", "gpu", "1")
    ran = claimdag("submit", str(path), "--dry-run")
    assert (ran.returncode, ran.stdout) == (0, "1 node would be created\n"), ran.stderr
    assert claimdag("list").stdout == ""
    assert "/1 " in claimdag("resources").stdout or " 1" in claimdag("resources").stdout
    path.write_text('[{"after": 41}, {"needs": {"gpu": 3}}]')
    ran = claimdag("submit", str(path), "--dry-run")
    assert ran.returncode == 1
    assert "nodes[0]" in ran.stderr
    assert "nodes[1]" in ran.stderr
    assert claimdag("submit", str(path)).stderr == ran.stderr


def test_capacities_of_a_plan_are_journaled_with_its_nodes(claimdag: Claimdag, tmp_path: Path) -> None:
    """One line for both, so that a daemon that is killed comes back with both."""
    path = tmp_path / "plan.json"
    path.write_text('{"capacities": {"gpu": 3, "cpu": 2}, "nodes": [{"summary": "x", "needs": {"gpu": 3}}]}')
    assert claimdag("submit", str(path)).returncode == 0
    pid = json.loads(claimdag("hello", "--json").stdout)["pid"]
    os.kill(pid, signal.SIGKILL)
    lines = claimdag("resources", "--json").stdout.splitlines()
    assert {row["name"]: row["capacity"] for row in map(json.loads, lines)} == {"gpu": 3, "cpu": 2}
    assert "x" in claimdag("ready").stdout


def test_a_worker_that_waits_is_served_when_a_plan_raises_the_capacity(
    claimdag: Claimdag, short_dir: Path, tmp_path: Path
) -> None:
    """The plan has no work for it; the units that it brings let other work run."""
    claimdag("capacity", "gpu", "1")
    claimdag("upsert", "--summary", "one", "--need", "gpu=1")
    claimdag("upsert", "--summary", "two", "--need", "gpu=1")
    assert claimdag("next", "--actor", "ann").returncode == 0
    path = tmp_path / "plan.json"
    path.write_text('{"capacities": {"gpu": 2}, "nodes": [{"kind": "goal"}]}')
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "claimdag_client.cli", "--dir", str(short_dir), "next", "--actor", "bob",
         "--wait", "20"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as waiting:  # fmt: skip
        while not json.loads(claimdag("stats", "--json").stdout)["parked"]:
            pass
        assert claimdag("submit", str(path)).returncode == 0
        assert "two" in waiting.communicate(timeout=25)[0]
