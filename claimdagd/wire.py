"""The wire vocabulary: every request, every reply and every error code, as frozen msgspec Structs.

One JSON object a line each way. The client imports this module and nothing else of the daemon. It must hold no
behaviour beyond types.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from claimdagd.model import (
    COST_MAX,
    LEASE_MAX_S,
    NAME_PATTERN,
    PID_MAX,
    PRIORITY_MAX,
    PRIORITY_MIN,
    RETRIES_MAX,
    RETRY_DELAY_MAX_S,
    RETRY_DELAY_S,
    UNITS_MAX,
    UNIX_TIME_MAX,
    Dep,
    Grant,
    Kind,
    Outcome,
    Role,
    Status,
    When,
)

Name: TypeAlias = Annotated[str, Meta(pattern=NAME_PATTERN, description="a name (1 to 64 of A-Za-z0-9._@:/-)")]
Gen: TypeAlias = Annotated[int, Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=LEASE_MAX_S)]
LeaseS: TypeAlias = Annotated[float, Meta(gt=0, le=LEASE_MAX_S)]
Cost: TypeAlias = Annotated[float, Meta(gt=0, le=COST_MAX)]
Priority: TypeAlias = Annotated[int, Meta(ge=PRIORITY_MIN, le=PRIORITY_MAX)]
Units: TypeAlias = Annotated[int, Meta(ge=1, le=UNITS_MAX)]
Capacity: TypeAlias = Annotated[int, Meta(ge=0, le=UNITS_MAX)]
Once: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
Pid: TypeAlias = Annotated[int, Meta(ge=1, le=PID_MAX)]
Slack: TypeAlias = Annotated[float, Meta(ge=0, le=COST_MAX)]
MaxAttempts: TypeAlias = Annotated[int, Meta(ge=1, le=UNITS_MAX)]
Retries: TypeAlias = Annotated[int, Meta(ge=0, le=RETRIES_MAX)]
RetryDelay: TypeAlias = Annotated[float, Meta(ge=0, le=RETRY_DELAY_MAX_S)]
UnixTime: TypeAlias = Annotated[float, Meta(ge=0, le=UNIX_TIME_MAX)]
Ref: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
Many: TypeAlias = Annotated[tuple[str, ...], Meta(min_length=1)]

#: The default of an `id` for which `ids` may stand. Null is not taken, as it was not while an id had to be there.
_NO_ID: Any = UNSET


class Code(StrEnum):
    """Every error code an answer may carry."""

    BAD_REQUEST = "bad_request"
    UNKNOWN_OP = "unknown_op"
    TOO_LARGE = "too_large"
    NOT_FOUND = "not_found"
    GEN_MISMATCH = "gen_mismatch"
    DEPS_UNSATISFIED = "deps_unsatisfied"
    RESOURCES_BUSY = "resources_busy"
    ASSIGNEE_BUSY = "assignee_busy"
    NOT_ASSIGNEE = "not_assignee"
    NOT_CLAIMABLE = "not_claimable"
    BAD_STATUS = "bad_status"
    TERMINAL = "terminal"
    NOT_TERMINAL = "not_terminal"
    CYCLE = "cycle"
    WOULD_NOT_RUN = "would_not_run"
    NOTHING_RUNNABLE = "nothing_runnable"
    NOTHING_PENDING = "nothing_pending"
    FULL = "full"
    STORAGE = "storage"
    LAGGED = "lagged"
    SHUTTING_DOWN = "shutting_down"
    TIMEOUT = "timeout"
    INTERNAL = "internal"


# ---------------------------------------------------------------------------------------------------------- requests


class Request(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", omit_defaults=True
):
    """What every request may carry: `rid` is the caller's and is echoed."""

    rid: str | int | None = None


class Mutation(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="op", omit_defaults=True):
    """A request that may change the graph. `once`: the same token again gets the first reply."""

    once: Once | None = None
    actor: Name | None = None


class Hello(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="hello", omit_defaults=True):
    client: Annotated[str, Meta(max_length=256)] | None = None
    protocol: int | None = None


