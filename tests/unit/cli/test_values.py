"""Wrong values, for every flag of every command: the flag, the value and what it takes, in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

import pytest

from claimdag_client.cli import values
from claimdag_client.cli.command import Command
from claimdag_client.cli.commands import MODULES
from claimdag_client.cli.flags import ACTOR_VARIABLE, FLAGS, Flag
from tests.support.scripted_daemon import ScriptedDaemon

from .conftest import Ran

Cli = Callable[..., Ran]
#: For every kind of value at least one of these is wrong.
WRONG = ("not one!", "", "x" * 5000, "caf\udce9", "-1")
#: Words of parsers and decoders, which no person should have to read.
MACHINE_WORDS = ("$", "Expected", "invalid", "Enum", "pattern", "argument --", "ValueError", "choose from")


def commands() -> Iterator[tuple[str, Command]]:
    for verb, module in MODULES.items():
        if ":" not in module:
            yield verb, import_module(f"claimdag_client.cli.commands.{module}").COMMANDS[verb]


FLAGS_OF_COMMANDS = [
    pytest.param(verb, command, FLAGS[name], id=f"{verb} {FLAGS[name].shown}")
    for verb, command in commands()
    for name in command.flags
]
#: The two commands that read what comes after --, with the flags that have values.
OF_RUNNERS = [
    pytest.param(verb, FLAGS[name], id=f"{verb} {FLAGS[name].shown}")
    for verb, names in (
        ("run", ("gen", "actor", "lease", "kill_after")),
        ("work", ("role", "slack", "workers", "actor", "lease", "kill_after")),
    )
    for name in names
]


def wrong_value_of(flag: Flag) -> str:
    assert flag.value is not None
    for text in WRONG:
        try:
            flag.value.convert(text)
        except ValueError:
            return text
    raise AssertionError(f"{flag.shown} takes everything")


def arguments_with(command: Command, flag: Flag, text: str) -> list[str]:
    """A command line in which nothing is wrong but this flag."""
    line = []
    for name in command.flags:
        other = FLAGS[name]
        if other.positional:
            line.append(text if other is flag else good_value_of(other))
    return line if flag.positional else [*line, f"{flag.shown}={text}"]


def good_value_of(flag: Flag) -> str:
    assert flag.value is not None
    return flag.value.choices[0] if flag.value.choices else "1"


@pytest.mark.parametrize(("verb", "command", "flag"), FLAGS_OF_COMMANDS)
def test_wrong_value_is_told_as_flag_value_and_what_it_takes(
    verb: str, command: Command, flag: Flag, cli: Cli, daemon: ScriptedDaemon
) -> None:
    """Status 2, nothing asked of the daemon, and none of the words of a parser."""
    if flag.value is None:
        ran = cli(verb, f"{flag.shown}=x")
        assert (ran.status, f"{flag.shown}: it takes no value" in ran.err) == (2, True), ran.err
        return
    wrong = wrong_value_of(flag)
    ran = cli(verb, *arguments_with(command, flag, wrong))
    said = ran.err.splitlines()[0]
    shown = "''" if not wrong else wrong[:20].replace("\udce9", "\\udce9")
    assert (ran.status, ran.out) == (2, "")
    assert said.startswith(f"claimdag: {verb}: {flag.shown} {shown}")
    assert said.endswith(f"it must be {flag.value.takes}")
    assert not [word for word in MACHINE_WORDS if word in ran.err]
    assert daemon.requests == []


@pytest.mark.parametrize(("verb", "flag"), OF_RUNNERS)
def test_wrong_value_of_a_runner_is_told_the_same_way(verb: str, flag: Flag, cli: Cli) -> None:
    """`run` and `work` read the same flags."""
    assert flag.value is not None
    wrong = wrong_value_of(flag)
    ran = cli(verb, *(["1"] if verb == "run" else []), f"{flag.shown}={wrong}", "--", "true")
    assert ran.status == 2
    assert f"{flag.shown} {wrong[:20]}" in ran.err
    assert flag.value.takes in ran.err


@pytest.mark.parametrize(("verb", "command", "flag"), FLAGS_OF_COMMANDS)
def test_flag_without_its_value_says_what_it_takes(verb: str, command: Command, flag: Flag, cli: Cli) -> None:
    """The value was forgotten."""
    if flag.value is None or flag.positional:
        return
    ran = cli(verb, flag.shown)
    assert (ran.status, ran.out) == (2, "")
    assert f"{flag.shown}: a value is missing: it must be {flag.value.takes}" in ran.err


@pytest.mark.parametrize(("verb", "command"), [pytest.param(*each, id=each[0]) for each in commands()])
def test_what_a_command_needs_is_asked_for(verb: str, command: Command, cli: Cli, daemon: ScriptedDaemon) -> None:
    """Nothing is asked of the daemon, and the missing flag is named."""
    if not command.needs:
        return
    ran = cli(verb)
    assert (ran.status, daemon.requests) == (2, [])
    assert "is missing" in ran.err or "which node?" in ran.err


@pytest.mark.parametrize(
    ("value", "right", "wrong"),
    [
        (values.NAME, ["a", "a" * 64, "me@host:1/x-2_b.c"], ["", "a" * 65, "a b", "é"]),
        (values.GEN, ["0", "7"], ["-1", "1.5", "1_0", "x", ""]),
        (values.PRIORITY, ["-100", "0", "+100"], ["101", "-101", "ten"]),
        (values.COST, ["0.5", "1e3"], ["0", "-1", "nan", "inf", "1e13", "1_0"]),
        (values.LEASE, ["1", "90s", "15m", "2h", "366d"], ["0", "0s", "367d", "soon", "-1", "1w", "infs", "nan"]),
        (values.SECONDS, ["0", "0s", "1.5m"], ["-1", "s", ""]),
        (values.COUNT, ["1"], ["0", "many"]),
        (values.UNITS, ["gpu", "gpu=2", "file:src/x.py=1"], ["gpu=", "gpu=0", "=1", "gpu=many", "a b=1"]),
        (values.DEPENDENCY, ["1", "7q2f-1:after_any", "1:after_ok"], ["1:sometimes", ":after_ok", ""]),
        (values.ATTEMPTS, ["1", "none", "null"], ["0", "few"]),
        (values.TOKEN, ["t", "x" * 128], ["", "x" * 129]),
        (values.SUMMARY, ["", "x" * 4096], ["x" * 4097, "é" * 2049, "\udce9"]),
    ],
)
def test_value_takes_what_the_daemon_takes(value: values.Value, right: list[str], wrong: list[str]) -> None:
    """The bounds of the wire, each from both sides."""
    for text in right:
        value.convert(text)
    for text in wrong:
        with pytest.raises(ValueError):  # noqa: PT011 - any ValueError is told in the value's own words
            value.convert(text)


def test_actor_may_stand_in_the_environment(cli: Cli, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """CLAIMDAG_ACTOR stands for --actor of every command, and a wrong one is named by the variable (law 9.1)."""
    daemon.answers["claim_next"] = {"id": "7q2f-1", "gen": 2}
    monkeypatch.setenv(ACTOR_VARIABLE, "ann")
    assert cli("next").out == "id=7q2f-1 gen=2\n"
    assert cli("next", "--assignee", "bob").status == 0
    assert [request["actor"] for request in daemon.requests] == ["ann", "bob"]
    monkeypatch.setenv(ACTOR_VARIABLE, "a b")
    assert f"{ACTOR_VARIABLE} a b: it must be a name" in cli("next").err


def test_value_that_only_the_daemon_refuses_is_told_by_its_flag(cli: Cli, daemon: ScriptedDaemon) -> None:
    """A newer daemon may take less than this client knows."""
    daemon.refuse("upsert", "bad_request", "upsert: no", field="deps[0].on", accepted="a node's id")
    ran = cli("upsert", "--summary", "x", "--cost", "3", "--kind", "task", "--dep", "1")
    assert ran.status == 2
    assert "--dep" in ran.err
    faults = [{"field": "cost", "accepted": "at most 2"}, {"field": "kind", "accepted": "step"}]
    daemon.refuse("upsert", "bad_request", "upsert: no", field="cost", accepted="at most 2", faults=faults)
    ran = cli("upsert", "--summary", "x", "--cost", "3", "--kind", "task")
    assert "--cost 3.0: it must be at most 2; --kind task: it must be step" in ran.err


def test_unknown_flag_names_the_nearest(cli: Cli) -> None:
    """A slip of the fingers is not a riddle."""
    ran = cli("next", "--actr", "ann")
    assert (ran.status, "unknown argument: --actr" in ran.err, "--actor" in ran.err) == (2, True, True)
