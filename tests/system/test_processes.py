"""Claims for which real processes stand (law 4.14)."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, running, until


@pytest.fixture(params=["asyncio", "trio"])
def daemon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Daemon]:
    with running(tmp_path / "d", "--grace", "0.1", "--backend", request.param) as daemon:
        yield daemon


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    made: list[subprocess.Popen[bytes]] = []
    yield made
    for child in made:
        child.kill()
        child.wait()


def sleeper(children: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    children.append(subprocess.Popen(["sleep", "600"]))
    return children[-1]


def claim(daemon: Daemon, pid: int, actor: str = "a") -> Any:
    """Make a node and claim it by a connection that closes at once."""
    client = daemon.client()
    node = client.ask("upsert", summary="work")["id"]
    answer = client.try_to("claim", id=node, actor=actor, pid=pid)
    client.close()
    return {"node": node, **answer}


def status(daemon: Daemon, node: str) -> str:
    client = daemon.client()
    shown = client.ask("get", id=node)["status"]
    client.close()
    return str(shown)


def test_claim_comes_back_when_its_process_ends(daemon: Daemon, children: list[subprocess.Popen[bytes]]) -> None:
    """And not while it lives, though the connection has closed."""
    child = sleeper(children)
    node = claim(daemon, child.pid)["node"]
    assert status(daemon, node) == "claimed"
    child.kill()  # it stays a zombie until the end of the test: that is an end
    until(lambda: status(daemon, node) == "ready", "the node back")


def test_process_that_is_not_accepted_is_refused(daemon: Daemon, children: list[subprocess.Popen[bytes]]) -> None:
    """A zombie, one that ended, and a thread."""
    zombie = sleeper(children)
    zombie.kill()
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    gone = subprocess.Popen(["true"])
    gone.wait()
    done = threading.Event()
    tids: list[int] = []
    thread = threading.Thread(target=lambda: (tids.append(threading.get_native_id()), done.wait()))
    thread.start()
    try:
        until(lambda: tids, "the thread")
        for pid, why in ((zombie.pid, "ended"), (gone.pid, "no such process"), (tids[0], "thread")):
            error = claim(daemon, pid)["error"]
            assert (error["code"], error["field"]) == ("bad_request", "pid")
            assert why in error["message"]
    finally:
        done.set()
        thread.join()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start another user's process")
def test_process_of_another_user_is_refused(daemon: Daemon, children: list[subprocess.Popen[bytes]]) -> None:
    """By the user's number."""
    children.append(subprocess.Popen(["sleep", "600"], user=65534))
    error = claim(daemon, children[-1].pid)["error"]
    assert error["code"] == "bad_request"
    assert "user 65534's" in error["message"]


def test_process_of_another_pid_namespace_is_refused(daemon: Daemon, children: list[subprocess.Popen[bytes]]) -> None:
    """One that is named, and one that asks."""
    unshare = ["unshare", "--map-root-user", "--user", "--pid", "--fork"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no pid namespace can be made here")
    children.append(subprocess.Popen([*unshare, "--kill-child", "sleep", "600"]))
    inside = Path(f"/proc/{children[-1].pid}/task/{children[-1].pid}/children")
    until(lambda: inside.read_text().split(), "the process inside")
    pid = int(inside.read_text().split()[0])
    until(lambda: len(namespaces(pid)) > 1, "a namespace of its own")
    assert "another pid namespace" in claim(daemon, pid)["error"]["message"]
    script = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        'f = s.makefile("rw"); f.write(\'{"op": "claim_next", "actor": "b", "pid": 1}\\n\'); f.flush();'
        "print(f.readline())"
    )
    asked = subprocess.run(
        [*unshare, sys.executable, "-c", script, str(daemon.path)], capture_output=True, text=True, check=True
    )
    assert "another pid namespace" in asked.stdout


