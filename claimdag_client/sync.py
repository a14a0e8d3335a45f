"""The public door of the blocking client: `from claimdag_client.sync import connect`."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from claimdag_client._sync.client import Claim, Client, connect

if TYPE_CHECKING:
    from claimdag_client.executors.job import Job, Report

__all__ = ["Claim", "Client", "connect", "run_on"]


def run_on(executor: Executor, fn: Callable[[Job], Any], *, actor: str, **options: Any) -> Report:
    """Work the graph off through an executor, as `claimdag_client.executors.run_on`, and wait for its end.

    In the main thread SIGTERM ends it as Ctrl-C does: every claim is handed back, then KeyboardInterrupt is raised.
    """
    import anyio

    from claimdag_client.executors.run import run_until_signal

    return anyio.run(lambda: run_until_signal((signal.SIGINT, signal.SIGTERM), executor, fn, actor=actor, **options))
