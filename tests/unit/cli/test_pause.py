"""The verbs pause and resume, and where else the command line says that something is paused (law 10.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from claimdag_client.cli.render.log import entry_lines
from claimdag_client.cli.render.text import Paint
from tests.support.scripted_daemon import ScriptedDaemon
from tests.unit.cli.conftest import Ran

Cli = Callable[..., Ran]


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize(
    ("paused", "said"),
    [
        ([], "nothing is paused"),
        ([None], "the graph is paused"),
        (["7q2f-1", "7q2f-9"], "paused: 7q2f-1, 7q2f-9"),
        (["7q2f-1", None], "the graph is paused"),
    ],
)
def test_what_is_paused_is_said(
    cli: Cli, daemon: ScriptedDaemon, verb: str, paused: list[str | None], said: str
) -> None:
    """The scope goes with the request, and the answer tells of all scopes."""
    daemon.answers[verb] = {"paused": paused}
    assert cli(verb, "--under", "7q2f-1").out == said + "\n"
    assert daemon.requests[-1]["under"] == "7q2f-1"
    assert cli(verb, "--json").json == [{"paused": paused}]
    assert "under" not in daemon.requests[-1]


@pytest.mark.parametrize(
    ("scope", "step"), [(None, "claimdag resume\n"), ("7q2f-1", "claimdag resume --under 7q2f-1\n")]
)
def test_refused_claim_names_the_resume(cli: Cli, daemon: ScriptedDaemon, scope: str | None, step: str) -> None:
    """The one that lets it go."""
    details: dict[str, Any] = {"id": "7q2f-2", "paused": scope}
    daemon.answers["claim"] = {"error": {"code": "not_claimable", "message": "claim: paused", **details}}
    ran = cli("claim", "7q2f-2", "--actor", "ann")
    assert (ran.status, ran.err.endswith(f"next: {step}")) == (1, True)


def test_claim_in_vain_counts_what_is_paused(cli: Cli, daemon: ScriptedDaemon) -> None:
    """And says how to lift it."""
    error = {"code": "nothing_runnable", "message": "claim_next: nothing runnable: 2 paused", "paused": 2}
    daemon.answers["claim_next"] = {"error": error}
    ran = cli("next", "--actor", "ann")
    assert ran.status == 3
    assert "2 paused" in ran.err
    assert "claimdag resume" in ran.err


def test_status_says_it_in_its_first_line(cli: Cli, daemon: ScriptedDaemon) -> None:
    """Whatever else there is; stats has a line for it."""
    daemon.answers.update(list={"nodes": []}, ready={"nodes": []}, resources={"resources": []})
    daemon.answers["stats"] = {"version": "9", "statuses": {}, "paused": ["7q2f-1"]}
    assert "paused: 7q2f-1" in cli("status").out.splitlines()[0]
    assert "paused: 7q2f-1" in cli("stats").out
    daemon.answers["stats"]["paused"] = []
    assert "paused" not in cli("status").out


@pytest.mark.parametrize(("paused", "said"), [([], "nothing is paused"), ([None], "the graph is paused")])
def test_log_shows_what_is_paused_from_then_on(paused: list[str | None], said: str) -> None:
    """An entry that lifts the last pause is no empty one."""
    lines = entry_lines({"seq": 1, "at": 0.0, "op": "pause", "paused": paused}, Paint(None))
    assert said in lines[1]
    assert "nothing changed" not in "".join(lines)
