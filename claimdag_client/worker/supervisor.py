"""The supervisor: a small process between a worker and the commands that it runs, one for each of its claims at a time.

It starts the command, reports its end, and ends the whole tree of processes under it: SIGTERM, then SIGKILL. Every
supervisor is a subreaper, so that the trees of a worker's claims are distinguished by links of parents alone, and no
process can leave its tree by a session of its own, a second fork or another environment. The worker's end of the
channel closes however the worker ends, even by SIGKILL; the supervisor then ends the tree and leaves. If a supervisor
itself is killed, the worker, a subreaper too, adopts its tree and ends it.

It is forked without exec, so it is started before threads and event loops. It must not import them.

The channel is a pair of sockets that keeps messages apart. To the supervisor: `start`, then between NULs where the
command runs (foreground or background), the file for its output (empty: it has the worker's own streams), the node's
id, and additions to the environment; `signal N`, `end`, `now`. From it: `started PID`, `failed ERRNO TEXT`,
`stopped SIGNAL`, `over STATUS BYTES LINE`, with how much the command wrote and its last line that was not blank.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from claimdag_client.worker import process_tree
from claimdag_client.worker.capture import Capture
from claimdag_client.worker.terminal import lend_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from claimdag_client.worker.process_tree import Process

MESSAGE_MAX = 65536
#: How much of the last line of output is told.
LINE_MAX = 2048
#: How long to wait for processes to be gone after SIGKILL: one that hangs in the kernel may never be.
GONE_S = 2.0
#: The pause between two passes over the tree; the end of a child ends a pause early.
FIRST_PASS_S = 0.005
LAST_PASS_S = 0.1
#: Signals that a terminal or a user may send to the group of the supervisor's command or to everyone.
CAUGHT = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


class Settings(NamedTuple):
    """What all commands of a worker have in common."""

    command: Sequence[str]
    #: Seconds between SIGTERM and SIGKILL.
    kill_after_s: float
    #: The command reads the worker's standard input.
    keep_stdin: bool
    leave_daemons: bool
    #: The largest size of an output file.
    output_max: int
    #: Output is shown as lines with the node's id before them.
    lines: bool


class Supervisor:
    """The supervisor's own process: serves `start` after `start` until the worker closes the channel."""

    def __init__(self, channel: socket.socket, settings: Settings) -> None:
        self._channel = channel
        self._settings = settings
        self._wakeup = _catch_signals()
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        self._poll.register(self._wakeup, select.POLLIN)
        self._capture = Capture(self._poll, settings.output_max, lines=settings.lines)
        #: The command's process and group, and its exit status once it has one.
        self._pid = 0
        self._status: int | None = None
        self._childless = True
        #: The fields of a `start` that has come and is not yet served.
        self._asked: list[bytes] | None = None
        self._must_end = False
        self._at_once = False
        self._worker_gone = False

    def serve(self) -> None:
        """Serve the worker until it is gone."""
        while not self._worker_gone:
            self._wait(None)
            if (fields := self._asked) is not None:
                # Not where it was received: the rest of what the poll reported would be served twice.
                self._asked = None
                self._run(fields)

    def _wait(self, seconds: float | None) -> None:
        """Wait for a message or the end of a child, and take note of it."""
        for descriptor, _ in self._poll.poll(None if seconds is None else seconds * 1000):
            if descriptor == self._wakeup:
                _empty(self._wakeup)
                self._reap()
            elif descriptor == self._channel.fileno():
                self._receive()
            else:
                self._capture.ready(descriptor)

    def _receive(self) -> None:
        try:
            message = self._channel.recv(MESSAGE_MAX)
        except OSError:
            message = b""
        word, _, rest = message.partition(b" ")
        match word:
            case b"":
                self._worker_gone = self._must_end = True
                self._poll.unregister(self._channel)
            case b"start":
                self._asked = rest.split(b"\0")
            case b"signal" if self._pid and self._status is None:
                process_tree.signal_group(self._pid, int(rest))
            case b"end":
                self._must_end = True
            case b"now":
                self._must_end = self._at_once = True
            case _:
                pass  # A signal for a command that has ended meanwhile.

    def _send(self, message: bytes) -> None:
        try:
            self._channel.send(message)
        except OSError:
            self._worker_gone = self._must_end = True

    def _run(self, fields: list[bytes]) -> None:
        """Run the command to its end and its tree's."""
        self._status, self._must_end, self._at_once = None, False, False
        place, path, label, *additions = fields
        if not self._start(os.fsdecode(path), label, foreground=place == b"foreground", additions=additions):
            return
        status = self._await_end()
        if self._must_end or not self._settings.leave_daemons:
            status = self._end_tree()
        self._pid = 0
        last = self._capture.finish(self._wait_to_show)[:LINE_MAX]
        # A command that not even SIGKILL ends hangs in the kernel.
        self._send(b"over %d %d %s" % (-signal.SIGKILL if status is None else status, self._capture.kept_bytes, last))

    def _wait_to_show(self, seconds: float | None) -> bool:
        self._wait(seconds)
        return not self._must_end

    def _await_end(self) -> int | None:
        """Wait until the command ends or is to be ended. Returns its status if it has one."""
        while self._status is None and not self._must_end:
            self._wait(None)
        return self._status

    def _start(self, path: str, label: bytes, *, foreground: bool, additions: list[bytes]) -> bool:
        settings = self._settings
        environment = dict(os.environb)
        for addition in additions:
            name, _, value = addition.partition(b"=")
            environment[name] = value
        stdout, stderr = self._capture.begin(path, label) if path else (None, None)
        try:
            process = subprocess.Popen(
                settings.command,
                env=environment,
                stdin=None if settings.keep_stdin else subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                # What the worker was started with (a jobserver's pipe, a passed socket) is the command's.
                close_fds=False,
                process_group=0,
                preexec_fn=_take_terminal if foreground else None,
            )
        except (OSError, ValueError) as exc:
            number = exc.errno if isinstance(exc, OSError) and exc.errno else 0
            text = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
            self._capture.begun()
            self._capture.finish(self._wait_to_show)
            self._send(b"failed %d %s" % (number, text.encode()))
            return False
        self._pid, self._childless = process.pid, False
        self._capture.begun()
        process.returncode = 0  # It is waited for here, and its object need not wait.
        self._send(b"started %d" % self._pid)
        self._reap()
        return True

    def _reap(self) -> None:
        while not self._childless:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                self._childless = True
                break
            if not pid:
                break
            if pid == self._pid and os.WIFSTOPPED(status):
                self._send(b"stopped %d" % os.WSTOPSIG(status))
            elif pid == self._pid:
                self._status = os.waitstatus_to_exitcode(status)

    # ------------------------------------------------------------------------------------------------- the end

    def _members(self) -> list[Process]:
        """Return what must not outlive the claim."""
        self._reap()
        if self._settings.leave_daemons:
            return process_tree.group_members(self._pid)
        # A descendant has a living chain of parents up to a child of this process.
        return [] if self._childless else process_tree.descendants(os.getpid())

    def _end_tree(self) -> int | None:
        """End every process under the command: SIGTERM, then SIGKILL. Returns the command's status."""
        told: set[Process] = set()
        pause = FIRST_PASS_S
        deadline = time.monotonic() + self._settings.kill_after_s
        while members := self._members():
            if self._at_once or time.monotonic() >= deadline:
                self._kill_tree()
                break
            for process in members:
                if process not in told:
                    process_tree.signal_process(process, signal.SIGTERM)
                    process_tree.signal_process(process, signal.SIGCONT)
            told.update(members)
            self._wait(pause)
            pause = min(2 * pause, LAST_PASS_S)
        return self._status

    def _kill_tree(self) -> None:
        deadline = time.monotonic() + GONE_S
        while (members := self._members()) and time.monotonic() < deadline:
            for process in members:
                process_tree.signal_process(process, signal.SIGKILL)
            self._wait(FIRST_PASS_S)


