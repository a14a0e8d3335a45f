"""Each verb: what it asks of the daemon, and what it prints for people and for programs."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.scripted_daemon import ScriptedDaemon, view

from .conftest import Ran

Cli = Callable[..., Ran]
CLAIM = {"id": "7q2f-1", "gen": 2, "expires_in": 900.0, "node": view(1, status="claimed", gen=2)}
MOVED = {"id": "7q2f-1", "gen": 3}
HELD = {"id": "7q2f-1", "gen": 2, "expires_in": 899.6}

#: The command line, the answer, the request it must be, and what it prints.
CASES: list[tuple[str, Any, dict[str, Any], str]] = [
    ("ping", {"now": 1.0}, {"op": "ping"}, "pong\n"),
    ("checkpoint", {"seq": 7, "bytes": 100}, {"op": "checkpoint"}, "seq=7 bytes=100\n"),
    ("upsert --summary hi", view(1), {"op": "upsert", "summary": "hi"}, "7q2f-1\n"),
    (
        "upsert --id 1 --kind goal --status blocked --role verifier --parent 3 --cost 2.5 --priority -5 --need gpu=2 "
        "--need disk --dep 4 --dep 7q2f-5:after_any --max-attempts 3 --actor bob --once t1",
        view(1),
        {
            "op": "upsert",
            "id": "7q2f-1",
            "kind": "goal",
            "status": "blocked",
            "role": "verifier",
            "parent": "7q2f-3",
            "cost": 2.5,
            "priority": -5,
            "needs": {"gpu": 2, "disk": 1},
            "max_attempts": 3,
            "actor": "bob",
            "once": "t1",
            "deps": [{"on": "7q2f-4"}, {"on": "7q2f-5", "when": "after_any"}],
        },
        "7q2f-1\n",
    ),
    (
        "upsert 1 --retries 5 --retry-delay 2m",
        view(1),
        {"op": "upsert", "id": "7q2f-1", "retries": 5, "retry_delay": 120.0},
        "7q2f-1\n",
    ),
    (
        "upsert 1 --parent none --max-attempts none --no-needs --no-deps",
        view(1),
        {"op": "upsert", "id": "7q2f-1", "parent": None, "max_attempts": None, "needs": {}, "deps": []},
        "7q2f-1\n",
    ),
    ("link 1 2", view(2, status="todo"), {"op": "link", "before": "7q2f-1", "after": "7q2f-2"}, "7q2f-2 todo\n"),
    (
        "unlink 1 2 --when after_any --actor bob",
        view(2),
        {"op": "unlink", "before": "7q2f-1", "after": "7q2f-2", "when": "after_any", "actor": "bob"},
        "7q2f-2 ready\n",
    ),
    ("claim 1 --actor bob", CLAIM, {"op": "claim", "id": "7q2f-1", "actor": "bob"}, "gen=2\n"),
    (
        "claim --id 7q2f-1 --assignee bob --gen 1 --lease 15m --bound",
        CLAIM,
        {"op": "claim", "id": "7q2f-1", "actor": "bob", "gen": 1, "lease": 900.0, "bound": True},
        "gen=2\n",
    ),
    ("renew 1 --gen 2", HELD, {"op": "renew", "id": "7q2f-1", "gen": 2}, "gen=2 expires_in=900\n"),
    (
        "running 7q2f-1 --actor bob --lease 60",
        HELD,
        {"op": "running", "id": "7q2f-1", "actor": "bob", "lease": 60.0},
        "gen=2 expires_in=900\n",
    ),
    ("release 1 --assignee bob --gen 2", MOVED, {"op": "release", "id": "7q2f-1", "actor": "bob", "gen": 2}, "gen=3\n"),
    ("reopen 1", MOVED, {"op": "reopen", "id": "7q2f-1"}, "gen=3\n"),
    ("archive 1", MOVED, {"op": "archive", "id": "7q2f-1"}, "gen=3\n"),
    ("unarchive 1", MOVED, {"op": "unarchive", "id": "7q2f-1"}, "gen=3\n"),
    (
        "cancel 1 --error why",
        {"ids": ["7q2f-1", "7q2f-2"]},
        {"op": "cancel", "id": "7q2f-1", "error": "why"},
        "7q2f-1\n7q2f-2\n",
    ),
    (
        "cancel 1 7q2f-2 --id 3",
        {"results": [{"ids": ["7q2f-1", "7q2f-2"]}, {"ids": []}, {"ids": ["7q2f-3"]}]},
        {"op": "cancel", "ids": ["7q2f-1", "7q2f-2", "7q2f-3"]},
        "7q2f-1\n7q2f-2\n7q2f-3\n",
    ),
    ("cancel --under 1", {"results": []}, {"op": "cancel", "under": "7q2f-1"}, ""),
    ("release 1 2", {"results": [MOVED, MOVED]}, {"op": "release", "ids": ["7q2f-1", "7q2f-2"]}, "7q2f-1 gen=3\n" * 2),
    (
        "renew 1 2",
        {"results": [HELD, HELD]},
        {"op": "renew", "ids": ["7q2f-1", "7q2f-2"]},
        "7q2f-1 gen=2 expires_in=900\n" * 2,
    ),
    (
        "reopen --failed --under 7",
        {"results": [MOVED]},
        {"op": "reopen", "failed": True, "under": "7q2f-7"},
        "7q2f-1 gen=3\n",
    ),
    (
        "complete 1 2 --status cancelled",
        {
            "results": [
                {"node": view(1, status="cancelled"), "ready": []},
                {"node": view(2, status="done"), "ready": []},
            ]
        },
        {"op": "complete", "ids": ["7q2f-1", "7q2f-2"], "status": "cancelled"},
        "7q2f-1 cancelled\n7q2f-2 done\n",
    ),
    ("reclaim --lease 5m", {"ids": ["7q2f-1"]}, {"op": "reclaim", "lease": 300.0}, "7q2f-1\n"),
    ("reclaim", {"ids": []}, {"op": "reclaim"}, ""),
    (
        "complete 1 --gen 2 --status failed --error broken",
        {"node": view(1, status="failed"), "ready": [], "next": None, "code": None, "next_error": None},
        {"op": "complete", "id": "7q2f-1", "gen": 2, "status": "failed", "error": "broken"},
        "7q2f-1 failed\n",
    ),
    (
        "complete 1 --actor bob --next --role verifier --slack 3 --strict --lease 60 --bound --wait 5",
        {"node": view(1, status="done"), "ready": ["7q2f-3"], "next": {**CLAIM, "id": "7q2f-3"}},
        {
            "op": "complete",
            "id": "7q2f-1",
            "actor": "bob",
            "next": {"role": "verifier", "slack": 3.0, "strict": True, "lease": 60.0, "bound": True, "wait": 5.0},
        },
        "7q2f-1 done, ready now: 7q2f-3\nid=7q2f-3 gen=2\nthing 1\n",
    ),
    (
        "capacity gpu 2",
        {"name": "gpu", "capacity": 2, "used": 1, "holders": [{"id": "7q2f-1", "units": 1}], "waiting": ["7q2f-2"]},
        {"op": "capacity", "resource": "gpu", "units": 2},
        "gpu  1 of 2 in use, by 7q2f-1 (1); awaited by 7q2f-2\n",
    ),
    ("resources", {"resources": []}, {"op": "resources"}, ""),
    ("list", {"nodes": []}, {"op": "list"}, ""),
    (
        "list --terminal --archived --all --status done --under 3 --assignee bob",
        {"nodes": [view(4, status="done", summary="that")]},
        {
            "op": "list",
            "terminal": True,
            "archived": True,
            "all": True,
            "status": "done",
            "under": "7q2f-3",
            "assignee": "bob",
        },
        "✓ 7q2f-4  done  that\n",
    ),
    ("ready --role verifier", {"nodes": [view(2)]}, {"op": "ready", "role": "verifier"}, "○ 7q2f-2  ready  thing 2\n"),
]


@pytest.mark.parametrize(("line", "answer", "request_", "out"), CASES, ids=[case[0][:40] for case in CASES])
def test_verb_asks_and_prints(
    line: str, answer: Any, request_: dict[str, Any], out: str, cli: Cli, daemon: ScriptedDaemon
) -> None:
    """The request is exactly this one, and so is the output."""
    daemon.answers[request_["op"]] = answer
    ran = cli(*line.split())
    assert (ran.status, ran.err) == (0, "")
    assert daemon.requests == [request_]
    assert ran.out == out


@pytest.mark.parametrize(("line", "answer", "request_", "out"), CASES, ids=[case[0][:40] for case in CASES])
def test_verb_with_json_prints_what_the_daemon_said(
    line: str, answer: Any, request_: dict[str, Any], out: str, cli: Cli, daemon: ScriptedDaemon
) -> None:
    """With --json the answer itself; where there are several nodes, resources or results, a line for each."""
    daemon.answers[request_["op"]] = answer
    ran = cli(*line.split(), "--json")
    many = answer.get("nodes", answer.get("resources", answer.get("results")))
    assert ran.status == 0
    assert ran.json == (many if many is not None else [answer])


@pytest.mark.parametrize("verb", ["next", "claim_next", "claim-next"])
def test_next_prints_id_and_gen_then_the_summary(verb: str, cli: Cli, daemon: ScriptedDaemon) -> None:
    """The first line is for scripts; each spelling of the verb is the same."""
    daemon.answers["claim_next"] = CLAIM
    ran = cli(verb, "--actor", "bob", "--role", "general", "--slack", "2", "--strict", "--wait", "10")
    assert ran.out == "id=7q2f-1 gen=2\nthing 1\n"
    assert daemon.requests == [
        {"op": "claim_next", "actor": "bob", "role": "general", "slack": 2.0, "strict": True, "wait": 10.0}
    ]


@pytest.mark.parametrize(("code", "status"), [("nothing_runnable", 3), ("nothing_pending", 4), ("assignee_busy", 1)])
def test_complete_with_next_and_nothing_to_claim_says_why(
    code: str, status: int, cli: Cli, daemon: ScriptedDaemon
) -> None:
    """The node is complete either way; the exit status says why there is no next one."""
    error = {"code": code, "message": f"claim_next: {code}"}
    daemon.answers["complete"] = {
        "node": view(1, status="done"), "ready": [], "next": None, "code": code, "next_error": error,
    }  # fmt: skip
    ran = cli("complete", "1", "--actor", "bob", "--next")
    assert (ran.status, ran.out) == (status, "7q2f-1 done\n")
    assert f"7q2f-1 is complete; claim_next: {code}" in ran.err


def test_upsert_reads_a_summary_from_standard_input(
    cli: Cli, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For texts that a shell would mangle."""
    daemon.answers["upsert"] = view(1)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("two\nlines é\n".encode())))
    assert cli("upsert", "--summary", "-").status == 0
    assert daemon.requests == [{"op": "upsert", "summary": "two\nlines é"}]


