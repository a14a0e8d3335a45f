"""The tools that an agent sees: names, arguments, results, and the descriptions that a model reads. No I/O.

Every type here becomes a JSON schema that the host shows to its model, so a `description` says what a value is for, and
a bound is checked in one place. Results are typed for programs; the words beside them are in texts.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from claimdagd.limits import SUMMARY_MAX_BYTES

#: Hosts end a tool call after 60 s; a wait that is shorter than that by a margin is never cut off after its claim.
WAIT_MAX_S = 45.0

Id = Annotated[str, Meta(description="node id, as 7q2f-17")]
Gen = Annotated[int, Meta(ge=1, description="the generation that `next` gave with the claim")]
Role = Literal["unset", "explore", "architect", "implementor", "verifier", "orchestrator", "general"]
Wait = Annotated[float, Meta(ge=0, le=WAIT_MAX_S, description="seconds to wait for work, at most 45")]
Slack = Annotated[float, Meta(ge=0, description="how much cost off the critical path a fitting role may be")]
Under = Annotated[str, Meta(description="only work below this node")]
Summary = Annotated[
    str,
    Meta(max_length=SUMMARY_MAX_BYTES, description=f"what is to be done, at most {SUMMARY_MAX_BYTES} bytes"),
]
Needs = Annotated[
    dict[str, int],
    Meta(description='units of resources, as {"gpu": 1}; {"file:src/x.py": 1} so that no two workers edit it at once'),
]
Deps = Annotated[list[str], Meta(description="ids or refs that must be done first")]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The arguments of a tool. An unknown one is refused by name."""


class NoArguments(Arguments, frozen=True, kw_only=True):
    """A tool that takes nothing."""


class Choice(Arguments, frozen=True, kw_only=True):
    """Which ready node to take."""

    role: Annotated[Role, Meta(description="prefer work that is for this role")] | None = None
    slack: Slack | None = None
    strict: Annotated[bool, Meta(description="leave out work that is for another role")] = False


class Next(Choice, frozen=True, kw_only=True):
    """Take the next node."""

    under: Under | None = None
    wait: Wait = 0.0


Following = Annotated[bool, Meta(description="also take the next node in the same step")]


class Complete(Arguments, frozen=True, kw_only=True):
    """Say that a node is done."""

    id: Id
    gen: Gen
    summary: Annotated[str, Meta(description="a new summary, if the result should be kept in it")] | None = None
    next: Following = False


class Fail(Arguments, frozen=True, kw_only=True):
    """Say that a node cannot be done."""

    id: Id
    gen: Gen
    error: Annotated[str, Meta(min_length=1, description="why, in one line")]
    next: Following = False


class Held(Arguments, frozen=True, kw_only=True):
    """A node that this worker holds."""

    id: Id
    gen: Gen


class Renew(Held, frozen=True, kw_only=True):
    """Keep a node for longer."""

    lease: (
        Annotated[float, Meta(gt=0, description="seconds from now; the lease it was claimed with otherwise")] | None
    ) = None


class NewNode(Arguments, frozen=True, kw_only=True):
    """A node to be made."""

    summary: Summary
    kind: Annotated[
        Literal["task", "step", "goal", "molecule"],
        Meta(description="goal and molecule are groups: they cannot be claimed"),
    ] = "task"
    role: Role | None = None
    parent: Annotated[str, Meta(description="the id or ref of the group or node above it")] | None = None
    deps: Deps = []
    needs: Needs = {}
    cost: Annotated[float, Meta(gt=0, description="estimated work, in any one unit")] | None = None
    priority: Annotated[int, Meta(ge=-100, le=100, description="higher goes first")] | None = None


class PlannedNode(NewNode, frozen=True, kw_only=True):
    """One node of a plan."""

    ref: Annotated[str, Meta(description="a name for it within this plan")] | None = None


class Plan(Arguments, frozen=True, kw_only=True):
    """Many nodes, whole or not at all."""

    nodes: Annotated[list[PlannedNode], Meta(min_length=1)]


class List(Arguments, frozen=True, kw_only=True):
    """Which nodes to list."""

    status: (
        Literal["todo", "ready", "blocked", "claimed", "running", "completing", "done", "failed", "cancelled"] | None
    ) = None
    under: Under | None = None
    assignee: Annotated[str, Meta(description="held by this worker")] | None = None
    all: Annotated[bool, Meta(description="finished work too")] = False
    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class OneNode(Arguments, frozen=True, kw_only=True):
    """Which node is meant."""

    id: Id


class Link(Arguments, frozen=True, kw_only=True):
    """Let one node wait on another."""

    before: Id
    after: Id
    when: Annotated[
        Literal["after_ok", "after_any"], Meta(description="after_any: also when `before` fails or is cancelled")
    ] = "after_ok"


class Cancel(OneNode, frozen=True, kw_only=True):
    """End a node and everything under it."""

    error: Annotated[str, Meta(description="why")] | None = None


# ------------------------------------------------------------------------------------------------------------ results


class Refused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The daemon said no, and nothing was changed."""

    code: str
    message: str
    next_step: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every tool may say beside its own result."""

    refused: Refused | None = None
    #: Claims that this worker lost since the last result.
    lost: list[str] = []


