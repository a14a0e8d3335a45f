"""Random lives of a claim with processes that come and go, against a model that is slow to be wrong (law 4.14)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.in_process import InProcessDaemon

ID = "s1mu-1"
GRACE = 5.0
PIDS = (7, 8)


class Model:
    """One node: who holds it until when, and the process that stands for the holder as memory and disk have it."""

    def __init__(self) -> None:
        self.held = False
        self.deadline = 0.0
        self.lease = 0.0
        #: The lease and the process as they were last journaled.
        self.kept_lease = 0.0
        self.kept: tuple[int, int] | None = None
        self.process: tuple[int, int] | None = None

    def claim(self, now: float, lease: float | None, process: tuple[int, int] | None) -> None:
        self.held, self.process, self.kept = True, process, process
        self.lease = self.kept_lease = lease or (14400.0 if process else 900.0)
        self.deadline = now + self.lease

    def renew(self, now: float, lease: float | None, process: tuple[int, int] | None) -> None:
        if lease is None and process is not None and self.kept is None:
            lease = max(self.lease, 14400.0)
        self.lease = lease or self.lease
        self.process = process or self.process
        if self.process != self.kept:
            self.kept, self.kept_lease = self.process, self.lease
        self.deadline = now + self.lease

    def ended(self, now: float, process: tuple[int, int]) -> None:
        if self.held and self.process == process:
            self.process = None
            self.deadline = min(self.deadline, now + GRACE)

    def restarted(self, now: float, running: dict[int, int]) -> None:
        if self.held:
            self.lease, self.process = self.kept_lease, self.kept
            self.deadline = now + self.lease
            if self.kept is not None and running.get(self.kept[0]) != self.kept[1]:
                self.ended(now, self.kept)

    def later(self, now: float) -> None:
        if self.held and now >= self.deadline:
            self.held, self.kept, self.process = False, None, None


class Life:
    """The daemon and the model, led through the same random steps."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.daemon = InProcessDaemon()
        self.daemon.peer().ask({"op": "upsert"})
        self.model = Model()

    def ask(self, **request: object) -> Any:
        (answer,) = self.daemon.peer().ask({k: v for k, v in request.items() if v is not None})
        return answer

    def step(self) -> None:
        daemon, model, now = self.daemon, self.model, self.daemon.clock.now()
        running = daemon.processes.running
        pid, lease = self.random.choice((*PIDS, None)), self.random.choice((None, None, 3.0, 60.0))
        match self.random.choice(("claim", "renew", "renew", "start", "end", "later", "later", "again", "full disk")):
            case ("claim" | "renew") as op if (op == "renew") is model.held:
                answer = self.ask(op=op, id=ID, actor="a", pid=pid, lease=lease)
                if pid is not None and pid not in running:
                    assert answer["error"]["field"] == "pid"
                    return
                act = model.renew if op == "renew" else model.claim
                act(now, lease, None if pid is None else (pid, running[pid]))
                assert answer["ok"]["expires_in"] == pytest.approx(model.deadline - now, abs=0.002)
            case "full disk" if model.held:
                daemon.fill()
                assert self.ask(op="release", id=ID)["error"]["code"] == "storage"
                daemon.heal()
            case "start" if pid is not None and pid not in running:
                daemon.processes.start(pid)
            case "end" if pid in running:
                process = (pid, running[pid])
                daemon.processes.end(pid)
                model.ended(now, process)
            case "later":
                daemon.later(self.random.choice((0.5, 4.0, 30.0, 1000.0)))
                model.later(daemon.clock.now())
            case "again":
                daemon.processes.watched.clear()
                daemon.files.dead = True
                daemon.disk.kill()
                self.daemon = InProcessDaemon(disk=daemon.disk, processes=daemon.processes, clock=daemon.clock)
                model.restarted(now, running)

    def agree(self) -> None:
        shown = self.ask(op="get", id=ID)["ok"]
        assert (shown["status"] == "claimed") is self.model.held
        if self.model.held:
            kept = self.model.kept
            assert (shown.get("pid"), shown.get("pid_start")) == (kept or (None, None))
            assert shown["expires_in"] == pytest.approx(self.model.deadline - self.daemon.clock.now(), abs=0.002)


@pytest.mark.parametrize("seed", range(40))
def test_random_life_agrees_with_the_model(seed: int) -> None:
    """Who holds the node, for which process and for how long, after every step."""
    life = Life(seed)
    for _ in range(120):
        life.step()
        life.agree()
