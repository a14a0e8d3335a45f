"""Which file keeps the output of a claim's command, and when old files go. Inside the worker; the files' owner."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from claimdag_client import outputs
from claimdag_client._protocol.failure_text import error_text
from claimdag_client.cli.render.text import clean
from claimdag_client.errors import ClaimdagError

if TYPE_CHECKING:
    from claimdag_client._async.client import Client

#: Old files are looked for again when this part of what may be kept in all was written since.
SWEEP_AFTER = 1 / 16
#: And when so many attempts have ended since.
SWEEP_ATTEMPTS = 256
#: How long to wait for the list of nodes that still exist.
SWEEP_S = 2.0


class OutputKeeper:
    """The output files of one worker's commands. `directory` is empty if nothing is kept."""

    def __init__(self, directory: str, total_bytes: int) -> None:
        self._directory = directory
        self._total_bytes = total_bytes
        self._written_bytes = 0
        self._attempts = 0

    def prepare(self) -> None:
        """Make the directory. Raises OSError, after which nothing is kept."""
        if self._directory:
            try:
                outputs.make_output_directory(self._directory)
            except OSError:
                self._directory = ""
                raise

    def path(self, id: str, attempt: int) -> str:
        """Return the file of an attempt, or an empty text if nothing is kept."""
        return os.path.join(self._directory, outputs.file_name(id, attempt)) if self._directory else ""

    async def ended(self, dag: Client, written_bytes: int) -> None:
        """Take note of what a command wrote, and remove old files if there may be many."""
        self._written_bytes += written_bytes
        self._attempts += 1
        if self._written_bytes > self._total_bytes * SWEEP_AFTER or self._attempts > SWEEP_ATTEMPTS:
            await self.sweep(dag)

    async def sweep(self, dag: Client) -> None:
        """Remove the files of pruned nodes, and the oldest of the rest above the total."""
        if not self._directory:
            return
        self._written_bytes = self._attempts = 0
        try:
            with anyio.fail_after(SWEEP_S):
                known = {node.id for node in await dag.list(all=True)}
            await anyio.to_thread.run_sync(outputs.sweep, self._directory, known, self._total_bytes)
        except (ClaimdagError, OSError, TimeoutError):
            pass  # The daemon is away, or a file cannot be removed: it is tried again later.


def with_last_line(error: str | None, last_line: bytes) -> str | None:
    """Return a node's error with what its command said last."""
    if error is None:
        return None
    line = clean(outputs.without_escapes(last_line)).strip()
    return error_text(f"{error}: {line}") if line else error
