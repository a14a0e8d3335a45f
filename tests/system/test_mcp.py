"""`claimdag mcp` as a host starts it: over real stdio, by the SDK's own client and by bare lines, on a real daemon."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.daemon import Client, Daemon, running, until

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed: pip install 'claimdagd[mcp]'")
from mcp.client.stdio import stdio_client  # noqa: E402

pytestmark = pytest.mark.slow


def command(daemon: Daemon, *more: str) -> list[str]:
    return [sys.executable, "-m", "claimdag_client.cli", "--socket", str(daemon.path), "--no-start", "mcp", *more]


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir, "--grace", "0.3") as one:
        yield one


@asynccontextmanager
async def host(daemon: Daemon, *more: str) -> AsyncIterator[Any]:
    """An initialized session of the SDK's client with a server of its own."""
    first, *rest = command(daemon, *more)
    parameters = mcp.StdioServerParameters(command=first, args=rest, cwd=str(Path(__file__).parents[2]))
    async with stdio_client(parameters) as (incoming, outgoing), mcp.ClientSession(incoming, outgoing) as session:
        session.greeting = await session.initialize()
        yield session


async def ask(session: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured result of a tool that is not an error."""
    result = await session.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return dict(result.structured_content)


class Lines:
    """A host in any language: JSON-RPC, one object a line, over the pipes of a process."""

    def __init__(self, argv: list[str]) -> None:
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2]
        )
        self.number = 0

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, **params: Any) -> int:
        self.number += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}).encode())
        return self.number

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request; every line on stdout is of the protocol."""
        assert self.process.stdout is not None
        while True:
            message = json.loads(self.process.stdout.readline())
            assert message["jsonrpc"] == "2.0"
            if message.get("id") == number and "method" not in message:
                return dict(message)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return dict(self.answer(self.request("tools/call", name=tool, arguments=arguments))["result"])

    def greet(self, version: str = "2025-06-18") -> dict[str, Any]:
        info = {"name": "other host", "version": "1"}
        number = self.request("initialize", protocolVersion=version, capabilities={}, clientInfo=info)
        result = dict(self.answer(number)["result"])
        self.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        return result

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self.process.wait()


@pytest.mark.anyio
async def test_plan_is_worked_off_from_the_first_tool_to_the_last(daemon: Daemon) -> None:
    """An agent plans, takes, ends with the next, and is told in words and in types."""
    async with host(daemon, "--actor", "ann") as session:
        assert "You are worker ann" in session.greeting.instructions
        nodes = [
            {"ref": "goal", "kind": "goal", "summary": "the release"},
            {"ref": "parse", "parent": "goal", "summary": "write the parser"},
            {"parent": "goal", "deps": ["parse"], "summary": "test it"},
        ]
        ids = (await ask(session, "plan", nodes=nodes))["ids"]
        first = (await ask(session, "next"))["claim"]
        assert (first["id"], first["summary"]) == (ids[1], "write the parser")
        ended = await ask(session, "complete", id=ids[1], gen=first["gen"], next=True)
        assert ended["ready"] == [ids[2]]
        assert ended["claim"]["deps"] == [{"id": ids[1], "status": "done", "summary": "write the parser"}]
        last = await session.call_tool("complete", {"id": ids[2], "gen": ended["claim"]["gen"], "next": True})
        assert last.structured_content["nothing"] == "nothing_pending"
        assert "all work is finished" in last.content[0].text
        assert (await ask(session, "status"))["counts"] == {"done": 3}


@pytest.mark.anyio
async def test_three_agents_with_one_killed_end_every_node_once(daemon: Daemon, anyio_backend: str) -> None:
    """A server that is killed by -9 gives its node back within the grace, and nobody does a node twice."""
    boss = daemon.client()
    ids = boss.ask("submit", nodes=[{"summary": f"n{n}"} for n in range(12)])["ids"]
    ended: list[str] = []

    async def agent() -> None:
        async with host(daemon) as session:
            while (got := await ask(session, "next", wait=1)).get("claim"):
                claim = got["claim"]
                done = await ask(session, "complete", id=claim["id"], gen=claim["gen"])
                ended.append(done["node"]["id"])

    with Lines(command(daemon, "--actor", "killed")) as doomed:
        doomed.greet()
        lost = doomed.call("next")["structuredContent"]["claim"]
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(agent)
            doomed.process.kill()
    assert sorted(ended) == sorted(ids)
    assert boss.ask("get", id=lost["id"])["attempts"] == 2


def test_claim_survives_a_restart_of_the_daemon(short_dir: Path) -> None:
    """The server rebinds its claim at the daemon that comes back, and goes on under the same generation."""
    with running(short_dir) as first:
        first.client().ask("upsert", summary="long work")
        with Lines(command(first, "--actor", "ann")) as lines:
            lines.greet()
            claim = lines.call("next")["structuredContent"]["claim"]
            first.kill()
            with running(short_dir):
                assert lines.call("status")["structuredContent"]["mine"]["gen"] == claim["gen"]
                ended = lines.call("complete", id=claim["id"], gen=claim["gen"])
                assert ended["structuredContent"]["node"]["status"] == "done"


def test_wait_cut_off_by_the_host_hands_nothing_out(daemon: Daemon) -> None:
    """What a `next` that its host cancelled is granted later goes back at once, and the next call gets it.

    Law 13.2.
    """
    with Lines(command(daemon, "--actor", "ann")) as lines:
        lines.greet()
        boss = daemon.client()
        number = lines.request("tools/call", name="next", arguments={"wait": 45})
        boss.ask("upsert", summary="blocked", status="blocked")
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        held = {"jsonrpc": "2.0", "id": "x", "method": "ping"}
        lines.send(json.dumps(cancelled).encode())
        lines.send(json.dumps(held).encode())
        assert lines.process.stdout is not None
        while json.loads(lines.process.stdout.readline()).get("id") != "x":
            pass
        made = boss.ask("upsert", summary="after the cut")["id"]
        until(lambda: boss.ask("get", id=made)["assignee"] is None, "the node's return")
        assert lines.call("status")["structuredContent"].get("mine") is None
        assert lines.call("next")["structuredContent"]["claim"]["id"] == made


def test_lost_claim_is_told_in_the_next_result_of_any_tool(daemon: Daemon) -> None:
    """A person cancels the node: whatever the agent calls next says so first, and only once (law 13.3)."""
    boss = daemon.client()
    id = boss.ask("upsert", summary="no longer wanted")["id"]
    with Lines(command(daemon, "--actor", "ann")) as lines:
        lines.greet()
        claim = lines.call("next")["structuredContent"]["claim"]
        boss.ask("cancel", id=id)
        told: list[dict[str, Any]] = []

        def heard() -> bool:
            told.append(lines.call("list"))
            return "lost" in told[-1]["structuredContent"]

        until(heard, "the loss")
        assert told[-1]["content"][0]["text"].startswith(f"LOST: {claim['id']} at generation {claim['gen']}")
        assert "lost" not in lines.call("list")["structuredContent"]


def test_two_servers_with_one_actor_hold_one_node_between_them(daemon: Daemon) -> None:
    """The second is refused with what the first holds, as a result with the next step."""
    daemon.client().ask("submit", nodes=[{"summary": "a"}, {"summary": "b"}])
    with Lines(command(daemon, "--actor", "twin")) as one, Lines(command(daemon, "--actor", "twin")) as other:
        one.greet()
        other.greet()
        held = one.call("next")["structuredContent"]["claim"]
        refused = other.call("next")
        assert not refused["isError"]
        assert refused["structuredContent"]["refused"]["code"] == "assignee_busy"
        assert held["id"] in refused["content"][0]["text"]
        assert "release" in refused["structuredContent"]["refused"]["next_step"]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "1999-01-01"])
