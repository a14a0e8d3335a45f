"""Those who are told of every mutation, from whichever entry of the ledger they ask for. Must not decide anything."""

from __future__ import annotations

from claimdagd import wire
from claimdagd.core.refusal import Refusal
from claimdagd.service.ledger import Ledger
from claimdagd.service.replies import encode_ok
from claimdagd.service.sessions import Session
from claimdagd.wire import Code


class Watchers:
    """The sessions that watch, each from `watch_from` on."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._sessions: dict[Session, None] = {}

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
        """`session` watches from this moment on. The answer, and behind it the entries that were asked for."""
        ledger = self._ledger
        start = ledger.last + 1 if r.from_ is None else max(1, r.from_)
        session.watch_from = max(start, ledger.last + 1)
        self._sessions[session] = None
        backlog = b"".join([b'{"event":%b}\n' % line for line in ledger.since(start)])
        return encode_ok(r.rid, b'{"seq":%d}' % (start - 1)) + backlog

    def publish(self, line: bytes) -> None:
        """Tell all of the entry that was added to the ledger last, by its journal line."""
        entry = b'{"event":%b}\n' % line[:-1]
        for session in tuple(self._sessions):
            assert session.watch_from is not None
            if self._ledger.last >= session.watch_from:
                session.deliver(entry)

    def tell(self, event: bytes) -> None:
        """Tell all of what is no entry of the ledger."""
        for session in tuple(self._sessions):
            session.deliver(event)

    def drop(self, session: Session) -> None:
        """`session` watches no more."""
        session.watch_from = None
        self._sessions.pop(session, None)

    def hang_up(self) -> None:
        """Let all of them go."""
        for session in list(self._sessions):
            session.hang_up()