def namespaces(pid: int) -> list[str]:
    """Return the numbers that a process has, one for each pid namespace."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1:] for line in lines if line.startswith("NSpid"))


@pytest.mark.parametrize("lives", [True, False])
def test_daemon_that_comes_back_knows_its_processes(
    tmp_path: Path, children: list[subprocess.Popen[bytes]], lives: bool
) -> None:
    """It watches one that lives, and sees that the other has ended meanwhile."""
    child = sleeper(children)
    with running(tmp_path, "--grace", "0.1") as first:
        node = claim(first, child.pid)["node"]
        first.kill()
    if not lives:
        child.kill()
    with running(tmp_path, "--grace", "0.1") as second:
        if lives:
            assert status(second, node) == "claimed"
            child.kill()
        until(lambda: status(second, node) == "ready", "the node back")


@pytest.mark.slow
def test_five_hundred_processes_are_watched_at_once(daemon: Daemon, children: list[subprocess.Popen[bytes]]) -> None:
    """And the end of each gives back its own node alone."""
    nodes = [(sleeper(children), n) for n in range(500)]
    claims = [claim(daemon, child.pid, f"a{n}")["node"] for child, n in nodes]
    for child in children[::2]:
        child.kill()
    until(lambda: all(status(daemon, node) == "ready" for node in claims[::2]), "half of the nodes back")
    assert {status(daemon, node) for node in claims[1::2]} == {"claimed"}


def test_daemon_without_descriptors_refuses_processes_and_goes_on(
    tmp_path: Path, children: list[subprocess.Popen[bytes]]
) -> None:
    """`full` for what it cannot watch; when the processes end it watches others."""

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))

    with running(tmp_path, "--grace", "0.1", preexec_fn=few_files) as daemon:
        codes = [claim(daemon, sleeper(children).pid, f"a{n}").get("error", {}).get("code") for n in range(20)]
        assert codes[0] is None
        assert codes[-1] == "full"
        for child in children:
            child.kill()
        late = sleeper(children).pid
        until(lambda: "ok" in claim(daemon, late, "late"), "a process that is watched again")


#: An agent's host: it runs each line that it reads by a shell tool, and tells what came of it.
HOST = """
import subprocess, sys
for line in sys.stdin:
    ran = subprocess.run(["bash", "-c", line + ":"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print((ran.stdout + ran.stderr).replace("\\n", " "), flush=True)
"""


def test_agent_with_a_shell_tool_holds_its_claim_by_auto(daemon: Daemon) -> None:
    """Its commands end and the claim stays; the host is killed and the node is back."""
    client = daemon.client()
    first, second = (client.ask("upsert", summary=name)["id"] for name in ("one", "two"))
    command = f"{sys.executable} -P -m claimdag_client.cli --socket {daemon.path} --no-start"
    host = subprocess.Popen(
        [sys.executable, "-c", HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert host.stdin is not None
    assert host.stdout is not None
    try:
        for line in ("next --actor agent --pid auto;", f"complete {first} --actor agent --next --pid auto;"):
            host.stdin.write(f"{command} {line}\n")
            assert "id=" in host.stdout.readline()
        shown = client.ask("get", id=second)
        assert (shown["status"], shown["pid"], shown["lease"]) == ("claimed", host.pid, 14400.0)
        host.stdin.write(f"{command} why {second};\n")
        assert f"for process {host.pid}" in host.stdout.readline()
    finally:
        host.kill()
        host.communicate()
    until(lambda: client.ask("get", id=second)["status"] == "ready", "the node back")


def test_renew_by_the_command_line_changes_the_process(daemon: Daemon, children: list[subprocess.Popen[bytes]]) -> None:
    """And a process that is not accepted is told with what is."""
    first, second = sleeper(children), sleeper(children)
    node = claim(daemon, first.pid)["node"]
    command = [sys.executable, "-P", "-m", "claimdag_client.cli", "--socket", str(daemon.path), "--no-start"]
    subprocess.run([*command, "renew", node, "--pid", str(second.pid)], check=True, capture_output=True)
    first.kill()
    refused = subprocess.run(
        [*command, "renew", node, "--pid", str(first.pid)], check=False, capture_output=True, text=True
    )
    assert refused.returncode != 0
    assert "of the daemon's user" in refused.stderr
    assert status(daemon, node) == "claimed"
    second.kill()
    until(lambda: status(daemon, node) == "ready", "the node back")


def test_both_clients_name_a_process(daemon: Daemon, children: list[subprocess.Popen[bytes]]) -> None:
    """The blocking client, and the async one, claim and renew for a process."""
    import anyio

    import claimdag_client
    from claimdag_client import sync

    def shown(node: str) -> Any:
        client = daemon.client()
        return client.ask("get", id=node)

    child = sleeper(children)
    one, two = (daemon.client().ask("upsert", summary=name)["id"] for name in ("one", "two"))
    with sync.connect(socket=str(daemon.path)) as dag:
        held = dag.claim(one, actor="a", pid=child.pid)
        assert shown(one)["pid"] == child.pid
        held.renew(pid=os.getpid())
        assert shown(one)["pid"] == os.getpid()
        held.release()

    async def claims() -> None:
        async with claimdag_client.connect(socket=str(daemon.path)) as dag:
            held = await dag.claim_next("b", pid=child.pid)
            assert shown(held.id)["pid"] == child.pid
            following = await held.complete_and_next(pid=os.getpid())
            assert following is not None
            assert (following.id, shown(two)["pid"]) == (two, os.getpid())
            await following.release()

    anyio.run(claims)