def test_protocol_version_is_negotiated(daemon: Daemon, version: str) -> None:
    """A known version is taken up; for an unknown one the server offers its own."""
    with Lines(command(daemon)) as lines:
        offered = lines.greet(version)["protocolVersion"]
        assert offered == version or (version == "1999-01-01" and offered > "2025")


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("next", {"wait": 99}, "wait"),
        ("next", {"role": "king"}, "role"),
        ("complete", {"id": "x-1"}, "gen"),
        ("complete", {"id": "x-1", "gen": "two"}, "gen"),
        ("add", {"sumary": "x"}, "sumary"),
        ("plan", {"nodes": [{"summary": "a"}, {"summary": "b", "cost": -1}]}, "nodes[1].cost"),
        ("list", {"limit": 0}, "limit"),
        ("nosuch", {}, "nosuch"),
    ],
)
def test_wrong_argument_is_an_error_that_names_it(
    daemon: Daemon, tool: str, arguments: dict[str, Any], named: str
) -> None:
    """The field is named, nothing is done, and the server goes on."""
    with Lines(command(daemon)) as lines:
        lines.greet()
        wrong = lines.call(tool, **arguments)
        assert wrong["isError"]
        assert named in wrong["content"][0]["text"]
        assert daemon.client().ask("list", all=True)["nodes"] == []
        assert not lines.call("status")["isError"]