class Node(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node, as much of it as an agent acts on."""

    id: str
    status: str
    summary: str
    kind: str = "task"
    role: str = "unset"
    parent: str | None = None
    deps: list[str] = []
    needs: dict[str, int] = {}
    assignee: str | None = None
    gen: int = 1
    error: str | None = None
    expires_in: float | None = None


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """A node that a claimed node waited for."""

    id: str
    status: str
    summary: str


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node in this worker's hands."""

    id: str
    gen: int
    summary: str
    expires_in: float
    role: str = "unset"
    parent: str | None = None
    deps: list[Dependency] = []


class StatusResult(Result, frozen=True, kw_only=True):
    """The graph in numbers, and what this worker holds."""

    actor: str = ""
    graph: str = ""
    counts: dict[str, int] = {}
    held: list[Node] = []
    ready: list[Node] = []
    waiting: int = 0
    mine: Claim | None = None


class NextResult(Result, frozen=True, kw_only=True):
    """A claim, or why there is none: nothing_runnable or nothing_pending."""

    claim: Claim | None = None
    nothing: str | None = None
    stuck: bool = False


class EndResult(NextResult, frozen=True, kw_only=True):
    """A node that ended, what that made ready, and the next claim if it was asked for."""

    node: Node | None = None
    ready: list[str] = []


class LeaseResult(Result, frozen=True, kw_only=True):
    """A claim whose deadline moved, or that was handed back."""

    id: str | None = None
    gen: int | None = None
    expires_in: float | None = None


class IdsResult(Result, frozen=True, kw_only=True):
    """Ids of nodes, in the order asked."""

    ids: list[str] = []


class NodesResult(Result, frozen=True, kw_only=True):
    """Nodes, newest first; `more` were left out."""

    nodes: list[Node] = []
    more: int = 0


class NodeResult(Result, frozen=True, kw_only=True):
    """One node."""

    node: Node | None = None


class WhyResult(Result, frozen=True, kw_only=True):
    """Why a node is as it is."""

    id: str | None = None
    status: str | None = None
    reasons: list[dict[str, Any]] = []
    text: str = ""


class Tool(NamedTuple):
    """One tool: its arguments, its result, what a model learns about it, and what a host may assume of it."""

    arguments: type[Arguments]
    result: type[Result]
    description: str
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


TOOLS: dict[str, Tool] = {
    "status": Tool(
        NoArguments,
        StatusResult,
        "Show the graph at a glance: counts, who holds what, what is ready, and what you hold. Call it first, and after"
        " a break. To take work, call `next`.",
        read_only=True,
    ),
    "next": Tool(
        Next,
        NextResult,
        "Take the best node that can run now. You hold it until `complete`, `fail` or `release`; no other can. Keep"
        " its `gen`: every later call needs it. With nothing to take: nothing_runnable means wait or look at `why`;"
        " nothing_pending means all work is finished. You hold one node at a time.",
    ),
    "complete": Tool(
        Complete,
        EndResult,
        "Say that the node you hold is done; nodes that waited for it become ready. Not for work that did not succeed:"
        " call `fail`. With `next` you get the next node in the same step. Repeating it is safe.",
        idempotent=True,
    ),
    "fail": Tool(
        Fail,
        EndResult,
        "Say that the node you hold cannot be done, and why. Work that needed its success is cancelled; `reopen` brings"
        " it back. If another worker could do it, call `release` instead.",
        destructive=True,
        idempotent=True,
    ),
    "renew": Tool(
        Renew,
        LeaseResult,
        "Move the deadline of your claim. It is renewed by itself while you make calls, so you need this only before a"
        " long silence.",
        idempotent=True,
    ),
    "release": Tool(
        Held,
        LeaseResult,
        "Hand your node back undone: it is ready again, for any worker.",
    ),
    "add": Tool(
        NewNode,
        IdsResult,
        "Make one node, for work that you found on the way. Name in `deps` what must be done first. For files that two"
        " workers must not edit at once, need them: `file:PATH`. For nodes that depend on each other call `plan`.",
    ),
    "plan": Tool(
        Plan,
        IdsResult,
        "Make many nodes in one step, all or none. Give each a `ref`; `parent` and `deps` may name refs of the plan, or"
        " ids. A `goal` groups its children. For files that two workers must not edit at once, need them:"
        " `file:PATH`. Every fault is told at once. Returns the ids in order.",
    ),
    "list": Tool(
        List,
        NodesResult,
        "List nodes, newest first; unfinished ones unless `all`. For one node call `get`; for why it waits, `why`.",
        read_only=True,
    ),
    "get": Tool(OneNode, NodeResult, "Show one node.", read_only=True),
    "why": Tool(
        OneNode,
        WhyResult,
        "Say why a node does not run, and what to do about it: deps, a hold, resources, a holder, a deadlock.",
        read_only=True,
    ),
    "link": Tool(
        Link,
        NodeResult,
        "Let the node `after` wait for `before`. Refused, with the path, if it would close a cycle.",
        idempotent=True,
    ),
    "cancel": Tool(
        Cancel,
        IdsResult,
        "End a node and everything under it, held nodes too, and what needs their success. Their holders lose them. For"
        " your own node call `fail` or `release`.",
        destructive=True,
    ),
    "reopen": Tool(
        OneNode,
        LeaseResult,
        "Bring a finished node back, with what its failure had cancelled. Work that waits for it waits again.",
    ),
}


def schema(type_: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a struct, with an object at its top, as the protocol wants it."""
    (top,), parts = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    name = top["$ref"].rpartition("/")[2]
    own = dict(parts.pop(name))
    own.pop("title", None)
    if parts:
        own["$defs"] = parts
    return own
