"""The exceptions of both clients: one class for every error code of the protocol, drawn as a tree.

ClaimdagError
├── Unreachable            no daemon could be reached, or it went away and did not come back
│   └── Unresponsive       a daemon is there, but it is silent: stopped, or stuck
├── Mismatch               the daemon speaks another protocol
├── Malformed              the request cannot be sent as it is
├── ClaimLost              the claim that the body relied on is no longer this client's
├── GraphChanged           the daemon that came back serves another graph
└── Refused                the daemon refused: `code`, `message`, `details`
    ├── InvalidRequest     BadRequest, UnknownOp, TooLarge
    ├── NotFound           no such node
    ├── Fenced             GenMismatch, NotAssignee: the node is another's by now
    ├── TryLater           DepsUnsatisfied, ResourcesBusy, AssigneeBusy, NotClaimable: it may pass later
    ├── WrongStatus        BadStatus, Terminal, NotTerminal
    ├── Unsatisfiable      Cycle, WouldNotRun
    ├── NoWork             NothingRunnable, NothingPending
    ├── Timeout            the time limit of a `wait` passed first
    ├── Lagged             events older than the ledger keeps, or not read fast enough
    └── DaemonError        Full, Storage, ShuttingDown, Internal

Standard library only, and cheap to import: the command line pays for it. No I/O here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = [
    "BY_CODE",
    "AssigneeBusy",
    "BadRequest",
    "BadStatus",
    "ClaimLost",
    "ClaimdagError",
    "Cycle",
    "DaemonError",
    "DepsUnsatisfied",
    "Fenced",
    "Full",
    "GenMismatch",
    "GraphChanged",
    "Internal",
    "InvalidRequest",
    "Lagged",
    "Malformed",
    "Mismatch",
    "NoWork",
    "NotAssignee",
    "NotClaimable",
    "NotFound",
    "NotTerminal",
    "NothingPending",
    "NothingRunnable",
    "Refused",
    "ResourcesBusy",
    "ShuttingDown",
    "Storage",
    "Terminal",
    "Timeout",
    "TooLarge",
    "TryLater",
    "UnknownOp",
    "Unreachable",
    "Unresponsive",
    "Unsatisfiable",
    "WouldNotRun",
    "WrongStatus",
    "refusal",
]


class ClaimdagError(Exception):
    """Base of all that this package raises for its caller. `remedy` says what to do next, or is empty."""

    remedy: str = ""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        if remedy:
            self.remedy = remedy


class Unreachable(ClaimdagError):
    """No daemon could be reached, or the connection ended before the answer came."""


class Unresponsive(Unreachable):
    """A daemon is there and keeps the connection open, but did not answer in time: it is stopped, or stuck.

    What was asked may still be done once the daemon goes on.
    """


class Mismatch(ClaimdagError):
    """Client and daemon speak different protocols."""


class Malformed(ClaimdagError):
    """The request cannot be sent as it is: too long, or not text."""


class Refused(ClaimdagError):
    """The daemon refused: `code`, `message` as on the wire, and all other fields of the error in `details`."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("message", "refused")))
        self.code = str(error.get("code", "internal"))
        self.details: dict[str, Any] = {k: v for k, v in error.items() if k not in ("code", "message")}
        #: The whole error object, as received.
        self.error: dict[str, Any] = dict(error)

    @property
    def faults(self) -> tuple[dict[str, Any], ...]:
        """What was wrong with each node, of a request about several."""
        return tuple(self.details.get("faults", ()))


class ClaimLost(ClaimdagError):
    """The claim on node `id` at generation `gen` ended without its holder: the body's work may be done again.

    `why` is the daemon's reason (an expired lease, a cancellation, a reclaim), the code with which it refused a
    renewal, or `unreachable`.
    """

    remedy = "stop the work on it: another worker may hold the node by now"

    def __init__(self, id: str, gen: int, why: str) -> None:
        super().__init__(f"the claim on {id} at generation {gen} was lost: {why}")
        self.id = id
        self.gen = gen
        self.why = why


class GraphChanged(ClaimdagError):
    """The daemon came back with another graph than `was`: ids and sequence numbers of the old one mean nothing now."""

    def __init__(self, was: str, now: str) -> None:
        super().__init__(f"the daemon serves graph {now} now, not {was}")
        self.was = was
        self.now = now


class InvalidRequest(Refused):
    """The request itself was wrong."""


class BadRequest(InvalidRequest):
    """A field is missing, unknown or of the wrong type, or the faults of several nodes are of several kinds."""


class UnknownOp(InvalidRequest):
    """The daemon knows no such op."""


class TooLarge(InvalidRequest):
    """The line is longer than the daemon reads."""


class NotFound(Refused):
    """No node `id` exists: it was pruned, or belongs to an earlier graph."""

    @property
    def id(self) -> str | None:
        return self.details.get("id")


