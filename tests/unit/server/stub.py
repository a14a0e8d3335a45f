"""A service with just enough behaviour to put the shell through everything: no graph, no store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.support.clock import RealClock


class StubSession:
    def __init__(self, deliver: Callable[[bytes], None], hang_up: Callable[[], None]) -> None:
        self.deliver = deliver
        self.hang_up = hang_up
        self.parked_rids: list[Any] = []
        self.watching = False
        self.closed = False

    @property
    def awaits_replies(self) -> bool:
        return bool(self.parked_rids)

    def answer(self, rid: Any, **ok: Any) -> None:
        self.deliver(json.dumps({"rid": rid, "ok": ok}).encode() + b"\n")


class StubService:
    """Ops: ping, size (n bytes), park, unpark, watch, emit (n events of size bytes), alarm, boom, hang_up, ..."""

    def __init__(self, clock: RealClock | None = None, *, held_back: bool = False) -> None:
        self.clock = clock or RealClock()
        self.on_wake: Callable[[], None] = lambda: None
        self.on_shutdown: Callable[[], None] = lambda: None
        self.on_snapshot: Callable[[], None] = lambda: None
        self.sessions: list[StubSession] = []
        self.lines: list[bytes] = []
        self.batches: list[int] = []
        self.idle = True
        self.held_back = held_back
        self._held: list[tuple[StubSession, Any]] = []
        self.commits = 0
        self.alarms: list[tuple[float, StubSession, Any]] = []
        self.ticks = 0
        self.heard: list[str] = []
        self.undelivered: list[bool] = []
        self.slices = 0
        self.drained = False

    @property
    def commit_due(self) -> bool:
        return bool(self._held)

    def open(self, deliver: Callable[[bytes], None], hang_up: Callable[[], None]) -> StubSession:
        session = StubSession(deliver, hang_up)
        self.sessions.append(session)
        return session

    def lagged(self, session: StubSession) -> bytes:
        session.watching = False
        return b'{"error":{"code":"lagged"}}\n'

    def closed(self, session: StubSession, undelivered: bool = False) -> None:
        self.undelivered.append(undelivered)
        assert not session.closed, "a session is closed once"
        session.closed = True
        self.sessions.remove(session)

    def receive(self, session: StubSession, lines: Iterable[bytes]) -> None:
        count = 0
        for line in lines:
            count += 1
            self.lines.append(line)
            try:
                request = json.loads(line)
            except ValueError:
                session.deliver(b'{"rid":null,"error":{"code":"bad_request"}}\n')
                continue
            self._do(session, request.get("rid"), **{k: v for k, v in request.items() if k != "rid"})
        self.batches.append(count)

    def _do(self, session: StubSession, rid: Any, op: str, n: int = 0, size: int = 0, seconds: float = 0.0) -> None:
        match op:
            case "ping" if self.held_back:
                self._held.append((session, rid))
            case "ping":
                session.answer(rid)
            case "size":
                session.answer(rid, text="x" * n)
            case "park":
                session.parked_rids.append(rid)
            case "unpark":
                for other in self.sessions:
                    self._unpark(other)
                session.answer(rid)
            case "watch":
                session.watching = True
                session.answer(rid)
                for number in range(n):
                    session.deliver(b'{"event":{"replay":%d,"text":"%s"}}\n' % (number, b"r" * size))
            case "emit":
                for number in range(n):
                    event = b'{"event":{"n":%d,"text":"%s"}}\n' % (number, b"e" * size)
                    for other in self.sessions:
                        if other.watching:
                            other.deliver(event)
                session.answer(rid)
            case "work":
                time.sleep(seconds)
                session.answer(rid)
            case "alarm":
                self.alarms.append((self.clock.now() + seconds, session, rid))
                self.on_wake()
            case "boom":
                raise RuntimeError("a planted bug")
            case "hang_up":
                session.answer(rid)
                session.hang_up()
            case "snapshot":
                self.on_snapshot()
                session.answer(rid)
            case "shutdown":
                session.answer(rid)
                self.on_shutdown()

    def _unpark(self, session: StubSession) -> None:
        for rid in session.parked_rids:
            session.answer(rid, unparked=True)
        session.parked_rids.clear()

    def tick(self) -> float | None:
        self.ticks += 1
        now = self.clock.now()
        for alarm in [each for each in self.alarms if each[0] <= now]:
            self.alarms.remove(alarm)
            self.heard.append("alarm")
            if not alarm[1].closed:
                alarm[1].answer(alarm[2], rang=True)
        return min((at for at, _, _ in self.alarms), default=None)

    def on_clock_gap(self, now: float) -> None:
        self.heard.append("gap")

    def drain(self) -> None:
        self.drained = True
        for session in self.sessions:
            for rid in session.parked_rids:
                session.deliver(json.dumps({"rid": rid, "error": {"code": "shutting_down"}}).encode() + b"\n")
            session.parked_rids.clear()

    def snapshot(self) -> Iterator[None]:
        for _ in range(50):
            self.slices += 1
            yield

    def committed(self) -> None:
        self.commits += 1
        held, self._held = self._held, []
        for session, rid in held:
            session.answer(rid, durable=True)

    def commit_failed(self, exc: Exception) -> None:
        held, self._held = self._held, []
        for session, rid in held:
            session.deliver(json.dumps({"rid": rid, "error": {"code": "storage"}}).encode() + b"\n")
