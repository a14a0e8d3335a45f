"""What the clients raise: one class for every error code of the protocol, drawn as a tree.

ClaimdagError
├── Unreachable            no daemon could be reached, or it went away and did not come back
├── Mismatch               it speaks another protocol
├── Malformed              the request cannot be sent as it is
├── ClaimLost              the claim that the body stood on is no longer this client's
├── GraphChanged           the daemon that came back serves another graph
└── Refused                the daemon said no: `code`, `message`, `details`
    ├── Misasked           BadRequest, UnknownOp, TooLarge
    ├── NotFound           no such node
    ├── Fenced             GenMismatch, NotAssignee: the node is another's by now
    ├── NotNow             DepsUnsatisfied, ResourcesBusy, AssigneeBusy, NotClaimable: it may pass later
    ├── WrongStatus        BadStatus, Terminal, NotTerminal
    ├── CouldNeverRun      Cycle, WouldNotRun
    ├── NothingToTake      NothingRunnable, NothingPending
    ├── Timeout            a `wait` that was over first
    ├── Lagged             events older than the ledger keeps, or not read fast enough
    └── DaemonTrouble      Full, Storage, ShuttingDown, Internal

Standard library only: the command line may import this. It must do no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claimdag_client._transport.connection import ClaimdagError, Malformed, Mismatch, Refused, Unreachable

__all__ = [
    "BY_CODE",
    "AssigneeBusy",
    "BadRequest",
    "BadStatus",
    "ClaimLost",
    "ClaimdagError",
    "CouldNeverRun",
    "Cycle",
    "DaemonTrouble",
    "DepsUnsatisfied",
    "Fenced",
    "Full",
    "GenMismatch",
    "GraphChanged",
    "Internal",
    "Lagged",
    "Malformed",
    "Misasked",
    "Mismatch",
    "NotAssignee",
    "NotClaimable",
    "NotFound",
    "NotNow",
    "NotTerminal",
    "NothingPending",
    "NothingRunnable",
    "NothingToTake",
    "Refused",
    "ResourcesBusy",
    "ShuttingDown",
    "Storage",
    "Terminal",
    "Timeout",
    "TooLarge",
    "UnknownOp",
    "Unreachable",
    "WouldNotRun",
    "WrongStatus",
    "refusal",
]


class ClaimLost(ClaimdagError):
    """The claim on node `id` at generation `gen` ended without its holder: what the body did may be done again.

    `why` is the daemon's reason (an expired lease, a cancellation, a reclaim), the code with which it refused a
    renewal, or `unreachable`.
    """

    remedy = "drop what was being done for it: somebody else may hold the node by now"

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


class Misasked(Refused):
    """The request itself was wrong."""


class BadRequest(Misasked):
    """A field is missing, unknown or of the wrong type. `faults` lists those of a submit."""

    @property
    def faults(self) -> tuple[dict[str, Any], ...]:
        return tuple(self.details.get("faults", ()))


class UnknownOp(Misasked):
    """The daemon knows no such op."""


class TooLarge(Misasked):
    """The line is longer than the daemon reads."""


class NotFound(Refused):
    """There is no node `id`: pruned by now, or of an earlier graph."""

    @property
    def id(self) -> str | None:
        return self.details.get("id")


class Fenced(Refused):
    """The node is at another generation, or in other hands, than the request says."""


class GenMismatch(Fenced):
    """The node is at generation `gen`."""

    @property
    def gen(self) -> int | None:
        return self.details.get("gen")


class NotAssignee(Fenced):
    """Somebody else holds the node."""


class NotNow(Refused):
    """It cannot be claimed as things stand."""


class DepsUnsatisfied(NotNow):
    """It still waits on other nodes."""


class ResourcesBusy(NotNow):
    """Units that it needs are in use."""


class AssigneeBusy(NotNow):
    """The actor holds node `id` at generation `gen` already."""

    @property
    def id(self) -> str | None:
        return self.details.get("id")

    @property
    def gen(self) -> int | None:
        return self.details.get("gen")


class NotClaimable(NotNow):
    """A group, a blocked node, or one that another holds."""


class WrongStatus(Refused):
    """The node's status does not allow it."""


class BadStatus(WrongStatus):
    """The status asked for cannot be, or what a claim stands on would move."""


class Terminal(WrongStatus):
    """The node is finished; only reopen leaves that."""


class NotTerminal(WrongStatus):
    """The node is not finished."""


class CouldNeverRun(Refused):
    """What was asked for could never be met."""


class Cycle(CouldNeverRun):
    """`path` is the cycle that it would close."""

    @property
    def path(self) -> tuple[Any, ...]:
        return tuple(self.details.get("path", ()))


class WouldNotRun(CouldNeverRun):
    """It needs more units than there are, or than its lender has."""


class NothingToTake(Refused):
    """There is no work to hand out now."""


class NothingRunnable(NothingToTake):
    """Work is pending and none of it can run: counts of what holds it up.

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
    def next_expiry(self) -> float | None:
        return self.details.get("next_expiry")

    @property
    def stuck(self) -> bool:
        return bool(self.details.get("stuck", False))

    @property
    def deadlocks(self) -> tuple[Any, ...]:
        return tuple(self.details.get("deadlocks", ()))


class NothingPending(NothingToTake):
    """All work is finished."""


class Timeout(Refused):
    """The time given to a wait was over first."""


class Lagged(Refused):
    """Events were missed: they are older than the ledger keeps, or were not read fast enough."""


class DaemonTrouble(Refused):
    """The daemon could not; the graph is as it was."""


class Full(DaemonTrouble):
    """As many nodes as the daemon keeps, and no finished one that could go."""


class Storage(DaemonTrouble):
    """The journal could not be written."""


class ShuttingDown(DaemonTrouble):
    """The daemon is leaving."""


class Internal(DaemonTrouble):
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
    """The exception for an `error` object; a code that a later daemon adds is a plain Refused."""
    return BY_CODE.get(str(error.get("code")), Refused)(error)
