"""A daemon without a process or a socket: the real service on a disk in memory, with time and faults given by hand."""

from __future__ import annotations

import json
from typing import Any

from claimdagd.app import open_service
from claimdagd.core import invariants
from claimdagd.service import Config, Service
from claimdagd.store.errors import StorageError
from tests.simulation.fault_disk import Disk, FaultyFiles
from tests.support.clock import ManualClock
from tests.support.processes import FakeProcesses

DIR = "/state"
TAG = "s1mu"


class Peer:
    """A connection to an in-process daemon; `received` is what came since `look` was last called."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.received: list[dict[str, Any]] = []
        self.session = service.open(self._hear, lambda: None)

    def _hear(self, data: bytes) -> None:
        self.received += map(json.loads, data.splitlines())

    def send(self, *requests: dict[str, Any]) -> None:
        """Send requests in one go."""
        self.service.receive(self.session, [json.dumps(r).encode() for r in requests])

    def ask(self, *requests: dict[str, Any]) -> list[dict[str, Any]]:
        """Send requests in one go; return what has come by then."""
        self.send(*requests)
        return self.look()

    def look(self) -> list[dict[str, Any]]:
        """Return what has come."""
        received, self.received = self.received, []
        return received


class InProcessDaemon:
    """A service on a disk in memory. `again` kills it and starts another on the same disk."""

    def __init__(
        self,
        *,
        fsync: bool = False,
        disk: Disk | None = None,
        max_nodes: int = 64,
        grace: float = 5.0,
        tag: str = TAG,
        processes: FakeProcesses | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        self.disk = disk or Disk(DIR)
        self.files = FaultyFiles(self.disk)
        self.clock = clock or ManualClock()
        self.processes = processes or FakeProcesses()
        opened = open_service(
            self.files, DIR, self.clock, Config(grace_s=grace, fsync=fsync),
            new_tag=lambda: tag, max_nodes=max_nodes, processes=self.processes,
        )  # fmt: skip
        self.service, self.graph, self.store, _ = opened
        self.processes.on_ended = self.service.process_ended
        self.service.tick()

    def peer(self) -> Peer:
        """Return a new connection."""
        return Peer(self.service)

    def fill(self) -> None:
        """Leave no room on the disk."""
        self.disk.capacity = self.disk.used

    def heal(self) -> None:
        """Give the disk room again, and end its faults."""
        self.disk.capacity = None
        self.files.heal()

    def flush(self) -> None:
        """Do what the shell does when a flush is due."""
        try:
            self.store.sync()
        except StorageError as exc:
            self.service.commit_failed(exc)
        else:
            self.service.committed()

    def later(self, seconds: float) -> None:
        """Let time pass, do what is due, and check every index."""
        self.clock.t += seconds
        self.service.tick()
        if self.service.commit_due:
            self.flush()
        invariants.check(self.graph)

    def again(self) -> InProcessDaemon:
        """Kill it, and return the next one on the same disk."""
        self.files.dead = True
        self.disk.kill()
        return InProcessDaemon(disk=self.disk, processes=self.processes)
