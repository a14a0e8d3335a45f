"""Imports with the real command and a real daemon: the second time, what is gone, a file that changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Claimdag = Callable[..., "subprocess.CompletedProcess[str]"]
TASKS = """\
# Tasks: Albums
## Phase 1: Setup
- [ ] T001 Set up
- [ ] T002 [P] Lint
- [ ] write it down
## Phase 2: Work
- [ ] T003 Albums
"""
SOURCES: dict[str, tuple[str, str]] = {
    "beads": ("x.jsonl", '{"id": "p-1", "title": "a", "issue_type": "task"}\n{"id": "p-2", "title": "b", '
              '"dependencies": [{"depends_on_id": "p-1", "type": "blocks"}]}\n'),
    "tasks": ("plan.md", TASKS),
    "taskmaster": ("tasks.json", '{"master": {"tasks": [{"id": 1, "title": "a"}, '
                   '{"id": 2, "title": "b", "dependencies": [1]}]}}'),
    "github": ("x.json", '[{"number": 1, "title": "a", "state": "OPEN"}, {"number": 2, "title": "b", "state": "OPEN", '
               '"blockedBy": [{"number": 1, "state": "OPEN"}]}]'),
    "dot": ("x.gv", "digraph { a -> b }"),
    "csv": ("x.csv", "ref,summary,after\na,first,\nb,second,a\n"),
}  # fmt: skip


@pytest.fixture
def environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def argv(short_dir: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "claimdag_client.cli", "--dir", str(short_dir)]


@pytest.fixture
def claimdag(argv: list[str], environ: dict[str, str]) -> Iterator[Claimdag]:
    """Run the command as the process that it is for a shell, on a fresh directory."""

    def run(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*argv, *words], input=text, capture_output=True, text=True, timeout=30, check=False, env=environ
        )

    yield run
    run("--no-start", "stop")


def listed(claimdag: Claimdag) -> dict[str, dict[str, Any]]:
    """All nodes, by their summaries."""
    lines = claimdag("list", "--all", "--json").stdout.splitlines()
    return {node["summary"]: node for node in map(json.loads, lines)}


@pytest.mark.parametrize("source", SOURCES)
def test_each_source_is_guessed_and_a_second_import_changes_nothing(
    source: str, claimdag: Claimdag, tmp_path: Path
) -> None:
    """What the source is taken for is said; --dry-run tells the same as the import does."""
    name, text = SOURCES[source]
    path = tmp_path / name
    path.write_text(text)
    tried = claimdag("import", str(path), "--dry-run")
    assert f"is taken for {source}" in tried.stderr
    assert listed(claimdag) == {}
    first = claimdag("import", str(path))
    assert first.returncode == tried.returncode == 0, first.stderr
    before = listed(claimdag)
    assert len(before) == first.stdout.count("new  ") == tried.stdout.count("new  ") >= 2
    seq = json.loads(claimdag("log", "--json").stdout.splitlines()[-1])["seq"]
    second = claimdag("import", source, str(path))
    assert second.stdout == f"{len(before)} as they were\n"
    assert listed(claimdag) == before
    assert json.loads(claimdag("log", "--json").stdout.splitlines()[-1])["seq"] == seq


def test_a_changed_file_updates_adds_and_finishes(claimdag: Claimdag, tmp_path: Path) -> None:
    """A dry run before it says the same and does nothing; what somebody holds stays as it is."""
    path = tmp_path / "tasks.md"
    path.write_text(TASKS)
    assert claimdag("import", str(path)).returncode == 0
    held = listed(claimdag)["T001 Set up"]["id"]
    assert claimdag("claim", held, "--actor", "ann").returncode == 0
    path.write_text(
        TASKS.replace("[ ] T001 Set up", "[x] T001 Set up").replace("[ ] write", "[x] write")
        .replace("T003 Albums", "T003 All albums\n- [ ] T004 [P] Photos")
    )  # fmt: skip
    before = listed(claimdag)
    log = claimdag("log", "--json").stdout
    tried = claimdag("import", str(path), "--dry-run")
    assert claimdag("log", "--json").stdout == log
    done = claimdag("import", str(path))
    rows = [line.split()[0] for line in done.stdout.splitlines()[:-1]]
    assert rows == [line.split()[0] for line in tried.stdout.splitlines()[:-1]]
    assert sorted(rows) == ["done", "keep", "new", "update"]
    after = listed(claimdag)
    assert after["write it down"]["status"] == "done"
    assert after["T001 Set up"]["status"] == "claimed"
    assert after["T003 All albums"]["id"] == before["T003 Albums"]["id"]
    assert after["T004 Photos"]["parent"] == before["Phase 2: Work"]["id"]


def test_nothing_is_cancelled_unless_it_is_asked_for(claimdag: Claimdag, tmp_path: Path) -> None:
    """And then only nodes of this file; what waited on them goes on."""
    path = tmp_path / "tasks.md"
    path.write_text("- [ ] T001 a\n- [ ] T002 b after T001\n")
    claimdag("add", "by hand") if claimdag("add", "--help").returncode == 0 else claimdag(
        "upsert", "--summary", "by hand"
    )
    assert claimdag("import", str(path)).returncode == 0
    path.write_text("- [ ] T002 b\n")
    ran = claimdag("import", str(path))
    assert "--prune-missing" in ran.stderr
    assert listed(claimdag)["T001 a"]["status"] == "ready"
    assert claimdag("import", str(path), "--prune-missing").returncode == 0
    after = listed(claimdag)
    assert [after[name]["status"] for name in ("T001 a", "by hand")] == ["cancelled", "ready"]
    assert after["T002 b"]["status"] == "ready"


@pytest.mark.parametrize("text", ["", "- [ ] T001 a\n- [ ] T001 b\n", "# only a heading\n"])
def test_nothing_is_cancelled_for_a_file_that_is_empty_or_faulty(text: str, claimdag: Claimdag) -> None:
    """An export that went wrong, or a line that cannot be read, says nothing of what is gone."""
    assert claimdag("import", "tasks", "-", text=TASKS).returncode == 0
    before = listed(claimdag)
    ran = claimdag("import", "tasks", "-", "--prune-missing", "--skip-bad", text=text)
    assert ran.returncode == 1
    assert "next:" in ran.stderr
    assert listed(claimdag) == before


def test_a_second_list_with_the_same_numbers_is_not_taken_for_the_first(claimdag: Claimdag) -> None:
    """Every spec kit counts from T001: one would write its titles over the other's."""
    one, two, three = ("".join(f"- [ ] T00{n} {word} {n}\n" for n in range(1, 5)) for word in ("draw", "cook", "bake"))
    assert claimdag("import", "tasks", "-", text=one).returncode == 0
    before = listed(claimdag)
    ran = claimdag("import", "tasks", "-", text=two)
    assert ran.returncode == 1
    assert "4 of 4 ids name other work here" in ran.stderr
    assert claimdag("import", "tasks", "-", text=two.replace("[ ]", "[x]")).returncode == 1
    assert listed(claimdag) == before
    goal = claimdag("upsert", "--summary", "cooking", "--kind", "goal").stdout.strip()
    assert claimdag("import", "tasks", "-", "--under", goal, text=two).returncode == 0
    assert len(listed(claimdag)) == 9
    assert claimdag("import", "tasks", "-", "--under", goal, text=three).returncode == 1
    assert claimdag("import", "tasks", "-", "--under", goal, "--renamed", text=three).returncode == 0
    assert "T001 bake 1" in listed(claimdag)


