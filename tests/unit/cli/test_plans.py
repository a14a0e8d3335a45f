"""The verbs submit and import: one request for all nodes, faults under the place where the file has them."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted_daemon import ScriptedDaemon, view

from .conftest import Ran

Cli = Callable[..., Ran]


def issue(issue_id: str, *deps: tuple[str, str], **fields: Any) -> bytes:
    """A line of a tracker's export; `deps` are (type, issue) pairs."""
    listed = [{"issue_id": issue_id, "depends_on_id": on, "type": kind} for kind, on in deps]
    record = {"id": issue_id, "title": f"title of {issue_id}", "status": "open", "priority": 2, "issue_type": "task"}
    return json.dumps({**record, **({"dependencies": listed} if listed else {}), **fields}).encode() + b"\n"


def accept(request: dict[str, Any]) -> dict[str, Any]:
    """What a daemon says to a submission without fault."""
    return {"ids": [f"7q2f-{number}" for number in range(1, len(request["nodes"]) + 1)]}


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    nodes = [{"ref": "a"}, {"kind": "goal", "children": [{"after": "a"}]}]
    path.write_text(json.dumps({"nodes": nodes, "capacities": {"gpu": 2}}))
    return path


def test_submit_prints_ids_in_the_order_of_the_plan(cli: Cli, daemon: ScriptedDaemon, plan_file: Path) -> None:
    """Capacities and all nodes in one request."""
    daemon.answers |= {"submit": accept}
    ran = cli("submit", str(plan_file), "--actor", "bob", "--once", "t")
    assert (ran.status, ran.out) == (0, "7q2f-1\n7q2f-2\n7q2f-3\n")
    assert daemon.requests[0] == {
        "op": "submit",
        "actor": "bob",
        "once": "t",
        "capacities": {"gpu": 2},
        "nodes": [{"ref": "a"}, {"ref": "(nodes[1])", "kind": "goal"}, {"parent": "(nodes[1])", "deps": [{"on": "a"}]}],
    }
    assert cli("submit", str(plan_file), "--json").json[0] == {"ref": "a", "id": "7q2f-1"}


