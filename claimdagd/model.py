"""What a node is: closed enums, the frozen records that go to disk, and the limits of every field.

This is near the bottom of the import order. It must import nothing of the project but `limits`, and it must do no I/O
and read no clock.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from claimdagd import limits


class Kind(StrEnum):
    """What a node is; groups are decided by their children and never claimed."""

    TASK = "task"
    STEP = "step"
    GOAL = "goal"
    MOLECULE = "molecule"


class Role(StrEnum):
    """Who a node is for."""

    UNSET = "unset"
    EXPLORE = "explore"
    ARCHITECT = "architect"
    IMPLEMENTOR = "implementor"
    VERIFIER = "verifier"
    ORCHESTRATOR = "orchestrator"
    GENERAL = "general"


class Status(StrEnum):
    """Where a node is in its life; the last three are terminal."""

    TODO = "todo"
    READY = "ready"
    BLOCKED = "blocked"
    CLAIMED = "claimed"
    RUNNING = "running"
    COMPLETING = "completing"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Outcome(StrEnum):
    """The result of a node's own work."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class When(StrEnum):
    """Which end of its target meets a dependency."""

    AFTER_OK = "after_ok"
    AFTER_ANY = "after_any"


GROUPS = frozenset(map(Kind, limits.GROUPS))
TERMINAL = frozenset(map(Status, limits.TERMINAL))
#: Statuses of a node that is held under a lease.
LIVE = frozenset(map(Status, limits.LIVE))
#: A node on which work has begun, or that ended by work rather than by a cancellation.
STARTED = frozenset({Status.CLAIMED, Status.RUNNING, Status.COMPLETING, Status.DONE, Status.FAILED})

PRIORITY_MIN, PRIORITY_MAX = -100, 100
RETRIES_MAX = 100
RETRY_DELAY_S = 30.0
RETRY_DELAY_MAX_S = 3600.0
UNIX_TIME_MAX = 253_402_300_799.0
UNITS_MAX = 1_000_000_000
COST_MAX = 1e12
LEASE_MAX_S = limits.LEASE_MAX_S
#: The lease of a claim that a process stands for, unless the caller says another.
PROCESS_LEASE_S = 4 * 3600.0
PID_MAX = 2**31 - 1
NAME_PATTERN = r"^[A-Za-z0-9._@:/-]{1,64}\Z"
ID_PATTERN = r"^[0-9a-z]{4}-[1-9][0-9]{0,17}\Z"
TAG_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"

is_name = re.compile(NAME_PATTERN).match
is_id = re.compile(ID_PATTERN).match


class Dep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """An ordering edge: the node that carries it waits on node `on`."""

    on: str
    when: When = When.AFTER_OK


class Grant(msgspec.Struct, frozen=True, gc=False):
    """Units of one resource that a node holds for its subtree.

    `lender` is null for units taken from the resource itself, else the id of the ancestor whose grant is borrowed.
    """

    resource: str
    units: int
    lender: str | None = None


class Process(NamedTuple):
    """A process that stands for a holder. A number is used again, so its start time (clock ticks) belongs to it."""

    pid: int
    start: int


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One node as it is kept in memory, in the journal and in the snapshot.

    `lease` (seconds) and `bound` describe the live claim and are null and false without one; `pid` is the process that
    stands for its holder, and `pid_start` when that was started, in clock ticks since the machine was; `grants` is what
    the node holds. `status` of a todo, ready or running group is derived and is recomputed whenever a state is loaded.
    The last seven fields are written only for a node that has them.
    """

    id: str
    kind: Kind = Kind.TASK
    role: Role = Role.UNSET
    status: Status = Status.TODO
    summary: str = ""
    parent: str | None = None
    deps: tuple[Dep, ...] = ()
    needs: dict[str, int] = {}
    cost: float = 1.0
    priority: int = 0
    assignee: str | None = None
    gen: int = 1
    attempts: int = 0
    max_attempts: int | None = None
    outcome: Outcome | None = None
    cause: str | None = None
    error: str | None = None
    archived: bool = False
    created_at: float = 0.0
    updated_at: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None
    lease: float | None = None
    bound: bool = False
    grants: tuple[Grant, ...] = ()
    retries: int | UnsetType = UNSET
    retry_delay: float | UnsetType = UNSET
    not_before: float | UnsetType = UNSET
    failures: int | UnsetType = UNSET
    last_error: str | UnsetType = UNSET
    pid: int | UnsetType = UNSET
    pid_start: int | UnsetType = UNSET


def number_of(node_id: str) -> int:
    """The N of TAG-N: the order in which ids were minted."""
    return int(node_id[5:])