def test_get_shows_all_of_a_node(cli: Cli, daemon: ScriptedDaemon) -> None:
    """A page for people, without what is empty."""
    daemon.answers["get"] = view(
        1, status="running", summary="first line\nsecond", assignee="bob", quiet=12.5, expires_in=840.0, bound=True,
        kind="step", role="verifier", parent="7q2f-9", priority=7, needs={"gpu": 1}, cost=2.5, depth=10.0, gen=3,
        deps=[{"on": "7q2f-2", "when": "after_ok"}, {"on": "7q2f-3", "when": "after_any"}], attempts=2, max_attempts=5,
        grants=[{"resource": "gpu", "units": 1, "lender": "7q2f-9"}], created_at=1.0e9,
    )  # fmt: skip
    out = cli("show", "1").out
    for said in ("7q2f-1  running", "  first line\n  second\n", "kind      step", "after     7q2f-2, 7q2f-3:after_any",
                 "bob, quiet 12 s, lease ends in 14 min, bound", "gpu=1 of 7q2f-9's", "gen       3, attempts 2 of 5",
                 "2.5, depth 10", "2001-09-"):  # fmt: skip
        assert said in out


def test_ready_says_why_a_ready_node_cannot_run_now(cli: Cli, daemon: ScriptedDaemon) -> None:
    """Ready by its dependencies, and still waiting for units."""
    lack = {"resource": "gpu", "units": 2, "free": 1, "lender": None}
    daemon.answers["ready"] = {
        "nodes": [
            view(1, runnable=True),
            view(2, runnable=False, waiting_on={"deps": [], "resources": [lack]}),
            view(3, runnable=False),
        ]
    }
    lines = cli("ready").out.splitlines()
    assert lines[2] == "    not now: for 2 of gpu (1 free)"
    assert lines[4] == "    not now: units are kept for another that waits longer"


