"""Who talks to the daemon: workers, people who add and change work, watchers, and some who only look.

Each acts when it is its turn, on what it knows, and sometimes on what it has got wrong. A request whose answer was lost
is asked again with the same token, or not at all. Must not check anything but what its own kind of client relies on.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from claimdagd.model import TERMINAL, Status
from tests.simulation.world import Call, Conn, Intent, Violation, World

RESOURCES = ("cpu", "gpu", "net")
ROLES = ("implementor", "verifier", "general")
#: Refusals by which a worker learns that it no longer holds what it thinks it holds.
_OVER = ("gen_mismatch", "not_found", "terminal", "bad_status")
LEASES = (None, 2.0, 5.0, 12.0, 40.0)


class Client:
    """A name, at most one connection, and what is still to be asked again."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.rng: Random = world.rng
        self.name = name
        self.conn: Conn | None = None
        #: The network loses what the daemon says at this moment.
        self.deaf = False
        self.again: deque[Intent] = deque()
        #: What was done, by its tokens.
        self.done: list[Intent] = []

    # ------------------------------------------------------------------------------------------ what happens to it

    def cut(self, conn: Conn) -> None:
        """A connection of its ended; what was not answered on it may have been done or not."""
        if conn is self.conn:
            self.conn = None
        for call in conn.calls.values():
            if call.intent.token is not None and self.rng.random() < 0.9:
                self.again.append(call.intent)
        if self.done and self.rng.random() < 0.3:
            self.again.append(self.done[-1])
        conn.calls.clear()

    def hung_up(self, conn: Conn) -> None:
        """The daemon hangs up."""
        self.world.cut(conn)

    def event(self, conn: Conn, body: dict[str, Any]) -> None:
        """The daemon told it something unasked."""

    def entry(self, conn: Conn, seq: int) -> None:
        """A watcher is told of a mutation."""

    def answered(self, call: Call, ok: Any, error: dict[str, Any] | None) -> None:
        """An answer reached it."""
        if call.intent.token is None:
            return
        if error is None:
            self.done.append(call.intent)
        elif error["code"] in ("storage", "shutting_down"):
            self.again.append(call.intent)

    # ----------------------------------------------------------------------------------------------------- what it does

    def act(self) -> None:
        """Its turn."""
        if self.conn is None:
            self.conn = self.world.connect(self)
            if self.conn is None:
                return
        if self.done and self.rng.random() < 0.05:
            # Long after: a token's first reply is its last.
            self.again.append(self.rng.choice(self.done))
        if self.again and self.rng.random() < 0.8:
            self.send([self.again.popleft()])
            return
        self.turn(self.conn)

    def turn(self, conn: Conn) -> None:
        raise NotImplementedError

    def send(self, intents: list[Intent]) -> None:
        """Ask; now and then the answer is lost, or the request goes out twice."""
        conn, rng = self.conn, self.rng
        if conn is None:
            return
        lose = rng.random() < 0.04
        if rng.random() < 0.03:
            intents = [*intents, *(i for i in intents if i.token is not None)]
        if lose:
            self.again.extend(i for i in intents if i.token is not None and i not in self.again)
        self.world.send(conn, intents, lose=lose)

    def intent(self, op: str, *, token: float = 0.7, marked: bool = False, **fields: Any) -> Intent:
        """A request; `token`: how likely it carries one. `marked`: its summary is a text of its own."""
        body: dict[str, Any] = {"op": op, **{k: v for k, v in fields.items() if v is not None}}
        if token and self.rng.random() < token:
            body["once"] = f"{self.name}-{self.world.serial()}"
        marker = None
        if marked:
            marker = f"m{self.world.serial()}"
            body["summary"] = marker
        return Intent(body, marker)

    def some(self, *statuses: Status, terminal: bool = False) -> str | None:
        """A node's id, of these statuses or of any."""
        nodes = self.world.oracle.replica
        ids = [
            i
            for i, rec in nodes.items()
            if (rec.status in statuses if statuses else terminal or rec.status not in TERMINAL)
        ]
        return self.rng.choice(ids) if ids else None