def test_malformed_and_huge_input_costs_one_answer(daemon: Daemon) -> None:
    """Lines that are no JSON-RPC and a summary of 5 MB: the server says no and serves the next request."""
    with Lines(command(daemon)) as lines:
        lines.greet()
        for line in (b"not json", b"[]", b'{"jsonrpc": "2.0"}', b"\xff\xfe", b"[" * 5000):
            lines.send(line)
        refused = lines.call("add", summary="x" * 5_000_000)
        assert refused["isError"] or refused["structuredContent"]["refused"]["code"] in ("bad_request", "too_large")
        assert lines.call("status")["structuredContent"]["graph"]


def test_host_that_never_reads_loses_only_its_own_claim_when_it_goes(daemon: Daemon) -> None:
    """Its answers pile up in its own pipe; the daemon serves others, and the claim comes back at the end."""
    boss = daemon.client()
    id = boss.ask("upsert", summary="held by a deaf host")["id"]
    with Lines(command(daemon, "--actor", "deaf")) as lines:
        lines.greet()
        lines.call("next")
        for _ in range(400):
            lines.request("tools/call", name="list", arguments={"all": True})
        assert boss.ask("ping")["now"] > 0
        assert boss.ask("get", id=id)["assignee"] == "deaf"
    until(lambda: boss.ask("get", id=id)["assignee"] is None, "the claim's return")


def test_closed_stdin_ends_the_server_and_hands_its_claim_back(daemon: Daemon) -> None:
    """A host that leaves in order gives the node back at once, without the grace (law 13.1)."""
    boss = daemon.client()
    id = boss.ask("upsert", summary="left behind")["id"]
    with Lines(command(daemon)) as lines:
        lines.greet()
        lines.call("next")
        assert lines.process.stdin is not None
        lines.process.stdin.close()
        assert lines.process.wait(15) == 0
    assert boss.ask("get", id=id)["assignee"] is None
    assert boss.ask("get", id=id)["status"] == "ready"


def test_unreachable_daemon_is_told_as_a_result(short_dir: Path) -> None:
    """The server greets its host at once; a tool says what is wrong and what to do."""
    absent = Daemon.__new__(Daemon)
    absent.path = short_dir / "sock"
    with Lines(command(absent)) as lines:
        lines.greet()
        refused = lines.call("status")["structuredContent"]["refused"]
        assert refused["code"] == "unreachable"
        assert "person" in refused["next_step"]


def test_resources_and_the_prompt_are_there(daemon: Daemon) -> None:
    """claimdag://status, claimdag://node/{id} and the prompt work."""
    id = daemon.client().ask("upsert", summary="look at me")["id"]
    with Lines(command(daemon, "--actor", "ann")) as lines:
        lines.greet()
        (status,) = lines.answer(lines.request("resources/list"))["result"]["resources"]
        assert status["uri"] == "claimdag://status"
        read = lines.answer(lines.request("resources/read", uri=f"claimdag://node/{id}"))["result"]["contents"][0]
        assert json.loads(read["text"])["node"]["summary"] == "look at me"
        prompt = lines.answer(lines.request("prompts/get", name="work", arguments={"role": "verifier"}))["result"]
        assert "verifier" in prompt["messages"][0]["content"]["text"]


