"""The commands that take several nodes in one step, or a flag in place of them (law 10.6, 10.7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.scripted_daemon import ScriptedDaemon, view

from .conftest import Ran

Cli = Callable[..., Ran]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cancel", "which node? name its ID, or say --under"),
        ("reopen", "which node? name its ID, or say --failed"),
        ("archive", "which node? name its ID, or say --done"),
        ("release", "which node? name its ID"),
        ("complete", "which node? name its ID"),
        ("cancel 1 --under 2", "--under stands for the IDs: name the one or the others"),
        ("reopen 1 --failed", "--failed stands for the IDs: name the one or the others"),
        ("archive 1 --done", "--done stands for the IDs: name the one or the others"),
        ("reopen 1 --under 2", "--under goes with --failed"),
        ("archive 1 --under 2", "--under goes with --done"),
        ("complete 1 2 --next --actor ann", "--next goes with one node, not with several"),
    ],
)
def test_nodes_named_in_no_way_or_in_two_are_a_wrong_use(
    line: str, said: str, cli: Cli, daemon: ScriptedDaemon
) -> None:
    """Nothing is asked."""
    ran = cli(*line.split())
    assert (ran.status, daemon.requests) == (2, [])
    assert said in ran.err


def test_archive_done_hides_all_that_is_done(cli: Cli, daemon: ScriptedDaemon) -> None:
    """In one step, in a scope if one is named; nothing to hide is no request."""
    daemon.answers["list"] = {"nodes": [view(3, status="done"), view(1, status="done")]}
    daemon.answers["archive"] = {"results": [{"id": "7q2f-3", "gen": 2}, {"id": "7q2f-1", "gen": 2}]}
    assert cli("archive", "--done", "--under", "9").out == "7q2f-3 gen=2\n7q2f-1 gen=2\n"
    assert daemon.requests == [
        {"op": "list", "status": "done", "under": "7q2f-9"},
        {"op": "archive", "ids": ["7q2f-3", "7q2f-1"]},
    ]
    daemon.answers["list"] = {"nodes": []}
    ran = cli("archive", "--done")
    assert (ran.status, ran.out, daemon.requests[-1]["op"]) == (0, "", "list")


def test_several_in_json_are_a_line_each(cli: Cli, daemon: ScriptedDaemon) -> None:
    """As one is."""
    daemon.answers["reopen"] = {"results": [{"id": "7q2f-3", "gen": 2}, {"id": "7q2f-1", "gen": 2}]}
    ran = cli("reopen", "3", "1", "--json")
    assert ran.json == [{"id": "7q2f-3", "gen": 2}, {"id": "7q2f-1", "gen": 2}]


@pytest.mark.parametrize("verb", ["get", "why"])
def test_several_are_looked_at_one_after_the_other(verb: str, cli: Cli, daemon: ScriptedDaemon) -> None:
    """Each is a request of its own, for nothing is changed; each answer is a line of JSON."""
    daemon.answers[verb] = lambda request: {"id": request["id"], "status": "ready", "reasons": [], "text": ""}
    ran = cli(verb, "3", "4", "--json")
    assert [each["id"] for each in ran.json] == ["7q2f-3", "7q2f-4"]
    assert [request["id"] for request in daemon.requests] == ["7q2f-3", "7q2f-4"]
