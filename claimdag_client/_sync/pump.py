"""Carries the protocol's bytes for the blocking client, in a thread, which renews claims too."""

from __future__ import annotations

import os
import secrets
import selectors
import socket as sockets
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from claimdag_client._protocol import requests
from claimdag_client._protocol.backoff import delays
from claimdag_client._protocol.call import Call
from claimdag_client._protocol.claim_base import HAND_BACK_S
from claimdag_client._protocol.held_claim import HeldClaim
from claimdag_client._protocol.protocol import ClientProtocol
from claimdag_client._protocol.requests import Request
from claimdag_client._transport.transport import Connection
from claimdag_client.errors import ClaimdagError, Unreachable
from claimdag_client.events import Lines
from claimdagd import wire

T = TypeVar("T")

#: A daemon that is there gets this long to answer hello.
HELLO_S = 10.0
#: A daemon that went away gets this long to be restarted by its supervisor, before one is started from here.
START_AFTER_S = 5.0


class Pump:
    """Keeps a connection to the daemon, and makes calls on it. Threads may share it.

    Args:
        connect: Connects to the daemon; takes `start` and `limit_s`.
        first: The first connection.
        start: Whether a daemon may be started.
        patience_s: How long to look for a daemon that went away. None: indefinitely.
        on_notice: Called, in the pump's thread, with each event that concerns no claim.
    """

    def __init__(
        self,
        connect: Callable[..., Connection],
        first: Connection,
        *,
        start: bool,
        patience_s: float | None,
        on_notice: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        self.connect = connect
        self.patience_s = patience_s
        #: The daemon's answer to hello, of the current or last connection.
        self.hello = msgspec.convert(first.hello, wire.HelloOk)
        self._may_start = start
        self._lock = threading.RLock()
        self._protocol = ClientProtocol(secrets.token_hex(8), on_notice, silence_limit_s=patience_s)
        self._socket: sockets.socket | None = None
        self._unsent = b""
        self._closed = threading.Event()
        self._waker, self._woken = sockets.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)
        self._thread = threading.Thread(target=self._run, args=(first,), name="claimdag_client", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------------------------------- any thread calls

    def call(self, request: Request[T]) -> tuple[T, HeldClaim | None]:
        """Make a request; return its result, and the claim that it brought."""
        call, settled = self.start(request)
        try:
            in_time = settled.wait(self._protocol.time_limit(request))
        except BaseException:
            with self._lock:
                self._protocol.abandon(call, time.monotonic())
                self._flush()
            raise
        if not in_time:
            with self._lock:
                if not call.settled:
                    overdue = self._protocol.overdue(call, time.monotonic())
                    self._flush()
                    raise overdue
        return call.result(), call.held

    def start(self, request: Request[T]) -> tuple[Call[T], threading.Event]:
        """Start a call; return it, with the event that says that it is settled."""
        settled = threading.Event()
        with self._lock:
            call = self._protocol.start(request, time.monotonic(), settled.set)
            self._flush()
        return call, settled

    def close(self) -> None:
        """Release what is still held, and hang up."""
        if self._closed.is_set():
            return
        with self._lock:
            held = [claim for claim in self._protocol.held.values() if not claim.ending and self._protocol.connected]
            calls = [self.start(requests.release(claim.id, actor=claim.actor, gen=claim.gen)) for claim in held]
        deadline = time.monotonic() + HAND_BACK_S
        for _, settled in calls:
            settled.wait(max(0.0, deadline - time.monotonic()))
        self._closed.set()
        self._wake()
        self._thread.join()
        with self._lock:
            self._protocol.close(Unreachable("the client is closed"))
        self._waker.close()
        self._woken.close()

    def _wake(self) -> None:
        """Let the thread look again: there is something to send, or a timer has changed."""
        try:
            self._waker.send(b"\0")
        except (BlockingIOError, OSError):
            pass

    def _flush(self) -> None:
        """Send what can be sent without waiting; the thread sends the rest. The caller has the lock."""
        self._unsent += self._protocol.data_to_send()
        if self._unsent and self._socket is not None:
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except BlockingIOError:
                pass
            except OSError:
                self._unsent = b""  # The thread will meet the end of the stream.
        if self._unsent or threading.current_thread() is not self._thread:
            self._wake()

    # ------------------------------------------------------------------------------------------------ the thread

    def _run(self, first: Connection) -> None:
        pauses = delays()
        current: Connection | None = first
        while not self._closed.is_set():
            if current is None:
                current = self._reconnect(pauses)
                if current is None:
                    return
            answers = self._protocol.answers
            self._exchange(current)
            if self._protocol.answers > answers:
                pauses = delays()
            self._closed.wait(next(pauses))
            current = None

    def _reconnect(self, pauses: Iterable[float]) -> Connection | None:
        """Return a new connection; None if there will be none, which the protocol knows by then."""
        began = time.monotonic()
        for pause in pauses:
            waited = time.monotonic() - began
            try:
                start = self._may_start and waited > START_AFTER_S
                return self.connect(start=start, limit_s=hello_limit(self.patience_s))
            except ClaimdagError as exc:
                impatient = self.patience_s is not None and waited >= self.patience_s
                if impatient or not isinstance(exc, Unreachable):
                    with self._lock:
                        self._protocol.close(exc)
                    return None
            if self._closed.wait(pause):
                return None
        raise AssertionError

    def _exchange(self, current: Connection) -> None:
        """Send and receive until the connection ends."""
        with current, sockets.socket(fileno=os.dup(current.fileno())) as sock, selectors.DefaultSelector() as selector:
            sock.setblocking(False)
            selector.register(self._woken, selectors.EVENT_READ)
            selector.register(sock, selectors.EVENT_READ)
            with self._lock:
                self._socket, self._unsent = sock, b""
                self.hello = msgspec.convert(current.hello, wire.HelloOk)
                self._protocol.connection_made(current.graph, time.monotonic())
                self._flush()
            try:
                lines = Lines()
                while not self._closed.is_set() and not self._protocol.leaving:
                    if not self._turn(sock, selector, lines):
                        break
            except (OSError, ValueError):
                pass  # However the connection broke, the remedy is another one.
            finally:
                with self._lock:
                    self._socket = None
                    self._protocol.connection_lost()

    def _turn(self, sock: sockets.socket, selector: selectors.BaseSelector, lines: Lines) -> bool:
        """Wait for something to do and do it; return False at the end of the stream."""
        with self._lock:
            due = self._protocol.next_timer()
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        selector.modify(sock, events)
        ready = selector.select(None if due is None else max(0.0, due - time.monotonic()))
        data: bytes | None = None
        for key, mask in ready:
            if key.fileobj is self._woken:
                self._woken.recv(4096)
            elif mask & selectors.EVENT_READ:
                try:
                    data = sock.recv(262144)
                except BlockingIOError:
                    pass
        now = time.monotonic()
        with self._lock:
            for line in lines.feed(data) if data else ():
                self._protocol.receive_line(line, now)
            self._protocol.handle_timer(now)
            self._flush()
        return data != b""


def hello_limit(patience_s: float | None) -> float:
    """Return how long the daemon may take to answer hello."""
    return HELLO_S if patience_s is None else min(HELLO_S, patience_s)