def test_a_file_without_ids_is_pruned_under_a_node_alone(claimdag: Claimdag, tmp_path: Path) -> None:
    """Elsewhere nothing tells its nodes from others."""
    path = tmp_path / "x.csv"
    path.write_text("summary\none\ntwo\n")
    goal = claimdag("upsert", "--summary", "g", "--kind", "goal").stdout.strip()
    assert claimdag("import", str(path), "--under", goal).returncode == 0
    path.write_text("summary\ntwo\n")
    refused = claimdag("import", str(path), "--prune-missing")
    assert refused.returncode == 1
    assert "--under" in refused.stderr
    ran = claimdag("import", str(path), "--prune-missing", "--under", goal)
    assert ran.returncode == 0, ran.stderr
    nodes = listed(claimdag)
    assert nodes["one"]["status"] == "cancelled"
    assert nodes["two"]["parent"] == goal


def test_edges_that_turn_around_are_taken(claimdag: Claimdag) -> None:
    """One after the other they would close a cycle on the way."""
    assert claimdag("import", "csv", "-", text="ref,after\na,\nb,a\nc,b\n").returncode == 0
    ran = claimdag("import", "csv", "-", text="ref,after\nc,\nb,c\na,b\n")
    assert ran.returncode == 0, ran.stdout
    nodes = listed(claimdag)
    assert nodes["a"]["deps"][0]["on"] == nodes["b"]["id"]
    assert nodes["c"]["deps"] == []