class Ping(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ping", omit_defaults=True):
    pass


class NodeFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The fields of a node that a caller sets; absent is different from null."""

    kind: Kind | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    role: Role | UnsetType = UNSET
    parent: str | UnsetType | None = UNSET
    summary: str | UnsetType = UNSET
    cost: Cost | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    needs: dict[Name, Units] | UnsetType = UNSET
    deps: tuple[Dep, ...] | UnsetType = UNSET
    max_attempts: MaxAttempts | UnsetType | None = UNSET
    retries: Retries | UnsetType = UNSET
    retry_delay: RetryDelay | UnsetType = UNSET
    not_before: UnixTime | UnsetType | None = UNSET


class Upsert(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="upsert", omit_defaults=True):
    id: str | None = None
    kind: Kind | UnsetType = UNSET
    status: Status | UnsetType = UNSET
    role: Role | UnsetType = UNSET
    parent: str | UnsetType | None = UNSET
    summary: str | UnsetType = UNSET
    cost: Cost | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    needs: dict[Name, Units] | UnsetType = UNSET
    deps: tuple[Dep, ...] | UnsetType = UNSET
    max_attempts: MaxAttempts | UnsetType | None = UNSET
    retries: Retries | UnsetType = UNSET
    retry_delay: RetryDelay | UnsetType = UNSET
    not_before: UnixTime | UnsetType | None = UNSET


class SubmitNode(NodeFields, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    ref: Ref | None = None


class Submit(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="submit", omit_defaults=True):
    nodes: tuple[SubmitNode, ...]
    returns: tuple[str, ...] | None = msgspec.field(name="return", default=None)
    capacities: dict[Name, Capacity] | None = None
    dry_run: bool = False


class Get(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="get", omit_defaults=True):
    id: str


class Why(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="why", omit_defaults=True):
    id: str


class List(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="list", omit_defaults=True):
    terminal: bool = False
    archived: bool = False
    all: bool = False
    status: Status | None = None
    under: str | None = None
    assignee: Name | None = None


class Ready(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ready", omit_defaults=True):
    role: Role | None = None
    slack: Slack = 0.0
    strict: bool = False
    under: str | None = None


class Claim(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="claim", omit_defaults=True):
    id: str
    actor: Name
    gen: Gen | None = None
    lease: LeaseS | None = None
    bound: bool = False
    pid: Pid | None = None


class Next(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How `complete` claims the next node: claim_next's fields; the actor is complete's unless given here."""

    actor: Name | None = None
    role: Role | None = None
    slack: Slack = 0.0
    strict: bool = False
    lease: LeaseS | None = None
    bound: bool = False
    pid: Pid | None = None
    wait: Seconds | None = None
    under: str | None = None


class ClaimNext(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="claim_next", omit_defaults=True):
    actor: Name
    role: Role | None = None
    slack: Slack = 0.0
    strict: bool = False
    lease: LeaseS | None = None
    bound: bool = False
    pid: Pid | None = None
    wait: Seconds | None = None
    under: str | None = None


class Renew(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="renew", omit_defaults=True):
    id: str = _NO_ID
    ids: Many = ()
    gen: Gen | None = None
    lease: LeaseS | None = None
    bound: bool = False
    pid: Pid | None = None


class Running(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="running", omit_defaults=True):
    id: str = _NO_ID
    ids: Many = ()
    gen: Gen | None = None
    lease: LeaseS | None = None
    bound: bool = False


class Release(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="release", omit_defaults=True):
    id: str = _NO_ID
    ids: Many = ()
    gen: Gen | None = None


class Reopen(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="reopen", omit_defaults=True):
    id: str = _NO_ID
    ids: Many = ()
    gen: Gen | None = None
    failed: bool = False
    under: str | None = None


class Archive(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="archive", omit_defaults=True):
    id: str = _NO_ID
    ids: Many = ()
    gen: Gen | None = None


class Unarchive(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="unarchive", omit_defaults=True):
    id: str = _NO_ID
    ids: Many = ()
    gen: Gen | None = None


class Complete(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="complete", omit_defaults=True):
    id: str = _NO_ID
    ids: Many = ()
    status: Outcome = Outcome.DONE
    summary: str | None = None
    error: str | None = None
    final: bool = False
    gen: Gen | None = None
    next: Next | None = None


class Cancel(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="cancel", omit_defaults=True):
    id: str = _NO_ID
    ids: Many = ()
    under: str | None = None
    error: str | None = None


class Reclaim(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="reclaim", omit_defaults=True):
    lease: Seconds | None = None


class Link(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="link", omit_defaults=True):
    before: str
    after: str
    when: When = When.AFTER_OK


class Unlink(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="unlink", omit_defaults=True):
    before: str
    after: str
    when: When | None = None


class Resources(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="resources", omit_defaults=True):
    pass


class SetCapacity(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="capacity", omit_defaults=True):
    resource: Name
    units: Capacity


class Pause(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="pause", omit_defaults=True):
    under: str | None = None


class Resume(Mutation, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="resume", omit_defaults=True):
    under: str | None = None


class Watch(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="watch", omit_defaults=True):
    from_: Gen | None = msgspec.field(name="from", default=None)
    under: str | None = None


class Wait(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="wait", omit_defaults=True):
    ids: tuple[str, ...] = ()
    under: str | None = None
    timeout: Seconds | None = None


class Log(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="log", omit_defaults=True):
    from_: Gen | None = msgspec.field(name="from", default=None)
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    id: str | None = None


class Stats(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="stats", omit_defaults=True):
    under: str | None = None


class Checkpoint(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="checkpoint", omit_defaults=True):
    pass


class Shutdown(Request, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="shutdown", omit_defaults=True):
    pass


AnyRequest: TypeAlias = (
    Hello
    | Ping
    | Upsert
    | Submit
    | Get
    | Why
    | List
    | Ready
    | Claim
    | ClaimNext
    | Renew
    | Running
    | Release
    | Reopen
    | Archive
    | Unarchive
    | Complete
    | Cancel
    | Reclaim
    | Link
    | Unlink
    | Resources
    | SetCapacity
    | Pause
    | Resume
    | Watch
    | Wait
    | Log
    | Stats
    | Checkpoint
    | Shutdown
)


# ----------------------------------------------------------------------------------------- replies, as a client reads


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply as a client reads it: fields that a later daemon adds are let through."""


class MissingResource(Reply, frozen=True, kw_only=True):
    """Units that a node lacks. `lender` is the ancestor whose grant is in use by another branch, if that is it."""

    resource: str
    units: int
    free: int = 0
    lender: str | None = None


class WaitingOn(Reply, frozen=True, kw_only=True):
    deps: tuple[Dep, ...] = ()
    resources: tuple[MissingResource, ...] = ()
    #: Unix seconds before which it must not begin, if that is still to come.
    time: float | None = None


class NodeView(Reply, frozen=True, kw_only=True):
    """A node with what is derived at that moment."""

    id: str
    kind: Kind
    role: Role
    status: Status
    summary: str
    parent: str | None
    deps: tuple[Dep, ...]
    needs: dict[str, int]
    cost: float
    priority: int
    assignee: str | None
    gen: int
    attempts: int
    max_attempts: int | None
    outcome: Outcome | None
    cause: str | None
    error: str | None
    archived: bool
    created_at: float
    updated_at: float
    started_at: float | None
    finished_at: float | None
    lease: float | None = None
    bound: bool = False
    grants: tuple[Grant, ...] = ()
    retries: int = 0
    retry_delay: float = RETRY_DELAY_S
    not_before: float | None = None
    failures: int = 0
    last_error: str | None = None
    pid: int | None = None
    pid_start: int | None = None
    depth: float = 0.0
    quiet: float | None = None
    expires_in: float | None = None
    waiting_on: WaitingOn = WaitingOn()
    runnable: bool | None = None


class Limits(Reply, frozen=True, kw_only=True):
    max_nodes: int
    line_bytes: int
    lease: float
    grace: float
    summary_bytes: int
    error_bytes: int
    once_tokens: int


class HelloOk(Reply, frozen=True, kw_only=True):
    version: str
    protocol: int
    graph: str
    #: The name of the graph, null for the default one.
    name: str | None = None
    pid: int
    limits: Limits


class Held(Reply, frozen=True, kw_only=True):
    """What renew and running answer."""

    id: str
    gen: int
    expires_in: float


class Claimed(Held, frozen=True, kw_only=True):
    """A claim: hold `gen` as the fencing token and speak again within `expires_in` seconds."""

    node: NodeView


class Moved(Reply, frozen=True, kw_only=True):
    """What release, reopen, archive and unarchive answer."""

    id: str
    gen: int


class Completed(Reply, frozen=True, kw_only=True):
    node: NodeView
    ready: tuple[str, ...]
    next: Claimed | None = None
    #: Why `next` is null: nothing_runnable, nothing_pending or assignee_busy; with the whole of it in `next_error`.
    code: Code | None = None
    next_error: dict[str, Any] | None = None


class Ids(Reply, frozen=True, kw_only=True):
    ids: tuple[str, ...]


class PausedOk(Reply, frozen=True, kw_only=True):
    #: The scopes that are paused now; None is the whole graph.
    paused: tuple[str | None, ...] = ()


class Nodes(Reply, frozen=True, kw_only=True):
    nodes: tuple[NodeView, ...]


class Reason(Reply, frozen=True, kw_only=True):
    """One reason why a node is as it is: type is dep, resource, blocked, group, holder, time, paused or deadlock."""

    type: str
    text: str = ""
    id: str | None = None


class WhyOk(Reply, frozen=True, kw_only=True):
    id: str
    status: Status
    reasons: tuple[dict[str, Any], ...]
    text: str


class Holder(Reply, frozen=True, kw_only=True):
    id: str
    units: int
    lender: str | None = None


class ResourceView(Reply, frozen=True, kw_only=True):
    name: str
    capacity: int
    used: int
    holders: tuple[Holder, ...] = ()
    waiting: tuple[str, ...] = ()


class ResourcesOk(Reply, frozen=True, kw_only=True):
    resources: tuple[ResourceView, ...]


class WatchOk(Reply, frozen=True, kw_only=True):
    seq: int


class CheckpointOk(Reply, frozen=True, kw_only=True):
    seq: int
    bytes: int


class LogOk(Reply, frozen=True, kw_only=True):
    entries: tuple[dict[str, Any], ...]


REQUEST_TYPES: dict[str, type[Request]] = {cls.__struct_config__.tag: cls for cls in AnyRequest.__args__}
#: Every op that may change the graph, and so may carry `once`.
MUTATING_OPS = frozenset(op for op, cls in REQUEST_TYPES.items() if issubclass(cls, Mutation))
