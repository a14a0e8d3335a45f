"""Workers: each holds one claim at a time and runs the command under it. The async inside of `claimdag run` and `work`.

All workers of one `claimdag work` share a connection. What ends a command early, in the order in which it matters: the
claim is lost; the worker is told to stop; the terminal's keys end the command, which stops the worker too.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import anyio

from claimdag_client._async.claims import Claim, ClaimIterator
from claimdag_client._async.client import Client, connect
from claimdag_client._protocol.backoff import delays
from claimdag_client._protocol.claim_base import HAND_BACK_S
from claimdag_client._transport.endpoint import Endpoint
from claimdag_client.cli.render.text import clean
from claimdag_client.errors import AssigneeBusy, ClaimdagError, ClaimLost, DaemonError
from claimdag_client.worker.exit_status import ending_of, environment_of, exit_status, start_status
from claimdag_client.worker.orphan_guard import Warden
from claimdag_client.worker.process_group import Child, look_after
from claimdag_client.worker.terminal import Terminal

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
#: A command whose node was completed while it ran (it may have done so itself) gets this long to come to its end.
SPOKEN_FOR_S = 30.0
#: A result that the daemon could not write down is offered again for this long.
REPORT_S = 60.0
#: A worker's name that is still busy is most likely that of one that was killed: its claim ends within this, after a
#: restart of the daemon too, or by the grace if that is longer.
BUSY_S = 12.0
#: How often to look whether the daemon is gone, so as to say so.
LOOK_S = 5.0


@dataclass(frozen=True)
class Ended:
    """How a command under a claim came to its end. `status` as in Child; `lost` says why the claim was, if it was."""

    status: int
    lost: str | None = None


class CannotStart(Exception):
    """The command cannot be started; `status` is what a shell would exit with."""

    def __init__(self, command: str, error: OSError | ValueError) -> None:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        super().__init__(f"{command}: {reason}")
        self.status = start_status(error)


class Crew:
    """Some workers and what they share: the connection, the terminal, and the signal that stops them."""

    def __init__(self, verb: str, command: Sequence[str], warden: Warden, *, workers: int, kill_after_s: float) -> None:
        self.verb = verb
        self.dag: Client
        #: The signal that told us to stop.
        self.stopped: int | None = None
        self.failure: Exception | None = None
        self.draining = False
        self._command = command
        self._warden = warden
        self._alone = workers == 1
        self._terminal = Terminal.of_stdin() if self._alone else None
        self._kill_after_s = kill_after_s
        self._children: set[Child] = set()
        self._idle: set[anyio.CancelScope] = set()
        self._scope: anyio.CancelScope
        self._at_once = anyio.Event()

    async def run(self, place: Endpoint, body: Any) -> None:
        """Connect, and run `body` until it ends or a signal says stop."""
        self._scope = anyio.CancelScope()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            tasks.start_soon(look_after, self._children, self._forward)
            try:
                async with connect(
                    place.socket, directory=place.directory, start=place.start, name=f"claimdag {self.verb}",
                    patience_s=None, on_notice=self._tell,
                ) as self.dag:  # fmt: skip
                    tasks.start_soon(self._tell_of_absence)
                    with self._scope:
                        await body()
            except Exception as exc:
                # Out of the group, which would wrap it.
                self.failure = self.failure or exc
            tasks.cancel_scope.cancel()

    def stop(self, number: int) -> None:
        """Stop everything, as if by that signal; a second time, at once."""
        if self.stopped is None:
            self.stopped = number
            self._scope.cancel()
        else:
            self._at_once.set()

    def drain(self, failure: Exception | None = None) -> None:
        """Take no further node: what is being worked on comes to its end, and then `failure`, if any, is raised."""
        self.failure = self.failure or failure
        self.draining = True
        for scope in self._idle:
            scope.cancel()

    async def _listen(self) -> None:
        # What was ignored when we were started (nohup, a shell's background job) stays so.
        numbers = [number for number in STOPS if signal.getsignal(number) is not signal.SIG_IGN]
        with anyio.open_signal_receiver(*numbers) as signals:
            async for number in signals:
                self.stop(number)

    def _forward(self, number: int) -> None:
        for child in self._children:
            child.signal(number)

    def _tell(self, notice: dict[str, Any]) -> None:
        if notice.get("op") == "deadlock":
            self.note(f"deadlock: {notice.get('text') or notice}")

    async def _tell_of_absence(self) -> None:
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
        """Say something beside the command's output; where nobody listens any more, to nobody."""
        try:
            sys.stderr.write(f"claimdag: {self.verb}: {clean(text)}\n")
            sys.stderr.flush()
        except OSError:
            pass

    # ------------------------------------------------------------------------------------------------ one worker

    async def work(self, work: ClaimIterator) -> None:
        """Node after node, until there are none, or the crew drains."""
        while not self.draining:
            claim: Claim | None = None
            with anyio.CancelScope() as idle:
                self._idle.add(idle)
                try:
                    claim = await self._next(work)
                    if claim is None:
                        self.drain()  # All work is finished, for the others too.
                except ClaimdagError as exc:
                    self.drain(exc)
            self._idle.discard(idle)
            if claim is None:
                return
            try:
                await self.attend(claim)
            except CannotStart as exc:
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
                await anyio.sleep(0.25)

    async def attend(self, claim: Claim) -> Ended:
        """Run the command under `claim`, and end the node with it. CannotStart when it cannot be."""
        child = await self._start(claim)
        self._children.add(child)
        try:
            return await self._see_through(child, claim)
        finally:
            self._children.discard(child)

    async def _start(self, claim: Claim) -> Child:
        try:
            return Child.start(
                self._command,
                environment_of(claim.id, claim.gen, claim.summary, self.dag.socket),
                self._warden,
                terminal=self._terminal,
                keep_stdin=self._alone,
            )
        except (OSError, ValueError) as exc:
            await claim.hand_back()
            raise CannotStart(self._command[0], exc) from exc

    async def _see_through(self, child: Child, claim: Claim) -> Ended:
        try:
            status = await self._until_over(child, claim)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await child.end(self._kill_after_s, self._at_once)
                await claim.hand_back()
            raise
        if claim.lost is not None:
            return Ended(status, None if await self._spoken_for(claim) else claim.lost)
        if child.foreground and status in (-signal.SIGINT, -signal.SIGQUIT, 128 + signal.SIGINT):
            await self._interrupted(child, claim, signal.SIGQUIT if status == -signal.SIGQUIT else signal.SIGINT)
        child.let_go()
        return await self._report(claim, status)

    async def _until_over(self, child: Child, claim: Claim) -> int:
        """Until the command has ended, by itself or because its claim was lost."""
        lost = anyio.Event()
        claim.on_lost(lost.set)
        async with anyio.create_task_group() as tasks:

            async def end_when_lost() -> None:
                await lost.wait()
                if not await self._spoken_for(claim):
                    self.note(f"lost {claim.id} ({claim.lost}): ending the command")
                else:
                    await anyio.sleep(SPOKEN_FOR_S)
                    self.note(f"{claim.id} was completed {SPOKEN_FOR_S:g} s ago: ending the command")
                with anyio.CancelScope(shield=True):
                    await child.end(self._kill_after_s, self._at_once)

            async def say_running() -> None:
                try:
                    await claim.running()
                except ClaimdagError:
                    pass  # It is for those who look on; a lost claim is noticed otherwise.

            tasks.start_soon(end_when_lost)
            tasks.start_soon(say_running)
            status = await child.wait()
            tasks.cancel_scope.cancel()
        if claim.lost is not None:
            # The command is over; nothing that it left in its group outlives the claim either.
            with anyio.CancelScope(shield=True):
                await child.end(self._kill_after_s, self._at_once)
        return status

    async def _spoken_for(self, claim: Claim) -> bool:
        """The claim ended because the node was completed, as the command may well have done itself."""
        with anyio.move_on_after(LOOK_S):
            try:
                node = await self.dag.get(claim.id)
                return node.gen == claim.gen and node.outcome is not None and node.outcome != "cancelled"
            except ClaimdagError:
                pass
        return False

    async def _interrupted(self, child: Child, claim: Claim, number: int) -> NoReturn:
        """The keys that ended the command were meant for the worker as well."""
        self.stop(number)
        with anyio.CancelScope(shield=True):
            await child.end(self._kill_after_s, self._at_once)
            await claim.hand_back()
        await anyio.sleep_forever()
        raise AssertionError

    async def _report(self, claim: Claim, status: int) -> Ended:
        try:
            return await self._complete(claim, status)
        except anyio.get_cancelled_exc_class():
            # Told to stop, with a result in hand that only has to be said.
            with anyio.move_on_after(HAND_BACK_S, shield=True):
                await self._complete(claim, status)
            raise

    async def _complete(self, claim: Claim, status: int) -> Ended:
        error = ending_of(status)
        give_up = anyio.current_time() + REPORT_S
        for pause in delays():
            try:
                await claim.complete("failed" if error else "done", error=error)
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