def test_a_watched_file_is_imported_again_when_it_changes(
    claimdag: Claimdag, argv: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    """A fault on the way is told, and does not end it; nor does the daemon's leaving."""
    path = tmp_path / "tasks.md"
    path.write_text("- [ ] T001 a\n")
    with subprocess.Popen(
        [*argv, "import", "tasks", str(path), "--watch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environ,
    ) as watching:  # fmt: skip
        assert watching.stdout is not None
        assert watching.stderr is not None
        try:
            assert watching.stdout.readline().startswith("new ")
            watching.stdout.readline()
            path.write_text("- [ ] T001 a\n- [ ] T001 b\n")
            assert "T001 is on line 1 already" in watching.stderr.readline()
            assert claimdag("stop").returncode == 0
            path.write_text("- [ ] T001 a\n- [ ] T002 c\n")
            assert "T002 c" in watching.stdout.readline()
        finally:
            watching.terminate()
    assert {"T001 a", "T002 c"} == set(listed(claimdag))


@pytest.mark.parametrize("words", [["x"], ["jira", "x"], ["a", "b", "c"], ["beads"], ["tasks", "-", "--watch"]])
def test_a_wrong_command_line_says_what_is_accepted(words: list[str], claimdag: Claimdag, tmp_path: Path) -> None:
    """A source that there is not, a file that is not there, too many words."""
    ran = claimdag("import", *words)
    assert ran.returncode in (1, 2)
    assert "Traceback" not in ran.stderr


def test_a_report_is_printed_in_each_format(claimdag: Claimdag) -> None:
    """A check list that is read again finds every node."""
    assert claimdag("import", "tasks", "-", text=TASKS).returncode == 0
    lines = claimdag("report").stdout
    assert lines.startswith("- [ ] Phase 1: Setup\n  - [ ] T001 Set up\n")
    assert claimdag("report", "--format", "csv").stdout.startswith("ref,summary,")
    assert claimdag("report", "--format", "github-comment").stdout.startswith("**0 of 4 tasks done**\n")
    assert len(claimdag("report", "--format", "json").stdout.splitlines()) == 6
    assert claimdag("report", "--format", "odd").returncode == 2
    again = claimdag("import", "tasks", "-", text=lines)
    assert "new  " not in again.stdout


def test_a_file_that_nothing_reads_is_refused_by_name(claimdag: Claimdag, tmp_path: Path) -> None:
    """With the sources that there are."""
    path = tmp_path / "x.txt"
    path.write_text("hello\n")
    ran = claimdag("import", str(path))
    assert ran.returncode == 1
    assert "taskmaster" in ran.stderr


ISSUE = {"title": "t", "issue_type": "task", "status": "open"}
ODD: dict[str, tuple[str, str, int]] = {
    "bom and carriage returns": ("tasks", "\ufeff- [ ] T001 a\r\n- [ ] T002 b\r\n", 2),
    "ids that stand twice": ("tasks", "- [ ] T001 a\n- [ ] T001 b\n", 1),
    "a cycle": ("tasks", "- [ ] T001 a after T002\n- [ ] T002 b after T001\n", 2),
    "an unknown mark": ("tasks", "- [?] a\n", 1),
    "a title of 64 KB": ("tasks", f"- [ ] {'é' * 32768}\n- [x] {'é' * 32768}\n", 1),
    "500 levels": ("tasks", "".join(f"{' ' * (2 * n)}- [ ] level {n}\n" for n in range(500)), 500),
    "emoji, tabs and numbers": ("tasks", "1. [ ] \U0001f600 a\tb\n\t1) [ ] \u202eevil\n", 2),
    "code that looks like boxes": ("tasks", "```\n- [ ] a\n```\n\n    - [ ] b\n", 0),
    "a list twice": ("tasks", "- [ ] write\n## x\n- [ ] write\n- [~] write\n", 4),
    "500 levels of issues": (
        "github",
        json.dumps([{"number": n, "title": "t", "parent": {"number": n - 1}} for n in range(1, 501)]),
        500,
    ),
    "an issue with a title of 64 KB": ("beads", json.dumps({**ISSUE, "id": "p-1", "title": "é" * 32768}), 1),
    "half a character": ("beads", '{"id": "p-1", "title": "\\ud83d", "issue_type": "task"}', 1),
    "names with blanks": ("dot", 'digraph { "a b" -> "c\\"d" }', 2),
    "cells with line ends": ("csv", 'ref,summary\r\na,"x\r\ny"\r\n', 1),
    "subtasks 200 deep": (
        "taskmaster",
        '{"tasks": [' + '{"id": 1, "title": "t", "subtasks": [' * 200 + "]}" * 200 + "]}",
        200,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_an_odd_file_gives_the_right_nodes_and_is_found_again(name: str, claimdag: Claimdag, tmp_path: Path) -> None:
    """Faults or not: what is left is sound, and a second import changes nothing."""
    source, text, count = ODD[name]
    path = tmp_path / "file"
    path.write_bytes(text.encode())
    first = claimdag("import", source, str(path), "--skip-bad")
    assert first.returncode == 0, first.stderr[-500:]
    assert len(claimdag("list", "--all", "--json").stdout.splitlines()) == count
    second = claimdag("import", source, str(path), "--skip-bad")
    assert "new  " not in second.stdout
    assert "update" not in second.stdout, second.stdout[-500:]
