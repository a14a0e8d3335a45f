"""The async client against a daemon that misbehaves: answers, refusals, reconnects, claims and events."""

# ruff: noqa: PT012  what raises here is an `async with`, and its body is part of what is tested

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest

from claimdag_client import connect
from claimdag_client.errors import (
    AssigneeBusy,
    ClaimLost,
    GenMismatch,
    GraphChanged,
    Lagged,
    NotFound,
    NothingPending,
    NothingRunnable,
    Refused,
    Unreachable,
)

pytestmark = pytest.mark.anyio


async def until(condition: Any, seconds: float = 5.0) -> None:
    """Look again and again until it holds."""
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.sleep(0.005)


async def test_question_answered_gives_a_typed_result(fake: Any) -> None:
    """An answer is the struct of its op, and hello's stands in `daemon`."""
    async with connect(fake.path) as dag:
        node = await dag.upsert(summary="parse", cost=2, needs={"gpu": 1}, deps=["t3st-9"])
        assert (node.id, node.summary, node.cost) == ("t3st-1", "parse", 2.0)
        assert node.deps[0].on == "t3st-9"
        assert dag.daemon.graph == dag.graph == "t3st"
        assert await dag.ping() > 0
        assert [one.id for one in await dag.list()] == ["t3st-1"]


async def test_refusal_raises_by_code_with_its_details(fake: Any) -> None:
    """Each code has a class, and what came beside it are attributes."""
    id = fake.add()
    async with connect(fake.path) as dag:
        with pytest.raises(NotFound) as missing:
            await dag.get("t3st-77")
        assert missing.value.id == "t3st-77"
        with pytest.raises(GenMismatch) as fenced:
            await dag.complete(id, gen=5)
        assert fenced.value.gen == 1
        await dag.claim(id, actor="a")
        with pytest.raises(AssigneeBusy) as busy:
            await dag.claim(fake.add(), actor="a")
        assert (busy.value.id, busy.value.gen) == (id, 2)
        fake.refuse["ping"] = [{"code": "of_a_later_daemon", "message": "ping: no", "x": 1}]
        with pytest.raises(Refused, match="ping: no") as later:
            await dag.ping()
        assert later.value.details == {"x": 1}


async def test_body_exception_leaves_connect_as_it_was_raised(fake: Any) -> None:
    """No group wraps what the body raises."""
    with pytest.raises(KeyError):
        async with connect(fake.path):
            raise KeyError("mine")


async def test_no_daemon_raises_unreachable_at_once(short_dir: Any) -> None:
    """Connecting does not wait for a daemon that never was."""
    with anyio.fail_after(2), pytest.raises(Unreachable, match="no daemon listens"):
        async with connect(short_dir / "none"):
            pass


async def test_many_questions_share_one_connection_while_one_is_parked(fake: Any) -> None:
    """A parked claim comes when it comes; the others overtake it."""
    async with connect(fake.path) as dag, anyio.create_task_group() as tasks:
        got = []

        async def take() -> None:
            got.append(await dag.claim_next("a", wait=math.inf))

        async def ask() -> None:
            for _ in range(20):
                await dag.ping()

        tasks.start_soon(take)
        await until(lambda: fake.parked)
        async with anyio.create_task_group() as askers:
            for _ in range(10):
                askers.start_soon(ask)
        assert not got
        id = (await dag.upsert(summary="x")).id
        await until(lambda: got)
        assert got[0].id == id
    assert fake.connections == 1


@pytest.mark.parametrize("cut", ["cut_before", "cut_after"])
async def test_mutation_cut_off_is_asked_again_and_done_once(fake: Any, cut: str) -> None:
    """Whether the daemon had done it or not, it is done once, by the token (law 4.13)."""
    async with connect(fake.path) as dag:
        getattr(fake, cut).append("upsert")
        node = await dag.upsert(summary="once")
        assert node.id == "t3st-1"
    assert len(fake.nodes) == 1
    assert fake.connections == 2


async def test_shutdown_cut_off_is_not_asked_again(fake: Any) -> None:
    """A daemon that came back is not told to leave again."""
    async with connect(fake.path) as dag:
        fake.cut_after.append("shutdown")
        with pytest.raises(Unreachable):
            await dag.shutdown()
        await dag.ping()
    assert fake.count("shutdown") == 1


