"""The command line and a real daemon on a real socket: what a person with several agents does in a day."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from claimdag_client._transport.endpoint import Endpoint
from claimdag_client._transport.transport import Connection, connect
from claimdag_client.cli.main import main
from claimdag_client.errors import Refused

from .conftest import Ran

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
Claimdag = Callable[..., Ran]


def example() -> str:
    """The plan in the document."""
    return (ROOT / "docs" / "reference" / "plan.md").read_text().partition("```yaml\n")[2].partition("```")[0]


@pytest.fixture
def claimdag(
    short_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Claimdag]:
    """Run `claimdag` on a fresh directory, in this process; the daemon that it starts is stopped at the end."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(*argv: str, text: str | None = None) -> Ran:
        if text is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        capsys.readouterr()
        status = main(["--dir", str(short_dir), *argv])
        return Ran(status, *capsys.readouterr())

    yield run
    run("--no-start", "stop")


def as_process(short_dir: Path, *argv: str, **options: Any) -> Ran:
    """Run `claimdag` as the process that it is for a shell."""
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "claimdag_client.cli", "--dir", str(short_dir), *argv],
        capture_output=True, text=True, timeout=30, check=False, **options,
    )  # fmt: skip
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def test_the_first_minute_goes_as_the_help_says(claimdag: Claimdag) -> None:
    """Create, wait, claim, complete; bare numbers; every exit status on the way."""
    assert claimdag("--no-start", "ping").status == 69
    assert claimdag("next", "--actor", "alice").status == 4
    first = claimdag("upsert", "--summary", "write the parser", "--cost", "5").out.strip()
    tag, _, number = first.partition("-")
    assert (len(tag), number) == (4, "1")
    second = claimdag("upsert", "--summary", "test it", "--dep", "1").out.strip()
    assert claimdag("claim", "2", "--actor", "bob").status == 1
    assert claimdag("next", "--actor", "alice").out == f"id={first} gen=2\nwrite the parser\n"
    held_up = claimdag("next", "--actor", "bob")
    assert held_up.status == 3
    assert "the next lease runs out in" in held_up.err
    busy = claimdag("next", "--actor", "alice")
    assert (busy.status, f"claimdag complete {first} --gen 2" in busy.err) == (1, True)
    stale = claimdag("complete", "1", "--gen", "1")
    assert (stale.status, stale.err.splitlines()[0]) == (1, "claimdag: complete: gen mismatch")
    assert "generation 2" in stale.err
    assert claimdag("renew", "1", "--gen", "2", "--actor", "alice").out.startswith("gen=2 expires_in=")
    done = claimdag("complete", "1", "--gen", "2", "--actor", "alice", "--next")
    assert done.out == f"{first} done, ready now: {second}\nid={second} gen=2\ntest it\n"
    assert claimdag("complete", "2").status == 0
    assert claimdag("next", "--actor", "alice").status == 4
    assert [node["id"] for node in claimdag("list", "--all", "--json").json] == [second, first]
    assert claimdag("list").out == ""
    assert claimdag("frobnicate").status == 2


def test_every_view_of_a_graph_can_be_shown(claimdag: Claimdag) -> None:
    """With groups, resources, holders and waiting in it."""
    pytest.importorskip("yaml")
    assert claimdag("submit", "-", "--format", "yaml", text=example()).out.count("\n") == 5
    assert claimdag("capacity", "browser").status == 2
    assert claimdag("upsert", "--need", "browser=2", "--summary", "watch").status == 0
    assert claimdag("claim", "6", "--actor", "bob").out == "gen=2\n"
    for verb in ("status", "list", "ready", "tree", "graph", "resources", "stats", "log", "hello", "get 4", "why 4",
                 "why 6", "graph --format dot", "graph 2 --format mermaid", "tree 2", "log 6", "checkpoint",
                 "status --json", "list --offline"):  # fmt: skip
        ran = claimdag(*verb.split())
        assert ran.status == 0, (verb, ran.err)
        assert ran.out, verb
    assert "watch" in claimdag("status").out
    unknown = claimdag("submit", "-", text='[{"after": "nobody", "ref": "a"}, {"parent": "none"}]')
    assert unknown.status == 1
    assert "nodes[0]" in unknown.err
    assert "nodes[1]" in unknown.err


