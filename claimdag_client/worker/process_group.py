"""A worker's commands as processes: each is run by a supervisor, waited for, stopped with Ctrl-Z, and ended whole.

Knows nothing of claims. The worker talks to each supervisor over a channel (see supervisor.py) and never signals a
process by a number that could be another's by now. The supervisors are forked from here: an event loop is imported
where it is used, so that no supervisor carries one.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Sequence
from typing import Self

from claimdag_client.worker import process_tree
from claimdag_client.worker.supervisor import MESSAGE_MAX, Settings, start_supervisor
from claimdag_client.worker.terminal import Terminal

#: How long a command without a shell to continue it waits before it is continued after a stop.
STOP_AGAIN_S = 0.5
#: How long the processes of a killed supervisor are given to be gone.
STRAYS_S = 2.0
JOB_STOPS = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})


class SupervisorLostError(Exception):
    """The supervisor of a command was killed."""


class CommandGroup:
    """One command at a time under a supervisor of its own.

    `status` is None while the command or its tree lives, then its exit status, or minus the signal that killed it.
    """

    def __init__(self, supervisor: int, channel: socket.socket) -> None:
        self.supervisor = supervisor
        self.status: int | None = None
        #: It has, or had, the terminal's foreground: what is typed goes to it and not to the worker.
        self.foreground = False
        #: What the last command wrote: so many bytes, and its last line that was not blank.
        self.written_bytes = 0
        self.last_line = b""
        self._channel = channel
        self._terminal: Terminal | None = None
        self._pid = 0

    async def start(
        self, id: str, additions: Sequence[bytes], *, output: str = "", terminal: Terminal | None = None
    ) -> None:
        """Start the command for node `id`. Raises OSError or ValueError if it cannot be started.

        Args:
            additions: what goes into its environment, as `NAME=VALUE`.
            output: the file that keeps what it writes; without one it writes to the worker's own streams.
            terminal: it runs in the foreground of this terminal, if the worker does.
        """
        self.status, self._terminal = None, terminal
        self.foreground = terminal is not None and terminal.ours()
        place = b"foreground" if self.foreground else b"background"
        self._send(b"start " + b"\0".join((place, os.fsencode(output), id.encode(), *additions)))
        word, _, rest = (await self._receive()).partition(b" ")
        if word == b"failed":
            if terminal is not None and self.foreground:
                terminal.take_back_from_nobody()
            number, _, text = rest.partition(b" ")
            self.status = 0
            raise OSError(int(number), text.decode()) if int(number) else ValueError(text.decode())
        self._pid = int(rest)
        if terminal is not None and self.foreground:
            terminal.lent_to = self._pid

    async def wait(self) -> int:
        """Return the command's status once it and its tree have ended.

        A stop that is typed at the terminal stops the worker's whole job meanwhile. May be cancelled and called again.
        """
        while self.status is None:
            word, _, rest = (await self._receive()).partition(b" ")
            if word == b"stopped" and int(rest) in JOB_STOPS and self._terminal is not None:
                await self._stop_job(self._terminal)
            elif word == b"over":
                status, written, self.last_line = rest.split(b" ", 2)
                self.status, self.written_bytes = int(status), int(written)
        if self._terminal is not None:
            self._terminal.take_back(restore=self.status != 0)
        return self.status

    async def _stop_job(self, terminal: Terminal) -> None:
        """Stop as the shell that started the worker expects of its job; returns when it was continued."""
        terminal.take_back(restore=False)
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        # Continued from here; or never stopped, if there is no shell that could continue it.
        if terminal.ours():
            self.foreground = True
            terminal.lend(self._pid)
        else:
            import anyio

            # In the background it will stop again if it still wants the terminal: not in a hurry.
            await anyio.sleep(STOP_AGAIN_S)
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send a signal to the command's process group."""
        self._send(b"signal %d" % number)

    def end(self, *, at_once: bool = False) -> None:
        """Have the whole tree ended: SIGTERM, then SIGKILL, or SIGKILL at once. `wait` returns when it is done."""
        self._send(b"now" if at_once else b"end")

    def _send(self, message: bytes) -> None:
        try:
            self._channel.send(message)
        except OSError:
            pass  # The supervisor is gone, which the next receive reports.

    async def _receive(self) -> bytes:
        import anyio

        while True:
            try:
                message = self._channel.recv(MESSAGE_MAX)
            except BlockingIOError:
                await anyio.wait_readable(self._channel)
                continue
            except OSError:
                message = b""
            if not message:
                raise SupervisorLostError
            return message

    def close(self) -> None:
        """Let the supervisor leave; it ends what still runs under it."""
        self._channel.close()


class Supervisors:
    """The supervisors of one worker process, and what is to be done if one of them is killed."""

    def __init__(self, groups: Sequence[CommandGroup]) -> None:
        self.groups = groups

    @classmethod
    def start(cls, settings: Settings, count: int) -> Self:
        """Fork `count` supervisors. Must be called before there are threads or an event loop."""
        if not settings.leave_daemons:
            process_tree.become_subreaper()
        groups: list[CommandGroup] = []
        for _ in range(count):
            groups.append(CommandGroup(*start_supervisor(settings, [group._channel for group in groups])))
        return cls(groups)

    async def end_strays(self, daemon: int) -> None:
        """Kill what a killed supervisor left behind: this process, a subreaper too, has adopted it.

        Args:
            daemon: a daemon that this process started is below it as well, and is spared.
        """
        import anyio

        spared = frozenset([daemon, *(group.supervisor for group in self.groups)])
        with anyio.move_on_after(STRAYS_S, shield=True):
            while strays := process_tree.descendants(os.getpid(), without=spared):
                for process in strays:
                    process_tree.signal_process(process, signal.SIGKILL)
                await anyio.sleep(0.01)

    def close(self) -> None:
        """Let all supervisors leave, and wait until they have."""
        for group in self.groups:
            group.close()
        for group in self.groups:
            try:
                os.waitpid(group.supervisor, 0)
            except ChildProcessError:
                pass
