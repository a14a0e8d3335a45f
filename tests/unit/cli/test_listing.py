"""The command list: what is shown of which nodes, in which order and form."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.scripted_daemon import ScriptedDaemon, view

from .conftest import Ran

Cli = Callable[..., Ran]


@pytest.fixture(autouse=True)
def nodes(daemon: ScriptedDaemon) -> None:
    """Three nodes, newest first as the daemon gives them."""
    daemon.answers["list"] = {
        "nodes": [
            view(12, summary="write the PARSER", priority=5, cost=2.5, depth=1.0),
            view(3, summary="straße", priority=-1, assignee="ann", status="claimed", quiet=61.0, depth=7.0),
            view(1, summary="a\x1bb", priority=0, assignee="parser-bot", status="running", depth=3.0),
        ]
    }


def ids(cli: Cli, *flags: str) -> list[str]:
    ran = cli("list", *flags, "-q")
    assert (ran.status, ran.err) == (0, "")
    return [line.removeprefix("7q2f-") for line in ran.out.splitlines()]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", ["12", "3", "1"]),
        ("--sort id", ["1", "3", "12"]),
        ("--sort priority", ["12", "1", "3"]),
        ("--sort depth --limit 2", ["3", "1"]),
        ("--sort assignee", ["3", "1", "12"]),
        ("--sort quiet", ["3", "12", "1"]),
        ("--sort status", ["3", "12", "1"]),
        ("--match parser", ["12", "1"]),
        ("--match STRASSE", ["3"]),
        ("--match 7q2f-12", ["12"]),
        ("--match nothing", []),
    ],
)
def test_selection_and_order(flags: str, expected: list[str], cli: Cli) -> None:
    """Numbers from the largest, words from the first, what is absent last; text matches in any case."""
    assert ids(cli, *flags.split()) == expected


def test_forms_hold_the_same_nodes(cli: Cli) -> None:
    """An array, a node a line, or ids; -o table is what is shown without it."""
    array = json.loads(cli("list", "-o", "json").out)
    assert [node["id"] for node in array] == ["7q2f-12", "7q2f-3", "7q2f-1"]
    assert cli("list", "-o", "jsonl").json == array
    assert cli("list", "--json").json == array
    assert cli("list", "-o", "ids").out == "7q2f-12\n7q2f-3\n7q2f-1\n"
    assert cli("list", "-o", "table").out == cli("list").out


def test_columns_are_a_table_of_fields(cli: Cli) -> None:
    """Under their names; what is absent is a dash, and no escape of a summary reaches the terminal."""
    assert cli("list", "--columns", "id,priority,cost,quiet,summary").out.splitlines() == [
        "ID       PRIORITY  COST  QUIET      SUMMARY",
        "7q2f-12  5         2.5   -          write the PARSER",
        "7q2f-3   -1        1     1 min 1 s  straße",
        "7q2f-1   0         1     -          a\\x1bb",
    ]


def test_unknown_column_is_a_wrong_use(cli: Cli) -> None:
    """With all names that there are."""
    ran = cli("list", "--columns", "id,colour")
    assert (ran.status, "--columns id,colour: it must be some of id, status" in ran.err) == (2, True)
