"""What an executor's worker is given, and what came of a run. Plain data that pickles. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Job:
    """One claimed node, for the function that works it.

    Args:
        id: The node.
        gen: The fencing token. Send it along with every effect, so that a late one can be refused.
        summary: What is to be done.
        deps: The ids of the nodes that it waited for.
        deadline: Unix seconds at which the lease ended when the job was handed over. It is renewed while the job runs.
    """

    id: str
    gen: int
    summary: str
    deps: tuple[str, ...]
    deadline: float


@dataclass(slots=True)
class Report:
    """How many nodes ended how, in one `run_on`."""

    done: int = 0
    failed: int = 0
    #: Claims that were lost while they ran: cancelled by a person, or reclaimed.
    lost: int = 0
    #: The last error of each node that failed here.
    errors: dict[str, str] = field(default_factory=dict)