def test_why_gives_its_reasons_one_by_one(cli: Cli, daemon: ScriptedDaemon) -> None:
    """Several reasons are a list; one is a sentence."""
    first, second = {"type": "dep", "text": "waits until 7q2f-1 is done"}, {"type": "blocked", "text": "is blocked"}
    text = "7q2f-2 is todo: waits until 7q2f-1 is done; is blocked"
    daemon.answers["why"] = {"id": "7q2f-2", "status": "todo", "text": text, "reasons": [first, second]}
    assert cli("why", "2").out == "· 7q2f-2  todo\n  - waits until 7q2f-1 is done\n  - is blocked\n"
    text = "7q2f-2 is ready: can be claimed"
    daemon.answers["why"] = {"id": "7q2f-2", "status": "ready", "text": text, "reasons": []}
    assert cli("why", "2").out == "○ 7q2f-2  ready\n  can be claimed\n"


def test_hello_and_stats_are_for_people_too(cli: Cli, daemon: ScriptedDaemon) -> None:
    """Versions, the graph, the limits; counts by status, sizes and deadlocks in words."""
    ran = cli("version")
    assert "claimdagd 9.8.7, protocol 1, pid 42, graph 7q2f" in ran.out
    assert "4096 nodes at most" in ran.out
    daemon.answers["stats"] = {
        "statuses": {"ready": 2, "done": 3}, "nodes": 5, "uptime": 7500.0, "journal_bytes": 2048, "lags": 0,
        "deadlocks": [{"subtrees": ["7q2f-1"], "text": "7q2f-1 holds what 7q2f-2 needs"}],
    }  # fmt: skip
    out = cli("stats").out
    for said in ("ready 2, done 3", "uptime          2 h 5 min", "2.0 KiB", "7q2f-1 holds what 7q2f-2 needs"):
        assert said in out


