"""The daemon's world in one process: a clock that is moved by hand, a disk that fails as told, connections, kills.

Holds the real Service, Graph and Store on the disk of fault_disk.py and plays the shell to them: it hands lines in
and answers out, ticks when something is due, flushes, snapshots in slices, dies and comes back. Deterministic: every
choice is drawn from the one generator it is given. What is right is the oracle's business, never decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

import claimdagd.service.snapshots
import claimdagd.store.journal
import claimdagd.store.snapshot
from claimdagd.app import open_service
from claimdagd.core.graph import Graph
from claimdagd.service import Config, Service
from claimdagd.store.errors import StorageError
from claimdagd.store.store import Store
from tests.simulation.fault_disk import Disk, FaultyFiles, Killed
from tests.support.clock import ManualClock
from tests.support.in_process import DIR, TAG

if TYPE_CHECKING:
    from claimdagd.service import Session
    from tests.simulation.clients import Client
    from tests.simulation.oracle import Oracle


_encode = msgspec.json.Encoder().encode


class Violation(AssertionError):
    """The daemon did what it promises never to do."""


@dataclass(frozen=True)
class Plan:
    """How one history's world is made. Times in seconds."""

    fsync: bool
    grace_s: float
    lease_s: float
    max_nodes: int
    starvation: int


def brief(raw: bytes) -> str:
    """A line as a reader of a story wants it: nodes by id, status, generation and holder."""
    return _short(msgspec.json.decode(raw))


def _short(value: Any) -> str:
    if isinstance(value, dict):
        if "status" in value and "gen" in value:
            holder = f" {value['assignee']}" if value["assignee"] else ""
            return f"<{value['id']} {value['status']} g{value['gen']}{holder}>"
        plain = {k: v for k, v in value.items() if v not in (None, [], {}) and k not in ("crc", "at", "reply")}
        shown = [f"{k} {_short(v)}" for k, v in plain.items()]
        return "{" + ", ".join(shown) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_short, value)) + "]"
    return str(value)


class SimFiles(FaultyFiles):
    """Lets others have a turn while a flush is under way, as they have when it runs in a thread."""

    between: Callable[[], None] | None = None

    def fsync(self, fd: int) -> None:
        between, self.between = self.between, None  # nobody has a turn within a turn: the daemon itself is one thread
        if between is not None:
            between()
        super().fsync(fd)
        if between is not None:
            between()
            self.between = between


class Call:
    """One request on one connection. `number` is its place among all that were ever sent, and its rid."""

    __slots__ = ("answered", "body", "client", "conn", "intent", "number", "sent_at", "until")

    def __init__(self, number: int, client: Client, conn: Conn, intent: Intent, sent_at: float) -> None:
        self.number = number
        self.client = client
        self.conn = conn
        self.intent = intent
        self.body = intent.body
        self.sent_at = sent_at
        self.answered = False
        #: When it is answered at the latest, for one that may be parked.
        self.until: float | None = None


class Intent:
    """What a client wants done once, in as many attempts as it takes. `marker` is in the texts that it writes."""

    __slots__ = ("attempts", "body", "marker", "op", "reply", "token")

    def __init__(self, body: dict[str, Any], marker: str | None = None) -> None:
        self.body = body
        self.op: str = body["op"]
        self.token: str | None = body.get("once")
        self.marker = marker
        self.attempts = 0
        #: The `ok` that the first answer held.
        self.reply: bytes | None = None


class Conn:
    """A connection: open until either side, or the network, ends it."""

    __slots__ = ("calls", "client", "life", "open", "session")

    def __init__(self, client: Client, life: int) -> None:
        self.client = client
        self.life = life
        self.open = True
        self.session: Session
        #: What was asked on it and not answered yet.
        self.calls: dict[int, Call] = {}