def test_actor_is_the_hosts_name_and_four_characters(daemon: Daemon) -> None:
    """Without --actor the worker is named after its host, and told so in the instructions (law 13.1)."""
    daemon.client().ask("upsert", summary="whose")
    with Lines(command(daemon)) as lines:
        told = lines.greet()["instructions"]
        lines.call("next")
        (held,) = [n for n in daemon.client().ask("list")["nodes"] if n["assignee"]]
        name, _, suffix = held["assignee"].rpartition("-")
        assert (name, len(suffix)) == ("other-host", 4)
        assert f"You are worker {held['assignee']}" in told


def test_signal_ends_the_server_and_the_claim_comes_back(daemon: Daemon) -> None:
    """A host that stops its server by SIGTERM leaves nothing held."""
    boss = daemon.client()
    id = boss.ask("upsert", summary="stopped")["id"]
    with Lines(command(daemon)) as lines:
        lines.greet()
        lines.call("next")
        os.kill(lines.process.pid, signal.SIGTERM)
        lines.process.wait(15)
        with Client(daemon.path) as other:
            until(lambda: other.ask("get", id=id)["assignee"] is None, "the claim's return")


def test_two_agents_never_hold_two_nodes_that_need_one_file(daemon: Daemon) -> None:
    """A second node for the file is added while the first one runs: it waits, other work does not."""
    file = {"file:src/parser.py": 1}
    with Lines(command(daemon, "--actor", "ann")) as ann, Lines(command(daemon, "--actor", "ben")) as ben:
        ann.greet()
        ben.greet()
        (first,) = ann.call("add", summary="split the parser", needs=file)["structuredContent"]["ids"]
        claim = ann.call("next")["structuredContent"]["claim"]
        assert claim["id"] == first
        second, other = ben.call(
            "plan", nodes=[{"summary": "rename in the parser", "needs": file, "priority": 5}, {"summary": "the manual"}]
        )["structuredContent"]["ids"]
        beside = ben.call("next")["structuredContent"]["claim"]
        assert beside["id"] == other
        assert "file:src/parser.py" in ben.call("why", id=second)["content"][0]["text"]
        ben.call("complete", id=other, gen=beside["gen"])
        waiting = ben.request("tools/call", name="next", arguments={"wait": 30})
        ann.call("complete", id=first, gen=claim["gen"])
        assert ben.answer(waiting)["result"]["structuredContent"]["claim"]["id"] == second


def test_worker_with_a_scope_never_leaves_it(daemon: Daemon) -> None:
    """`under` limits `next` and `list` to what is below one node."""
    goal, inside, _outside = daemon.client().ask(
        "submit", nodes=[{"ref": "g", "kind": "goal"}, {"parent": "g"}, {"priority": 9}]
    )["ids"]
    with Lines(command(daemon, "--actor", "ann")) as lines:
        lines.greet()
        claim = lines.call("next", under=goal)["structuredContent"]["claim"]
        assert claim["id"] == inside
        lines.call("complete", id=inside, gen=claim["gen"])
        assert lines.call("next", under=goal)["structuredContent"]["nothing"] == "nothing_pending"


def test_server_takes_the_graph_that_is_named(short_dir: Path) -> None:
    """`--graph` before or after the command, and with --dir a graph below that directory."""
    with running(short_dir / "graphs" / "one") as named:
        named.client().ask("upsert", summary="of graph one")
        for argv in (["--graph", "one", "mcp"], ["mcp", "--graph", "one"]):
            with Lines([sys.executable, "-m", "claimdag_client.cli", "--dir", str(short_dir), *argv]) as lines:
                lines.greet()
                assert lines.call("list")["structuredContent"]["nodes"][0]["summary"] == "of graph one"
