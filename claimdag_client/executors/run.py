"""`run_on`: one actor for each slot of an executor, each claiming, handing over, and ending node after node.

As many nodes are claimed as the executor runs at once, never more: what it cannot run yet stays with the daemon, for
others. It holds no rule of the graph.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from typing import Any, Literal

import anyio

from claimdag_client import Claim, Client, connect
from claimdag_client._protocol.failure_text import error_text
from claimdag_client.errors import ClaimLost
from claimdag_client.executors.completions import Completions
from claimdag_client.executors.job import Job, Report

#: An actor's name has room for `/` and the number of a slot.
SLOTS_MAX = 9999


class ExecutorBroken(Exception):
    """The executor can run nothing more: its workers died or its cluster is gone. Every claim was handed back."""


def slots_of(executor: Executor, prefetch: int | Literal["auto"]) -> int:
    """How many nodes to hold at once: `prefetch`, or as many as the executor says it can run, or a core each.

    Raises ValueError for a prefetch that is not a number from 1 to 9999.
    """
    if prefetch != "auto":
        if not 1 <= prefetch <= SLOTS_MAX:
            raise ValueError(f"prefetch={prefetch!r}: it takes 'auto' or a number from 1 to {SLOTS_MAX}")
        return prefetch
    workers = getattr(executor, "_max_workers", None)
    if isinstance(workers, int) and workers > 0:
        return min(workers, SLOTS_MAX)
    client = getattr(executor, "_client", None)
    threads = getattr(client, "nthreads", None)
    if callable(threads):
        total: int = sum(threads().values())
        return min(max(1, total), SLOTS_MAX)
    return os.cpu_count() or 1


async def run_on(
    executor: Executor,
    fn: Callable[[Job], Any],
    *,
    actor: str,
    prefetch: int | Literal["auto"] = "auto",
    role: str | None = None,
    strict: bool | None = None,
    slack: float | None = None,
    lease: float | None = None,
    under: str | None = None,
    until_empty: bool = True,
    client: Client | None = None,
    **where: Any,
) -> Report:
    """Work the graph off through an executor.

    `fn` gets a Job. What it returns ends the node as done and is dropped; what it raises ends it as failed, with the
    exception's last line as the error. A claim that is lost has its future cancelled. Cancelling this call cancels
    what waits and hands every claim back.

    Args:
        executor: Any `concurrent.futures.Executor`. It is not shut down.
        fn: A function of one Job; for an executor of processes it must pickle.
        actor: The name before the slot's number: the claims are of `actor/1` to `actor/n`.
        prefetch: How many nodes to hold at once. "auto": as many as the executor runs.
        role, strict, slack, lease, under: As for `claim_next`.
        until_empty: End once all work is finished, also that of others. Otherwise wait for more work indefinitely.
        client: A connected client; else one is made by `connect(**where)`.

    Raises:
        ExecutorBroken: The executor can run nothing more.
        NothingRunnable: `until_empty`, and only a person or new work can help.
        Unreachable: No daemon answers.
    """
    choice = {"role": role, "strict": strict, "slack": slack, "lease": lease, "under": under}
    run = _Run(executor, fn, choice, until_empty=until_empty)
    slots = slots_of(executor, prefetch)
    if client is not None:
        return await run.with_client(client, actor, slots)
    async with connect(**where) as own:
        return await run.with_client(own, actor, slots)


async def run_until_signal(
    signals: tuple[signal.Signals, ...], executor: Executor, fn: Callable[[Job], Any], **options: Any
) -> Report:
    """As `run_on`; in the main thread a signal ends it as a cancellation does, and then raises KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        return await run_on(executor, fn, **options)
    stopped = False

    async def listen(run: anyio.CancelScope) -> None:
        nonlocal stopped
        with anyio.open_signal_receiver(*signals) as received:
            async for _ in received:
                stopped = True
                run.cancel()
                return

    report: Report | None = None
    trouble: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen, tasks.cancel_scope)
        try:
            report = await run_on(executor, fn, **options)
        except Exception as exc:
            trouble = exc
        tasks.cancel_scope.cancel()
    if trouble is not None:
        raise trouble
    if stopped or report is None:
        raise KeyboardInterrupt
    return report


