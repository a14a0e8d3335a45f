"""The words people type: add, ls, done, fail, rm, and the words that only come near a command."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Callable
from typing import Any

import pytest

from claimdag_client.cli.commands import ALIASES, MODULES
from claimdag_client.cli.near_words import NEAR_WORDS, meant_by
from tests.support.scripted_daemon import ScriptedDaemon, view

from .conftest import Ran

Cli = Callable[..., Ran]


def completed(request: dict[str, Any]) -> dict[str, Any]:
    status = request.get("status", "done")
    if "ids" in request:
        return {"results": [completed({"id": each, "status": status}) for each in request["ids"]]}
    return {"node": {"id": request["id"], "status": status}, "ready": ["7q2f-9"] if status == "done" else []}


def test_add_makes_a_node_of_a_summary(cli: Cli, daemon: ScriptedDaemon) -> None:
    """One summary is an upsert; --after and --under take bare numbers."""
    daemon.answers["upsert"] = view(3)
    ran = cli("add", "write it", "--after", "1", "--after", "2:after_any", "--under", "7", "--role", "verifier",
              "--need", "gpu=2", "--actor", "ann", "--once", "t")  # fmt: skip
    assert (ran.status, ran.out) == (0, "7q2f-3\n")
    assert daemon.requests == [
        {
            "op": "upsert", "summary": "write it", "parent": "7q2f-7", "role": "verifier", "needs": {"gpu": 2},
            "deps": [{"on": "7q2f-1"}, {"on": "7q2f-2", "when": "after_any"}], "actor": "ann", "once": "t",
        }
    ]  # fmt: skip


def test_add_makes_several_in_one_step(cli: Cli, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """All or none: one submission. - stands for the lines of standard input that are not blank."""
    daemon.answers["submit"] = lambda request: {"ids": [f"7q2f-{n}" for n, _ in enumerate(request["nodes"], 4)]}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("é one\n\n  two\n".encode())))
    ran = cli("add", "zero", "-", "--cost", "2")
    assert (ran.status, ran.out) == (0, "7q2f-4\n7q2f-5\n7q2f-6\n")
    nodes = [{"cost": 2.0, "summary": text} for text in ("zero", "é one", "two")]
    assert daemon.requests == [{"op": "submit", "nodes": nodes}]


def test_add_of_nothing_is_a_wrong_use(cli: Cli, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither words nor lines."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b" \n")))
    for argv in (["add"], ["add", "-"]):
        ran = cli(*argv)
        assert (ran.status, "SUMMARY is missing" in ran.err) == (2, True)
    assert daemon.requests == []


def test_done_and_fail_end_several(cli: Cli, daemon: ScriptedDaemon) -> None:
    """One request for all of them, each answer on a line; one node is asked as ever."""
    daemon.answers["complete"] = completed
    ran = cli("done", "3", "7q2f-4", "3", "--actor", "ann")
    assert ran.out == "7q2f-3 done, ready now: 7q2f-9\n7q2f-4 done, ready now: 7q2f-9\n"
    assert cli("fail", "5", "--error", "no").out == "7q2f-5 failed\n"
    assert len(cli("done", "3", "4", "--json").out.splitlines()) == 2
    assert daemon.requests[:2] == [
        {"op": "complete", "ids": ["7q2f-3", "7q2f-4"], "actor": "ann"},
        {"op": "complete", "id": "7q2f-5", "status": "failed", "error": "no"},
    ]


def test_refusal_of_several_tells_each_fault_and_that_nothing_was_done(cli: Cli, daemon: ScriptedDaemon) -> None:
    """Nothing is on the output."""
    faults = [
        {"index": 1, "id": "7q2f-4", "code": "not_found", "message": "complete: no node 7q2f-4"},
        {"index": 2, "id": "7q2f-5", "code": "terminal", "message": "complete: 7q2f-5 is failed already"},
    ]
    daemon.refuse("complete", "bad_request", "complete: no node 7q2f-4 (and 1 more fault)", faults=faults)
    ran = cli("done", "3", "4", "5")
    assert (ran.status, ran.out) == (1, "")
    assert "  no node 7q2f-4\n  7q2f-5 is failed already\n  nothing was done\n" in ran.err


def test_rm_cancels_and_archives(cli: Cli, daemon: ScriptedDaemon) -> None:
    """Everything that the cancellation ended is hidden, in one step; a node that had ended is only hidden."""
    daemon.answers["cancel"] = {"ids": ["7q2f-3", "7q2f-5"]}
    daemon.answers["archive"] = {"id": "7q2f-3", "gen": 2}
    assert cli("rm", "3").out == "7q2f-3\n7q2f-5\n"
    daemon.refuse("cancel", "terminal", "cancel: 7q2f-4 is done")
    assert cli("rm", "4").out == "7q2f-4\n"
    assert daemon.requests == [
        {"op": "cancel", "id": "7q2f-3"},
        {"op": "archive", "ids": ["7q2f-3", "7q2f-5"]},
        {"op": "cancel", "id": "7q2f-4"},
        {"op": "archive", "id": "7q2f-4"},
    ]
    daemon.refuse("cancel", "not_found", "cancel: no node 7q2f-6")
    assert cli("rm", "6").status == 1


def test_rm_of_several_cancels_those_that_are_unfinished(cli: Cli, daemon: ScriptedDaemon) -> None:
    """A finished one among them is a reason to leave it out of the first step, and no other fault is."""

    def cancel(request: dict[str, Any]) -> dict[str, Any]:
        if "7q2f-4" not in request.get("ids", ()):
            return {"results": [{"ids": [each]} for each in request["ids"]]}
        fault = {"index": 1, "id": "7q2f-4", "code": "terminal", "message": "cancel: 7q2f-4 is done already"}
        return {"error": {"code": "terminal", "message": fault["message"], "faults": [fault]}}

    daemon.answers["cancel"] = cancel
    daemon.answers["archive"] = {"results": []}
    assert cli("rm", "3", "4", "5").out == "7q2f-3\n7q2f-4\n7q2f-5\n"
    assert [request["ids"] for request in daemon.requests] == [
        ["7q2f-3", "7q2f-4", "7q2f-5"], ["7q2f-3", "7q2f-5"], ["7q2f-3", "7q2f-4", "7q2f-5"]
    ]  # fmt: skip


def test_ls_is_list(cli: Cli, daemon: ScriptedDaemon) -> None:
    """As in a shell."""
    daemon.answers["list"] = {"nodes": [view(1)]}
    assert cli("ls", "--all").out == "○ 7q2f-1  ready  thing 1\n"


@pytest.mark.parametrize("word", sorted(NEAR_WORDS))
def test_near_word_names_a_command_that_exists(word: str) -> None:
    """Each of the table leads somewhere (law 9.1)."""
    for line in NEAR_WORDS[word]:
        assert shlex.split(line)[0] in {*MODULES, *ALIASES}


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("start", "claimdag claim ID, or claimdag run ID -- COMMAND, or claimdag running ID"),
        ("finish", "claimdag done ID"),
        ("block", "claimdag upsert ID --status blocked"),
        ("finsh", "claimdag done ID"),
        ("lst", "claimdag list --help"),
        ("zzzz", "claimdag --help"),
    ],
)
def test_unknown_verb_names_the_one_meant(word: str, meant: str, cli: Cli) -> None:
    """Meant words first, then slips of the fingers."""
    ran = cli(word)
    assert (ran.status, ran.err) == (2, f"claimdag: there is no verb '{word}'\n  next: {meant}\n")


def test_forty_words_and_more_come_near() -> None:
    """The table grows; it does not shrink."""
    assert len(NEAR_WORDS) >= 40
    assert meant_by("qqqq", MODULES) == []
