"""The workers of one `claimdag run` or `claimdag work`: each holds one claim at a time and runs the command under it.

All share a connection. What ends a command early, in the order in which it matters: the claim is lost; the pool is told
to stop; the terminal's keys end the command, which stops the pool too.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import anyio
import anyio.abc

from claimdag_client._async.claims import Claim, ClaimIterator
from claimdag_client._async.client import Client, connect
from claimdag_client._protocol.backoff import delays
from claimdag_client._protocol.claim_base import HAND_BACK_S
from claimdag_client._transport.endpoint import Endpoint
from claimdag_client.cli import streams
from claimdag_client.cli.render.text import clean
from claimdag_client.errors import AssigneeBusy, ClaimdagError, ClaimLost, DaemonError
from claimdag_client.worker.exit_status import claim_environment, ending_of, exit_status, start_status
from claimdag_client.worker.output_keeper import OutputKeeper, with_last_line
from claimdag_client.worker.process_group import CommandGroup, SupervisorLostError, Supervisors
from claimdag_client.worker.terminal import Terminal

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
FORWARDED = (signal.SIGUSR1, signal.SIGUSR2)
#: A command whose node was completed while it ran (it may have done so itself) gets this long to come to its end.
COMPLETED_S = 30.0
#: How long to ask whether a node whose claim was lost was completed.
ASK_S = 1.0
#: A result that the daemon could not write down is offered again for this long.
REPORT_S = 60.0
#: A worker's name that is still busy is most likely that of one that was killed: its claim ends within this, after a
#: restart of the daemon too, or by the grace if that is longer.
BUSY_S = 12.0
BUSY_AGAIN_S = 0.25
#: The exit status of a command that asks to be tried again later (EX_TEMPFAIL), and how often that is granted.
TRY_AGAIN = 75
RETRIES_MAX = 100
#: How often to look whether the daemon is gone, so as to say so.
LOOK_S = 5.0


@dataclass(frozen=True)
class Ended:
    """How a command under a claim ended. `status` as in CommandGroup; `lost` is why the claim was lost, if it was."""

    status: int
    lost: str | None = None


class CannotStartError(Exception):
    """The command cannot be started; `status` is what a shell would exit with."""

    def __init__(self, command: str, error: OSError | ValueError) -> None:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        super().__init__(f"{command}: {reason}")
        self.status = start_status(error)


class WorkerPool:
    """Some workers and what they share: the connection, the terminal, and the signal that stops them."""

    def __init__(
        self, verb: str, command: Sequence[str], supervisors: Supervisors, keeper: OutputKeeper, final_exit: int
    ) -> None:
        self.verb = verb
        self.dag: Client
        #: The signal that stopped the pool.
        self.stopped: int | None = None
        self.failure: Exception | None = None
        self.draining = False
        self._command = command
        self._supervisors = supervisors
        self._keeper = keeper
        self._final_exit = final_exit
        self._terminal = Terminal.of_stdin() if len(supervisors.groups) == 1 else None
        self._at_once = False
        self._running: set[CommandGroup] = set()
        self._idle: set[anyio.CancelScope] = set()
        self._scope: anyio.CancelScope

    async def run(self, endpoint: Endpoint, body: Any) -> None:
        """Connect, and run `body` until it ends or a signal stops the pool."""
        self._scope = anyio.CancelScope()
        try:
            self._keeper.prepare()
        except OSError as exc:
            self.note(f"output is not kept: {exc.filename}: {exc.strerror}")
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._listen)
            try:
                async with connect(
                    endpoint.socket, directory=endpoint.directory, start=endpoint.start, name=f"claimdag {self.verb}",
                    patience_s=None, on_notice=self._on_notice,
                ) as self.dag:  # fmt: skip
                    tasks.start_soon(self._report_absence)
                    with self._scope:
                        await self._keeper.sweep(self.dag)
                        await body()
            except Exception as exc:
                # Raised out of the task group, which would wrap it.
                self.failure = self.failure or exc
            tasks.cancel_scope.cancel()

    def stop(self, number: int) -> None:
        """Stop everything, as if by that signal; a second time, at once."""
        if self.stopped is None:
            self.stopped = number
            self._scope.cancel()
        else:
            self._at_once = True
            for group in self._running:
                group.end(at_once=True)

    def drain(self, failure: Exception | None = None) -> None:
        """Claim no further node: running commands come to their end, and then `failure`, if any, is raised."""
        self.failure = self.failure or failure
        self.draining = True
        for scope in self._idle:
            scope.cancel()

    async def _listen(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        # What was ignored at the start (nohup, a shell's background job) stays ignored.
        stops = [number for number in STOPS if signal.getsignal(number) is not signal.SIG_IGN]
        with anyio.open_signal_receiver(*stops, *FORWARDED) as signals:
            task_status.started()
            async for number in signals:
                if number in FORWARDED:
                    for group in self._running:
                        group.signal(number)
                else:
                    self.stop(number)

    def _on_notice(self, notice: dict[str, Any]) -> None:
        if notice.get("op") == "deadlock":
            self.note(f"deadlock: {notice.get('text') or notice}")

    async def _report_absence(self) -> None:
        absent = 0
        while True:
            await anyio.sleep(LOOK_S)
            if self.dag.connected:
                if absent > 1:
                    self.note("the daemon is back")
                absent = 0
            else:
                absent += 1
                if absent == 2:
                    self.note(f"no daemon answers at {self.dag.socket}; looking for it")

    def note(self, text: str) -> None:
        """Write a remark to stderr, beside the command's output."""
        streams.tell(f"claimdag: {self.verb}: {clean(text)}\n")

    # ------------------------------------------------------------------------------------------------ one worker

    async def work(self, work: ClaimIterator, group: CommandGroup) -> None:
        """Run the command for node after node, until there is no more work or the pool drains."""
        while not self.draining:
            claim: Claim | None = None
            with anyio.CancelScope() as idle:
                self._idle.add(idle)
                try:
                    claim = await self._next(work)
                    if claim is None:
                        self.drain()  # All work is finished, for the other workers too.
                except ClaimdagError as exc:
                    self.drain(exc)
            self._idle.discard(idle)
            if claim is None:
                return
            try:
                await self.run_claim(claim, group)
            except (CannotStartError, SupervisorLostError) as exc:
                self.drain(exc)

    async def _next(self, work: ClaimIterator) -> Claim | None:
        busy_until: float | None = None
        while True:
            try:
                return await anext(work, None)
            except AssigneeBusy:
                now = anyio.current_time()
                if busy_until is None:
                    busy_until = now + max(BUSY_S, self.dag.daemon.limits.grace + 2)
                if now > busy_until:
                    raise
                await anyio.sleep(BUSY_AGAIN_S)

    async def run_claim(self, claim: Claim, group: CommandGroup) -> Ended:
        """Run the command under `claim`, and end the node with it.

        Raises CannotStartError, or SupervisorLostError; the node is handed back.
        """
        self._running.add(group)
        try:
            await self._start(claim, group)
            ended = await self._see_through(claim, group)
            await self._keeper.ended(self.dag, group.written_bytes)
            return ended
        except SupervisorLostError:
            self.note(f"the supervisor of the command for {claim.id} was killed: ending what it left")
            await self._supervisors.end_strays(self.dag.daemon.pid)
            await claim.hand_back()
            raise
        finally:
            self._running.discard(group)

    async def _start(self, claim: Claim, group: CommandGroup) -> None:
        try:
            with anyio.CancelScope(shield=True):
                additions = claim_environment(claim.id, claim.gen, claim.summary, self.dag.socket)
                output = self._keeper.path(claim.id, claim.node.attempts)
                await group.start(claim.id, additions, output=output, terminal=self._terminal)
        except (OSError, ValueError) as exc:
            await claim.hand_back()
            raise CannotStartError(self._command[0], exc) from exc

    async def _see_through(self, claim: Claim, group: CommandGroup) -> Ended:
        try:
            status = await self._supervise(claim, group)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._end(group)
                await claim.hand_back()
            raise
        if claim.lost is not None:
            return Ended(status, None if await self._completed_by_command(claim) else claim.lost)
        if group.foreground and status in (-signal.SIGINT, -signal.SIGQUIT, 128 + signal.SIGINT):
            await self._interrupted(claim, signal.SIGQUIT if status == -signal.SIGQUIT else signal.SIGINT)
        return await self._report(claim, status, with_last_line(ending_of(status), group.last_line))

    async def _end(self, group: CommandGroup) -> None:
        group.end(at_once=self._at_once)
        await group.wait()

    async def _supervise(self, claim: Claim, group: CommandGroup) -> int:
        """Wait until the command has ended, by itself or because its claim was lost."""
        lost = anyio.Event()
        claim.on_lost(lost.set)
        async with anyio.create_task_group() as tasks:

            async def end_when_lost() -> None:
                await lost.wait()
                if not await self._completed_by_command(claim):
                    self.note(f"lost {claim.id} ({claim.lost}): ending the command")
                else:
                    await anyio.sleep(COMPLETED_S)
                    self.note(f"{claim.id} was completed {COMPLETED_S:g} s ago: ending the command")
                group.end(at_once=self._at_once)

            async def report_running() -> None:
                try:
                    await claim.running()
                except ClaimdagError:
                    pass  # It is for those who look on; a lost claim is noticed otherwise.

            tasks.start_soon(end_when_lost)
            tasks.start_soon(report_running)
            try:
                status: int | None = await group.wait()
            except SupervisorLostError:
                status = None  # Raised out of the task group, which would wrap it.
            tasks.cancel_scope.cancel()
        if status is None:
            raise SupervisorLostError("the supervisor of the command was killed")
        return status

    async def _completed_by_command(self, claim: Claim) -> bool:
        """Tell whether the claim ended because the node was completed, as the command may have done itself."""
        with anyio.move_on_after(ASK_S):
            try:
                node = await self.dag.get(claim.id)
                return node.gen == claim.gen and node.outcome is not None and node.outcome != "cancelled"
            except ClaimdagError:
                pass
        return False

    async def _interrupted(self, claim: Claim, number: int) -> NoReturn:
        """Stop the pool: the keys that ended the command were meant for it as well."""
        self.stop(number)
        with anyio.CancelScope(shield=True):
            await claim.hand_back()
        await anyio.sleep_forever()
        raise AssertionError

    async def _report(self, claim: Claim, status: int, error: str | None) -> Ended:
        try:
            return await self._complete(claim, status, error)
        except anyio.get_cancelled_exc_class():
            # The pool was stopped with a result in hand that only has to be told.
            with anyio.move_on_after(HAND_BACK_S, shield=True):
                await self._complete(claim, status, error)
            raise

    async def _complete(self, claim: Claim, status: int, error: str | None) -> Ended:
        give_up = anyio.current_time() + REPORT_S
        for pause in delays():
            try:
                if status == TRY_AGAIN:
                    await self._allow_retry(claim)
                final = True if error and status == self._final_exit else None
                await claim.complete("failed" if error else "done", error=error, final=final)
                return Ended(status)
            except ClaimLost as exc:
                self.note(f"{claim.id} was lost before its result could be told ({exc.why})")
                return Ended(status, exc.why)
            except DaemonError as exc:
                if anyio.current_time() > give_up:
                    raise
                self.note(f"{exc.message}; trying again")
            await anyio.sleep(pause)
        raise AssertionError

    async def _allow_retry(self, claim: Claim) -> None:
        """Give the node one more retry if it has none left: its command asked to be tried again."""
        failures = claim.node.failures
        if claim.node.retries <= failures < RETRIES_MAX:
            await self.dag.upsert(claim.id, retries=failures + 1, actor=claim.actor)

    def status(self, otherwise: int) -> int:
        """Return the exit status of a pool that has ended. Raises its failure if the command line explains that."""
        if self.stopped is not None:
            return 128 + self.stopped
        if isinstance(self.failure, CannotStartError):
            self.note(str(self.failure))
            return self.failure.status
        if isinstance(self.failure, SupervisorLostError):
            return 1
        if self.failure is not None:
            raise self.failure
        return otherwise