async def test_daemon_that_leaves_and_comes_back_costs_nothing(fake: Any) -> None:
    """shutting_down is no answer to a caller: it is asked of the next daemon."""
    async with connect(fake.path) as dag, anyio.create_task_group() as tasks:
        got = []

        async def take() -> None:
            got.append(await dag.claim_next("a", wait=30))

        tasks.start_soon(take)
        await until(lambda: fake.parked)
        fake.drain()
        tasks.start_soon(dag.upsert)
        await anyio.sleep(0.05)
        fake.restart()
        await until(lambda: got)
    assert len(fake.nodes) == 1


async def test_daemon_gone_for_longer_than_patience_fails_everything(fake: Any) -> None:
    """What was asked and what is asked later raise Unreachable, and held claims are lost."""
    id = fake.add()
    async with connect(fake.path, patience_s=0.1) as dag:
        with pytest.raises(ClaimLost, match="unreachable"):
            async with dag.claim(id, actor="a"):
                fake.down()
                await anyio.sleep_forever()
        with pytest.raises(Unreachable):
            await dag.ping()
    fake.up()


async def test_claim_body_that_ends_completes_the_node(fake: Any) -> None:
    """The normal end of the body is done."""
    id = fake.add("work")
    async with connect(fake.path) as dag:
        async with dag.claim(id, actor="a", lease=30) as claim:
            assert (claim.gen, claim.summary, claim.actor) == (2, "work", "a")
            assert 0 < claim.expires_in <= 30
            await claim.running()
            assert fake.nodes[id]["status"] == "running"
        assert claim.ended
        assert claim.completed is not None
        assert claim.completed.node.status == "done"
    assert fake.nodes[id]["status"] == "done"


async def test_claim_body_that_raises_fails_the_node(fake: Any) -> None:
    """An exception is the node's error, and goes on."""
    id = fake.add()
    async with connect(fake.path) as dag:
        with pytest.raises(ValueError, match="no good"):
            async with dag.claim(id, actor="a"):
                raise ValueError("no good")
    assert fake.nodes[id]["status"] == "failed"
    assert fake.nodes[id]["error"] == "ValueError: no good"


async def test_claim_body_that_is_cancelled_hands_the_node_back(fake: Any) -> None:
    """Told to stop, it neither fails nor keeps the node."""
    id = fake.add()
    async with connect(fake.path) as dag:
        with anyio.move_on_after(0.05):
            async with dag.claim(id, actor="a"):
                await anyio.sleep_forever()
        assert fake.nodes[id]["status"] == "ready"
        assert fake.nodes[id]["gen"] == 3


async def test_claim_ended_by_hand_is_left_as_it_was_ended(fake: Any) -> None:
    """complete, fail and release in the body are the end."""
    ids = [fake.add() for _ in range(3)]
    async with connect(fake.path) as dag:
        async with dag.claim(ids[0], actor="a") as claim:
            await claim.fail("x" * 3000)
        async with dag.claim(ids[1], actor="a") as claim:
            await claim.release()
        async with dag.claim(ids[2], actor="a") as claim:
            await claim.complete(summary="all of it")
    assert [fake.nodes[id]["status"] for id in ids] == ["failed", "ready", "done"]
    assert len(fake.nodes[ids[0]]["error"].encode()) <= 1024


@pytest.mark.parametrize("cut", ["", "cut_before", "cut_after"])
async def test_complete_and_next_goes_from_node_to_node(fake: Any, cut: str) -> None:
    """One round trip a node, also where the connection ends in between; in the end the reason that there is no next."""
    ids = [fake.add() for _ in range(3)]
    seen = []
    async with connect(fake.path) as dag:
        claim = await dag.claim_next("a", lease=60.0)
        while claim is not None:
            async with claim:
                seen.append((claim.id, claim.expires_in > 50.0))
                if cut and len(seen) == 2:
                    getattr(fake, cut).append("complete")
                following = await claim.complete_and_next()
            last, claim = claim, following
    assert seen == [(id, True) for id in ids]
    assert [fake.nodes[id]["status"] for id in ids] == ["done"] * 3
    assert last.completed.code == "nothing_pending"
    assert (fake.count("claim_next"), fake.count("complete")) == (1, 3)


async def test_claim_lost_cancels_the_body_at_once_and_raises(fake: Any) -> None:
    """The body ends within the event's arrival, whatever it awaited."""
    id = fake.add()
    async with connect(fake.path) as dag:
        reached = False
        with anyio.fail_after(2), pytest.raises(ClaimLost) as lost:
            async with dag.claim(id, actor="a"):
                fake.lose(id, "cancelled by bob")
                await anyio.sleep_forever()
                reached = True
        assert not reached
        assert (lost.value.id, lost.value.gen, lost.value.why) == (id, 2, "cancelled by bob")
    assert fake.nodes[id]["status"] == "ready"


