"""What a shell offers next: verbs, flags, values and the ids of live nodes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from claimdag_client._transport.endpoint import Endpoint
from claimdag_client.cli import foreign
from claimdag_client.cli.commands import MODULES
from claimdag_client.cli.completion import SCRIPTS, _after_place
from claimdag_client.cli.flags import FLAGS
from tests.support.scripted_daemon import ScriptedDaemon, view

from .conftest import Ran

Cli = Callable[..., Ran]


def offered(cli: Cli, *words: str) -> list[str]:
    ran = cli("__complete", *words)
    assert (ran.status, ran.err) == (0, "")
    return [line.split("\t")[0] for line in ran.out.splitlines()]


def test_verbs_come_first(cli: Cli) -> None:
    """All of them, or those that begin as what was typed."""
    assert set(offered(cli, "")) == set(MODULES)
    assert offered(cli, "comp") == ["complete", "completion"]
    assert offered(cli, "--dir", "/x", "--no-start", "pin") == ["ping"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("next", "--act"), ["--actor"]),
        (("complete", "1", "--status", ""), ["done", "failed", "cancelled"]),
        (("upsert", "--kind", "g"), ["goal"]),
        (("ls", "--arch"), ["--archived"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
        (("work", "--until"), ["--until-empty"]),
        (("run", "1", "--", "mak"), []),
        (("next", "--actor", "a"), []),
        (("nonsense", ""), []),
        (("--dir", ""), []),
    ],
)
def test_flags_and_values_of_a_verb(words: tuple[str, ...], expected: list[str], cli: Cli) -> None:
    """From the table of commands, without a daemon."""
    assert offered(cli, *words) == expected


def test_ids_come_with_their_summaries(cli: Cli, daemon: ScriptedDaemon) -> None:
    """Where a node may stand, and only there; what could act on a terminal does not."""
    daemon.answers["list"] = {"nodes": [view(1, summary="a\x1b[2J\nb"), view(12, summary="two")]}
    assert cli("__complete", "claim", "").out == "7q2f-1\tready: a\\x1b[2J b\n7q2f-12\tready: two\n"
    assert offered(cli, "done", "7q2f-1", "7q2f-12") == ["7q2f-12"]
    assert offered(cli, "add", "x", "--after", "7q2f-12") == ["7q2f-12"]
    assert offered(cli, "link", "7q2f-1", "7q2f-") == ["7q2f-1", "7q2f-12"]
    daemon.refuse("list", "internal", "list: no")
    assert offered(cli, "claim", "") == []


def test_no_daemon_is_started_for_a_completion(cli: Cli, short_dir: Path) -> None:
    """Nothing listens: nothing is offered, and nothing is made."""
    assert offered(cli, "claim", "") == []
    assert list(short_dir.iterdir()) == []


def test_verbs_of_other_rooms_are_described_once() -> None:
    """Their help, completion and manual come from one table."""
    assert set(foreign.COMMANDS) == {verb for verb, module in MODULES.items() if ":" in module}


@pytest.mark.parametrize("verb", sorted(foreign.COMMANDS))
def test_flags_of_a_verb_of_another_room_are_offered_and_told(verb: str, cli: Cli) -> None:
    """What its help tells is what the shell offers."""
    told = cli(verb, "--help").out
    flags = offered(cli, verb, "--")
    assert flags == [name for each in foreign.COMMANDS[verb].flags for name in FLAGS[each].names if name[:2] == "--"]
    # --id is another spelling of ID, which help does not tell.
    assert [name for name in flags if name not in told] in ([], ["--id"])


def test_graph_named_before_the_verb_is_the_one_asked() -> None:
    """Its ids are offered, and no other graph's."""
    endpoint = Endpoint(start=False)
    assert _after_place(["--graph", "site", "--socket=/s", "--dir", "/d", "claim"], endpoint) == ["claim"]
    assert (endpoint.graph, endpoint.socket_path, endpoint.directory) == ("site", "/s", "/d")


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_script_is_accepted_by_its_shell(shell: str, cli: Cli) -> None:
    """If the shell is there."""
    script = cli("completion", shell).out
    assert "claimdag __complete" in script
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_by_the_script(cli: Cli, daemon: ScriptedDaemon) -> None:
    """One candidate is bare, several come with their meaning."""
    daemon.answers["list"] = {"nodes": [view(1, summary="one"), view(2, summary="two")]}
    program = (
        f'claimdag() {{ {sys.executable} -m claimdag_client.cli --socket {daemon.path} "$@"; }}\n'
        + SCRIPTS["bash"]
        + 'try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _claimdag; printf "%s|" "${COMPREPLY[@]}"; echo; }\n'
        "try claimdag claim 7q2f-2\ntry claimdag claim ''\ntry claimdag nex\n"
    )
    ran = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "7q2f-2|\n7q2f-1  (ready: one)|7q2f-2  (ready: two)|\nnext|\n"