def test_shutdown_says_no_hello_and_waits_for_the_daemon_to_leave(cli: Cli, daemon: ScriptedDaemon) -> None:
    """A daemon of any protocol can be told to leave; when the verb ends, it has."""
    daemon.answers["hello"] = {"error": {"code": "bad_request", "message": "no", "protocol": 99}}
    daemon.answers["shutdown"] = {}
    threading.Timer(0.3, daemon.hang_up_all).start()
    ran = cli("stop")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert daemon.requests == [{"op": "shutdown"}]


def test_log_tells_each_change(cli: Cli, daemon: ScriptedDaemon) -> None:
    """When, what, by whom, and what became of each node."""
    entry = {
        "seq": 12, "at": 1.0e9, "op": "complete", "actor": "bob", "flips": {"ready": ["7q2f-5"]}, "gone": ["7q2f-0"],
        "nodes": [view(1, status="done", gen=2), view(2, status="cancelled", cause="7q2f-1", error="no")],
        "capacity": {"gpu": 2},
    }  # fmt: skip
    daemon.answers["log"] = {"entries": [entry, {**entry, "flips": {}, "nodes": [view(1, assignee="bob")]}]}
    ran = cli("log", "1", "--from", "3", "--limit", "5")
    assert daemon.requests == [{"op": "log", "from": 3, "limit": 5, "id": "7q2f-1"}]
    for said in ("    12  2001-09-", "complete by bob  2 nodes", "✓ 7q2f-1 done gen 2", "because of 7q2f-1 (no)",
                 "○ 7q2f-5 ready", "gpu: 2 units", "pruned: 7q2f-0", "held by bob thing 1"):  # fmt: skip
        assert said in ran.out
    assert cli("log", "--json").json[0] == entry