async def test_claim_lost_in_a_body_that_fails_raises_lost_from_the_failure(fake: Any) -> None:
    """The failure of a body that had lost its claim says nothing about the node."""
    id = fake.add()
    async with connect(fake.path) as dag:
        with pytest.raises(ClaimLost) as lost:
            async with dag.claim(id, actor="a"):
                fake.lose(id)
                try:
                    await anyio.sleep_forever()
                finally:
                    raise ValueError("because of it")
        assert isinstance(lost.value.__cause__, ValueError)


async def test_claim_lost_unseen_is_found_at_the_end(fake: Any) -> None:
    """A complete that is refused by generation is a lost claim."""
    id = fake.add()
    async with connect(fake.path) as dag:
        with pytest.raises(ClaimLost, match="gen_mismatch"):
            async with dag.claim(id, actor="a"):
                fake.nodes[id]["gen"] += 1
    assert fake.nodes[id]["status"] == "claimed"


async def test_claim_is_renewed_in_the_background(fake: Any) -> None:
    """Well before the lease is over, again and again."""
    id = fake.add()
    async with connect(fake.path) as dag:
        async with dag.claim(id, actor="a", lease=0.3):
            await until(lambda: fake.count("renew", id=id) >= 3)
        renewals = fake.count("renew")
        await anyio.sleep(0.2)
        assert fake.count("renew") == renewals


async def test_daemon_restart_under_a_claim_is_not_noticed(fake: Any) -> None:
    """It reconnects, rebinds by renew with its generation, and the body goes on."""
    id = fake.add()
    async with connect(fake.path) as dag, dag.claim(id, actor="a") as claim:
        for _ in range(3):
            before = fake.count("renew", id=id, gen=2, bound=True)
            fake.restart()
            await until(lambda before=before: fake.count("renew", id=id, gen=2, bound=True) > before)
        assert claim.lost is None
    assert fake.nodes[id]["status"] == "done"
    assert fake.count("complete") == 1


async def test_claim_taken_back_while_disconnected_is_lost_at_the_reconnect(fake: Any) -> None:
    """The refused renewal says so."""
    id = fake.add()
    async with connect(fake.path) as dag:
        with anyio.fail_after(3), pytest.raises(ClaimLost, match="gen_mismatch"):
            async with dag.claim(id, actor="a"):
                fake.down()
                fake.lose(id)
                fake.up()
                await anyio.sleep_forever()


@pytest.mark.parametrize("cut", ["cut_before", "cut_after"])
async def test_complete_cut_off_is_done_once(fake: Any, cut: str) -> None:
    """The end of a claim survives the loss of its answer."""
    id = fake.add()
    async with connect(fake.path) as dag:
        async with dag.claim(id, actor="a"):
            getattr(fake, cut).append("complete")
        assert fake.nodes[id]["status"] == "done"
    assert fake.count("complete") == 1


async def test_claim_granted_in_a_lost_answer_is_kept(fake: Any) -> None:
    """Asked again it is the same claim, rebound."""
    id = fake.add()
    async with connect(fake.path) as dag:
        fake.cut_after.append("claim_next")
        claim = await dag.claim_next("a")
        assert (claim.id, claim.gen) == (id, 2)
        assert fake.count("renew", id=id, gen=2, bound=True) == 1


async def test_claim_granted_in_a_lost_answer_and_taken_back_is_asked_for_anew(fake: Any) -> None:
    """The remembered answer is of a generation that has passed; the client finds that out and claims again."""
    id = fake.add()
    async with connect(fake.path) as dag:
        real = fake.do_claim_next

        def grant_and_lose(session: Any, request: Any) -> Any:
            ok = real(session, request)
            fake.do_claim_next = real
            fake.lose(id)
            return ok

        fake.do_claim_next = grant_and_lose
        fake.cut_after.append("claim_next")
        claim = await dag.claim_next("a")
        assert (claim.id, claim.gen) == (id, 4)


async def test_cancelled_claim_request_hands_back_what_it_brings(fake: Any) -> None:
    """A node that comes for somebody who left does not stay with nobody."""
    async with connect(fake.path) as dag:
        with anyio.move_on_after(0.05):
            await dag.claim_next("a", wait=30)
        id = fake.add()
        await until(lambda: fake.nodes[id]["gen"] == 3)
        assert fake.nodes[id]["status"] == "ready"
        claim = await dag.claim_next("a")
        assert claim.gen == 4


