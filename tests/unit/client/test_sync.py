"""The blocking client against a daemon that misbehaves: the same promises as the async one's."""

# ruff: noqa: PT012  what raises here is a `with`, and its body is part of what is tested

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from claimdag_client._sync.client import connect
from claimdag_client.errors import ClaimLost, GenMismatch, NotFound, Unreachable


def until(condition: Any, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_question_answered_gives_a_typed_result(fake: Any) -> None:
    """Results and refusals are those of the async client."""
    with connect(fake.path) as dag:
        node = dag.upsert(summary="parse", deps=["t3st-9"])
        assert (node.id, node.deps[0].on, dag.graph) == ("t3st-1", "t3st-9", "t3st")
        with pytest.raises(NotFound):
            dag.get("t3st-5")
        with pytest.raises(GenMismatch):
            dag.complete(node.id, gen=7)


def test_threads_share_one_connection_while_one_is_parked(fake: Any) -> None:
    """A parked claim holds nobody up."""
    with connect(fake.path) as dag:
        got: list[Any] = []
        taker = threading.Thread(target=lambda: got.append(dag.claim_next("a", wait=30)))
        taker.start()
        until(lambda: fake.parked)
        for _ in range(50):
            dag.ping()
        assert not got
        id = dag.upsert(summary="x").id
        taker.join(5)
        assert got[0].id == id
    assert fake.connections == 1
    assert fake.nodes[id]["status"] == "ready"


@pytest.mark.parametrize("cut", ["cut_before", "cut_after"])
def test_mutation_cut_off_is_asked_again_and_done_once(fake: Any, cut: str) -> None:
    """By its token."""
    with connect(fake.path) as dag:
        getattr(fake, cut).append("upsert")
        assert dag.upsert(summary="once").id == "t3st-1"
    assert len(fake.nodes) == 1


def test_claim_body_ends_the_node_by_how_it_ends(fake: Any) -> None:
    """Done, failed, or handed back."""
    ids = [fake.add() for _ in range(3)]
    with connect(fake.path) as dag:
        with dag.claim(ids[0], actor="a") as claim:
            claim.running()
        assert claim.completed is not None
        with pytest.raises(ValueError, match="no good"), dag.claim(ids[1], actor="a"):
            raise ValueError("no good")
        with pytest.raises(KeyboardInterrupt), dag.claim(ids[2], actor="a"):
            raise KeyboardInterrupt
    assert [fake.nodes[id]["status"] for id in ids] == ["done", "failed", "ready"]
    assert fake.nodes[ids[1]]["error"] == "ValueError: no good"


def test_complete_and_next_goes_from_node_to_node(fake: Any) -> None:
    """A failure too, and the next claim is renewed and bound as the one before it."""
    ids = [fake.add() for _ in range(2)]
    with connect(fake.path) as dag:
        first = dag.claim_next("a", lease=60.0)
        second = first.complete_and_next("failed", error="no good")
        assert second is not None
        assert (first.ended, second.id, second.gen) == (True, ids[1], 2)
        assert second.expires_in > 50.0
        assert second.complete_and_next() is None
        assert second.completed is not None
        assert second.completed.code == "nothing_pending"
    assert [fake.nodes[id]["status"] for id in ids] == ["failed", "done"]


def test_claim_is_renewed_by_the_thread(fake: Any) -> None:
    """While the body does something else."""
    id = fake.add()
    with connect(fake.path) as dag:
        with dag.claim(id, actor="a", lease=0.3):
            until(lambda: fake.count("renew", id=id) >= 3)
        count = fake.count("renew")
        time.sleep(0.2)
        assert fake.count("renew") == count


def test_claim_lost_is_raised_by_the_next_word_about_it_and_at_the_end(fake: Any) -> None:
    """What the thread heard, the body is told when it asks."""
    id = fake.add()
    with connect(fake.path) as dag:
        with pytest.raises(ClaimLost, match="by bob") as lost, dag.claim(id, actor="a") as claim:
            fake.lose(id, "by bob")
            assert claim.wait_lost(5)
            with pytest.raises(ClaimLost):
                claim.check()
            with pytest.raises(ClaimLost):
                claim.running()
        assert (lost.value.id, lost.value.gen) == (id, 2)
    assert fake.count("complete") == 0


def test_daemon_restart_under_a_claim_is_not_noticed(fake: Any) -> None:
    """Reconnected and rebound by the thread."""
    id = fake.add()
    with connect(fake.path) as dag:
        with dag.claim(id, actor="a") as claim:
            fake.restart()
            until(lambda: fake.count("renew", id=id, gen=2, bound=True))
            assert claim.lost is None
        assert fake.nodes[id]["status"] == "done"


def test_daemon_gone_for_longer_than_patience_fails_everything(fake: Any) -> None:
    """What is asked, and the claims."""
    id = fake.add()
    with connect(fake.path, patience_s=0.1) as dag:
        claim = dag.claim(id, actor="a")
        fake.down()
        with pytest.raises(Unreachable):
            dag.ping()
        assert claim.lost == "unreachable"
        with pytest.raises(Unreachable):
            dag.ping()
    fake.up()
    with pytest.raises(Unreachable):
        connect(fake.path + "x")


def test_work_until_empty_ends_with_the_work(fake: Any) -> None:
    """Node after node; one left alone goes back and comes again."""
    ids = [fake.add() for _ in range(3)]
    seen = []
    with connect(fake.path) as dag:
        for claim in dag.work("a", until_empty=True):
            seen.append(claim.id)
            if len(seen) != 2:
                with claim:
                    pass
    assert seen == [ids[0], ids[1], ids[1], ids[2]]


def test_events_survive_a_restart(fake: Any) -> None:
    """From the seq after the last, on the next connection."""
    with connect(fake.path) as dag:
        events = dag.events()
        fake.add()
        assert next(events).seq == 1
        fake.down()
        fake.add()
        fake.up()
        fake.add()
        assert [next(events).seq, next(events).seq] == [2, 3]
        events.close()


def test_client_closed_refuses_and_hands_back(fake: Any) -> None:
    """The end of the client is the end of its claims."""
    id = fake.add()
    dag = connect(fake.path)
    dag.claim(id, actor="a")
    dag.close()
    dag.close()
    assert fake.nodes[id]["status"] == "ready"
    with pytest.raises(Unreachable, match="closed"):
        dag.ping()


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("claimdag_client", ("msgspec", "anyio", "socket", "threading")),
        ("claimdag_client.sync", ("anyio",)),
        ("claimdag_client.worker.runner", ("msgspec", "anyio", "asyncio")),
        ("claimdag_client.cli.commands.watch_wait", ("msgspec", "anyio")),
    ],
)
def test_import_loads_no_more_than_it_needs(module: str, absent: tuple[str, ...]) -> None:
    """The command line pays for what it uses alone."""
    code = f"import sys, {module}; print([m for m in {absent!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
