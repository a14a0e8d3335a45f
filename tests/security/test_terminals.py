"""Text of other people's never acts on a terminal: every verb that shows any, on a real pty, with hostile summaries."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, running

ROOT = Path(__file__).parent.parent.parent
#: Clear, title, colours, cursor, bell, clipboard, hyperlink, C1 forms of the same, an answer-back, direction overrides.
HOSTILE = (
    "\x1b[2J\x1b[H", "\x1b]0;owned\x07", "\x1b[31mred", "\x1b[10A", "\x07", "\x1b]52;c;b3duZWQ=\x07",
    "\x1b]8;;http://x\x1b\\y", "\x9b2J", "\x9d0;owned\x9c", "\x1bPq\x1b\\", "\x1b[6n", "\x1bc",
    "\u202eevil\u202c", "\u2066\u2069", "\x7f\x08\x08", "\r overwritten", "line\nbreak", "\x00", "\x85", "\u2028",
)  # fmt: skip
EVIL = "".join(HOSTILE)
#: What colour is made of, and nothing else that begins with an escape.
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")


@pytest.fixture(scope="module")
def served() -> Iterator[Daemon]:
    """A daemon whose every open text is hostile."""
    with tempfile.TemporaryDirectory(prefix="cd-", dir="/tmp") as name, running(Path(name) / "claimdag") as daemon:
        with daemon.client() as client:
            client.ask("upsert", kind="goal", summary=EVIL)
            goal = client.ask("list")["nodes"][0]["id"]
            first = client.ask("upsert", parent=goal, summary=EVIL, needs={"gpu": 1})["id"]
            client.ask("upsert", parent=goal, summary=EVIL, deps=[{"on": first}])
            failed = client.ask("upsert", summary=EVIL)["id"]
            client.ask("complete", id=failed, status="failed", error=EVIL[:200], summary=EVIL)
            client.ask("upsert", summary=EVIL, deps=[{"on": failed, "when": "after_any"}])
            client.ask("claim", id=first, actor="alice")
        yield daemon


VERBS = [
    ["status"], ["list"], ["list", "--all"], ["get", "1"], ["get", "4"], ["why", "2"], ["why", "3"], ["tree"],
    ["graph"], ["graph", "--format", "dot"], ["graph", "--format", "mermaid"], ["log"], ["ready"], ["resources"],
    ["hello"], ["stats"], ["list", "--json"], ["get", "1", "--json"], ["log", "--json"],
    # What is refused, with their own text in it.
    ["get", EVIL.replace("\0", "")], ["claim", "2", "--actor", "bob"], ["upsert", "--kind", EVIL.replace("\0", "")],
    ["next", "--actor", EVIL.replace("\0", "")], ["cancel", "4"], [EVIL.replace("\0", "")],
]  # fmt: skip


IDS = [f"{n}-{verb[0] if verb[0].isalpha() else 'unknown'}" for n, verb in enumerate(VERBS)]


@pytest.mark.parametrize("verb", VERBS, ids=IDS)
@pytest.mark.parametrize("colour", [True, False], ids=["colour", "no-colour"])
def test_verb_shows_hostile_text_harmlessly_on_a_terminal(served: Daemon, verb: list[str], colour: bool) -> None:
    """On a terminal nothing gets through but colours of the client's own; without colour not even those."""
    shown = on_terminal(["--dir", str(served.directory), "--no-start", *verb], colour=colour)
    assert shown.strip()
    left = COLOUR.sub("", shown) if colour else shown
    acting = ACTS.findall(left.replace("\r\n", "\n"))
    assert not acting, (acting[:5], left[:500])
    assert "\x1b[31mred" not in shown


@pytest.mark.parametrize("verb", [["list", "--json"], ["get", "1", "--json"], ["log", "--json"]])
def test_json_for_programs_keeps_the_text(served: Daemon, verb: list[str]) -> None:
    """A program gets the very text, escaped: nothing was taken away, nothing acts."""
    command = [sys.executable, "-m", "claimdag_client.cli", "--dir", str(served.directory), "--no-start", *verb]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=30).stdout
    assert out.isascii()
    assert not ACTS.findall(out.replace("\n", ""))
    assert any(EVIL in _texts(json.loads(line)) for line in out.splitlines())


def test_log_of_the_daemon_shows_nothing_that_acts(short_dir: Path) -> None:
    """Its log is read on terminals too: nothing that a peer says reaches it raw."""
    with running(short_dir / "claimdag", "--log-level", "debug") as daemon, daemon.client() as client:
        client.try_to("hello", client=EVIL, protocol=99)
        client.try_to(EVIL)
        client.try_to("get", id=EVIL)
        client.try_to("upsert", summary=EVIL, error=EVIL)
        client.sock.sendall(EVIL.replace("\n", "").encode() + b"\n")
        client.answer()
        daemon.terminate()
    assert not ACTS.findall(daemon.stderr.replace("\n", "").replace("\r", ""))


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    return [value] if isinstance(value, str) else []


def on_terminal(argv: list[str], *, colour: bool, within: float = 30.0) -> str:
    """What `claimdag` writes to a terminal of its own."""
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40", "LC_ALL": "C.UTF-8"}
    environ.pop("NO_COLOR", None)
    if not colour:
        environ["NO_COLOR"] = "1"
    parent, child = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "claimdag_client.cli", *argv],
            stdin=child, stdout=child, stderr=child, cwd=ROOT, env=environ, start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(child)
    shown = bytearray()
    give_up_at = time.monotonic() + within
    try:
        while time.monotonic() < give_up_at:
            try:
                data = os.read(parent, 65536)
            except OSError as exc:
                if exc.errno != errno.EIO:
                    raise
                break
            if not data:
                break
            shown += data
    finally:
        os.close(parent)
        if process.poll() is None:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    return shown.decode()