async def test_client_that_closes_hands_back_what_it_holds(fake: Any) -> None:
    """A claim that was never entered does not outlive the client."""
    id = fake.add()
    async with connect(fake.path) as dag:
        await dag.claim(id, actor="a")
    assert fake.nodes[id]["status"] == "ready"


async def test_work_until_empty_ends_with_the_work(fake: Any) -> None:
    """Node after node; one left alone goes back and comes again."""
    ids = [fake.add(str(n)) for n in range(3)]
    seen = []
    async with connect(fake.path) as dag:
        async for claim in dag.work("a", until_empty=True):
            seen.append(claim.id)
            if len(seen) == 2:
                continue
            async with claim:
                await claim.running()
    assert seen == [ids[0], ids[1], ids[1], ids[2]]
    assert {node["status"] for node in fake.nodes.values()} == {"done"}


async def test_work_until_empty_raises_when_only_a_person_can_help(fake: Any) -> None:
    """stuck: pending work that no live claim will ever free."""
    fake.add(status="blocked")
    async with connect(fake.path) as dag:
        with anyio.fail_after(5), pytest.raises(NothingRunnable) as stuck:
            async for _ in dag.work("a", until_empty=True):
                pass
        assert stuck.value.stuck
        with pytest.raises(NothingRunnable):
            await dag.claim_next("a")
        fake.nodes.clear()
        with pytest.raises(NothingPending):
            await dag.claim_next("a")


async def test_events_come_in_order_and_survive_a_restart(fake: Any) -> None:
    """After a reconnect the stream goes on from the last seq: nothing missed, nothing twice."""
    async with connect(fake.path) as dag, dag.events() as events:
        seen = []
        for n in range(6):
            fake.add(str(n))
            if n % 2:
                fake.down()
                fake.add("while away")
                fake.up()
        with anyio.fail_after(5):
            async for event in events:
                seen.append(event.seq)
                assert event.nodes[0].status == "ready"
                if event.seq == len(fake.ledger):
                    break
        assert seen == list(range(1, 10))
        assert events.seq == 9


async def test_events_from_a_seq_that_is_gone_raise_lagged(fake: Any) -> None:
    """What the ledger no longer holds cannot be given."""
    fake.add()
    fake.kept_from = 2
    async with connect(fake.path) as dag:
        with pytest.raises(Lagged):
            async for _ in dag.events(1):
                pass


async def test_events_of_a_reader_cut_off_go_on_from_the_ledger(fake: Any) -> None:
    """`lagged` in the stream is the daemon's word that it hung up; the ledger still has the rest."""
    async with connect(fake.path) as dag, dag.events() as events:
        fake.add()
        assert (await anext(events)).seq == 1
        with fake.lock:
            for session in fake.sessions:
                if session.watching:
                    session.say({"error": {"code": "lagged", "message": "watch: lagged"}})
                    session.hang_up()
        fake.add()
        with anyio.fail_after(5):
            assert (await anext(events)).seq == 2


async def test_another_graph_loses_claims_and_ends_events(fake: Any) -> None:
    """Ids and seqs of the graph that was mean nothing in the next."""
    id = fake.add()
    async with connect(fake.path) as dag, dag.events() as events:
        with anyio.fail_after(5), pytest.raises(ClaimLost, match="another graph"):
            async with dag.claim(id, actor="a"):
                fake.tag = "0the"
                fake.restart()
                await anyio.sleep_forever()
        with anyio.fail_after(5), pytest.raises(GraphChanged):
            async for _ in events:
                pass


async def test_events_end_when_closed(fake: Any) -> None:
    """A closed iterator is over, and the client's end closes it."""
    async with connect(fake.path) as dag:
        events = dag.events()
        await events.aclose()
        assert [event async for event in events] == []


async def test_notice_of_a_deadlock_reaches_the_callback(fake: Any) -> None:
    """What is told unasked and is no claim's business is handed on."""
    told: list[dict[str, Any]] = []
    async with connect(fake.path, on_notice=told.append) as dag:
        await dag.ping()
        fake.sessions[0].say({"event": {"op": "deadlock", "nodes": ["t3st-1", "t3st-2"]}})
        await until(lambda: told)
    assert told[0]["op"] == "deadlock"
