"""A command run as a child in its own process group: started, waited for, stopped with Ctrl-Z, ended whole.

Knows nothing of claims. Its output is never touched: the child inherits the worker's own. It must be used on the main
thread, which is where signals arrive and forks are safe.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence

import anyio

from claimdag_client.worker.orphan_guard import Warden, group_lives, signal_group
from claimdag_client.worker.terminal import Terminal

#: After SIGKILL, how long to wait for a group's last members to be gone: one that hangs in the kernel may not be.
GONE_S = 2.0
STOP_AGAIN_S = 0.5
JOB_STOPS = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})


class Child:
    """A running command. `status` is None while it runs, then its exit status, or minus the signal that killed it."""

    def __init__(
        self, process: subprocess.Popen[bytes], warden: Warden, terminal: Terminal | None, *, foreground: bool
    ) -> None:
        self.pid = process.pid
        self.status: int | None = None
        #: It has, or had, the terminal's foreground: what is typed goes to it and not to the worker.
        self.foreground = foreground
        self._process = process
        self._warden = warden
        self._terminal = terminal
        self._stopped: int | None = None
        self._changed = anyio.Event()

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        environment: Mapping[bytes, bytes],
        warden: Warden,
        *,
        terminal: Terminal | None,
        keep_stdin: bool,
    ) -> Child:
        """Start `command`, in the foreground of `terminal` if that is ours. OSError when it cannot be started."""
        foreground = terminal is not None and terminal.ours()

        def become() -> None:
            pid = os.getpid()
            warden.tell(pid)
            if terminal is not None and foreground:
                terminal.lend(pid)

        warden.mark()
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=None if keep_stdin else subprocess.DEVNULL,
                # What the worker was started with (a jobserver's pipe, a passed socket) is the command's.
                close_fds=False,
                process_group=0,
                preexec_fn=become,
            )
        except BaseException:
            warden.forget_since_mark()
            if terminal is not None and foreground:
                terminal.take_back_from_nobody()
            raise
        if terminal is not None and foreground:
            terminal.lent_to = process.pid
        return cls(process, warden, terminal, foreground=foreground)

    def look(self) -> None:
        """Take note of what became of it. Called at every SIGCHLD."""
        if self.status is not None:
            return
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            pid, status = self.pid, 0  # Somebody ignores SIGCHLD for us: its status is lost.
        if not pid:
            return
        if os.WIFSTOPPED(status):
            self._stopped = os.WSTOPSIG(status)
        else:
            self.status = self._process.returncode = os.waitstatus_to_exitcode(status)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def wait(self) -> int:
        """Its status, once it has ended; a stop typed at the terminal stops the worker's whole job meanwhile."""
        while True:
            self.look()
            if self.status is not None:
                break
            stopped, self._stopped = self._stopped, None
            if stopped in JOB_STOPS and self._terminal is not None:
                await self._stop_job(self._terminal)
            elif stopped is None:
                await self._changed.wait()
        if self._terminal is not None:
            self._terminal.take_back(restore=self.status != 0)
        return self.status

    async def _stop_job(self, terminal: Terminal) -> None:
        """Stop as the shell that started the worker expects of its job; returns when it was told to go on."""
        terminal.take_back(restore=False)
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        # Going on from here; or never stopped, where there is no shell that could say so.
        if terminal.ours():
            self.foreground = True
            terminal.lend(self.pid)
        else:
            # In the background it will stop again if it still wants the terminal: not in a hurry.
            await anyio.sleep(STOP_AGAIN_S)
        signal_group(self.pid, signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send a signal to all of its group."""
        signal_group(self.pid, number)

    def let_go(self) -> None:
        """It ended by itself: what it left running in its group is its own affair."""
        self._warden.unwatch(self.pid)

    async def end(self, kill_after_s: float, at_once: anyio.Event) -> None:
        """End its whole group: SIGTERM, then SIGKILL after `kill_after_s` or when `at_once` is set."""
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        with anyio.move_on_after(kill_after_s):
            async with anyio.create_task_group() as tasks:

                async def hurry() -> None:
                    await at_once.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(hurry)
                await self._gone()
                tasks.cancel_scope.cancel()
        if self.status is None or group_lives(self.pid):
            self.signal(signal.SIGKILL)
            with anyio.move_on_after(GONE_S):
                await self._gone()
        await self.wait()
        self._warden.unwatch(self.pid)

    async def _gone(self) -> None:
        await self.wait()
        while group_lives(self.pid):  # noqa: ASYNC110  (nothing tells when a group has become empty)
            await anyio.sleep(0.02)


async def look_after(children: Iterable[Child], forward: Callable[[int], None]) -> None:
    """Look at the children whenever one changes, and hand on the signals that are theirs."""
    with anyio.open_signal_receiver(signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2) as signals:
        for child in [*children]:
            child.look()
        async for number in signals:
            if number == signal.SIGCHLD:
                for child in [*children]:
                    child.look()
            else:
                forward(number)
