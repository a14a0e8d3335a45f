"""The blocking client, for scripts: the async one's shape, with a thread that carries the bytes and renews claims.

`with connect() as dag`. Threads may share it. Like the async client it looks for a lost daemon again, and what was
asked is neither lost nor done twice. What it cannot do is interrupt a body whose claim is lost: that is raised by the
next thing said about the claim, by `check`, or at the body's end.
"""

from __future__ import annotations

import functools
import math
import os
import secrets
import selectors
import socket as sockets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from inspect import Parameter, signature
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import msgspec

from claimdag_client._protocol import requests as asks
from claimdag_client._protocol.backoff import delays
from claimdag_client._protocol.claim_base import HAND_BACK_S, LOOK_S
from claimdag_client._protocol.protocol import Conversation, Held
from claimdag_client._protocol.requests import Ask
from claimdag_client._sync.claim import Claim
from claimdag_client._transport.endpoint import Endpoint
from claimdag_client._transport.transport import Connection
from claimdag_client._transport.transport import connect as connect_blocking
from claimdag_client.errors import (
    ClaimdagError,
    GraphChanged,
    NothingPending,
    NothingRunnable,
    Refused,
    Unreachable,
    refusal,
)
from claimdag_client.events import Event, Lines, decode_event, decode_message
from claimdagd import wire

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["Claim", "Client", "connect"]

HELLO_S = 10.0
#: A daemon that went away gets this long to be brought back by whoever looks after it, before one is started from here.
START_AFTER_S = 5.0