class _Run:
    def __init__(
        self, executor: Executor, fn: Callable[[Job], Any], choice: dict[str, Any], *, until_empty: bool
    ) -> None:
        self._executor = executor
        self._fn = fn
        self._choice = choice
        self._until_empty = until_empty
        self._completions = Completions()
        self._broken: BaseException | None = None
        self._trouble: Exception | None = None
        self.report = Report()

    async def with_client(self, dag: Client, actor: str, slots: int) -> Report:
        """Work with this client. A slot's exception is raised alone, not as a group."""
        try:
            async with anyio.create_task_group() as watch:
                watch.start_soon(self._completions.watch)
                async with anyio.create_task_group() as tasks:
                    for number in range(1, slots + 1):
                        tasks.start_soon(self._slot, dag, f"{actor}/{number}", tasks.cancel_scope)
                watch.cancel_scope.cancel()
        finally:
            self._completions.close()
        if self._broken is not None:
            raise ExecutorBroken(f"the executor can run nothing more: {_last_line(self._broken)}") from self._broken
        if self._trouble is not None:
            raise self._trouble
        return self.report

    async def _slot(self, dag: Client, actor: str, all_slots: anyio.CancelScope) -> None:
        """Node after node under one name."""
        try:
            async for first in dag.work(actor, until_empty=self._until_empty, **self._choice):
                claim: Claim | None = first
                while claim is not None and self._broken is None:
                    claim = await self._one(claim)
                if self._broken is not None:
                    all_slots.cancel()
                    return
        except Exception as exc:
            # The others hand their nodes back before this is raised.
            self._trouble = self._trouble or exc
            all_slots.cancel()

    async def _one(self, claim: Claim) -> Claim | None:
        """Run one node, end it, and return the next claim if the daemon had one at hand."""
        future: Future[Any] | None = None
        error: str | None = None
        following: Claim | None = None
        try:
            async with claim:
                future = self._submit(claim)
                if future is not None:
                    await self._completions.ended(future)
                    error = self._outcome(future)
                if self._broken is None and future is not None:
                    following = await self._end(claim, error)
                else:
                    await claim.release()
        except ClaimLost:
            self.report.lost += 1
            if future is not None and not future.cancel() and not future.done():
                # It runs on: its slot of the executor is taken until it ends, and its fence is gone.
                await self._completions.ended(future)
        except BaseException:
            if future is not None:
                future.cancel()
            raise
        return following

    def _submit(self, claim: Claim) -> Future[Any] | None:
        job = Job(
            id=claim.id,
            gen=claim.gen,
            summary=claim.summary,
            deps=tuple(dep.on for dep in claim.node.deps),
            deadline=time.time() + claim.expires_in,
        )
        try:
            return self._executor.submit(self._fn, job)
        except (BrokenExecutor, RuntimeError) as exc:  # RuntimeError: it was shut down.
            self._broken = exc
            return None

    def _outcome(self, future: Future[Any]) -> str | None:
        """The error's text, or None where it went well. A broken executor is no failure of the node."""
        try:
            error = future.exception()
        except CancelledError as exc:
            self._broken = exc
            return None
        if isinstance(error, BrokenExecutor) or type(error).__name__ in ("KilledWorker", "FutureCancelledError"):
            self._broken = error
            return None
        return None if error is None else _last_line(error)

    async def _end(self, claim: Claim, error: str | None) -> Claim | None:
        if error is None:
            following = await claim.complete_and_next(**self._choice)
            self.report.done += 1
        else:
            following = await claim.complete_and_next("failed", error=error, **self._choice)
            self.report.failed += 1
            self.report.errors[claim.id] = error
        return following


def _last_line(error: BaseException) -> str:
    """An exception as the last line of its traceback: its type and what it says."""
    said = str(error).strip().splitlines()
    return error_text(f"{type(error).__name__}: {said[-1]}" if said else type(error).__name__)
