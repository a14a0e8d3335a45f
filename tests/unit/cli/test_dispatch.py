"""The front of the command line: options before the verb, what is imported, how errors are said, exit statuses."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from claimdag_client.cli.commands import ALIASES, GROUPS, MODULES
from claimdag_client.cli.main import main
from claimdag_client.cli.parsing import read
from claimdagd import wire
from tests.support.scripted_daemon import ScriptedDaemon, view

from .conftest import Ran

Cli = Callable[..., Ran]
OWN = sorted(verb for verb, module in MODULES.items() if ":" not in module)


def test_every_op_of_the_protocol_has_a_verb() -> None:
    """Whatever the wire can ask, a person can."""
    named = {"claim_next": "next"}
    assert {named.get(op, op) for op in wire.REQUEST_TYPES} <= set(MODULES)
    assert set(ALIASES.values()) <= set(MODULES)


@pytest.mark.parametrize("verb", OWN)
def test_help_of_every_verb_has_examples_that_parse(verb: str, cli: Cli) -> None:
    """--help teaches by example, and no example is refused by the verb's own parser."""
    ran = cli(verb, "--help")
    assert ran.status == 0
    assert "example" in ran.out
    command = import_module(f"claimdag_client.cli.commands.{MODULES[verb]}").COMMANDS[verb]
    for example in command.examples:
        words = shlex.split(example.split(" | ")[-1] if " | claimdag" in example else example)
        for mark in ("|", ">", ">>", "<"):
            words = words[: words.index(mark)] if mark in words else words
        assert words[0] == "claimdag"
        assert ALIASES.get(words[1], words[1]) == verb
        read(verb, command, words[2:])


def test_help_without_a_verb_names_all_of_them(cli: Cli) -> None:
    """One page to find one's way; asking for nothing is a wrong use that shows it too."""
    ran = cli("--help")
    assert ran.status == 0
    for _, verbs in GROUPS:
        for verb in verbs:
            assert f"  {verb} " in ran.out
    assert cli("help", "claim").out.startswith("usage: claimdag claim")
    none = cli()
    assert (none.status, none.out) == (2, "")
    assert "usage:" in none.err


def test_the_version_needs_no_daemon(cli: Cli) -> None:
    """--version is about this installation."""
    assert cli("--version").out.startswith("claimdag ")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["pign"], "claimdag ping --help"),
        (["nothing-like-it"], "claimdag --help"),
        (["--sokcet", "x", "ping"], "unknown option --sokcet"),
        (["--socket"], "--socket needs a path"),
        (["claim", "7q2f-1"], "claimdag: claim: --actor is missing"),
        (["claim", "--actor", "a"], "which node?"),
        (["claim", "7q2f-1", "--id", "7q2f-2", "--actor", "a"], "two nodes are named"),
        (["log", "7q2f-1", "7q2f-2"], "unknown argument: 7q2f-2"),
        (["renew", "7q2f-1", "--gen", "x"], "--gen"),
        (["claim", "7q2f-1", "--actor", "a", "--lease", "soon"], "--lease"),
        (["upsert", "--need", "gpu=many"], "NAME=UNITS"),
        (["upsert", "--need", "gpu", "--need", "gpu=2"], "twice"),
        (["upsert", "--dep", "7q2f-1:sometimes"], "after_any"),
        (["upsert", "--dep", "7q2f-1", "--no-deps"], "contradict"),
        (["upsert", "--need", "gpu", "--no-needs"], "contradict"),
        (["upsert", "--max-attempts", "few"], "--max-attempts"),
        (["complete", "7q2f-1", "--next"], "--next needs --actor"),
        (["complete", "7q2f-1", "--role", "verifier"], "--role is for --next"),
        (["list", "--limit", "0"], "--limit"),
        (["capacity", "gpu", "-1"], "UNITS"),
        (["submit", "plan.txt"], ".json"),
        (["import", "jira", "x"], "beads"),
        (["graph", "--format", "png"], "--format"),
    ],
)
def test_a_wrong_use_is_status_2_or_1_and_says_what_next(
    argv: list[str], said: str, cli: Cli, daemon: ScriptedDaemon
) -> None:
    """What was wrong, and where to read on; nothing that changes anything was asked (law 9.1, 9.10)."""
    daemon.answers["list"] = {"nodes": []}
    ran = cli(*argv)
    assert ran.status == (1 if argv[0] == "submit" else 2)
    assert ran.err.startswith("claimdag: ")
    assert said in ran.err
    assert "next: " in ran.err
    assert [request for request in daemon.requests if request["op"] != "list"] == []


def test_text_that_is_not_utf8_is_a_wrong_use(cli: Cli, daemon: ScriptedDaemon) -> None:
    """A byte that no text has arrives from the shell as a lone surrogate."""
    ran = cli("upsert", "--summary", "caf\udce9")
    assert ran.status == 2
    assert "UTF-8" in ran.err
    assert daemon.requests == []


def test_no_daemon_is_status_69(cli: Cli) -> None:
    """With --no-start, and no daemon (law 9.1, 9.10)."""
    ran = cli("ping")
    assert ran.status == 69
    assert ran.err.startswith("claimdag: ping: no daemon listens at ")


