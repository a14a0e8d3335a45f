"""One history from one seed: who acts when, what fails when, and at its end whether all that could be done was done.

`run(seed)` replays exactly: everything is drawn from the seed, and nothing else is looked at.
"""

from __future__ import annotations

import traceback
from collections import Counter
from random import Random
from typing import Any

from claimdagd.model import GROUPS, TERMINAL, Status
from tests.simulation.clients import RESOURCES, Boss, Client, Waiter, Watcher, Worker
from tests.simulation.oracle import Oracle
from tests.simulation.world import Plan, Violation, World, small_slices

OPS = ("write", "write", "write", "fsync", "fsync", "rename", "truncate", "create", "unlink", "any")
HOWS = ("fail", "fail", "short", "tear")
KILLS = ("kill", "kill_torn", "kill_after")
FINISHERS = 3


class Failed(AssertionError):
    """A history in which something that must hold did not."""

    def __init__(self, seed: int, reason: str, trace: list[str]) -> None:
        super().__init__(f"seed {seed}: {reason}")
        self.seed = seed
        self.reason = reason
        self.trace = trace


def run(seed: int, *, tracing: bool = False, check_every: int = 4) -> Counter[str]:
    """One history; what happened in it, counted. Raises Failed."""
    rng = Random(seed)
    #: A disk on which one kind of operation fails now and then, and at once works again.
    flaky = rng.choice((None, None, None, "write", "fsync"))
    plan = Plan(
        fsync=flaky == "fsync" or rng.random() < 0.35,
        grace_s=rng.choice((0.0, 2.0, 5.0)),
        lease_s=rng.choice((6.0, 20.0, 60.0)),
        max_nodes=rng.choice((8, 14, 40)),
        starvation=rng.choice((2, 5, 100)),
    )
    world = World(rng, plan, tracing=tracing)
    oracle = Oracle(world, check_every=check_every)
    try:
        with small_slices():
            _live(world, flaky)
            _finish(world)
    except Exception as exc:
        reason = str(exc) if isinstance(exc, Violation) else "".join(traceback.format_exception(exc))
        raise Failed(seed, reason, world.trace or []) from exc
    return Counter(
        histories=1, fsync=plan.fsync, steps=oracle.steps, answers=oracle.answers, entries=oracle.seq,
        restarts=oracle.restarts, snapshots=oracle.snapshots, faults=world.faults,
    )  # fmt: skip


def _live(world: World, flaky: str | None) -> None:
    rng = world.rng
    clients: list[Client] = [Boss(world, "boss"), Worker(world, "w1"), Worker(world, "w2"), Worker(world, "w3")]
    clients += [Boss(world, "boss2")] * (rng.random() < 0.5)
    clients += [Watcher(world, "watcher")] * (rng.random() < 0.7)
    clients += [Waiter(world, "waiter")] * (rng.random() < 0.7)
    weights = [rng.choice((1, 2, 4)) for _ in clients]
    violence = rng.choice((0.0, 0.02, 0.06))

    def turn() -> None:
        """Somebody acts, while a flush is under way."""
        if rng.random() < 0.4:
            rng.choices(clients, weights)[0].act()

    world.boot()
    for _ in range(rng.choice((30, 60, 120))):
        if world.service is None:
            world.clock.t += rng.choice((0.0, 0.3, 4.0, 70.0))
            if rng.random() < 0.5:
                world.heal()
            world.boot()
            continue
        chance = rng.random()
        if chance < 0.72:
            rng.choices(clients, weights)[0].act()
        elif chance < 0.88:
            world.advance(rng.choice((0.0, 0.1, 1.0, 1.0, 4.0, 15.0)))
        elif chance < 0.90:
            open_ = [c for c in clients if c.conn is not None]
            if open_:
                conn = rng.choice(open_).conn
                assert conn is not None
                world.cut(conn, undelivered=rng.random() < 0.2)
        elif chance < 0.91:
            world.starve(rng.choice((1.5, 8.0, 100.0)))
        elif chance < 0.93 or world.snapshot_wanted:
            world.snapshot_step(turn)
        if world.snapshot is not None and rng.random() < 0.4:
            world.snapshot_step(turn)
        if rng.random() < violence:
            _harm(world)
        if flaky is not None and rng.random() < 0.15 and world.files.struck == len(world.files.faults):
            world.arm(flaky, rng.choice(HOWS), nth=1)
        if world.plan.fsync and rng.random() < 0.5 and world.service is not None and world.service.commit_due:
            world.flush_once(turn)
        if world.trouble_at == world.clock.t and rng.random() < 0.2:
            world.heal()
            world.advance(5.0)  # nobody says anything: what failed has to be made up for by itself
        if world.leaving:
            world.leave()


