"""The real process and its clients: crowds, floods, hostile peers, the dead and the stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Client, Daemon, running, until


@pytest.fixture(params=["asyncio", "trio"])
def daemon(request: pytest.FixtureRequest, short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir / "claimdag", "--backend", request.param, "--grace", "0.3") as daemon:
        yield daemon


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def test_thousands_of_requests_at_once_are_all_answered_in_order(daemon: Daemon) -> None:
    """Written blindly, without reading an answer in between: what the client cannot take yet is kept for it."""
    client = daemon.client()
    client.sock.sendall(b"".join(b'{"op":"upsert","summary":"n","rid":%d}\n' % n for n in range(3000)))
    answers = [client.answer() for _ in range(3000)]
    assert [answer["rid"] for answer in answers] == list(range(3000))
    numbers = [int(answer["ok"]["id"].split("-")[1]) for answer in answers]
    assert numbers == list(range(1, 3001))


def test_thousand_connections_share_the_daemon(daemon: Daemon) -> None:
    """Each is answered, each costs little, and a request waits for none of the others."""
    clients = [daemon.client()]
    clients[0].ask("ping")
    before = resident_kib(daemon.pid)
    clients += [daemon.client() for _ in range(999)]
    for client in clients:
        client.send("ping")
    for client in clients:
        assert "ok" in client.answer()
    assert (resident_kib(daemon.pid) - before) / 1000 < 40
    for _ in range(50):
        clients[500].ask("ping")


def test_every_kind_of_hostile_peer_at_once_keeps_nobody_from_work(daemon: Daemon) -> None:
    """Floods, silence, halves of lines, rubbish and peers that never read, while one client works."""
    for _ in range(5):
        flood = daemon.client()
        flood.sock.setblocking(False)
        try:
            flood.sock.send(b'{"op":"list","all":true}\n' * 4000)
        except BlockingIOError:
            pass
        daemon.client().sock.sendall(b'{"op":"upsert","summ')
        daemon.client().sock.sendall(b"[" * 100_000 + b"\n" + b"\xff\x00\n" * 1000)
        daemon.client().sock.sendall(b"x" * 100_000)
    worker = daemon.client()
    for n in range(100):
        worker.ask("upsert", summary=f"work {n}")
    assert resident_kib(daemon.pid) < 300_000


def test_client_that_is_killed_gives_its_bound_claim_back_in_its_grace(daemon: Daemon) -> None:
    """And the next in line gets it at once, at another generation (law 4.6)."""
    waiter = daemon.client()
    node = waiter.ask("upsert", summary="wanted")
    code = (
        "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        f's.sendall(b\'{{"op":"claim","id":"{node["id"]}","actor":"dies","bound":true}}\\n\');'
        "print(s.recv(4096), flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(daemon.path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert b'"ok"' in holder.stdout.readline()
    waiter.send("claim_next", actor="waits", wait=20)
    waiter.sock.settimeout(0.1)
    with pytest.raises(TimeoutError):
        waiter.sock.recv(1, socket.MSG_PEEK)
    waiter.sock.settimeout(10)
    holder.kill()
    claim = waiter.answer()["ok"]
    assert claim["id"] == node["id"]
    assert claim["gen"] > node["gen"] + 1
    assert [entry["op"] for entry in waiter.ask("log")["entries"]] == ["upsert", "claim", "expire", "claim_next"]
    holder.communicate()


def test_claim_answered_to_a_dead_connection_comes_back_at_once_when_bound(short_dir: Path) -> None:
    """Nobody ever knew of it, so no grace is due."""
    with running(short_dir / "claimdag", "--grace", "60") as daemon:
        waiter = daemon.client()
        node = waiter.ask("upsert")
        dying = daemon.client()
        dying.send("claim", id=node["id"], actor="dies", bound=True)
        until(lambda: waiter.ask("get", id=node["id"])["status"] == "claimed", "the claim")
        dying.close()
        claim = waiter.ask("claim_next", actor="waits", wait=10)  # long before the grace of a minute is over
        assert claim["id"] == node["id"]


def test_parked_claim_of_a_half_closed_client_is_answered(daemon: Daemon) -> None:
    """As socat and a here-document leave it."""
    client, other = daemon.client(), daemon.client()
    client.send("claim_next", actor="socat", wait=20)
    client.sock.shutdown(socket.SHUT_WR)
    time.sleep(0.05)
    node = other.ask("upsert")
    answers = [json.loads(line) for line in client.rest().splitlines()]
    assert [answer["ok"]["id"] for answer in answers] == [node["id"]]


def test_daemon_that_was_stopped_reclaims_nobody_unheard(short_dir: Path) -> None:
    """A lease that ran out while the daemon slept is renewed by a holder who speaks as soon as he can be heard.

    Law 4.8.
    """
    with running(short_dir / "claimdag", "--grace", "2") as daemon:
        holder = daemon.client()
        node = holder.ask("upsert")
        claim = holder.ask("claim", id=node["id"], actor="patient", lease=1.0)
        daemon.signal(signal.SIGSTOP)
        time.sleep(1.6)
        daemon.signal(signal.SIGCONT)
        time.sleep(0.3)
        renewed = holder.ask("renew", id=node["id"], gen=claim["gen"], lease=30)
        assert renewed["gen"] == claim["gen"]
        assert holder.ask("stats")["lags"] == 1


def test_watcher_that_stops_reading_is_cut_off_and_misses_nothing_afterwards(daemon: Daemon) -> None:
    """It is told `lagged`; from its last seq on it sees every event once."""
    watcher, worker = daemon.client(), daemon.client()
    watcher.ask("watch")
    text = "x" * 4000
    count = 0
    while count < 3000 and worker.ask("stats")["watchers"]:
        for _ in range(50):
            worker.ask("upsert", summary=text)
            count += 1
    assert count < 1000
    lines = [json.loads(line) for line in watcher.rest().splitlines()]
    assert lines[-1]["error"]["code"] == "lagged"
    seqs = [line["event"]["seq"] for line in lines[:-1]]
    assert seqs == list(range(1, len(seqs) + 1))
    again = daemon.client()
    again.ask("watch", **{"from": seqs[-1] + 1})
    assert again.answer()["event"]["seq"] == seqs[-1] + 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_fsync_daemon_answers_after_the_flush_and_keeps_what_it_answered(short_dir: Path, backend: str) -> None:
    """Many clients at once, half of them half-closed, then kill -9."""
    with running(short_dir / "claimdag", "--durability", "fsync", "--backend", backend) as daemon:
        clients = [daemon.client() for _ in range(20)]
        for n, client in enumerate(clients):
            for m in range(10):
                client.send("upsert", summary=f"{n}.{m}")
            if n % 2:
                client.sock.shutdown(socket.SHUT_WR)
        answered = [client.answer()["ok"]["summary"] for client in clients for _ in range(10)]
        assert clients[1].rest() == b""
        daemon.kill()
    with running(short_dir / "claimdag", "--durability", "fsync") as after:
        kept = [node["summary"] for node in after.client().ask("list")["nodes"]]
        assert sorted(kept) == sorted(answered)


def test_checkpoint_is_written_while_others_are_served(daemon: Daemon) -> None:
    """The answer names the snapshot's seq, and after a kill the state is read from both files."""
    client = daemon.client()
    for n in range(50):
        client.ask("upsert", summary=f"{n}")
    assert client.ask("checkpoint")["seq"] == 50
    client.ask("upsert", summary="later")
    daemon.kill()
    with running(daemon.directory) as after:
        assert len(after.client().ask("list")["nodes"]) == 51


def test_full_disk_refuses_the_mutation_and_not_the_daemon(short_dir: Path) -> None:
    """On a tiny file system of its own, where this process may mount one."""
    directory = short_dir / "claimdag"
    directory.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", str(directory)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with running(directory) as daemon:
            client = daemon.client()
            answer = {}
            done = 0
            while done < 100 and "error" not in (answer := client.try_to("upsert", summary="x" * 4000)):
                done += 1
            assert answer["error"]["code"] == "storage"
            assert len(client.ask("list")["nodes"]) == done
            daemon.kill()
        with running(directory) as after:
            assert len(after.client().ask("list")["nodes"]) == done
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def test_connection_to_nothing_is_refused_and_not_left_hanging(short_dir: Path) -> None:
    """A stale socket's file answers nobody: connecting fails at once."""
    with running(short_dir / "claimdag") as daemon:
        daemon.kill()
        with pytest.raises(ConnectionRefusedError):
            Client(daemon.path)
        assert os.path.lexists(daemon.path)
