"""What must hold in every history, whatever fails: the checks that the simulator holds the daemon to.

It listens to everything that is answered, and follows the ledger over a connection of its own as any watcher might; the
state that it rebuilds from these entries alone is held against the graph's after every step and over every restart. It
never touches the daemon but to look.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from claimdagd.core import invariants
from claimdagd.core.queries.order import claim_order
from claimdagd.model import GROUPS, LIVE, TERMINAL, Node, Role, Status
from claimdagd.store.entry import Record, decode_entry
from claimdagd.store.recovery import Recovered
from claimdagd.wire import Code
from tests.simulation.rules import check_change, check_state
from tests.simulation.world import Call, Conn, Intent, Violation, World, brief

#: Slack for sums of floats.
EPS = 1e-6
#: After the disk was well again, how long until what it held up must have been made up for.
RECOVERY_S = 3.0
REBIND_S = 10.0

_CODES = frozenset(Code) - {Code.INTERNAL}
_OPEN = frozenset({Status.TODO, Status.READY, Status.BLOCKED})
_NOTHING = ("nothing_runnable", "nothing_pending")


class Line(msgspec.Struct):
    """One line from the daemon."""

    rid: int | None = None
    ok: Raw | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET
    event: Raw | UnsetType = UNSET


class Lease:
    """A live claim as the outside knows it: it may not end before `lo`, and must have ended by `hi`."""

    __slots__ = ("bound", "conn", "gen", "hi", "lease_s", "lo", "spoke", "warned")

    def __init__(self, gen: int, now: float, lease_s: float, bound: bool) -> None:
        self.gen = gen
        self.lease_s = lease_s
        self.spoke = now
        self.bound = bound
        self.conn: Conn | None = None
        self.lo = self.hi = now + lease_s
        #: Whether its holder was told that it runs out, since it was last renewed.
        self.warned = False


class Tap:
    """The oracle's own connection; it only watches."""

    name = "oracle"
    deaf = False

    def cut(self, conn: Conn) -> None: ...
    def hung_up(self, conn: Conn) -> None: ...
    def event(self, conn: Conn, body: dict[str, Any]) -> None: ...
    def answered(self, call: Call, ok: Any, error: dict[str, Any] | None) -> None: ...
    def entry(self, conn: Conn, seq: int) -> None: ...


_line = msgspec.json.Decoder(Line).decode
_any = msgspec.json.Decoder().decode


