"""Sessions that get every mutation as an event, from a given entry of the ledger on. Must not decide anything."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from claimdagd import wire
from claimdagd.core.refusal import Refusal
from claimdagd.service.ledger import Ledger
from claimdagd.service.replies import encode_ok
from claimdagd.service.sessions import Session
from claimdagd.wire import Code


class _Changed(msgspec.Struct):
    id: str


class _Entry(msgspec.Struct):
    """As much of a journal line as tells which nodes it is about."""

    nodes: tuple[_Changed, ...] = ()
    #: Nodes of which only the derived status changed, by that status.
    flips: dict[str, tuple[str, ...]] = {}


_changed = msgspec.json.Decoder(_Entry).decode


class Watchers:
    """The sessions that watch, each from `watch_from` on.

    Args:
        ledger: where the entries are.
        in_scope: tells whether the node of the first id is in the subtree of the second.
    """

    def __init__(self, ledger: Ledger, in_scope: Callable[[str, str], bool]) -> None:
        self._ledger = ledger
        self._in_scope = in_scope
        #: Each with the root of the scope that it watches, or None for the whole graph.
        self._sessions: dict[Session, str | None] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def check(self, r: wire.Watch) -> None:
        """Refuse a watch from an entry that is no longer kept."""
        ledger = self._ledger
        if r.from_ is not None and max(1, r.from_) < ledger.first:
            raise Refusal(
                Code.LAGGED,
                f"watch: entry {r.from_} is no longer kept, the oldest is {ledger.first}; "
                f"list the nodes anew and watch from {ledger.last + 1}",
                oldest=ledger.first,
                seq=ledger.last,
            )

    def begin(self, session: Session, r: wire.Watch) -> bytes:
        """Make `session` a watcher. Return the answer, followed by the entries that were asked for."""
        ledger = self._ledger
        start = ledger.last + 1 if r.from_ is None else max(1, r.from_)
        session.watch_from = max(start, ledger.last + 1)
        self._sessions[session] = r.under
        entries = [line for line in ledger.since(start) if r.under is None or self._concerns(line, r.under)]
        backlog = b"".join([b'{"event":%b}\n' % line for line in entries])
        return encode_ok(r.rid, b'{"seq":%d}' % (start - 1)) + backlog

    def publish(self, line: bytes) -> None:
        """Send every watcher the entry that was added to the ledger last, given its journal line."""
        entry = b'{"event":%b}\n' % line[:-1]
        for session, under in tuple(self._sessions.items()):
            assert session.watch_from is not None
            if self._ledger.last >= session.watch_from and (under is None or self._concerns(line, under)):
                session.deliver(entry)

    def _concerns(self, line: bytes, under: str) -> bool:
        entry = _changed(line)
        ids = [node.id for node in entry.nodes]
        for flipped in entry.flips.values():
            ids += flipped
        return any(self._in_scope(node_id, under) for node_id in ids)

    def tell(self, event: bytes) -> None:
        """Send every watcher an event that is no entry of the ledger."""
        for session in tuple(self._sessions):
            session.deliver(event)

    def drop(self, session: Session) -> None:
        """Remove a watcher."""
        session.watch_from = None
        self._sessions.pop(session, None)

    def hang_up(self) -> None:
        """Hang up on every watcher."""
        for session in list(self._sessions):
            session.hang_up()