def _method(build: Callable[P, Ask[T]]) -> Callable[Concatenate[Client, P], T]:
    """The question that `build` makes, asked, as a method."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.ask(build(*args, **kwargs))

    method.__doc__ = build.__doc__
    method.__name__ = build.__name__
    method.__qualname__ = f"Client.{build.__name__}"
    shape = signature(build)
    own = Parameter("self", Parameter.POSITIONAL_ONLY)
    method.__signature__ = shape.replace(parameters=[own, *shape.parameters.values()])  # type: ignore[attr-defined]
    return method


def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    directory: str | None = None,
    start: bool = False,
    name: str = "claimdag_client",
    patience_s: float | None = 60.0,
    on_notice: Callable[[dict[str, Any]], None] | None = None,
) -> Client:
    """Connect to the daemon: a Client, to be closed or used as a context manager.

    The arguments are those of the async `claimdag_client.connect`; `on_notice` is called in the client's thread,
    and must not ask.
    Raises Unreachable when there is no daemon, Mismatch when it speaks another protocol.
    """
    endpoint = Endpoint(None if socket is None else os.fspath(socket), directory)
    path = endpoint.socket
    dial = functools.partial(connect_blocking, endpoint, client=name)
    first = dial(start=start)
    return Client(path, dial, first, start=start, patience_s=patience_s, on_notice=on_notice)


class Client:
    """A connected client, from `connect`. Every op of the protocol is a method; refusals raise by code."""

    def __init__(
        self,
        path: str,
        dial: Callable[..., Connection],
        first: Connection,
        *,
        start: bool,
        patience_s: float | None,
        on_notice: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        #: The absolute path of the socket.
        self.socket = path
        #: The daemon's answer to hello, of the connection that stands or stood last.
        self.daemon: wire.HelloOk = msgspec.convert(first.hello, wire.HelloOk)
        self._dial = dial
        self._start = start
        self._patience_s = patience_s
        self._lock = threading.RLock()
        self._talk = Conversation(secrets.token_hex(8), on_notice)
        self._socket: sockets.socket | None = None
        self._unsent = b""
        self._closed = threading.Event()
        self._wake, self._woken = sockets.socketpair()
        for end in (self._wake, self._woken):
            end.setblocking(False)
        self._thread = threading.Thread(target=self._carry, args=(first,), name="claimdag_client", daemon=True)
        self._thread.start()

    @property
    def graph(self) -> str:
        """The tag that every id of this graph begins with."""
        return self.daemon.graph

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hand back what is still held, and hang up."""
        if self._closed.is_set():
            return
        with self._lock:
            held = [one for one in self._talk.held.values() if not one.ending and self._talk.connected]
            calls = [self._put(asks.release(h.id, actor=h.actor, gen=h.gen)) for h in held]
        deadline = time.monotonic() + HAND_BACK_S
        for _, settled in calls:
            settled.wait(max(0.0, deadline - time.monotonic()))
        self._closed.set()
        self._stir()
        self._thread.join()
        with self._lock:
            self._talk.failed(Unreachable("the client is closed"))
        self._wake.close()
        self._woken.close()

    # ------------------------------------------------------------------------------------------------- questions

    def ask(self, ask: Ask[T]) -> T:
        """Ask and wait for the answer. Raises Refused (a class for each code), Malformed or Unreachable."""
        return self._ask(ask)[0]

    def _ask(self, ask: Ask[T]) -> tuple[T, Held | None]:
        call, settled = self._put(ask)
        try:
            settled.wait()
        except BaseException:
            with self._lock:
                self._talk.abandon(call, time.monotonic())
                self._flush()
            raise
        return call.result(), call.held

    def _put(self, ask: Ask[T]) -> tuple[Any, threading.Event]:
        settled = threading.Event()
        with self._lock:
            call = self._talk.ask(ask, time.monotonic(), settled.set)
            self._flush()
        return call, settled

    ping = _method(asks.ping)
    upsert = _method(asks.upsert)
    submit = _method(asks.submit)
    get = _method(asks.get)
    why = _method(asks.why)
    list = _method(asks.list_nodes)
    ready = _method(asks.ready)
    renew = _method(asks.renew)
    running = _method(asks.running)
    release = _method(asks.release)
    reopen = _method(asks.reopen)
    archive = _method(asks.archive)
    unarchive = _method(asks.unarchive)
    complete = _method(asks.complete)
    cancel = _method(asks.cancel)
    reclaim = _method(asks.reclaim)
    link = _method(asks.link)
    unlink = _method(asks.unlink)
    resources = _method(asks.resources)
    capacity = _method(asks.capacity)
    wait = _method(asks.wait)
    log = _method(asks.log)
    stats = _method(asks.stats)
    checkpoint = _method(asks.checkpoint)
    shutdown = _method(asks.shutdown)

    # ---------------------------------------------------------------------------------------------------- claims

    def claim(
        self, id: str, *, actor: str, gen: int | None = None, lease: float | None = None, bound: bool = True
    ) -> Claim:
        """Claim node `id`: `with dag.claim(...) as claim`. `lease` is in seconds, renewed in the client's thread."""
        return self._claim(asks.claim(id, actor=actor, gen=gen, lease=lease, bound=bound))

    def claim_next(
        self,
        actor: str,
        *,
        role: str | None = None,
        slack: float | None = None,
        strict: bool | None = None,
        lease: float | None = None,
        bound: bool = True,
        wait: float | None = None,
    ) -> Claim:
        """Claim the best node that can run; `wait` seconds for there to be one (math.inf: for good).

        Raises NothingRunnable or NothingPending.
        """
        return self._claim(
            asks.claim_next(actor, role=role, slack=slack, strict=strict, lease=lease, bound=bound, wait=wait)
        )

    def _claim(self, ask: Ask[wire.Claimed]) -> Claim:
        claimed, held = self._ask(ask)
        assert held is not None
        return Claim(self, claimed, held)

    def work(
        self,
        actor: str,
        *,
        role: str | None = None,
        slack: float | None = None,
        strict: bool | None = None,
        lease: float | None = None,
        until_empty: bool = False,
    ) -> Iterator[Claim]:
        """Node after node: `for claim in dag.work(actor)`, each to be worked in a `with claim`.

        Waits for work for good, or with `until_empty` ends once all of it is finished; raises NothingRunnable, with
        `stuck` true, where what is left needs a person. A claim not ended by the next turn goes back.
        """
        fields: dict[str, Any] = {"role": role, "slack": slack, "strict": strict, "lease": lease}
        while True:
            wait = 0.0 if until_empty else math.inf
            claim: Claim | None = None
            while claim is None:
                try:
                    claim = self.claim_next(actor, wait=wait or None, **fields)
                except NothingPending:
                    if until_empty:
                        return
                except NothingRunnable as exc:
                    if until_empty and exc.stuck:
                        raise
                wait = LOOK_S if until_empty else math.inf
            try:
                yield claim
            finally:
                claim.hand_back()

    def events(self, from_: int | None = None) -> Iterator[Event]:
        """Every mutation of the graph, from now or from seq `from_` on, over reconnects: nothing missed or twice.

        "Now" is the moment of this call. Raises Lagged when the ledger no longer holds what comes next, GraphChanged
        when the daemon that came back serves another graph.
        """
        seq, graph, watching = self._subscribe(from_, None)
        return self._events(seq, graph, watching)

    def _events(self, seq: int, graph: str, watching: Connection | None) -> Iterator[Event]:
        while True:
            if watching is None:
                seq, graph, watching = self._subscribe(seq, graph)
            with watching:
                try:
                    while True:
                        message = decode_message(watching.receive_line())
                        if message.error is not None:
                            error = refusal(message.error)
                            if error.code != "lagged":
                                raise error
                            break  # Cut off for reading too slowly: the ledger has what was missed.
                        try:
                            event = decode_event(message.event)
                        except msgspec.MsgspecError:
                            continue
                        if event.seq >= seq:
                            seq = event.seq + 1
                            yield event
                except Unreachable:
                    pass
            watching = None

    def _subscribe(self, seq: int | None, graph: str | None) -> tuple[int, str, Connection]:
        """A connection that watches: the next seq, the graph and the connection."""
        began = time.monotonic()
        for pause in delays():
            try:
                watching = self._dial(start=False, limit_s=HELLO_S)
                try:
                    if graph not in (None, watching.graph):
                        raise GraphChanged(graph or "", watching.graph)
                    ok = watching.ask({"op": "watch"} | ({} if seq is None else {"from": seq}))
                    return (ok["seq"] + 1 if seq is None else seq), watching.graph, watching
                except BaseException:
                    watching.close()
                    raise
            except Refused as exc:
                if exc.code != "shutting_down":
                    raise refusal(exc.error) from None
            except Unreachable:
                if self._patience_s is not None and time.monotonic() - began > self._patience_s:
                    raise
            time.sleep(pause)
        raise AssertionError

    # ------------------------------------------------------------------------------------------------ the thread

    def _stir(self) -> None:
        """Let the thread look again: something is unsent, or a time has changed."""
        try:
            self._wake.send(b"\0")
        except (BlockingIOError, OSError):
            pass

    def _flush(self) -> None:
        """Send what can be sent without waiting; the thread sends the rest. The lock is held."""
        self._unsent += self._talk.take()
        if self._unsent and self._socket is not None:
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except BlockingIOError:
                pass
            except OSError:
                self._unsent = b""  # The thread will meet the end of the stream.
        if self._unsent or threading.current_thread() is not self._thread:
            self._stir()

    def _carry(self, first: Connection) -> None:
        pauses = delays()
        current: Connection | None = first
        while not self._closed.is_set():
            if current is None:
                current = self._reach(pauses)
                if current is None:
                    return
            answers = self._talk.answers
            self._talk_over(current)
            if self._talk.answers > answers:
                pauses = delays()
            self._closed.wait(next(pauses))
            current = None

    def _reach(self, pauses: Iterable[float]) -> Connection | None:
        began = time.monotonic()
        for pause in pauses:
            waited = time.monotonic() - began
            try:
                return self._dial(start=self._start and waited > START_AFTER_S, limit_s=HELLO_S)
            except ClaimdagError as exc:
                impatient = self._patience_s is not None and waited >= self._patience_s
                if impatient or not isinstance(exc, Unreachable):
                    with self._lock:
                        self._talk.failed(exc)
                    return None
            if self._closed.wait(pause):
                return None
        raise AssertionError

    def _talk_over(self, current: Connection) -> None:
        """Carry bytes over one connection until it ends."""
        with current, sockets.socket(fileno=os.dup(current.fileno())) as sock, selectors.DefaultSelector() as selector:
            sock.setblocking(False)
            selector.register(self._woken, selectors.EVENT_READ)
            selector.register(sock, selectors.EVENT_READ)
            with self._lock:
                self._socket, self._unsent = sock, b""
                self.daemon = msgspec.convert(current.hello, wire.HelloOk)
                self._talk.opened(current.graph, time.monotonic())
                self._flush()
            try:
                lines = Lines()
                while not self._closed.is_set() and not self._talk.leaving:
                    if not self._turn(sock, selector, lines):
                        break
            except (OSError, ValueError):
                pass  # Whatever broke it, the remedy is another connection.
            finally:
                with self._lock:
                    self._socket = None
                    self._talk.dropped()

    def _turn(self, sock: sockets.socket, selector: selectors.BaseSelector, lines: Lines) -> bool:
        """Wait for something to do and do it; False at the end of the stream."""
        with self._lock:
            due = self._talk.due()
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
                self._talk.received(line, now)
            self._talk.tick(now)
            self._flush()
        return data != b""