def run_one(
    place: Endpoint,
    id: str,
    command: Sequence[str],
    warden: Warden,
    *,
    actor: str,
    lease: float | None,
    gen: int | None,
    kill_after_s: float,
) -> int:
    """Run the command for one node; the exit status. Raises what the daemon refuses."""
    crew = Crew("run", command, warden, workers=1, kill_after_s=kill_after_s)
    ended: list[Ended] = []

    async def body() -> None:
        claim = await crew.dag.claim(id, actor=actor, gen=gen, lease=lease)
        ended.append(await crew.attend(claim))

    anyio.run(crew.run, place, body)
    status = exit_status(ended[0].status) if ended else 1
    return _how_it_ended(crew, status or int(ended[0].lost is not None))


def work(
    place: Endpoint,
    actors: Sequence[str],
    command: Sequence[str],
    warden: Warden,
    *,
    role: str | None,
    slack: float | None,
    strict: bool | None,
    lease: float | None,
    until_empty: bool,
    kill_after_s: float,
) -> int:
    """Run the command for node after node; the exit status. Raises what the daemon refuses."""
    crew = Crew("work", command, warden, workers=len(actors), kill_after_s=kill_after_s)

    async def body() -> None:
        async with anyio.create_task_group() as tasks:
            for actor in actors:
                tasks.start_soon(
                    crew.work,
                    crew.dag.work(actor, role=role, slack=slack, strict=strict, lease=lease, until_empty=until_empty),
                )

    anyio.run(crew.run, place, body)
    return _how_it_ended(crew, 0)


def _how_it_ended(crew: Crew, otherwise: int) -> int:
    """The exit status of a crew that was stopped or failed; raises its failure if the command line explains those."""
    if crew.stopped is not None:
        return 128 + crew.stopped
    if isinstance(crew.failure, CannotStart):
        crew.note(str(crew.failure))
        return crew.failure.status
    if crew.failure is not None:
        raise crew.failure
    return otherwise