class Oracle:
    """Everything that was promised in one history so far."""

    def __init__(self, world: World, *, check_every: int = 1) -> None:
        self.world = world
        world.oracle = self
        self.check_every = check_every
        self.steps = 0
        self.snapshots = 0
        self.restarts = 0
        self.answers = 0
        #: Every entry that anybody was told of.
        self.told: dict[int, bytes] = {}
        self.seq = 0
        self.replica: dict[str, Node] = {}
        self.capacities: dict[str, int] = {}
        #: The paused scopes, None for the whole graph.
        self.paused: list[str | None] = []
        self.next_number = 1
        self.ever: set[str] = set()
        self.leases: dict[str, Lease] = {}
        #: Who was told to hold a node at a generation.
        self.granted: dict[tuple[str, int], Intent] = {}
        self.once_entries: dict[str, list[str]] = {}
        self.created: dict[str, str] = {}
        self.applied: set[str] = set()
        self.refused: set[str] = set()
        self.reopened: set[str] = set()
        self.calls: dict[int, Call] = {}
        self.expected_lost: list[tuple[Conn, str, int]] = []
        self._tap = Tap()
        self._tap_conn: Conn | None = None
        self._resync = False
        self._booting = False
        self.claims_answered: list[Call] = []
        #: Claims of which the outside cannot know whose connection they are bound to.
        self.unsure: set[tuple[str, int]] = set()
        self.reclaims: list[Call] = []
        #: Resources whose capacity was lowered below what was in use.
        self.lowered: set[str] = set()

    def brought_back(self, node_id: str) -> bool:
        """Whether the node was ever reopened or handed back: such a one may wait on what failed."""
        return node_id in self.reopened

    def fail(self, what: str) -> None:
        raise Violation(what)

    def must(self, condition: object, what: str) -> None:
        if not condition:
            raise Violation(what)

    @property
    def calm(self) -> bool:
        """Whether the disk has been well for long enough that nothing is excused by it."""
        world = self.world
        return world.disk.capacity is None and world.clock.t >= world.trouble_at + RECOVERY_S

    # ------------------------------------------------------------------------------------------------- life and death

    def booted(self, recovered: Recovered) -> None:
        """A daemon came up: nothing that was told is lost, and what was never told is whole or absent."""
        world = self.world
        now = world.clock.t
        self.must(recovered.seq >= self.seq, f"entries {recovered.seq + 1} to {self.seq} were told and are lost")
        self._tap_conn = conn = world.connect(self._tap)  # type: ignore[arg-type]
        assert conn is not None
        assert world.service is not None
        self.calls.clear()
        self._booting = True  # what an earlier life did and never told: its times are past
        world.service.receive(conn.session, [b'{"op":"watch","from":%d,"rid":0}' % (self.seq + 1)])
        world._pump()
        self._booting = False
        if self._resync:
            # Entries that a snapshot took over and nobody was told of: the state is all there is of them.
            self._resync = False
            for v in world.graph.vertices.values():
                old = self.replica.get(v.record.id)
                self.must(old is None or v.record.gen >= old.gen, f"{v.record.id} went back from gen {old and old.gen}")
            self.replica = {v.record.id: v.record for v in world.graph.vertices.values()}
            self.ever.update(self.replica)
            self.capacities = dict(world.graph.resources.configured)
            self.paused = world.graph.pauses.ids()
            self.next_number = world.graph.next_number
            self.seq = recovered.seq
        self.must(self.seq == recovered.seq, f"told up to {self.seq} after a start at {recovered.seq}")
        self.must(recovered.next_number >= self.next_number, "a number was handed out again")
        self.must(self.paused == world.graph.pauses.ids(), "pauses changed over a restart")
        self.must(self.capacities == world.graph.resources.configured, "capacities changed over a restart")
        self.leases = {}
        for node_id, rec in self.replica.items():
            if rec.status in LIVE and rec.kind not in GROUPS:
                lease = self.leases[node_id] = Lease(rec.gen, now, rec.lease or world.plan.lease_s, rec.bound)
                if rec.bound:
                    lease.lo = lease.hi = now + max(world.plan.grace_s, REBIND_S)
        self.check_graph()

    def died(self) -> None:
        """The daemon is gone."""
        self.restarts += 1
        self.leases.clear()
        self.calls.clear()
        self.expected_lost.clear()
        self.claims_answered.clear()
        self._tap_conn = None

    def drained(self) -> None:
        """A daemon that leaves in order answers everything that it was asked."""
        for call in self.calls.values():
            if call.conn.open:
                self.fail(f"{call.body} was not answered before the daemon left")

    def closing(self, conn: Conn, undelivered: bool) -> None:
        """A connection is about to be gone: its bound claims have their grace, and what it asked is forgotten."""
        now, grace = self.world.clock.t, self.world.plan.grace_s
        for number, call in conn.calls.items():
            self.calls.pop(number, None)
            renewed = self.leases.get(call.body.get("id", "")) if call.intent.op in ("renew", "running") else None
            if renewed is not None:
                # It was done or not, and may have bound the claim to the connection that goes.
                renewed.lo = min(renewed.lo, now)
                renewed.hi = max(renewed.hi, now + (call.body.get("lease") or renewed.lease_s))
        for node_id, lease in self.leases.items():
            if lease.bound and (node_id, lease.gen) in self.unsure:
                lease.lo = min(lease.lo, now)
            if lease.conn is conn:
                lease.conn = None
                lease.lo = now if undelivered else min(lease.lo, now + grace)
                lease.hi = min(lease.hi, now + grace)

    # ------------------------------------------------------------------------------------------------------- requests

    def sent(self, call: Call) -> None:
        """A request goes out."""
        self.calls[call.number] = call
        body = call.body
        if call.intent.op == "reclaim":
            self.reclaims.append(call)
        if call.intent.marker is not None:
            self.refused.discard(call.intent.marker)
        wait = body.get("wait") if call.intent.op == "claim_next" else (body.get("next") or {}).get("wait")
        if call.intent.op == "wait":
            call.until = call.sent_at + body["timeout"] if body.get("timeout") is not None else None
        elif wait:
            call.until = call.sent_at + wait

    def received(self, calls: list[Call]) -> None:
        """The daemon has taken these requests in: all that need not wait are answered."""
        world = self.world
        assert world.service is not None
        if world.service.commit_due:
            return
        for call in calls:
            parks = call.until is not None or call.intent.op in ("wait", "checkpoint")
            if not call.answered and not parks and call.conn.open and not self._behind_a_checkpoint(call):
                self.fail(f"no answer to {call.body}")

    def delivered(self, conn: Conn, raw: bytes) -> None:
        """The daemon has said something to somebody."""
        try:
            line = _line(raw)
        except msgspec.MsgspecError as exc:
            raise Violation(f"not a line of JSON: {raw!r} ({exc})") from exc
        said = [line.ok, line.error, line.event]
        self.must(sum(part is not UNSET for part in said) == 1, f"not one of ok, error, event: {raw!r}")
        if self.world.trace is not None and conn.client.name != "watcher":
            self.world.note(f"{conn.client.name:8} < {brief(raw)}")
        if not isinstance(line.event, UnsetType):
            self._event(conn, bytes(line.event))
            return
        if conn is self._tap_conn:
            if not isinstance(line.error, UnsetType):
                lagged = line.error["code"] == "lagged" and self.world.plan.fsync
                self.must(lagged, f"the watcher was told {line.error}")
                self._resync = True
                assert self.world.service is not None
                self.world.service.receive(conn.session, [b'{"op":"watch","rid":1}'])
            return
        self.must(line.rid is not None, f"an answer to nobody: {raw!r}")
        assert line.rid is not None
        call = conn.calls.pop(line.rid, None)
        if call is None:
            raise Violation(f"an answer to no open request of {conn.client.name}: {raw!r}")
        self.calls.pop(line.rid, None)
        call.answered = True
        self.answers += 1
        self._in_order(conn, call)
        if not isinstance(line.error, UnsetType):
            self._refused(call, line.error)
            if not conn.client.deaf:
                conn.client.answered(call, None, line.error)
        else:
            assert not isinstance(line.ok, UnsetType)
            ok = _any(line.ok)
            self._accepted(call, bytes(line.ok), ok)
            if not conn.client.deaf:
                conn.client.answered(call, ok, None)

    @staticmethod
    def _behind_a_checkpoint(call: Call) -> bool:
        """Whether its connection asked for a checkpoint before it, which takes a while and is answered first."""
        return any(
            number < call.number and other.intent.op == "checkpoint" and not other.answered
            for number, other in call.conn.calls.items()
        )

    def _in_order(self, conn: Conn, call: Call) -> None:
        if call.until is not None or call.intent.op == "wait":
            return
        for number, other in conn.calls.items():
            if number > call.number:
                return
            if other.until is None and other.intent.op != "wait" and not other.answered:
                self.fail(f"{call.body} was answered before {other.body}")

    def _refused(self, call: Call, error: dict[str, Any]) -> None:
        intent = call.intent
        code = error["code"]
        self.must(code in _CODES, f"{call.body} was answered {error}")
        self.must(str(error.get("message")), f"no message: {error}")
        if code == "storage":
            trouble = self.world.files.struck != self.world._struck or self.world.trouble_at >= self.world.clock.t - EPS
            self.must(trouble or self.world.disk.capacity is not None, f"{error} of a disk that is well")
        elif code == "shutting_down":
            self.must(self.world.leaving or self.world.service is None or self.world.service.draining, f"{error}")
        elif intent.reply is not None and intent.token is not None:
            self.fail(f"{call.body} was done, and then answered {error}")
        if code == "storage" and intent.op in ("renew", "running"):
            lease = self.leases.get(call.body["id"])
            if lease is not None:
                lease.hi = max(lease.hi, self.world.clock.t + (call.body.get("lease") or lease.lease_s))
        unsure = code == "storage" and "crash" in error["message"]
        if intent.marker is not None and intent.attempts == 1 and not unsure:
            self.must(intent.marker not in self.applied, f"{call.body} was refused with {error} and done all the same")
            self.refused.add(intent.marker)
        if code == "timeout" or (code in _NOTHING and call.until is not None):
            self.must(
                call.until is not None and self.world.clock.t >= call.until - EPS,
                f"{call.body} was to wait until {call.until} and was given up at {self.world.clock.t}",
            )

    def _accepted(self, call: Call, raw: bytes, ok: Any) -> None:
        intent, body, op = call.intent, call.body, call.intent.op
        gen = body.get("gen")
        first = intent.reply is None
        if intent.token is not None:
            known = intent.reply
            waits = op == "complete" and (body.get("next") or {}).get("wait")
            if known is not None and not waits:
                self.must(known == raw, f"token {intent.token} was answered {known!r}, then {raw!r}")
        intent.reply = raw
        if op in ("claim", "claim_next"):
            self._claimed(call, ok, first)
            if gen is not None and first:
                self.must(ok["gen"] == gen + 1, f"{body} was answered gen {ok['gen']}")
        elif op in ("renew", "running"):
            holder = self.replica[body["id"]].assignee
            mine = body.get("actor") in (None, holder) or holder is None
            self.must(mine, f"{body} was accepted, and {holder} holds it")
            self.must(gen is None or ok["gen"] == gen, f"{body} was answered gen {ok['gen']}")
            self._renewed(call, ok)
        elif op == "release":
            self.must(not first or gen is None or ok["gen"] == gen + 1, f"{body} was answered gen {ok['gen']}")
        elif op == "complete":
            node = ok["node"]
            self.must(gen is None or node["gen"] == gen, f"{body} was answered gen {node['gen']}")
            self.must(
                node["status"] in TERMINAL or node["outcome"] is not None, f"{body} left {node['id']} {node['status']}"
            )
            if ok["next"] is not None:
                self._claimed(call, ok["next"], first)
            elif ok["code"] in _NOTHING and call.until is not None and intent.attempts == 1:
                self.must(
                    self.world.clock.t >= call.until - EPS,
                    f"{body} was to wait until {call.until}, and was given nothing at {self.world.clock.t}",
                )
        elif op == "wait":
            for node in ok["nodes"]:
                self.must(node["status"] in TERMINAL, f"waited for {node['id']}, which is {node['status']}")

    def _claimed(self, call: Call, ok: Any, first: bool) -> None:
        key = (ok["id"], ok["gen"])
        known = self.granted.setdefault(key, call.intent)
        self.must(known is call.intent, f"{key} was given to {known.body} and to {call.body}")
        if not first:
            self.unsure.add(key)
            return
        lease = self.leases.get(ok["id"])
        spec = call.body if call.intent.op != "complete" else call.body["next"]
        lease_s = spec.get("lease") or self.world.plan.lease_s
        self.must(abs(ok["expires_in"] - lease_s) < 0.002, f"{call.body} got {ok['expires_in']} s")
        if lease is not None and lease.gen == ok["gen"]:
            if call.intent.attempts == 1:
                lease.lo = lease.hi = self.world.clock.t + lease_s
                lease.conn = call.conn if lease.bound else None
            else:
                self.unsure.add(key)
        if call.until is not None and call.intent.attempts == 1:
            self.claims_answered.append(call)

    def _renewed(self, call: Call, ok: Any) -> None:
        lease = self.leases.get(ok["id"])
        if lease is None or lease.gen != ok["gen"]:
            return
        now = self.world.clock.t
        lease.lease_s = call.body.get("lease") or ok["expires_in"]
        lease.lo = lease.hi = now + lease.lease_s
        lease.spoke = now
        lease.warned = False
        if call.body.get("bound") or (lease.bound and call.body.get("gen") is not None):
            lease.bound = True
            lease.conn = call.conn

    # --------------------------------------------------------------------------------------------------------- events

    def _event(self, conn: Conn, raw: bytes) -> None:
        body = _any(raw)
        if "seq" in body:
            seq = body["seq"]
            known = self.told.setdefault(seq, raw)
            self.must(known == raw, f"entry {seq} was {known!r}, and now is {raw!r}")
            if conn is self._tap_conn:
                if not self._resync:
                    self._follow(decode_entry(raw))
            elif not conn.client.deaf:
                conn.client.entry(conn, seq)
            return
        if body["op"] == "expiring":
            lease = self.leases.get(body["id"])
            if lease is not None and lease.gen == body["gen"]:
                sure = (body["id"], body["gen"]) not in self.unsure
                self.must(lease.conn is conn or not sure, f"{body} came to {conn.client.name}")
                self.must(not lease.warned or not self.calm, f"{body} came twice")
                lease.warned = True
        elif body["op"] == "lost":
            lost = (conn, body["id"], body["gen"])
            if lost in self.expected_lost:
                self.expected_lost.remove(lost)
            else:
                self.must(lost[1:] in self.unsure, f"{body} came to {conn.client.name}, who lost nothing")
        if not conn.client.deaf:
            conn.client.event(conn, body)

    def _follow(self, record: Record) -> None:
        """One entry of the ledger, onto the replica; the rules of a single change are looked at here."""
        world = self.world
        self.must(record.seq == self.seq + 1, f"entry {record.seq} came after {self.seq}")
        self.seq = record.seq
        replica = self.replica
        self.must(record.next >= self.next_number, f"entry {record.seq} takes back number {self.next_number}")
        self.next_number = record.next
        if record.once is not None:
            ops = self.once_entries.setdefault(record.once, [])
            ops.append(record.op)
            self.must(ops in ([ops[0]], ["complete", "claim_next"]), f"token {record.once} was done twice: {ops}")
        before: dict[str, Node | None] = {}
        for rec in record.nodes:
            before[rec.id] = replica.get(rec.id)
            if rec.id not in replica:
                self.must(rec.id not in self.ever, f"{rec.id} was handed out twice")
                self.ever.add(rec.id)
                if rec.summary and record.once is not None:
                    other = self.created.setdefault(rec.summary, rec.id)
                    self.must(other == rec.id, f"{rec.summary!r} was made twice, as {other} and {rec.id}")
            if rec.summary:
                self.applied.add(rec.summary.partition(".")[0])
                refused = rec.summary.partition(".")[0] in self.refused
                self.must(not refused, f"{rec.summary!r} was refused, and is done")
            replica[rec.id] = rec
        for status, ids in record.flips.items():
            for node_id in ids:
                self.must(node_id in replica, f"entry {record.seq} changes {node_id}, which is not there")
                old = replica[node_id]
                self.must(old.status not in TERMINAL and status in (*_OPEN, Status.RUNNING), f"{old} turned {status}")
                replica[node_id] = msgspec.structs.replace(old, status=status)
        for node_id in record.gone:
            rec_gone = replica.pop(node_id)
            self.must(rec_gone.status in TERMINAL, f"{node_id} was pruned while it was {rec_gone.status}")
            hung = [r.id for r in replica.values() if r.status not in TERMINAL and any(d.on == node_id for d in r.deps)]
            self.must(not hung, f"{node_id} was pruned, and {hung} wait on it")
        for resource, units in (record.capacity or {}).items():
            if units < self.capacities.get(resource, 1):
                self.lowered.add(resource)
            self.capacities[resource] = units
        if record.paused is not None:
            self.paused = record.paused
        for node_id, was in before.items():
            check_change(self, record, was, replica.get(node_id))
        if not self._booting:
            self._follow_leases(record, before, world.clock.t)

    def _follow_leases(self, record: Record, before: dict[str, Node | None], now: float) -> None:
        for node_id, was in before.items():
            rec = self.replica.get(node_id)
            held = rec is not None and rec.kind not in GROUPS and rec.status in LIVE
            lease = self.leases.get(node_id)
            if lease is not None and (not held or (rec is not None and rec.gen != lease.gen)):
                assert was is not None
                self._lease_ended(record, was, lease, now)
                del self.leases[node_id]
            elif lease is not None and record.op == "running" and rec is not None:
                lease.warned = False
                lease.hi = max(lease.hi, now + (rec.lease or 0.0))
            if held and node_id not in self.leases:
                assert rec is not None
                self.leases[node_id] = lease = Lease(rec.gen, now, rec.lease or 0.0, rec.bound)
                if rec.bound:
                    # Until its answer is seen nobody can say that its connection is still there.
                    lease.lo = now

    def _lease_ended(self, record: Record, was: Node, lease: Lease, now: float) -> None:
        world = self.world
        if record.op == "expire":
            self.must(now >= lease.lo - EPS, f"{was.id} gen {was.gen} expired at {now}, not before {lease.lo}")
            self.must(now >= world.starved_until - EPS, f"{was.id} expired within the grace after a gap")
        elif record.op == "reclaim":
            # One that came behind a checkpoint is done when that is.
            asked = [call.body for call in self.reclaims if call.sent_at == now or not call.answered]
            ok = any(
                now - lease.spoke >= body["lease"] - EPS if "lease" in body else now >= lease.lo - EPS for body in asked
            )
            self.must(ok, f"{was.id} was reclaimed at {now}: spoke at {lease.spoke}, deadline {lease.lo}")
        if record.op in ("release", "complete"):
            mine = record.actor is None or record.actor == was.assignee
            self.must(mine, f"{record.op} of {was.id} by {record.actor}, held by {was.assignee}")
            self.unsure.add((was.id, was.gen))
        elif lease.conn is not None and lease.conn.open:
            self.expected_lost.append((lease.conn, was.id, was.gen))

    # ------------------------------------------------------------------------------------------------ after every step

    def after_step(self) -> None:
        """Everything that can be looked at when the daemon has done what it was given."""
        world = self.world
        self.steps += 1
        service = world.service
        assert service is not None
        if service.commit_due:
            return
        self.check_graph()
        for conn in world.conns:
            waits = any(c.until is not None or c.intent.op in ("wait", "checkpoint") for c in conn.calls.values())
            awaits = conn.session.awaits_replies
            self.must(awaits == waits, f"{conn.client.name}: awaits_replies is {awaits}, not {waits}")
        self.must(not self.expected_lost, f"nobody was told of {[e[1:] for e in self.expected_lost]}")
        self._check_parked()

    def check_graph(self) -> None:
        """The graph is what the entries told make it, and holds together."""
        graph = self.world.graph
        vertices = graph.vertices
        replica = self.replica
        if len(vertices) != len(replica):
            self.fail(f"{sorted(vertices.keys() ^ replica.keys())} are in the graph, or in what was told, not in both")
        for node_id, rec in replica.items():
            v = vertices.get(node_id)
            if v is None:
                raise Violation(f"{node_id} was told and is not in the graph")
            if v.record is not rec:
                self.must(v.record == rec, f"told  {rec}\nis    {v.record}")
                replica[node_id] = v.record
        self.must(
            graph.resources.configured == self.capacities, f"{graph.resources.configured} against {self.capacities}"
        )
        if self.steps % self.check_every == 0:
            invariants.check(graph)
            check_state(self)

    def _check_parked(self) -> None:
        """Nobody waits for what is there, and nobody is passed by who came later."""
        world = self.world
        parked = [c for c in self.calls.values() if c.until is not None and c.intent.op != "wait" and c.conn.open]
        answered, self.claims_answered = self.claims_answered, []
        busy = {rec.assignee for rec in self.replica.values() if rec.assignee is not None}
        free = [c for c in parked if _spec(c)["actor"] not in busy]
        for call in answered if self.calm else ():
            spec = _spec(call)
            for other in free:
                if other.number < call.number and _kind(_spec(other)) == _kind(spec):
                    self.fail(f"{call.body} was served before {other.body}")
        if world.gap or not self.calm:
            return
        if free:
            runnable = [v for v, can_run in claim_order(world.graph) if can_run]
            for call in free:
                for v in runnable:
                    if _suits(_spec(call), v.record):
                        self.fail(f"{call.body} waits while {v.record.id} can run")
        over = self.replica
        for call in self.calls.values():
            if call.intent.op == "wait":
                left = [i for i in call.body["ids"] if i in over and over[i].status not in TERMINAL]
                self.must(left or not call.conn.open, f"{call.body} waits for what has ended")

    def settled(self) -> None:
        """Time has passed, and nothing is due: nobody waits for what is there."""
        service = self.world.service
        if service is not None and not service.commit_due:
            self._check_parked()

    def ticked(self) -> None:
        """What is due was done: no lease outlives its time, nobody waits past his."""
        world = self.world
        now = world.clock.t
        service = world.service
        assert service is not None
        if service.commit_due:
            return
        if self.calm and now >= world.starved_until:
            for node_id, lease in self.leases.items():
                self.must(lease.hi > now - EPS, f"{node_id} gen {lease.gen} outlived its lease, over at {lease.hi}")
        for node_id, lease in self.leases.items():
            if lease.conn is not None and lease.conn.open and not lease.warned and lease.lo == lease.hi:
                warn = lease.hi - lease.lease_s / 5
                self.must(now < warn + EPS or now >= lease.hi, f"the holder of {node_id} was not warned at {warn}")
        for call in self.calls.values():
            if call.until is not None and call.conn.open:
                self.must(now < call.until + EPS, f"{call.body} was to be answered by {call.until}")


def _spec(call: Call) -> dict[str, Any]:
    """The claim that waits."""
    if call.intent.op == "complete":
        return {"actor": call.body.get("actor"), **call.body["next"]}
    return call.body


def _kind(spec: dict[str, Any]) -> tuple[Any, ...]:
    return (spec.get("role"), spec.get("strict", False), spec.get("slack", 0.0))


def _suits(spec: dict[str, Any], rec: Node) -> bool:
    role = spec.get("role")
    if role is None or not spec.get("strict"):
        return True
    return rec.role in (Role(role), Role.UNSET, Role.GENERAL)