def test_log_says_where_nothing_changed(cli: Cli, daemon: ScriptedDaemon) -> None:
    """An entry that is there for its token alone."""
    bare = {"seq": 3, "at": 1.0e9, "op": "reclaim", "actor": None, "flips": {}, "gone": [], "nodes": [], "once": "t"}
    daemon.answers["log"] = {"entries": [bare]}
    assert cli("log").out.rstrip().endswith("reclaim  nothing changed")


def test_status_shows_everything_on_one_screen(
    cli: Cli, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who holds what and for how long quiet, what is ready, what waits on what, resources, deadlocks."""
    held = view(1, status="running", assignee="bob", quiet=90.0, expires_in=810.0, summary="the parser")
    waiting = [
        view(n, status="todo", waiting_on={"deps": [{"on": "7q2f-1", "when": "after_ok"}], "resources": []})
        for n in range(10, 60)
    ]
    goal = view(7, kind="goal", status="running", summary="all of it")
    blocked = view(8, status="blocked", summary="not yet")
    ready = view(2, priority=5, role="verifier", runnable=False)
    daemon.answers["list"] = {"nodes": [*waiting, goal, blocked, ready, held]}
    daemon.answers["ready"] = {"nodes": [ready]}
    daemon.answers["resources"] = {
        "resources": [
            {"name": "gpu", "capacity": 1, "used": 1, "holders": [{"id": "7q2f-1", "units": 1}], "waiting": []},
            {"name": "idle", "capacity": 1, "used": 0, "holders": [], "waiting": []},
        ]
    }
    daemon.answers["stats"] = {
        "version": "9.8.7", "graph": "7q2f", "uptime": 60.0, "statuses": {"todo": 50, "running": 1},
        "deadlocks": [{"text": "7q2f-1 holds what 7q2f-2 needs"}],
    }  # fmt: skip
    monkeypatch.setenv("LINES", "40")
    monkeypatch.setenv("COLUMNS", "100")
    ran = cli("status")
    for said in (
        "claimdagd 9.8.7  graph 7q2f  up 1 min",
        "50 todo, 1 running",
        "Deadlocks (1)",
        "Held (1)",
        "◉ 7q2f-1  bob  quiet 1 min 30 s, lease ends in 13 min  the parser",
        "Ready (1)",
        "7q2f-2  priority 5  for verifier  (waits for units kept for another)",
        "Waiting (50)",
        "on 7q2f-1 (bob is on it)",
        "Blocked by hand (1)",
        "Groups (1)",
        "gpu  1 of 1 in use",
        "more: ",
    ):
        assert said in ran.out  # fmt: skip
    assert "idle" not in ran.out
    assert len(ran.out.splitlines()) <= 40
    assert len(cli("status", "--all").out.splitlines()) > 60
    (told,) = cli("status", "--json").json
    assert [node["id"] for node in told["held"]] == ["7q2f-1"]
    assert len(told["waiting"]) == 50


def test_status_of_an_empty_graph_says_how_to_begin(cli: Cli, daemon: ScriptedDaemon) -> None:
    """No empty screen."""
    daemon.answers |= {"list": {"nodes": []}, "ready": {"nodes": []}, "resources": {"resources": []}, "stats": {}}
    assert "claimdag add" in cli("status").out