def _harm(world: World) -> None:
    rng = world.rng
    chance = rng.random()
    if chance < 0.25:
        world.die(power=world.plan.fsync and rng.random() < 0.6)
    elif chance < 0.45:
        world.arm("any", rng.choice(KILLS), nth=rng.randint(1, 6))
    elif chance < 0.75:
        world.arm(rng.choice(OPS), rng.choice(HOWS), nth=rng.randint(1, 3), persistent=rng.random() < 0.3)
    elif chance < 0.85:
        world.disk.capacity = world.disk.used + rng.randint(0, 400)
        world.note(f"DISK FULL but for {world.disk.capacity - world.disk.used} bytes")
    elif chance < 0.95:
        world.heal()
    else:
        world.leave()


# ---------------------------------------------------------------------------------------------------------- the ending


def _finish(world: World) -> None:
    """The disk is well and workers ask: all that can run is run. Then the state is taken up once more."""
    world.heal()
    if world.service is None and not world.boot():
        raise Violation("the daemon does not start on a disk that is well")
    world.flush()
    world.advance(200.0)  # every lease that nobody renews, and every wait, is over
    world.heal()
    if world.service is None:
        world.boot()
    world.advance(RECOVER_ADVANCE)
    oracle = world.oracle
    for call in list(oracle.calls.values()):
        if call.until is not None and call.conn.open:
            raise Violation(f"{call.body} was never answered")
    if oracle.leases:
        raise Violation(f"claims outlived everything: {sorted(oracle.leases)}")
    for conn in list(world.conns):
        if conn.client is not oracle._tap:
            world.cut(conn)
    _work_off(world)
    oracle.check_every = 1
    oracle.check_graph()
    world.die()
    world.clock.t += 1.0
    world.boot()
    world.flush()
    oracle.after_step()


RECOVER_ADVANCE = 10.0


class Finisher(Client):
    """Takes what it is given and completes it."""

    refusal: dict[str, Any] | None = None
    held: tuple[str, int] | None = None

    def answered(self, call: Any, ok: Any, error: dict[str, Any] | None) -> None:
        self.refusal = error
        if call.intent.op == "claim_next":
            self.held = (ok["id"], ok["gen"]) if ok is not None else None

    def ask(self, op: str, **fields: Any) -> None:
        if self.conn is None:
            self.conn = self.world.connect(self)
        assert self.conn is not None
        self.world.send(self.conn, [self.intent(op, token=0, **fields)])
        self.world.flush()


def _work_off(world: World) -> None:
    oracle = world.oracle
    boss = Finisher(world, "finish")
    for resource in RESOURCES:
        boss.ask("capacity", resource=resource, units=50)
    for under in list(oracle.paused):
        boss.ask("resume", **({} if under is None else {"under": under}))
    workers = [Finisher(world, f"finish{n}") for n in range(FINISHERS)]
    _take_all(world, workers)
    for _ in range(20):
        # A group without children stays open until somebody ends it, and all above it with it.
        parents = {r.parent for r in oracle.replica.values()}
        empty = [
            r.id
            for r in oracle.replica.values()
            if r.kind in GROUPS and r.status not in TERMINAL and r.id not in parents
        ]
        if not empty:
            break
        for node_id in empty:
            boss.ask("complete", id=node_id)
        _take_all(world, workers)
    else:
        raise Violation("groups come back by themselves")
    left = [r for r in oracle.replica.values() if r.kind not in GROUPS and r.status not in TERMINAL]
    refusal = workers[0].refusal or {}
    ready = [r.id for r in left if r.status is Status.READY]
    if ready and not refusal.get("deadlocks"):
        raise Violation(f"{ready} were never handed out: {refusal}")
    if not left and refusal.get("code") != "nothing_pending":
        raise Violation(f"nothing is left, and the answer is {refusal}")
    waiting = [r.id for r in left if r.status is not Status.COMPLETING]
    if waiting and (refusal.get("code") != "nothing_runnable" or refusal.get("stuck") is not True):
        raise Violation(f"{waiting} are left, and the answer is {refusal}")


def _take_all(world: World, workers: list[Finisher]) -> None:
    """Claim and complete until there is nothing more to be had."""
    for _ in range(4 * len(world.oracle.replica) + 10):
        busy = False
        for worker in workers:
            if worker.held is None:
                worker.ask("claim_next", actor=worker.name)
            else:
                node_id, gen = worker.held
                worker.held = None
                worker.ask("complete", id=node_id, gen=gen, actor=worker.name)
                if worker.refusal is not None:
                    raise Violation(f"{worker.name} could not complete {node_id}: {worker.refusal}")
                busy = True
            busy = busy or worker.held is not None
        if not busy:
            break
    else:
        raise Violation("the work never ends")