def start_supervisor(settings: Settings, others: Sequence[socket.socket]) -> tuple[int, socket.socket]:
    """Fork a supervisor. Returns its process id and the worker's end of its channel.

    Args:
        others: the worker's ends of the channels that exist already; the new process must not hold them open.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # What is buffered here would be written by both.
    pid = os.fork()
    if pid:
        theirs.close()
        ours.setblocking(False)
        return pid, ours
    status = 1
    try:
        for other in (ours, *others):
            other.close()
        # Out of reach of what is sent to the worker's group, yet in its session: the terminal can be lent.
        os.setpgid(0, 0)
        if not settings.leave_daemons:
            process_tree.become_subreaper()
        Supervisor(theirs, settings).serve()
        status = 0
    finally:
        os._exit(status)


def _take_terminal() -> None:
    """Between fork and exec: put the command's group in the terminal's foreground."""
    lend_terminal(os.getpid())


def _catch_signals() -> int:
    """Let signals do nothing here and yet their default in the command. Returns a descriptor that each makes readable.

    A signal that is ignored stays so over an exec, one with a handler does not. What the worker was started to
    ignore (nohup, a background job) is left ignored.
    """
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in CAUGHT:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _ignore)
    signal.signal(signal.SIGCHLD, _ignore)
    return readable


def _empty(descriptor: int) -> None:
    try:
        os.read(descriptor, 4096)
    except BlockingIOError:
        pass


def _ignore(number: int, frame: object) -> None:
    pass
