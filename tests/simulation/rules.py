"""Sections 3, 4 and 6 of the law as they show from outside: in one change of a node, and in a state as a whole.

Written from the design and from records alone, so that the core cannot agree with itself. Must not look at an index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from claimdagd.model import GROUPS, LIVE, TERMINAL, Node, Outcome, Status, When
from claimdagd.store.entry import Record

if TYPE_CHECKING:
    from tests.simulation.oracle import Oracle

OPEN = frozenset({Status.TODO, Status.READY, Status.BLOCKED})
BAD = frozenset({Status.FAILED, Status.CANCELLED})


def live(rec: Node) -> bool:
    return rec.kind not in GROUPS and rec.status in LIVE


def check_change(oracle: Oracle, record: Record, was: Node | None, rec: Node | None) -> None:
    """One node before and after one entry."""
    if was is None or rec is None:
        return
    must, op = oracle.must, record.op
    name = f"entry {record.seq} ({op}): {rec.id}"
    must(rec.gen >= was.gen, f"{name} went from gen {was.gen} back to {rec.gen}")
    moved = rec.gen > was.gen
    if live(rec) and not live(was):
        must(moved, f"{name} was claimed at its old gen {rec.gen}")
        must(rec.attempts == was.attempts + 1, f"{name} was claimed, attempts {was.attempts} to {rec.attempts}")
        must(was.status in (Status.READY, Status.TODO), f"{name} was claimed while {was.status}")
        must(None not in oracle.paused and rec.id not in oracle.paused, f"{name} was claimed while it was paused")
        above = rec_above(oracle.replica, rec)
        while above is not None:
            must(above.id not in oracle.paused, f"{name} was claimed while {above.id} above it was paused")
            if above.kind in GROUPS:
                granted = {g.resource: g.units for g in above.grants}
                must(granted == above.needs, f"{name} was claimed, and {above.id} above it has only {above.grants}")
            above = rec_above(oracle.replica, above)
    if live(rec) and live(was):
        must(moved or rec.assignee == was.assignee, f"{name} changed hands at gen {rec.gen}")
    if live(was) and not live(rec):
        # What ran on while something that it waits on failed stays, also when it is handed back.
        oracle.reopened.add(rec.id)
        ended = rec.status is Status.COMPLETING or (rec.status in TERMINAL and op == "complete")
        must(moved or ended, f"{name} left {was.assignee}, now {rec.status}, at its old gen {rec.gen}")
        last = was.max_attempts is not None and was.attempts >= was.max_attempts
        if op == "expire" and last and rec.assignee is None:
            must(rec.outcome is Outcome.FAILED, f"{name} may be tried no more, and is {rec.status}")
    if was.status in TERMINAL and rec.status not in TERMINAL:
        must(op == "reopen", f"{name} came back from {was.status}")
        oracle.reopened.add(rec.id)
        lifted = rec.status is Status.COMPLETING or rec.kind in GROUPS
        must(moved or lifted, f"{name} came back at its old gen {rec.gen}")
    if was.archived is not rec.archived and op in ("archive", "unarchive"):
        must(moved, f"{name} was {op}d at its old gen {rec.gen}")
    if rec.status is Status.CANCELLED and was.status is not Status.CANCELLED and op in ("complete", "cancel", "expire"):
        root = root_of(oracle, record)
        if root is not None and rec.id != root and rec.cause is None:
            mine = was.outcome is Outcome.CANCELLED
            must(mine, f"{name} was cancelled by the ending of {root}, and names no cause")
        if root is not None and rec.id != root and was.outcome is None:
            check_cascaded(oracle, name, rec)
        if rec.cause is not None and root is not None and was.status is not Status.COMPLETING:
            culprits = {root} if ended_badly(oracle.replica[root]) else {r.id for r in record.nodes if ended_badly(r)}
            must(rec.cause in culprits, f"{name} was cancelled by the ending of {root}, and names {rec.cause}")


def check_cascaded(oracle: Oracle, name: str, rec: Node) -> None:
    """What was cancelled by a cascade waited on something that ended badly, or stood under it."""
    nodes = oracle.replica
    seen: Node | None = rec
    while seen is not None:
        if any(d.when is When.AFTER_OK and (d.on not in nodes or ended_badly(nodes[d.on])) for d in seen.deps):
            return
        seen = rec_above(nodes, seen)
        if seen is not None and ended_badly(seen):
            return
    below = [n for n in nodes.values() if n.parent == rec.id]
    rolled_up = rec.kind in GROUPS and bool(below) and all(n.status is Status.CANCELLED for n in below)
    oracle.must(rolled_up, f"{name} was cancelled, and nothing that it waits on or stands under ended badly")


def ended_badly(rec: Node) -> bool:
    return rec.status in BAD or rec.outcome in (Outcome.FAILED, Outcome.CANCELLED)


def root_of(oracle: Oracle, record: Record) -> str | None:
    """The node that an entry is about, where one can be sure."""
    if record.op == "expire":
        return record.nodes[0].id
    calls = [c for conn in oracle.world.conns for c in conn.calls.values() if c.intent.op == record.op]
    if record.once is not None:
        calls = [c for c in calls if c.intent.token == record.once]
    asked = {str(c.body.get("id")) for c in calls}
    sure = record.once is not None or not oracle.world.plan.fsync
    return asked.pop() if len(asked) == 1 and sure else None


def check_state(oracle: Oracle) -> None:
    """A state as a whole."""
    nodes = oracle.replica
    must = oracle.must
    used: dict[str, int] = {}
    lent: set[tuple[str, str]] = set()
    holders: set[str] = set()
    for rec in nodes.values():
        status = rec.status
        must(rec.id in oracle.ever, f"{rec.id} came from nowhere")
        if rec.assignee is not None:
            must(live(rec), f"{rec.id} is {status} and held by {rec.assignee}")
            must(rec.assignee not in holders, f"{rec.assignee} holds two nodes")
            holders.add(rec.assignee)
        else:
            must(not live(rec), f"{rec.id} is {status} and nobody's")
        for grant in rec.grants:
            if grant.lender is None:
                used[grant.resource] = used.get(grant.resource, 0) + grant.units
            else:
                key = (grant.lender, grant.resource)
                must(key not in lent, f"{key} is lent twice")
                lent.add(key)
        if live(rec):
            granted = {g.resource: g.units for g in rec.grants}
            must(granted == rec.needs, f"{rec.id} is held, needs {rec.needs} and has {rec.grants}")
        elif status in TERMINAL or status in OPEN:
            must(rec.kind in GROUPS or not rec.grants, f"{rec.id} is {status} and holds {rec.grants}")
        if rec.kind not in GROUPS and status in (Status.TODO, Status.READY):
            _check_ready(oracle, rec)
    oracle_capacity = oracle.capacities
    for resource, units in used.items():
        capacity = oracle_capacity.get(resource, 1)
        lowered = resource in oracle.lowered
        if units <= capacity:
            oracle.lowered.discard(resource)
        must(units <= capacity or lowered, f"{units} of {resource} are used, there are {capacity}")


def rec_above(nodes: dict[str, Node], rec: Node) -> Node | None:
    return nodes[rec.parent] if rec.parent is not None else None


def met(nodes: dict[str, Node], rec: Node) -> bool:
    """Whether all of a node's own deps are met."""
    ancestors = set()
    above = rec_above(nodes, rec)
    while above is not None:
        ancestors.add(above.id)
        above = rec_above(nodes, above)
    for dep in rec.deps:
        target = nodes.get(dep.on)
        if target is None:
            continue
        if dep.on in ancestors:
            if target.outcome is None and target.status not in TERMINAL:
                return False
            good = target.outcome is Outcome.DONE or (target.outcome is None and target.status is Status.DONE)
        else:
            if target.status not in TERMINAL:
                return False
            good = target.status is Status.DONE
        if not good and dep.when is When.AFTER_OK:
            return False
    return True


def _check_ready(oracle: Oracle, rec: Node) -> None:
    nodes = oracle.replica
    gated = False
    above = rec_above(nodes, rec)
    while above is not None:
        if above.kind in GROUPS:
            gated = gated or above.status is Status.BLOCKED or not met(nodes, above)
        elif above.status in (Status.COMPLETING, *TERMINAL) and above.outcome in (Outcome.FAILED, Outcome.CANCELLED):
            oracle.must(
                above.id != rec.parent or oracle.brought_back(rec.id),
                f"{rec.id} is {rec.status} under {above.id}, whose own result is {above.outcome}",
            )
        above = rec_above(nodes, above)
    ready = met(nodes, rec) and not gated
    oracle.must((rec.status is Status.READY) is ready, f"{rec.id} is {rec.status}, and may it begin? {ready}")
    if oracle.brought_back(rec.id):
        return
    for dep in rec.deps:
        target = nodes.get(dep.on)
        if target is not None and dep.when is When.AFTER_OK and target.status in BAD:
            oracle.fail(f"{rec.id} is {rec.status} and waits on {target.id}, which is {target.status}")
