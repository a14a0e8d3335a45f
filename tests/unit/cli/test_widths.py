"""Whatever a verb shows on a terminal fits its width, in wide characters too."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest

from claimdag_client.cli.main import main
from claimdag_client.cli.render.text import fit, fold, width
from tests.support.scripted_daemon import ScriptedDaemon, view

WIDE = "解析器を書く、そして長い長い説明をそれに付ける" * 3
LONG = "write the parser and all that it needs, with " + "averyveryverylongwordthatnobreakcanhelp" * 4
_PAINT = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """Standard output that says it is one."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def nodes() -> list[dict[str, Any]]:
    """Nodes with everything that can be long."""
    deps = [{"on": f"7q2f-{n}", "when": "after_any"} for n in range(2, 8)]
    lack = [{"resource": "r" * 64, "units": 2, "free": 1, "lender": None}]
    return [
        view(9, summary=WIDE, kind="goal", parent=None),
        view(8, summary=LONG, role="architect", priority=7, parent="7q2f-9", deps=deps, status="todo",
             waiting_on={"deps": deps, "resources": lack}),
        *(view(n, summary=WIDE if n % 2 else LONG, assignee="a" * 64, status="running", quiet=1.0, expires_in=9000.0,
               error=WIDE, started_at=1.0, runnable=False) for n in range(7, 1, -1)),
        view(1, summary="", status="failed", error=f"exit status 2: {LONG}", started_at=1.0, finished_at=99.0),
    ]  # fmt: skip


@pytest.fixture
def full(daemon: ScriptedDaemon) -> ScriptedDaemon:
    """A daemon with much to say."""
    entry = {"seq": 12, "at": 1e9, "op": "complete", "actor": "b" * 64, "nodes": nodes(), "flips": {
        "cancelled": [f"7q2f-{n}" for n in range(40)]}, "capacity": {"r" * 64: 3}, "gone": ["7q2f-1"] * 9}  # fmt: skip
    resource = {"name": "r" * 64, "used": 2, "capacity": 2, "waiting": [f"7q2f-{n}" for n in range(30)],
                "holders": [{"id": f"7q2f-{n}", "units": 1} for n in range(30)]}  # fmt: skip
    reasons = [{"kind": "dep", "text": LONG}, {"kind": "dep", "text": WIDE}]
    daemon.answers |= {
        "list": {"nodes": nodes()},
        "ready": {"nodes": nodes()},
        "get": lambda asked: {**nodes()[1], "id": asked["id"]},
        "why": lambda asked: {"id": asked["id"], "status": "todo", "reasons": reasons, "text": LONG},
        "log": {"entries": [entry, {**entry, "nodes": entry["nodes"][:1], "flips": {}}]},
        "resources": {"resources": [resource]},
        "stats": {"version": "1", "uptime": 5.0, "statuses": {"todo": 1, "failed": 3}, "deadlocks": [{"text": LONG}],
                  "paused": ["7q2f-1"] * 8, "trouble": LONG},
    }  # fmt: skip
    return daemon


LISTS = (
    "list", "list --all --since 2h", "list --columns id,summary,error,status,assignee", "ready", "tree", "graph",
    "log", "resources", "status", "stats", "get 8", "why 8", "graphs",
)  # fmt: skip


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("line", LISTS)
@pytest.mark.parametrize("colour", [True, False])
def test_no_line_is_wider_than_the_terminal(
    colour: bool, line: str, columns: int, full: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every width, with colours and without; and nothing that was there to say is an empty screen."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "" if colour else "1")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["--dir", str(full.path.parent), "--no-start", *line.split()]) == 0
    shown = terminal.getvalue()
    lines = [_PAINT.sub("", each) for each in shown.split("\n")]
    assert [each for each in lines if width(each) > columns] == []
    assert ("\x1b" in shown) <= colour
    assert line.endswith("2h") or any(width(each) > columns / 4 for each in lines)


def test_lines_of_a_pipe_are_whole(full: ScriptedDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    """A program takes lines of any length."""
    assert main(["--dir", str(full.path.parent), "--no-start", "list"]) == 0
    assert capsys.readouterr().out.count(WIDE) >= 3


@pytest.mark.parametrize(
    ("line", "columns", "expected"),
    [
        ("\x1b[1mabcdef\x1b[0m", 6, "\x1b[1mabcdef\x1b[0m"),
        ("\x1b[1mabcdef\x1b[0m", 4, "\x1b[1mabc…\x1b[0m"),
        ("ab\x1b[31mcd\x1b[0mef", 5, "ab\x1b[31mcd\x1b[0m…\x1b[0m"),
        ("\x1b[1m漢字漢字\x1b[0m", 5, "\x1b[1m漢字…\x1b[0m"),
        ("abcdef", None, "abcdef"),
    ],
)
def test_fit_counts_what_is_seen(line: str, columns: int | None, expected: str) -> None:
    """A colour is kept, and takes no room."""
    assert fit(line, columns) == expected


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("abcdefgh ij", 3, ["abc", "def", "gh", "ij"]),
        ("漢字漢字 ab", 5, ["漢字", "漢字", "ab"]),
        ("one two", None, ["one two"]),
        ("", 3, [""]),
    ],
)
def test_fold_loses_nothing(text: str, columns: int | None, expected: list[str]) -> None:
    """Words stay whole if they fit."""
    assert fold(text, columns) == expected