class World:
    """Everything outside the clients."""

    oracle: Oracle

    def __init__(self, rng: Random, plan: Plan, *, tracing: bool = False) -> None:
        self.rng = rng
        self.plan = plan
        self.clock = ManualClock()
        self.disk = Disk(DIR)
        self.files = SimFiles(self.disk)
        self.graph: Graph
        self.store: Store
        self.service: Service | None = None
        self.life = 0
        self.conns: list[Conn] = []
        self.snapshot: Iterator[Any] | None = None
        self.snapshot_wanted = False
        self.due: float | None = None
        self.woken = False
        self.leaving = False
        #: Time passed unseen, and the reaper has not come since.
        self.gap = False
        #: When the disk was last known to fail, and until when nobody may be reclaimed after a gap.
        self.trouble_at = -1e9
        self.starved_until = -1e9
        self._struck = 0
        self._faults = 0
        self._numbers = 0
        self._out: list[tuple[Conn, bytes]] = []
        self._depth = 0
        self.trace: list[str] | None = [] if tracing else None

    def serial(self) -> int:
        """A number that was never used before."""
        self._numbers += 1
        return self._numbers

    def heal(self) -> None:
        """The disk is well from now on."""
        self.note("healed")
        self.files.heal()
        self.disk.capacity = None

    def arm(self, op: str, how: Any, *, nth: int, persistent: bool = False) -> None:
        """Let the disk fail soon."""
        self.note(f"ARMED {how} of {op} {nth}{' and on' if persistent else ''}")
        self.files.arm(op, how, nth=nth, persistent=persistent)

    @property
    def faults(self) -> int:
        """How many operations of the disk went wrong, in all lives."""
        return self._faults + self.files.struck

    def note(self, what: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.clock.t:10.3f} {what}")

    # ------------------------------------------------------------------------------------------------ life and death

    def boot(self) -> bool:
        """Start a daemon on what is on the disk; False where the disk would not let it."""
        self.life += 1
        self._faults += self.files.struck
        self.files = SimFiles(self.disk)
        self._struck = 0
        plan = self.plan
        self.note(f"BOOT life {self.life}")
        try:
            opened = open_service(
                self.files, DIR, self.clock, Config(grace_s=plan.grace_s, fsync=plan.fsync),
                new_tag=lambda: TAG, max_nodes=plan.max_nodes, lease_s=plan.lease_s, starvation=plan.starvation,
            )  # fmt: skip
        except StorageError as exc:
            self.note(f"no start: {exc}")
            self.trouble_at = self.clock.t
            self.disk.kill()
            return False
        service, self.graph, self.store, recovered = opened
        service.on_wake = self._on_wake
        service.on_shutdown = self._on_shutdown
        service.on_snapshot = self._on_snapshot
        self.service = service
        self.woken, self.leaving, self.snapshot_wanted, self.gap = True, False, False, False
        self.due = None
        self.starved_until = -1e9
        self.oracle.booted(recovered)
        return True

    def _on_wake(self) -> None:
        self.woken = True

    def _on_shutdown(self) -> None:
        self.leaving = True

    def _on_snapshot(self) -> None:
        self.snapshot_wanted = True

    def die(self, *, power: bool = False) -> None:
        """The process is gone, or the whole machine, with what was not flushed."""
        if self.service is None:
            return
        self.note("POWER CUT" if power else "KILLED")
        self.files.dead = True
        self.service = None
        self.snapshot = None
        if power:
            kept = self.rng.randint(0, self.disk.unflushed_names)
            self.disk.cut_power(name_changes_kept=kept, data_kept=self.rng.random() < 0.4)
        else:
            self.disk.kill()
        conns, self.conns = self.conns, []
        self._out.clear()
        for conn in conns:
            conn.open = False
        self.oracle.died()
        for conn in conns:
            conn.client.cut(conn)

    def leave(self) -> None:
        """The daemon is told to go, and goes in order."""
        service = self.service
        if service is None:
            return
        self.note("DRAIN")
        self.flush()
        if self.service is service and self.inside(service.drain):
            self.flush()
            if self.service is service:
                self.oracle.drained()
                self.store.close()
                self.die()

    # ---------------------------------------------------------------------------------------------------- connections

    def connect(self, client: Client) -> Conn | None:
        """A new connection, or None where nobody listens."""
        if self.service is None:
            return None
        conn = Conn(client, self.life)

        def deliver(data: bytes) -> None:
            if conn.open:
                self._out.append((conn, data))

        def hang_up() -> None:
            if conn.open:
                self._out.append((conn, b""))

        conn.session = self.service.open(deliver, hang_up)
        self.conns.append(conn)
        return conn

    def cut(self, conn: Conn, *, undelivered: bool = False) -> None:
        """The connection ends, and the daemon learns of it."""
        if not conn.open:
            return
        self.note(f"cut {conn.client.name}{' with answers unread' if undelivered else ''}")
        conn.open = False
        self.conns.remove(conn)
        service = self.service
        assert service is not None
        self.oracle.closing(conn, undelivered)
        self.inside(lambda: service.closed(conn.session, undelivered))
        conn.client.cut(conn)

    def send(self, conn: Conn, intents: list[Intent], *, lose: bool = False) -> None:
        """Send requests in one go. `lose`: the answers never reach the client, whose connection breaks."""
        service = self.service
        if service is None or not conn.open:
            return
        calls, lines = [], []
        for intent in intents:
            self._numbers += 1
            intent.attempts += 1
            call = Call(self._numbers, conn.client, conn, intent, self.clock.t)
            calls.append(call)
            conn.calls[call.number] = call
            lines.append(_encode({**intent.body, "rid": call.number}))
            if self.trace is not None:
                self.note(f"{conn.client.name:8} > {lines[-1].decode()}")
            self.oracle.sent(call)
        conn.client.deaf = lose
        alive = self.inside(lambda: service.receive(conn.session, lines))
        conn.client.deaf = False
        if alive and self.service is service:
            self.oracle.received(calls)
            if lose:
                self.cut(conn, undelivered=self.rng.random() < 0.5)

    def inside(self, action: Callable[[], Any]) -> bool:
        """Do something in the daemon, and hand out what it says. False where it died of it."""
        service = self.service
        try:
            action()
        except Killed:
            self._pump()
            self.die(power=self.plan.fsync and self.rng.random() < 0.7)
            return False
        self._pump()
        if self.service is not service:
            return False
        if self.files.struck != self._struck or self.disk.capacity is not None:
            self._struck = self.files.struck
            self.trouble_at = self.clock.t
        self.oracle.after_step()
        return True

    def _pump(self) -> None:
        out = self._out
        hung = []
        while out:
            batch, self._out = out, []
            for conn, data in batch:
                if not data:
                    hung.append(conn)
                    continue
                for line in data.splitlines():
                    self.oracle.delivered(conn, line)
            out = self._out
        for conn in hung:
            conn.client.hung_up(conn)

    # ----------------------------------------------------------------------------------------------------------- time

    def tick(self) -> None:
        """What the shell's reaper does when it is woken."""
        service = self.service
        if service is None:
            return
        self.woken = self.gap = False

        def act() -> None:
            self.due = service.tick()

        if self.inside(act):
            self.oracle.ticked()

    def advance(self, seconds: float) -> None:
        """Let time pass: everything due on the way is done when it is due."""
        self.flush()
        target = self.clock.t + seconds
        for _ in range(1000):
            if self.service is None:
                break
            if self.woken:
                self.tick()
                self.flush()
                continue
            if self.due is None or self.due > target:
                break
            self.clock.t = max(self.clock.t, self.due)
            self.tick()
            self.flush()
        else:
            raise Violation(f"the reaper never rests: due {self.due}, now {self.clock.t}")
        self.clock.t = max(self.clock.t, target)
        self.oracle.settled()

    def starve(self, seconds: float) -> None:
        """The daemon does not run for a while, and then learns of it."""
        self.flush()
        service = self.service
        self.clock.t += seconds
        if service is not None:
            self.note(f"STARVED {seconds:.3f}")
            self.gap = True
            self.starved_until = self.clock.t + max(self.plan.grace_s, 1.0)
            self.inside(lambda: service.on_clock_gap(self.clock.t))

    # ------------------------------------------------------------------------------------------------ flush, snapshot

    def flush(self, between: Callable[[], None] | None = None) -> None:
        """fsync mode: flush until nothing waits for it. `between` is given turns while a flush is under way."""
        for _ in range(20):
            service = self.service
            if service is None or not service.commit_due:
                return
            self.flush_once(between)
        self.files.heal()
        self.disk.capacity = None
        self.flush_once(None)
        if self.service is not None and self.service.commit_due:
            raise Violation("answers wait for a flush that does not bring them")

    def flush_once(self, between: Callable[[], None] | None) -> None:
        service, files, store = self.service, self.files, self.store
        assert service is not None
        self.note("flush")
        files.between = between
        failure = None
        try:
            store.sync()
        except StorageError as exc:
            failure = exc
        except Killed:
            self.die(power=self.rng.random() < 0.7)
            return
        finally:
            files.between = None
        if self.service is not service:
            return
        if failure is not None:
            self.note(f"flush failed: {failure}")
            self.trouble_at = self.clock.t
            error = failure
            self.inside(lambda: service.commit_failed(error))
        else:
            self.inside(service.committed)

    def snapshot_step(self, between: Callable[[], None] | None = None) -> None:
        """Begin a snapshot, or take the one that is being written one slice further."""
        service, files = self.service, self.files
        if service is None:
            return
        if self.snapshot is None:
            self.note("snapshot begins")
            self.snapshot_wanted = False
            self.snapshot = service.snapshot()
        work = self.snapshot

        def act() -> None:
            step = None
            try:
                step = next(work)
            except StopIteration:
                self.note("snapshot done")
                self.oracle.snapshots += 1
                self.snapshot = None
            except StorageError as exc:
                self.note(f"snapshot failed: {exc}")
                self.trouble_at = self.clock.t
                self.snapshot = None
            if step is not None and self.rng.random() < 0.7:
                files.between = between
                try:
                    step()
                finally:
                    files.between = None

        self.inside(act)


@contextmanager
def small_slices() -> Iterator[None]:
    """Let snapshots and journal copies of small graphs take several steps, and come by themselves."""
    small = (
        (claimdagd.store.snapshot, "SLICE", 3),
        (claimdagd.store.journal, "CHUNK", 700),
        (claimdagd.service.snapshots, "JOURNAL_MIN_BYTES", 30_000),
    )
    kept = [getattr(module, name) for module, name, _ in small]
    for module, name, value in small:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(small, kept, strict=True):
            setattr(module, name, value)