def test_no_start_may_stand_in_the_environment(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CLAIMDAG_NO_START=1 does what --no-start does; 0 is no wish (law 9.2)."""
    monkeypatch.setenv("CLAIMDAG_NO_START", "1")
    assert main(["--dir", str(short_dir), "ping"]) == 69


def test_options_of_the_place_may_stand_after_the_verb(
    daemon: ScriptedDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where people put them."""
    daemon.answers["ping"] = {"now": 1.0}
    assert main(["ping", "--socket", str(daemon.path), "--no-start"]) == 0
    assert main([f"--socket={daemon.path}", "--no-start", "ping"]) == 0
    assert capsys.readouterr().out == "pong\npong\n"


@pytest.mark.parametrize(
    ("code", "details", "status", "said"),
    [
        ("gen_mismatch", {"gen": 4, "id": "7q2f-1"}, 1, "generation 4"),
        ("assignee_busy", {"id": "7q2f-3", "gen": 2}, 1, "claimdag complete 7q2f-3 --gen 2"),
        ("nothing_runnable", {"deps": 3, "blocked": 1, "next_expiry": 61.0, "stuck": False}, 3, "3 waiting"),
        ("nothing_runnable", {"deps": 3, "stuck": True, "deadlocks": [{"text": "A and B"}]}, 3, "A and B"),
        ("nothing_pending", {}, 4, "finished"),
        ("cycle", {"path": ["7q2f-1", "7q2f-2", "7q2f-1"]}, 1, "7q2f-1 -> 7q2f-2 -> 7q2f-1"),
        ("storage", {}, 1, "make room"),
        ("a_code_of_tomorrow", {}, 1, "claim: no"),
    ],
)
def test_a_refusal_says_what_and_the_next_step(
    code: str, details: dict[str, object], status: int, said: str, cli: Cli, daemon: ScriptedDaemon
) -> None:
    """`claimdag: verb: what`, the details, a next step, and the status of the code."""
    daemon.refuse("claim", code, "claim: no", **details)
    ran = cli("claim", "7q2f-1", "--actor", "a")
    assert (ran.status, ran.out) == (status, "")
    assert ran.err.startswith("claimdag: claim: no\n")
    assert said in ran.err


def test_text_of_the_daemon_reaches_no_terminal_raw(cli: Cli, daemon: ScriptedDaemon) -> None:
    """A summary, a refusal and an id with escapes in them are shown as what they are; JSON keeps them as escapes."""
    evil = "a\x1b[2Jb\u202ec\x9bd"
    daemon.refuse("get", "not_found", f"get: {evil}", id=evil)
    daemon.answers["list"] = {"nodes": [view(1, summary=evil, assignee=evil, error=evil)]}
    daemon.answers["why"] = {"id": evil, "status": "todo", "text": evil, "reasons": [{"type": "dep", "text": evil}]}
    for argv in (["get", "1"], ["list"], ["why", "1"], ["tree"], ["graph"], ["graph", "--format", "dot"],
                 ["graph", "--format", "mermaid"], ["list", "--json"]):  # fmt: skip
        ran = cli(*argv)
        assert not set("\x1b\x9b\u202e") & set(ran.out + ran.err), argv
    assert ran.json[0]["summary"] == evil


def test_a_reader_that_has_enough_is_no_error(daemon: ScriptedDaemon) -> None:
    """`claimdag list | head` ends without a word."""
    daemon.answers["list"] = {"nodes": [view(n) for n in range(1, 3000)]}
    line = f"{sys.executable} -m claimdag_client.cli.main --socket {daemon.path} --no-start list | head -1"
    ran = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=20, check=False)
    assert ran.stdout.count("\n") == 1
    assert ran.stderr == ""


def test_output_that_cannot_be_written_is_said(daemon: ScriptedDaemon) -> None:
    """A full disk is not silence."""
    daemon.answers["list"] = {"nodes": [view(n) for n in range(1, 10)]}
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "claimdag_client.cli", "--socket", str(daemon.path), "--no-start", "list"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=20, check=False,
        )  # fmt: skip
    assert ran.returncode == 74
    assert ran.stderr == "claimdag: list: the answer could not be written to standard output: No space left on device\n"


def test_a_small_verb_imports_next_to_nothing(daemon: ScriptedDaemon) -> None:
    """What makes a start slow stays out: no socket, no msgspec, no typing, none of the other verbs."""
    daemon.answers["ping"] = {"now": 1.0}
    program = (
        "import sys; from claimdag_client.cli.main import main; status = main(sys.argv[1:]);"
        "print(*sorted(sys.modules)); sys.exit(status)"
    )
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program, "--socket", str(daemon.path), "--no-start", "ping"],
        env={"PYTHONPATH": str(Path(__file__).parents[3])}, capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    loaded = set(ran.stdout.split())
    heavy = {"argparse", "claimdag_client.cli.flags", "claimdag_client.cli.values", "socket", "selectors",
             "subprocess", "typing", "dataclasses", "msgspec", "anyio", "asyncio", "tempfile", "inspect", "pathlib",
             "claimdagd.model", "claimdagd.wire"}  # fmt: skip
    assert not loaded & heavy
    assert {name for name in loaded if name.startswith("claimdag_client.cli.commands.")} == {
        "claimdag_client.cli.commands.requests",
    }  # fmt: skip