def test_submit_from_standard_input(cli: Cli, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON, unless another format is named."""
    daemon.answers["submit"] = accept
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'[{"summary": "x"}]')))
    assert cli("submit", "-").out == "7q2f-1\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'[[nodes]]\nsummary = "x"')))
    assert cli("submit", "-", "--format", "toml").out == "7q2f-1\n"


def test_submit_dry_run_starts_no_daemon(cli: Cli, plan_file: Path) -> None:
    """Without one the plan alone is checked, and that is said."""
    ran = cli("submit", str(plan_file), "--dry-run")
    assert (ran.status, ran.out) == (0, "3 nodes would be created\n")
    assert "no daemon listens" in ran.err


def test_submit_dry_run_says_what_submit_would_say(cli: Cli, daemon: ScriptedDaemon, plan_file: Path) -> None:
    """The daemon is asked with dry_run and without a token; its faults are told with the same words and status."""
    daemon.answers["submit"] = accept
    ran = cli("submit", str(plan_file), "--dry-run", "--once", "t")
    assert (ran.status, ran.out) == (0, "3 nodes would be created\n")
    assert daemon.requests[0]["dry_run"] is True
    assert "once" not in daemon.requests[0]
    faults = [{"index": 2, "ref": None, "code": "not_found", "message": "submit: no node 7q2f-9"}]
    daemon.refuse("submit", "not_found", "submit: 1 fault", faults=faults)
    dry, real = cli("submit", str(plan_file), "--dry-run"), cli("submit", str(plan_file))
    assert dry.status == real.status == 1
    assert dry.err == real.err
    daemon.refuse("submit", "full", "submit: no room")
    assert cli("submit", str(plan_file), "--dry-run").status == 1


def test_faults_of_the_file_and_of_the_daemon_are_told_in_one_round(
    cli: Cli, daemon: ScriptedDaemon, tmp_path: Path
) -> None:
    """In the order of the file, each once."""
    path = tmp_path / "p.json"
    path.write_text('[{"cost": "x"},\n {"parent": "7q2f-9"},\n {"after": "zz"}]')
    faults = [{"index": 1, "ref": None, "code": "not_found", "message": "submit: no node 7q2f-9"}]
    daemon.refuse("submit", "not_found", "submit: no node 7q2f-9", faults=faults)
    ran = cli("submit", str(path))
    assert ran.status == 1
    told = [line.partition("p.json: ")[2] for line in ran.err.splitlines()]
    assert told[:3] == [
        "line 1: nodes[0].cost: it must be a number over 0 and up to 1000000000000, not 'x'",
        "line 2: nodes[1]: no node 7q2f-9",
        "line 3: nodes[2].after: 'zz' is no ref of this plan, and no id of a node",
    ]
    assert told[3].startswith("3 faults")


def test_submit_tells_each_fault_under_its_place(cli: Cli, daemon: ScriptedDaemon, plan_file: Path) -> None:
    """The daemon counts nodes; the person reads a file."""
    faults = [{"index": 2, "ref": None, "code": "cycle", "message": "submit: it would wait for itself"}]
    daemon.refuse("submit", "bad_request", "submit: 1 fault", faults=faults)
    ran = cli("submit", str(plan_file))
    assert ran.status == 1
    assert "line 1: nodes[1].children[0]: it would wait for itself\n" in ran.err


def test_submit_of_a_bad_plan_creates_nothing(cli: Cli, daemon: ScriptedDaemon, tmp_path: Path) -> None:
    """Every fault with the file's name, status 1; a file that is not there too."""
    daemon.answers["submit"] = accept
    bad = tmp_path / "bad.json"
    bad.write_text('[{"colour": 1}, {"color": 2}]')
    ran = cli("submit", str(bad))
    assert ran.status == 1
    assert ran.err.count("unknown field") == 2
    assert "2 faults" in ran.err
    assert cli("submit", str(tmp_path / "none.json")).status == 1
    assert [request["dry_run"] for request in daemon.requests] == [True]


def test_submit_of_4000_nodes_is_one_line_and_more_than_a_line_is_refused_by_name(
    cli: Cli, daemon: ScriptedDaemon, tmp_path: Path
) -> None:
    """A large plan is whole; one over the limit is refused with its size before anything is sent."""
    daemon.answers["submit"] = accept
    path = tmp_path / "large.json"
    path.write_text(json.dumps([{"ref": f"n{n}", "summary": "x" * 500} for n in range(4000)]))
    assert cli("submit", str(path)).out.count("\n") == 4000
    path.write_text(json.dumps([{"summary": "x" * 4000} for n in range(1100)]))
    ran = cli("submit", str(path))
    assert ran.status == 2
    assert "over the 4,194,304" in ran.err
    assert len(daemon.requests) == 1


@pytest.fixture
def export_file(tmp_path: Path) -> Path:
    path = tmp_path / "issues.jsonl"
    path.write_bytes(
        issue("p-1", issue_type="epic")
        + issue("p-2", ("parent-child", "p-1"))
        + issue("p-3", ("blocks", "p-2"), ("blocks", "p-gone"))
        + issue("p-4", status="closed")
        + issue("p-5", issue_type="agent")
    )
    return path


def test_import_with_faults_creates_nothing(cli: Cli, daemon: ScriptedDaemon, export_file: Path) -> None:
    """Each fault by its line, and how to go on."""
    ran = cli("import", "beads", str(export_file))
    assert ran.status == 1
    assert f"claimdag: import: {export_file}: line 3: p-3 has 'blocks' on p-gone, which is not in the file\n" in ran.err
    assert "--skip-bad" in ran.err
    assert daemon.requests == []


def test_import_with_skip_bad_goes_on_without(cli: Cli, daemon: ScriptedDaemon, export_file: Path) -> None:
    """What was left out is said; the rest is one submission."""
    daemon.answers |= {"submit": accept, "list": {"nodes": []}}
    ran = cli("import", "beads", str(export_file), "--skip-bad", "--actor", "bob")
    assert ran.status == 0
    assert ran.out.splitlines()[-1] == (
        "3 nodes, 7q2f-1 to 7q2f-3: 1 group, 1 dependency, 1 held; left out: 1 closed, 1 of type agent"
    )
    assert "going on without the dependency" in ran.err
    listed, request = daemon.requests
    assert listed == {"op": "list", "all": True}
    assert [node["ref"] for node in request["nodes"]] == ["p-1", "p-2", "p-3"]
    assert request["actor"] == "bob"
    assert cli("import", "beads", str(export_file), "--skip-bad", "--json").json[2] == {
        "ref": "p-3", "id": "7q2f-3", "action": "new",
    }  # fmt: skip
    verbose = cli("import", "beads", str(export_file), "--skip-bad", "--verbose", "--dry-run")
    assert "note: " in verbose.err
    assert "line 5: p-5 is of type agent, which is not work" in verbose.err
    assert verbose.out.splitlines()[-1].startswith("3 nodes would be created: ")


def test_import_reads_standard_input(cli: Cli, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the tracker's own command, through a pipe."""
    daemon.answers |= {"submit": accept, "list": {"nodes": []}}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(issue("p-1"))))
    assert cli("import", "beads", "-").out == (
        "new      7q2f-1  p-1 title of p-1\n1 node, 7q2f-1 to 7q2f-1: 0 groups, 0 dependencies\n"
    )