def run_one(
    endpoint: Endpoint,
    id: str,
    command: Sequence[str],
    supervisors: Supervisors,
    keeper: OutputKeeper,
    *,
    final_exit: int,
    actor: str,
    lease: float | None,
    gen: int | None,
) -> int:
    """Run the command for one node. Returns the exit status; raises what the daemon refuses."""
    pool = WorkerPool("run", command, supervisors, keeper, final_exit)
    ended: list[Ended] = []

    async def body() -> None:
        claim = await pool.dag.claim(id, actor=actor, gen=gen, lease=lease)
        ended.append(await pool.run_claim(claim, supervisors.groups[0]))

    anyio.run(pool.run, endpoint, body)
    status = exit_status(ended[0].status) if ended else 1
    return pool.status(status or int(ended[0].lost is not None))


def work(
    endpoint: Endpoint,
    actors: Sequence[str],
    command: Sequence[str],
    supervisors: Supervisors,
    keeper: OutputKeeper,
    *,
    final_exit: int,
    **choice: Any,
) -> int:
    """Run the command for node after node. Returns the exit status; raises what the daemon refuses.

    Args:
        choice: the arguments of `Client.work` besides the actor.
    """
    pool = WorkerPool("work", command, supervisors, keeper, final_exit)

    async def body() -> None:
        async with anyio.create_task_group() as tasks:
            for actor, group in zip(actors, supervisors.groups, strict=True):
                tasks.start_soon(pool.work, pool.dag.work(actor, **choice), group)

    anyio.run(pool.run, endpoint, body)
    return pool.status(0)
