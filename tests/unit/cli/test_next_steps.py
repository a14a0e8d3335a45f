"""What the command line says to do next is about the very node or resource at hand, or is not said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.scripted_daemon import ScriptedDaemon, view

from .conftest import Ran

Cli = Callable[..., Ran]
QUIET = {"resources": {"resources": []}, "ready": {"nodes": []}}


@pytest.mark.parametrize(
    ("code", "details", "step"),
    [
        ("would_not_run", {"id": "7q2f-1", "resource": "gpu"}, "claimdag capacity gpu UNITS raises"),
        ("bad_status", {"id": "7q2f-1"}, "claimdag get 7q2f-1"),
        ("bad_status", {}, None),
        ("timeout", {"ids": ["7q2f-8", "7q2f-9"]}, "claimdag why 7q2f-8"),
    ],
)
def test_next_step_of_a_refusal_names_what_was_refused(
    cli: Cli, daemon: ScriptedDaemon, code: str, details: dict[str, object], step: str | None
) -> None:
    """No placeholder stands for what the daemon named; where it named nothing there is no step."""
    daemon.refuse("upsert", code, "upsert: no", **details)
    ran = cli("upsert", "--summary", "x")
    assert ran.status == 1
    assert ("next:" in ran.err) is (step is not None)
    assert step is None or f"next: {step}" in ran.err


@pytest.mark.parametrize(
    ("details", "step"),
    [
        ({"leases": 2, "stuck": False}, "claimdag status"),
        ({"leases": 1, "blocked": 3, "stuck": False}, "claimdag status"),
        ({"blocked": 3, "stuck": True}, "claimdag list --status blocked, then release one:"),
        (
            {"resources": 2, "stuck": True, "deadlocks": [{"subtrees": ["7q2f-1", "7q2f-4"], "resources": ["a", "b"]}]},
            "claimdag capacity a UNITS makes more of it, or end one of them: claimdag cancel 7q2f-4",
        ),
    ],
)
def test_nothing_runnable_names_a_way_out_where_time_does_not_help(
    cli: Cli, daemon: ScriptedDaemon, details: dict[str, object], step: str
) -> None:
    """While somebody works it is enough to look; what is stuck wants a person, who is told what to do."""
    daemon.refuse("claim_next", "nothing_runnable", "claim_next: nothing runnable", **details)
    ran = cli("next", "--actor", "ann")
    assert ran.status == 3
    assert f"next: {step}" in ran.err


def test_status_with_all_finished_shows_what_failed_and_why(cli: Cli, daemon: ScriptedDaemon) -> None:
    """Nothing is left to do, and that is not the same as all is well."""
    failed = view(3, status="failed", error="exit status 7", summary="test it")
    daemon.answers |= QUIET
    daemon.answers["stats"] = {"statuses": {"done": 2, "failed": 1}, "version": "9.8.7", "graph": "7q2f", "uptime": 1.0}
    daemon.answers["list"] = lambda request: {"nodes": [failed] if request.get("status") == "failed" else []}
    ran = cli("status")
    assert "Failed (1)\n  ✗ 7q2f-3  exit status 7  test it\n" in ran.out
    assert "Nothing to do." in ran.out


@pytest.mark.parametrize("verb", ["run", "work"])
def test_help_of_a_runner_shows_that_somebody_must_be_named(verb: str, cli: Cli) -> None:
    """And its paragraphs are wrapped as one, without a ragged line in the middle."""
    usage, _, rest = cli(verb, "--help").out.partition("\n\n")
    assert " --actor NAME" in usage
    assert "[--actor NAME]" not in usage
    paragraph = rest.split("\n\n")[1].splitlines()
    assert all(len(line) > 60 for line in paragraph[:-1])


def test_list_offline_without_a_directory_does_not_speak_of_damage(cli: Cli, short_dir: Path) -> None:
    """Nothing is there to be salvaged; most likely another directory was meant."""
    ran = cli("list", "--offline", "--dir", str(short_dir / "nowhere"))
    assert ran.status == 1
    assert "there is no state in" in ran.err
    assert "name the daemon's directory with --dir" in ran.err
    assert "salvage" not in ran.err