class Fenced(Refused):
    """The node is at another generation, or held by another actor, than the request says."""


class GenMismatch(Fenced):
    """The node is at generation `gen`."""

    @property
    def gen(self) -> int | None:
        return self.details.get("gen")


class NotAssignee(Fenced):
    """Another actor holds the node."""


class TryLater(Refused):
    """The node cannot be claimed now; it may be later."""


class DepsUnsatisfied(TryLater):
    """The node still waits on other nodes."""


class ResourcesBusy(TryLater):
    """Units that the node needs are in use."""


class AssigneeBusy(TryLater):
    """The actor already holds node `id` at generation `gen`."""

    @property
    def id(self) -> str | None:
        return self.details.get("id")

    @property
    def gen(self) -> int | None:
        return self.details.get("gen")


class NotClaimable(TryLater):
    """The node is a group, is blocked, or is held by another."""


class WrongStatus(Refused):
    """The node's status does not allow it."""


class BadStatus(WrongStatus):
    """The node cannot have that status, or a held node would change what its claim depends on."""


class Terminal(WrongStatus):
    """The node is finished; only reopen leaves that."""


class NotTerminal(WrongStatus):
    """The node is not finished."""


class Unsatisfiable(Refused):
    """The request could never be met."""


class Cycle(Unsatisfiable):
    """The edge would close a cycle: `path`."""

    @property
    def path(self) -> tuple[Any, ...]:
        return tuple(self.details.get("path", ()))


class WouldNotRun(Unsatisfiable):
    """The node needs more units than the capacity, or than its lender has."""


class NoWork(Refused):
    """No work can be handed out now."""


class NothingRunnable(NoWork):
    """Work is pending and none of it can run now; the counts say what holds it up.

    `next_expiry` is in seconds, null when no lease runs. `stuck`: no claim is live whose end could free anything.
    """

    @property
    def deps(self) -> int:
        return int(self.details.get("deps", 0))

    @property
    def blocked(self) -> int:
        return int(self.details.get("blocked", 0))

    @property
    def leases(self) -> int:
        return int(self.details.get("leases", 0))

    @property
    def resources(self) -> int:
        return int(self.details.get("resources", 0))

    @property
    def paused(self) -> int:
        return int(self.details.get("paused", 0))

    @property
    def next_expiry(self) -> float | None:
        return self.details.get("next_expiry")

    @property
    def stuck(self) -> bool:
        return bool(self.details.get("stuck", False))

    @property
    def deadlocks(self) -> tuple[Any, ...]:
        return tuple(self.details.get("deadlocks", ()))


class NothingPending(NoWork):
    """All work is finished."""


class Timeout(Refused):
    """The time limit of a wait passed first."""


class Lagged(Refused):
    """Events were missed: they are older than the ledger keeps, or were not read fast enough."""


class DaemonError(Refused):
    """The daemon failed to do it; the graph is unchanged."""


class Full(DaemonError):
    """The graph is at its cap of nodes, and no finished one can be pruned."""


class Storage(DaemonError):
    """The journal could not be written."""


class ShuttingDown(DaemonError):
    """The daemon is leaving."""


class Internal(DaemonError):
    """A bug in the daemon; its log says more."""


BY_CODE: dict[str, type[Refused]] = {
    "bad_request": BadRequest,
    "unknown_op": UnknownOp,
    "too_large": TooLarge,
    "not_found": NotFound,
    "gen_mismatch": GenMismatch,
    "deps_unsatisfied": DepsUnsatisfied,
    "resources_busy": ResourcesBusy,
    "assignee_busy": AssigneeBusy,
    "not_assignee": NotAssignee,
    "not_claimable": NotClaimable,
    "bad_status": BadStatus,
    "terminal": Terminal,
    "not_terminal": NotTerminal,
    "cycle": Cycle,
    "would_not_run": WouldNotRun,
    "nothing_runnable": NothingRunnable,
    "nothing_pending": NothingPending,
    "full": Full,
    "storage": Storage,
    "lagged": Lagged,
    "shutting_down": ShuttingDown,
    "timeout": Timeout,
    "internal": Internal,
}


def refusal(error: Mapping[str, Any]) -> Refused:
    """Return the exception for an `error` object; a code of a later daemon gives a plain Refused."""
    return BY_CODE.get(str(error.get("code")), Refused)(error)


#: Names of earlier releases: each warns for one release, then goes.
_RENAMED = {
    "CouldNeverRun": "Unsatisfiable",
    "DaemonTrouble": "DaemonError",
    "Misasked": "InvalidRequest",
    "NotNow": "TryLater",
    "NothingToTake": "NoWork",
}


def __getattr__(name: str) -> Any:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import warnings

    warnings.warn(f"{__name__}.{name} is now {_RENAMED[name]}", DeprecationWarning, stacklevel=2)
    return globals()[_RENAMED[name]]