class Worker(Client):
    """Claims, renews, begins, completes, hands back, goes silent, comes back with an old generation."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.held: tuple[str, int] | None = None
        self.old: list[tuple[str, int]] = []
        self.bound = self.rng.random() < 0.5
        self.role = self.rng.choice((None, None, *ROLES))
        self.strict = self.role is not None and self.rng.random() < 0.3
        self.asleep = 0

    def cut(self, conn: Conn) -> None:
        super().cut(conn)
        if self.held is not None and self.rng.random() < 0.3:
            self._forget()

    def _forget(self) -> None:
        if self.held is not None:
            self.old.append(self.held)
            self.held = None

    def event(self, conn: Conn, body: dict[str, Any]) -> None:
        if body["op"] == "lost" and self.held == (body["id"], body["gen"]):
            self._forget()

    def answered(self, call: Call, ok: Any, error: dict[str, Any] | None) -> None:
        super().answered(call, ok, error)
        op = call.intent.op
        if error is not None:
            if error["code"] == "assignee_busy" and self.rng.random() < 0.7:
                self.held = (error["id"], error["gen"])
            elif error["code"] in _OVER and self.held is not None and call.body.get("id") == self.held[0]:
                self._forget()
            return
        if op in ("claim", "claim_next"):
            self.held = (ok["id"], ok["gen"])
        elif op in ("complete", "release"):
            if self.held is not None and call.body["id"] == self.held[0]:
                self._forget()
            if op == "complete" and ok["next"] is not None:
                self.held = (ok["next"]["id"], ok["next"]["gen"])

    def turn(self, conn: Conn) -> None:
        rng = self.rng
        if self.asleep:
            self.asleep -= 1
            return
        if any(c.until is not None for c in conn.calls.values()) and rng.random() < 0.9:
            return
        if rng.random() < 0.04:
            # What another one holds, in its own name: none of its business.
            held = self.some(Status.CLAIMED, Status.RUNNING)
            if held is not None:
                op = rng.choice(("renew", "running", "complete", "release"))
                self.send([self.intent(op, token=0, id=held, actor=self.name)])
            return
        if self.old and rng.random() < 0.1:
            node_id, gen = rng.choice(self.old)
            op = rng.choice(("renew", "running", "complete", "release"))
            self.send([self.intent(op, token=0, id=node_id, gen=gen, actor=rng.choice((None, self.name)))])
        elif self.held is None:
            self.send([self._claim()])
        else:
            self._work(*self.held)

    def _claim_fields(self) -> dict[str, Any]:
        rng = self.rng
        return {
            "role": self.role,
            "strict": True if self.strict else None,
            "slack": rng.choice((None, None, 2.0)) if self.role else None,
            "lease": rng.choice(LEASES),
            "bound": True if self.bound else None,
            "wait": rng.choice((None, 1.0, 6.0, 30.0)),
        }

    def _claim(self) -> Intent:
        rng = self.rng
        if rng.random() < 0.2:
            node_id = self.some(Status.READY) if rng.random() < 0.8 else self.some(terminal=True)
            if node_id is not None:
                gen = self.world.oracle.replica[node_id].gen
                return self.intent(
                    "claim", id=node_id, actor=self.name, lease=rng.choice(LEASES),
                    gen=rng.choice((None, gen, max(0, gen - 1))), bound=True if self.bound else None,
                )  # fmt: skip
        return self.intent("claim_next", actor=self.name, **self._claim_fields())

    def _work(self, node_id: str, gen: int) -> None:
        rng = self.rng
        about = {"id": node_id, "gen": gen, "actor": rng.choice((self.name, self.name, None))}
        chance = rng.random()
        if chance < 0.3:
            lease = rng.choice((None, None, 1.5, 8.0))
            bound = True if self.bound and rng.random() < 0.7 else None
            self.send([self.intent(rng.choice(("renew", "running")), token=0, lease=lease, bound=bound, **about)])
        elif chance < 0.75:
            status = rng.choice(("done", "done", "done", "failed", "cancelled"))
            next_ = {k: v for k, v in self._claim_fields().items() if v is not None} if rng.random() < 0.5 else None
            if next_ is not None:
                about["actor"] = self.name
            work = self.intent("complete", status=status, next=next_, marked=rng.random() < 0.5, **about)
            more = [self._claim()] if rng.random() < 0.1 else []
            self.send([work, *more])
        elif chance < 0.85:
            self.send([self.intent("release", **about)])
        elif chance < 0.9:
            self.asleep = rng.randint(1, 12)
        elif chance < 0.95:
            self.send([self._claim()])
        else:
            self._forget()


class Boss(Client):
    """Adds work, changes it, cancels it, brings it back, and speaks for work done elsewhere."""

    def turn(self, conn: Conn) -> None:
        count = self.rng.choice((1, 1, 1, 2, 3))
        self.send([self._one() for _ in range(count)])

    def _fields(self, *, under: str | None = None) -> dict[str, Any]:
        rng = self.rng
        fields: dict[str, Any] = {}
        if rng.random() < 0.4:
            targets = dict.fromkeys(self.some(terminal=rng.random() < 0.3) for _ in range(rng.randint(1, 2)))
            whens = ("after_ok", "after_ok", "after_any")
            fields["deps"] = [{"on": t, "when": rng.choice(whens)} for t in targets if t is not None]
        if rng.random() < 0.35:
            fields["parent"] = under or self.some()
        if rng.random() < 0.35:
            fields["needs"] = {r: rng.choice((1, 1, 2)) for r in rng.sample(RESOURCES, rng.randint(1, 2))}
        if rng.random() < 0.2:
            fields["priority"] = rng.randint(-2, 2)
        if rng.random() < 0.2:
            fields["max_attempts"] = rng.randint(1, 2)
        if rng.random() < 0.3:
            fields["role"] = rng.choice(ROLES)
        if rng.random() < 0.2:
            fields["cost"] = float(rng.randint(1, 5))
        return {k: v for k, v in fields.items() if v is not None}

    def _one(self) -> Intent:
        rng = self.rng
        chance = rng.random()
        if chance < 0.38:
            kind = rng.choice(("task", "task", "task", "step", "goal", "molecule"))
            return self.intent("upsert", marked=True, kind=kind, **self._fields())
        if chance < 0.48:
            return self._plan()
        if chance < 0.50:
            # Nothing of it changes anything.
            return self.intent("upsert", token=1, id=self.some())
        if chance < 0.55:
            status = rng.choice((None, "blocked", "todo", "ready"))
            return self.intent("upsert", marked=rng.random() < 0.5, id=self.some(), status=status, **self._fields())
        if chance < 0.62:
            op = rng.choice(("link", "link", "unlink"))
            when = rng.choice(("after_ok", "after_any")) if op == "link" else None
            ends = {"before": self.some(terminal=True) or "x", "after": self.some() or "x"}
            return self.intent(op, when=when, **ends)
        if chance < 0.68:
            return self.intent("cancel", id=self.some() or "x")
        if chance < 0.75:
            return self.intent("reopen", id=self.some(*TERMINAL) or "x")
        if chance < 0.79:
            return self.intent(rng.choice(("archive", "unarchive")), id=self.some(*TERMINAL) or "x")
        if chance < 0.805:
            return self._pause()
        if chance < 0.84:
            return self.intent("capacity", resource=rng.choice(RESOURCES), units=rng.choice((0, 1, 2, 3, 3)))
        if chance < 0.88:
            return self.intent("reclaim", lease=rng.choice((None, 0.0, 3.0, 20.0)))
        if chance < 0.94:
            status = rng.choice(("done", "done", "failed", "cancelled"))
            return self.intent("complete", marked=rng.random() < 0.3, id=self.some() or "x", status=status)
        if chance < 0.96:
            return self.intent("checkpoint", token=0)
        op = rng.choice(("list", "ready", "stats", "resources", "log", "why", "get", "hello", "ping"))
        return self.intent(op, token=0, **({"id": self.some() or "x"} if op in ("why", "get") else {}))

    def _pause(self) -> Intent:
        """Lift a pause that there is, or pause something, rarely all."""
        rng, paused = self.rng, self.world.oracle.paused
        if paused:
            return self.intent("resume", under=rng.choice(paused))
        return self.intent("pause", under=None if rng.random() < 0.3 else self.some())

    def _plan(self) -> Intent:
        rng = self.rng
        marker = f"m{self.world.serial()}"
        nodes: list[dict[str, Any]] = [{"ref": "g", "kind": "goal", "summary": f"{marker}.g"}]
        for k in range(rng.randint(2, 4)):
            node = {**self._fields(), "ref": f"n{k}", "parent": "g", "summary": f"{marker}.{k}"}
            if k and rng.random() < 0.6:
                node["deps"] = [{"on": f"n{k - 1}"}]
            nodes.append(node)
        intent = self.intent("submit", nodes=nodes)
        intent.marker = marker
        return intent


class Watcher(Client):
    """Follows the ledger over every cut and restart, and misses nothing."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.last: int | None = None

    def turn(self, conn: Conn) -> None:
        if conn.session.watching or conn.calls:
            if self.rng.random() < 0.1:
                self.world.cut(conn)
            return
        start = self.last + 1 if self.last is not None else self.rng.choice((None, 0, self.world.oracle.seq + 1))
        self.world.send(conn, [self.intent("watch", token=0, **{"from": start})])

    def answered(self, call: Call, ok: Any, error: dict[str, Any] | None) -> None:
        super().answered(call, ok, error)
        if ok is not None:
            if self.last is not None and ok["seq"] != self.last:
                raise Violation(f"{self.name} asked to go on after {self.last}, and goes on after {ok['seq']}")
            self.last = ok["seq"]
        elif error is not None and error["code"] == "lagged":
            self.last = None

    def entry(self, conn: Conn, seq: int) -> None:
        if self.last is not None and seq != self.last + 1:
            raise Violation(f"{self.name} was told of entry {seq} after {self.last}")
        self.last = seq


class Waiter(Client):
    """Waits for nodes to end."""

    def turn(self, conn: Conn) -> None:
        if conn.calls:
            if self.rng.random() < 0.05:
                self.world.cut(conn)
            return
        ids = {self.some(terminal=self.rng.random() < 0.2) for _ in range(self.rng.randint(1, 3))} - {None}
        if ids:
            timeout = self.rng.choice((None, 0.0, 3.0, 25.0))
            self.world.send(conn, [self.intent("wait", token=0, ids=sorted(i for i in ids if i), timeout=timeout)])
