"""How many files this process may have open, and so how many connections. Must not open any."""

from __future__ import annotations

import logging
import resource
from typing import Final

log = logging.getLogger("claimdagd")

#: Descriptors kept free of connections: for the state files, the loop and a snapshot under way.
RESERVED: Final = 32
#: Below this the daemon does not start: it could not write a snapshot while it serves a handful of clients.
LEAST: Final = RESERVED + 8
#: Below this the daemon starts and says so: a session with many agents needs more.
NEEDED: Final = RESERVED + 1024
#: More is not asked for.
WANTED: Final = 16384


class TooFewDescriptorsError(Exception):
    """The limit of open files does not allow the daemon to run."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the limit of open files is {limit}: claimdagd needs {LEAST} to start and {NEEDED} for a thousand "
            f"connections; {remedy()}"
        )


def remedy() -> str:
    """Return how a person raises the limit."""
    return f"raise the hard limit: ulimit -Hn {NEEDED}, or LimitNOFILE={NEEDED} in a unit"


def connections_allowed() -> int:
    """Raise the soft limit as far as it goes, and return how many connections fit under it.

    Raises `TooFewDescriptorsError`; a limit that is small but enough to start is named in the log.
    """
    limit = min(_raised_limit(), WANTED)
    if limit < LEAST:
        raise TooFewDescriptorsError(limit)
    if limit < NEEDED:
        log.warning(
            "the limit of open files is %d: at most %d connections at once, others wait; %s",
            limit, limit - RESERVED, remedy(),
        )  # fmt: skip
    return limit - RESERVED


def _raised_limit() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return WANTED
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft  # a sandbox may forbid it: what there is has to do
        return wanted
    return soft
