"""What get and why show of a command's output: its end, as text that acts on nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from claimdag_client import outputs
from tests.support.scripted_daemon import ScriptedDaemon, view

from .conftest import Ran

Cli = Callable[..., Ran]


def keep(directory: Path, id: str, attempt: int, content: bytes) -> None:
    """Keep an output."""
    outputs.make_output_directory(str(directory))
    (directory / outputs.file_name(id, attempt)).write_bytes(content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"one\ntwo\n\n  \nthree", ["two", "three"]),
        (b"\x1b[31mred\x1b[0m\n\x1b]0;title\x07\x1b[2Kdone\n", ["red", "done"]),
        (b" 10%\r 50%\r100%\r\nend\r\n", ["100%", "end"]),
        (b"caf\xff\xfe\n\x00bin\n", ["caf\ufffd\ufffd", "\x00bin"]),
        (b"x" * 40_000 + b"\nlast\n", ["last"]),
        (b"y" * 40_000, ["y" * outputs.LAST_BYTES]),
    ],
)
def test_last_lines_are_those_that_say_something(content: bytes, expected: list[str], tmp_path: Path) -> None:
    """Of the last attempt, however long the file."""
    keep(tmp_path / "output", "7q2f-1", 1, b"an earlier attempt\n")
    keep(tmp_path / "output", "7q2f-1", 12, content)
    assert outputs.last_lines(str(tmp_path / "output"), "7q2f-1", 2) == (12, expected)
    assert outputs.last_lines(str(tmp_path / "output"), "7q2f-2", 2) == (0, [])
    assert outputs.last_lines(str(tmp_path / "none"), "7q2f-1", 2) == (0, [])


@pytest.mark.parametrize("verb", ["get", "why"])
def test_get_and_why_end_with_what_the_command_said(
    verb: str, cli: Cli, daemon: ScriptedDaemon, short_dir: Path
) -> None:
    """Below the node; a program gets the answer alone."""
    daemon.answers["get"] = view(1)
    daemon.answers["why"] = {"id": "7q2f-1", "status": "failed", "reasons": [], "text": "7q2f-1 is failed: it failed"}
    without = cli(verb, "1").out
    keep(short_dir / "output", "7q2f-1", 2, b"".join(b"line %d\x1b[2J\x07\n" % n for n in range(9)))
    shown = [f"    line {n}\\x07" for n in range(4, 9)]
    head = "  output    of attempt 2, its end (claimdag output 7q2f-1)"
    assert cli(verb, "1").out == "\n".join([without + head, *shown]) + "\n"
    assert cli(verb, "1", "--json").json == [daemon.answers[verb]]