@pytest.mark.usefixtures("claimdag")
def test_five_at_once_start_one_daemon(short_dir: Path) -> None:
    """All five are answered, by the same process (law 9.2)."""
    with ThreadPoolExecutor(5) as pool:
        ran = list(pool.map(lambda _: as_process(short_dir, "hello", "--json"), range(5)))
    assert [one.status for one in ran] == [0] * 5
    assert len({one.json[0]["pid"] for one in ran}) == 1


@pytest.mark.usefixtures("claimdag")
def test_the_daemon_keeps_nothing_of_its_starters(short_dir: Path, tmp_path: Path) -> None:
    """Not a pipe that the shell had open, not the directory, and no module that lies about in it."""
    (tmp_path / "claimdagd.py").write_text("raise SystemExit('not this one')")
    (tmp_path / "json.py").write_text("raise SystemExit('nor this one')")
    reading, writing = os.pipe()
    ran = as_process(short_dir, "hello", "--json", cwd=tmp_path, pass_fds=[writing])
    os.close(writing)
    assert ran.status == 0, ran.err
    assert os.read(reading, 1) == b""
    os.close(reading)
    pid = ran.json[0]["pid"]
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert os.getsid(pid) != os.getsid(0)


def test_a_daemon_that_cannot_start_is_said_with_its_reason(claimdag: Claimdag, short_dir: Path) -> None:
    """Damaged state is not an empty graph, and not a long wait."""
    (short_dir / "journal.jsonl").write_text("this is no journal\nnot at all\n")
    ran = claimdag("list")
    assert ran.status == 69
    assert "journal.jsonl" in ran.err
    assert "--salvage" in ran.err
    assert claimdag("list", "--offline").status == 1