def test_import_of_the_daemons_refusal_names_the_line(cli: Cli, daemon: ScriptedDaemon, export_file: Path) -> None:
    """Should the daemon find what this side did not."""
    faults = [{"index": 1, "ref": "p-2", "code": "cycle", "message": "submit: it cannot be"}]
    daemon.answers["list"] = {"nodes": []}
    daemon.refuse("submit", "bad_request", "submit: 1 fault", faults=faults)
    ran = cli("import", "beads", str(export_file), "--skip-bad")
    assert ran.status == 1
    assert "of line 2: submit: it cannot be" in ran.err


def test_import_of_closed_issues_alone_says_how_to_take_them(cli: Cli, tmp_path: Path) -> None:
    """Nothing to do is no fault."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(issue("p-1", status="closed"))
    ran = cli("import", "beads", str(path))
    assert (ran.status, ran.out) == (0, "")
    assert "--all" in ran.err


@pytest.mark.slow
def test_a_slow_submission_shows_a_progress_line_on_a_terminal(daemon: ScriptedDaemon, plan_file: Path) -> None:
    """After a second, on a terminal alone, and taken away at the end."""

    def slowly(request: dict[str, Any]) -> dict[str, Any]:
        time.sleep(1.5)
        return accept(request)

    daemon.answers |= {"capacity": {}, "submit": slowly}
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "claimdag_client.cli", "--socket", str(daemon.path), "--no-start", "submit",
         str(plan_file)],
        stdout=subprocess.PIPE, stderr=theirs, text=True,
    ) as ran:  # fmt: skip
        os.close(theirs)
        out, _ = ran.communicate(timeout=20)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert out == "7q2f-1\n7q2f-2\n7q2f-3\n"
    assert "submitting 3 nodes ... 1 s" in shown
    assert shown.endswith("\r\x1b[K")


def test_colour_and_width_are_for_terminals(daemon: ScriptedDaemon) -> None:
    """On a terminal, signs are coloured and lines cut to its width."""
    daemon.answers["list"] = {"nodes": [view(1, summary="long " * 100)]}
    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "60", "LINES": "20", "PYTHONIOENCODING": "utf-8"}
    environ.pop("NO_COLOR", None)
    with subprocess.Popen(
        [sys.executable, "-m", "claimdag_client.cli", "--socket", str(daemon.path), "--no-start", "list"],
        stdout=theirs, env=environ,
    ) as ran:  # fmt: skip
        assert ran.wait(20) == 0
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "\x1b[36m○\x1b[0m 7q2f-1" in shown
    assert shown.rstrip().endswith("…")
    assert shown.count("\n") == 1
