"""What the verbs that make many nodes at once share: reading the file, one request for all, faults by their place."""

from __future__ import annotations

import sys
import time

from claimdag_client._protocol.messages import encode
from claimdag_client.cli import streams
from claimdag_client.cli.render.text import counted
from claimdag_client.cli.session import Session
from claimdag_client.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from typing import Any

#: Work that is over sooner needs no progress line.
PATIENCE_S = 1.0


class Progress:
    """A line on the terminal that says what takes so long, once it takes longer than a second; nothing elsewhere."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._written_at = 0.0
        self._shown = False
        self._wanted = sys.stderr is not None and sys.stderr.isatty()
        self.doing = ""
        #: How much of it is done, from 0 to 1, if that is known.
        self.part: float | None = None

    def tick(self) -> None:
        """Show how far it is, if it is time to."""
        if not self._wanted:
            return
        now = time.monotonic()
        if now - self._begun >= PATIENCE_S and now - self._written_at >= 0.1:
            part = "" if self.part is None else f" {_bar(self.part)}"
            streams.tell(f"\r\x1b[K{self.doing}{part} ... {now - self._begun:.0f} s")
            self._written_at = now
            self._shown = True

    def clear(self) -> None:
        """Remove the line, before anything else is written."""
        if self._shown:
            streams.tell("\r\x1b[K")
            self._shown = False


def _bar(part: float) -> str:
    """Say a part of 1 as a bar and a percentage."""
    return f"[{'#' * int(part * 20):.<20}] {part:.0%}"


def pieces_of(path: str, progress: Progress) -> Iterator[bytes]:
    """Yield the file in pieces, or standard input for -."""
    progress.doing = f"reading {path}"
    try:
        for piece, progress.part in streams.pieces_of(path):
            yield piece
    finally:
        progress.part = None


def read_file(path: str) -> bytes:
    """Return all of a file, or of standard input for -."""
    return b"".join(pieces_of(path, Progress()))


def submit_nodes(
    session: Session,
    nodes: Sequence[dict[str, Any]],
    args: argparse.Namespace,
    progress: Progress,
    *,
    capacities: dict[str, int] | None = None,
    dry_run: bool = False,
) -> list[str]:
    """Submit the nodes. Returns their ids in the same order; with `dry_run` those that it would give."""
    request: dict[str, Any] = {"op": "submit", "nodes": nodes}
    if args.actor is not None:
        request["actor"] = args.actor
    if capacities:
        request["capacities"] = capacities
    if dry_run:
        request["dry_run"] = True
    elif args.once is not None:
        request["once"] = args.once
    line = encode(request)
    connection = session.connection
    progress.doing = f"submitting {counted(len(nodes), 'node')}"
    patience = connection.patience()
    connection.send_line(line, patience)
    connection.settimeout(0.2)
    try:
        while True:
            try:
                answer = connection.receive()
            except TimeoutError:
                connection.check(patience)
                progress.tick()
                continue
            if "event" not in answer:
                break
    finally:
        connection.settimeout(None)
        progress.clear()
    if "error" in answer:
        raise Refused(answer["error"])
    if not dry_run:
        session.changed(request, answer["ok"])
    ids: list[str] = answer["ok"]["ids"]
    return ids


def placed(refused: Refused, places: Sequence[str]) -> Refused:
    """Return the refusal with each fault under its place in the file instead of its number in the submission."""
    faults = refused.details.get("faults") or []
    found = []
    for fault in faults:
        index = fault.get("index")
        known = index is not None and 0 <= index < len(places)
        found.append({**fault, "index": places[index], "ref": None} if known else fault)
    return Refused({**refused.error, **({"faults": found} if found else {})})
