"""Claims for which a process stands: checked when they are made, and given their grace when the process has ended.

What a process is, the shell knows: it gives a `ProcessWatch`. Must not look at processes itself.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from claimdagd import wire
from claimdagd.core.mutation import Mutation
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex
from claimdagd.model import Process
from claimdagd.service.leases import Leases
from claimdagd.service.replies import op_of
from claimdagd.wire import Code

ACCEPTED: Final = "a process is accepted that runs, of the daemon's user, in its pid namespace"
#: The requests that may name a process, besides the `next` of a complete.
WITH_PROCESS: Final = frozenset({wire.Claim, wire.ClaimNext, wire.Renew})
#: Above so many watched processes those are dropped for which no claim is left.
SWEEP_ABOVE: Final = 64


class ProcessWatch(Protocol):
    """What the service needs of the shell to know when processes end. It calls `Service.process_ended`."""

    def check(self, pid: int, peer_pid: int | None) -> Process | str:
        """Return the process with this number, watched from now on, or what keeps it from being accepted.

        `peer_pid` is the process that asks, or None if that is not known. Raises OSError if the system has no more
        descriptors.
        """

    def watch(self, process: Process) -> bool:
        """Watch a process from now on, unless it is watched already. Return whether it runs."""

    def unwatch(self, process: Process) -> None:
        """Watch a process no longer."""


def process_named(r: Any) -> int | None:
    """Return the number of the process that `r` names, or None if it names none."""
    kind = type(r)
    if kind is wire.Complete:
        r = r.next
        return None if r is None else r.pid
    return r.pid if kind in WITH_PROCESS else None


class NoProcesses:
    """The watch of a service without a shell: accepts no process."""

    def check(self, pid: int, peer_pid: int | None) -> Process | str:
        """Refuse."""
        return "this daemon watches no processes"

    def watch(self, process: Process) -> bool:
        """Say that it has ended."""
        return False

    def unwatch(self, process: Process) -> None:
        """Do nothing."""


class Processes:
    """Knows which claims depend on which process."""

    def __init__(self, watch: ProcessWatch, leases: Leases) -> None:
        self._watch = watch
        self._leases = leases
        self._claims: dict[Process, dict[Vertex, None]] = {}
        self._sweep_above = SWEEP_ABOVE

    def resume(self, held: list[Vertex], now: float) -> None:
        """Watch again the processes of claims that were recovered (law 4.14)."""
        for v in held:
            self.hold(v, now)

    def on_rollback(self, mutations: list[Mutation], now: float) -> None:
        """Watch again the processes of claims whose end was rolled back."""
        for mutation in mutations:
            for v, *_ in mutation.undo_log:
                if v is not None and v.lease is not None and v.lease.process is not None:
                    self.hold(v, now)

    def check(self, r: wire.Request, pid: int, peer_pid: int | None) -> Process:
        """Return the process that `r` names. Raises Refusal if it is not accepted."""
        if len(self._claims) > self._sweep_above:
            self._sweep()
        op = op_of(r)
        try:
            process = self._watch.check(pid, peer_pid)
        except OSError as exc:
            message = f"{op}: pid {pid} cannot be watched: {exc.strerror}; claim without a pid, or try again later"
            raise Refusal(Code.FULL, message, field="pid", pid=pid) from None
        if isinstance(process, str):
            message = f"{op}: pid {pid} is refused: {process}; {ACCEPTED}"
            raise Refusal(Code.BAD_REQUEST, message, field="pid", pid=pid, accepted=ACCEPTED)
        self._claims.setdefault(process, {})
        return process

    def hold(self, v: Vertex, now: float) -> bool:
        """Let a claim depend on the process of its lease. Return whether that has ended, so that its grace began."""
        lease = v.lease
        if lease is None or lease.process is None:
            return False
        self._claims.setdefault(lease.process, {})[v] = None
        if self._watch.watch(lease.process):
            return False
        self.ended(lease.process, now)
        return True

    def ended(self, process: Process, now: float) -> bool:
        """Start the grace of each claim of a process that has ended. Return whether there were any."""
        claims = self._of(process)
        self._claims.pop(process, None)
        for v in claims:
            self._leases.start_grace(v, now, process_ended=True)
        return bool(claims)

    def _of(self, process: Process) -> list[Vertex]:
        claims = self._claims.get(process, {})
        return [v for v in claims if v.lease is not None and v.lease.process == process]

    def _sweep(self) -> None:
        """Watch no longer what no claim depends on. Every claim pays for this once, however many end."""
        for process in list(self._claims):
            claims = self._of(process)
            if claims:
                self._claims[process] = dict.fromkeys(claims)
            else:
                del self._claims[process]
                self._watch.unwatch(process)
        self._sweep_above = max(SWEEP_ABOVE, 2 * len(self._claims))