def test_a_client_of_another_protocol_is_told_and_can_still_stop_the_daemon(
    claimdag: Claimdag, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both versions and the remedy, and the remedy works."""
    claimdag("ping")
    monkeypatch.setattr("claimdag_client._protocol.handshake.PROTOCOL", 2)
    ran = claimdag("list")
    assert ran.status == 1
    assert "speaks protocol 1, this client protocol 2" in ran.err
    assert "claimdag shutdown" in ran.err
    assert claimdag("shutdown").status == 0
    monkeypatch.undo()


def test_4000_nodes_in_one_line_are_taken(claimdag: Claimdag) -> None:
    """A chain of goals and tasks as long as the daemon keeps."""
    nodes = [{"ref": str(n), "summary": f"thing {n}", "after": [str(n - 1)] if n else []} for n in range(4000)]
    ran = claimdag("submit", "-", text=json.dumps(nodes))
    assert (ran.status, ran.out.count("\n")) == (0, 4000), ran.err
    assert len(claimdag("ready", "--json").json) == 1


def test_a_killed_daemon_is_followed_by_another_with_the_same_state(claimdag: Claimdag, short_dir: Path) -> None:
    """The next command starts it; before that the state can be read without one, and reading changes nothing."""
    created = claimdag("upsert", "--summary", "it stays", "--json").json[0]
    os.kill(claimdag("hello", "--json").json[0]["pid"], signal.SIGKILL)
    before = {path.name: path.read_bytes() for path in short_dir.iterdir() if path.is_file()}
    ran = claimdag("list", "--offline", "--json")
    assert [node["id"] for node in ran.json] == [created["id"]]
    assert "last written" in ran.err
    assert {path.name: path.read_bytes() for path in short_dir.iterdir() if path.is_file()} == before
    assert claimdag("list", "--json").json[0]["summary"] == "it stays"


def test_offline_selects_as_the_daemon_does(claimdag: Claimdag) -> None:
    """The same views in the same order for every selection; only the times of a lease are unknown."""
    for line in ("--kind goal", "--parent 1", "--parent 1 --dep 2", "--summary x", "--status blocked"):
        claimdag("upsert", *line.split())
    claimdag("complete", "4")
    claimdag("complete", "2")
    claimdag("archive", "4")
    claimdag("claim", "3", "--actor", "bob")
    for line in ("", "--terminal", "--archived", "--all", "--status done", "--status done --all", "--status claimed",
                 "--under 1", "--under 1 --all", "--assignee bob", "--kind goal", "--limit 2"):  # fmt: skip
        times = {"quiet": None, "expires_in": None}
        there = [node | times for node in claimdag("list", *line.split(), "--json").json]
        assert claimdag("list", *line.split(), "--offline", "--json").json == there, line
        assert there, line
    unknown = claimdag("list", "--offline", "--under", "99")
    assert (unknown.status, "there is no node" in unknown.err) == (1, True)


class _Worker:
    """An agent: completes its node and takes the next, until nothing is left."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.name = name
        self.taken: list[str] = []

    def __call__(self) -> None:
        with connect(Endpoint(directory=str(self.directory), start=False)) as connection:
            claim = self._next(connection)
            while claim is not None:
                self.taken.append(claim["id"])
                done = connection.request(
                    "complete", id=claim["id"], gen=claim["gen"], actor=self.name, next={"wait": 0.2}
                )
                claim = done["next"] or self._next(connection)

    def _next(self, connection: Connection) -> dict[str, Any] | None:
        while True:
            try:
                return connection.request("claim_next", actor=self.name, wait=1.0)
            except Refused as exc:
                if exc.code == "nothing_pending":
                    return None


@pytest.mark.parametrize(("name", "nodes"), [("small", 130), ("medium", 882), ("large", 692)])
def test_a_real_export_is_worked_off_by_four_at_once(
    name: str, nodes: int, claimdag: Claimdag, short_dir: Path, shared_data: Path
) -> None:
    """Each issue is taken once, after all that it waits on; all groups end with their children."""
    path = shared_data / "beads" / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"no {path}")
    imported = claimdag("import", "beads", str(path), "--all", "--skip-bad", "--json")
    assert imported.status == 0, imported.err
    assert len(imported.json) == nodes
    listed = {node["id"]: node for node in claimdag("list", "--json").json}
    parents = {node["parent"] for node in listed.values()}
    # A person lets go what is held back, and ends what has nothing open under it.
    for node_id in listed:
        if listed[node_id]["status"] == "blocked":
            assert claimdag("upsert", "--id", node_id, "--status", "todo").status == 0
        if listed[node_id]["kind"] != "task" and node_id not in parents:
            assert claimdag("complete", node_id).status == 0
    before = {node["id"]: node for node in claimdag("list", "--all", "--json").json}
    workers = [_Worker(short_dir, f"agent-{n}") for n in range(4)]
    threads = [threading.Thread(target=worker) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    taken = [node_id for worker in workers for node_id in worker.taken]
    assert sorted(taken) == sorted(n for n, node in before.items() if node["kind"] == "task")
    assert all(worker.taken for worker in workers)
    after = {node["id"]: node for node in claimdag("list", "--all", "--json").json}
    assert {node["status"] for node in after.values()} == {"done"}
    for node_id, node in before.items():
        for dep in node["deps"] if node["kind"] == "task" else ():
            assert after[dep["on"]]["finished_at"] <= after[node_id]["started_at"]
    ended: set[str] = set()
    for entry in claimdag("log", "--json").json:
        ended |= {node["id"] for node in entry["nodes"] if node["status"] == "done"}
        for node in entry["nodes"]:
            if node["status"] == "claimed":
                assert {dep["on"] for dep in before[node["id"]]["deps"]} <= ended


def test_a_plain_text_client_is_served_too(claimdag: Claimdag, short_dir: Path) -> None:
    """What the command line wrote, a line of JSON on the socket reads."""
    created = claimdag("upsert", "--summary", "é \x1b[31m", "--json").json[0]
    assert created["summary"] == "é \x1b[31m"
    with connect(Endpoint(directory=str(short_dir), start=False)) as connection:
        connection.send_line(json.dumps({"op": "get", "id": created["id"], "rid": "r"}).encode() + b"\n")
        answer = connection.receive()
    assert (answer["rid"], answer["ok"]["summary"]) == ("r", "é \x1b[31m")
    shown = claimdag("get", "1").out
    assert "é \\x1b[31m" in shown
