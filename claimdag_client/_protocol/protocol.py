"""A client's end of the protocol without I/O: what is asked, what is answered, which claims are held and when to renew.

Both clients drive it: they carry the bytes of `take` to the daemon and its lines to `received`, say `opened` and
`dropped`, and call `tick` when `due`. What it promises, whatever the connection does:

- Every question is settled once. A connection that drops costs nothing: what was not answered is asked again on the
  next one. A mutation carries a `once` token, so asked twice it is done once.
- A claim that is held is renewed when a third of its lease has passed, and rebound at once on a new connection.
- A claim that was granted in an answer that never came may have been taken back since; so the answer to a repeated
  claim is believed only after a renewal, and the claim is asked for anew when that is refused.
- A claim that is granted when nobody waits for it any more is handed back.

Times are monotonic seconds, told by the caller. It must do no I/O, read no clock and start nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from claimdag_client._protocol import requests as asks
from claimdag_client._protocol.messages import encode
from claimdag_client.errors import ClaimdagError, ClaimLost, DaemonError, Refused, Unreachable, refusal
from claimdag_client.events import decode_message
from claimdagd import wire

T = TypeVar("T")

CLAIMING = frozenset({"claim", "claim_next"})
ENDING = frozenset({"complete", "release"})
#: Refusals of those which say that the claim is gone.
GONE = frozenset({"gen_mismatch", "not_found", "not_assignee", "terminal"})
#: Done twice they leave what once leaves; the daemon need not remember their answers.
IDEMPOTENT = frozenset({"renew", "running"})
#: A daemon that was told to leave and came back would be told again.
NEVER_AGAIN = frozenset({"shutdown"})
#: Where an op carries a time to wait, which is shorter when it is asked again.
WAITS = {"claim_next": "wait", "wait": "timeout"}
#: The part of what is left of a lease after which it is renewed.
RENEW_AFTER = 1 / 3
#: A renewal that the daemon could not do is tried again after this.
RENEW_AGAIN_S = 1.0


class Held:
    """A claim in this client's hands. `lost` says why it no longer is; `on_lost` is called when that becomes so."""

    __slots__ = (
        "actor",
        "bound",
        "ending",
        "expires_at",
        "gen",
        "id",
        "lease",
        "lost",
        "on_lost",
        "renew_at",
        "renewing",
        "resting",
    )

    def __init__(self, id: str, gen: int, *, actor: str, lease: float | None, bound: bool) -> None:
        self.id = id
        self.gen = gen
        self.actor = actor
        self.lease = lease
        self.bound = bound
        self.expires_at = 0.0
        self.renew_at = 0.0
        #: A renewal is on its way.
        self.renewing = False
        #: It is renewed no longer until this is taken back: whoever works under it may be gone.
        self.resting = False
        #: Its complete or release is on its way: the connection may drop now, the answer to that decides.
        self.ending = False
        self.lost: str | None = None
        self.on_lost: Callable[[], None] | None = None

    def extend(self, expires_in: float, now: float) -> None:
        self.expires_at = now + expires_in
        self.renew_at = now + expires_in * RENEW_AFTER

    @property
    def renewable(self) -> bool:
        """A renewal may be sent now."""
        return not (self.renewing or self.ending or self.resting)

    def check(self) -> None:
        """Raise ClaimLost if it is lost."""
        if self.lost is not None:
            raise ClaimLost(self.id, self.gen, self.lost)


class Call(Generic[T]):
    """One question on its way to being settled: then `result` gives the answer or raises."""

    __slots__ = (
        "_error", "_result", "abandoned", "ask", "ends", "held", "internal", "on_settled", "once", "rid", "sends",
        "settled", "until",
    )  # fmt: skip

    def __init__(self, rid: int, ask: asks.Ask[T], on_settled: Callable[[], None]) -> None:
        self.rid = rid
        self.ask = ask
        self.on_settled = on_settled
        self.once: str | None = None
        #: When a wait that it carries is over.
        self.until: float | None = None
        self.sends = 0
        self.internal = False
        self.abandoned = False
        self.settled = False
        #: The claim that it was answered with, its own or a complete's next, and the one that it ends.
        self.held: Held | None = None
        self.ends: Held | None = None
        self._result: Any = None
        self._error: ClaimdagError | None = None

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[no-any-return]

    def settle(self, result: Any = None, error: ClaimdagError | None = None) -> None:
        if not self.settled:
            self._result, self._error, self.settled = result, error, True
            self.on_settled()


def _claim_asked(ask: asks.Ask[Any]) -> dict[str, Any]:
    """The fields of the claim that `ask` asks for: itself, or the `next` of a complete."""
    return ask.fields if ask.op in CLAIMING else {"actor": ask.fields["actor"], **ask.fields["next"]}


class Conversation:
    """See the module. `token` makes this client's `once` tokens unlike any other's."""

    def __init__(self, token: str, on_notice: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.token = token
        self.on_notice = on_notice
        self.graph: str | None = None
        self.calls: dict[int, Call[Any]] = {}
        self.held: dict[tuple[str, int], Held] = {}
        self.connected = False
        #: The daemon said that it is leaving: drop this connection, and look for the next daemon.
        self.leaving = False
        #: So many answers have come: a connection that brought some was worth making.
        self.answers = 0
        self.over: ClaimdagError | None = None
        self._rid = 0
        self._out: list[bytes] = []

    # ------------------------------------------------------------------------------------------------ the caller

    def ask(self, ask: asks.Ask[T], now: float, on_settled: Callable[[], None]) -> Call[T]:
        """Put a question on its way. Malformed when it cannot be sent at all."""
        call = self._call(ask, on_settled)
        if ask.op in wire.MUTATING_OPS and ask.op not in IDEMPOTENT:
            call.once = f"{self.token}-{call.rid}"
        if (wait := ask.fields.get(WAITS.get(ask.op, ""))) is not None:
            call.until = now + wait
        line = self._line(call, now)
        if self.over is not None:
            call.settle(error=self.over)
            return call
        self.calls[call.rid] = call
        if ask.op in ENDING:
            call.ends = self._held_by(ask.fields["id"], ask.fields.get("gen"))
            if call.ends is not None:
                call.ends.ending = True
        if self.connected:
            self._send(call, line)
        return call

    def abandon(self, call: Call[Any], now: float) -> None:
        """Nobody waits for it any more: a claim that it brings, or has brought, goes back."""
        call.abandoned = True
        if call.settled and call.held is not None and call.held.lost is None:
            self._hand_back(call.held, now)
        elif call.rid in self.calls and not self.connected:
            self._forget(call)

    def forget(self, held: Held) -> None:
        """Renew it no longer."""
        self.held.pop((held.id, held.gen), None)

    def take(self) -> bytes:
        """What is to be sent now."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    # -------------------------------------------------------------------------------------------- the connection

    def opened(self, graph: str, now: float) -> None:
        """A connection stands and its hello was answered: rebind what is held, ask again what was not answered."""
        self.connected, self.leaving = True, False
        if self.graph not in (None, graph):
            for held in [*self.held.values()]:
                self._lose(held, "the daemon serves another graph now")
        self.graph = graph
        for held in self.held.values():
            if not held.ending:
                self._renew(held, now)
        for call in [*self.calls.values()]:
            if not call.internal:
                self._send(call, self._line(call, now))

    def dropped(self) -> None:
        """The connection is gone. What must not be asked twice fails; the rest waits for the next."""
        self.connected = False
        self._out.clear()
        for held in self.held.values():
            held.renewing = False
        for call in [*self.calls.values()]:
            if call.internal or call.abandoned:
                self._forget(call)
            elif call.sends and call.ask.op in NEVER_AGAIN:
                self._forget(call)
                call.settle(error=Unreachable("the connection ended before the answer came"))

    def failed(self, error: ClaimdagError) -> None:
        """There will be no further connection: everything asked, now and later, fails with `error`."""
        self.connected, self.over = False, error
        for held in [*self.held.values()]:
            self._lose(held, "unreachable")
        calls = [*self.calls.values()]
        self.calls.clear()
        for call in calls:
            call.settle(error=error)

    def received(self, line: bytes, now: float) -> None:
        """A line from the daemon. ValueError when it is not of the protocol: drop the connection."""
        try:
            message = decode_message(line)
            event = msgspec.json.decode(message.event, type=dict[str, Any]) if message.event else None
        except (msgspec.MsgspecError, RecursionError) as exc:
            raise ValueError(f"not of the protocol: {line[:80]!r}") from exc
        if event is not None:
            self._told(event, now)
            return
        call = self.calls.get(message.rid) if isinstance(message.rid, int) else None
        if message.error is not None:
            error = refusal(message.error)
            if error.code == "shutting_down" and (call is None or call.ask.op not in NEVER_AGAIN):
                self.leaving = True
            elif call is not None:
                self.answers += 1
                self._refused(call, error, now)
        elif message.ok and call is not None:
            try:
                reply = msgspec.json.decode(message.ok, type=call.ask.reply)
            except (msgspec.MsgspecError, RecursionError) as exc:
                raise ValueError(f"{call.ask.op}: not of the protocol: {exc}") from exc
            self.answers += 1
            self._answered(call, reply, now)

    def due(self) -> float | None:
        """When to call `tick` next."""
        if not self.connected:
            return None
        return min((h.renew_at for h in self.held.values() if h.renewable), default=None)

    def tick(self, now: float) -> None:
        """Renew what is due."""
        if self.connected:
            for held in self.held.values():
                if held.renew_at <= now and held.renewable:
                    self._renew(held, now)

    # ------------------------------------------------------------------------------------------------- the inside

    def _call(self, ask: asks.Ask[Any], on_settled: Callable[[], None]) -> Call[Any]:
        self._rid += 1
        return Call(self._rid, ask, on_settled)

    def _line(self, call: Call[Any], now: float) -> bytes:
        request = {"op": call.ask.op, **call.ask.fields, "rid": call.rid}
        if call.once is not None:
            request["once"] = call.once
        if call.until is not None:
            request[WAITS[call.ask.op]] = max(0.0, call.until - now)
        return encode(request)

    def _send(self, call: Call[Any], line: bytes) -> None:
        call.sends += 1
        self._out.append(line)

    def _inside(self, ask: asks.Ask[Any], now: float, on_settled: Callable[[Call[Any]], None]) -> None:
        call = self._call(ask, lambda: on_settled(call))
        call.internal = True
        self.calls[call.rid] = call
        self._send(call, self._line(call, now))

    def _forget(self, call: Call[Any]) -> None:
        self.calls.pop(call.rid, None)
        if call.ends is not None:
            call.ends.ending = False

    def _held_by(self, id: str, gen: int | None) -> Held | None:
        if gen is not None:
            return self.held.get((id, gen))
        return next((held for held in self.held.values() if held.id == id), None)

    def _told(self, event: dict[str, Any], now: float) -> None:
        held = self.held.get((event.get("id", ""), event.get("gen", 0)))
        match event.get("op"):
            case "expiring" if held is not None:
                if self.connected and held.renewable:
                    self._renew(held, now)
            case "lost" if held is not None:
                self._lose(held, str(event.get("why") or "lost"))
            case "expiring" | "lost":
                pass
            case _:
                if self.on_notice is not None:
                    self.on_notice(event)

    def _lose(self, held: Held, why: str) -> None:
        self.forget(held)
        if held.lost is None:
            held.lost = why
            if held.on_lost is not None:
                held.on_lost()

    def _renew(self, held: Held, now: float) -> None:
        def renewed(call: Call[Any]) -> None:
            held.renewing = False

        held.renewing = True
        held.renew_at = now + RENEW_AGAIN_S
        ask = asks.renew(held.id, actor=held.actor, gen=held.gen, lease=held.lease, bound=True if held.bound else None)
        self._inside(ask, now, renewed)

    def _refused(self, call: Call[Any], error: Refused, now: float) -> None:
        self._forget(call)
        op, fields = call.ask.op, call.ask.fields
        if (op in IDEMPOTENT and not isinstance(error, DaemonError)) or (op in ENDING and error.code in GONE):
            held = self._held_by(fields["id"], fields.get("gen"))
            if held is not None:
                self._lose(held, error.code)
        call.settle(error=error)

    def _answered(self, call: Call[Any], reply: Any, now: float) -> None:
        claimed: wire.Claimed | None = reply if call.ask.op in CLAIMING else getattr(reply, "next", None)
        if claimed is not None:
            if call.sends > 1 and not call.abandoned:
                self._confirm(call, reply, claimed, now)
                return
            self._granted(call, claimed, now)
        elif call.ask.op in IDEMPOTENT:
            held = self.held.get((reply.id, reply.gen))
            if held is not None:
                held.extend(reply.expires_in, now)
        if call.ends is not None:
            self.forget(call.ends)
        self._forget(call)
        call.settle(call.ask.finish(reply))

    def _granted(self, call: Call[Any], claimed: wire.Claimed, now: float) -> None:
        asked = _claim_asked(call.ask)
        held = Held(
            claimed.id, claimed.gen, actor=asked["actor"], lease=asked.get("lease"), bound=asked.get("bound", False)
        )
        held.extend(claimed.expires_in, now)
        self.held[held.id, held.gen] = held
        call.held = held
        if call.abandoned:
            self._hand_back(held, now)

    def _hand_back(self, held: Held, now: float) -> None:
        self.forget(held)
        if self.connected:
            self._inside(asks.release(held.id, actor=held.actor, gen=held.gen), now, lambda call: None)

    def _confirm(self, call: Call[Any], reply: Any, claimed: wire.Claimed, now: float) -> None:
        """The answer may be that of the first asking, and the claim taken back since: renew it, or ask anew."""

        def confirmed(renewal: Call[Any]) -> None:
            if call.settled or call.rid not in self.calls:
                return
            try:
                held = renewal.result()
            except DaemonError as exc:
                self._refused(call, exc, now)
            except Refused:
                if call.abandoned:
                    self._forget(call)
                    return
                call.once = f"{self.token}-{call.rid}-{call.sends}"
                self._send(call, self._line(call, now))
                call.sends = 1
            else:
                call.sends = 1
                renewed = msgspec.structs.replace(claimed, expires_in=held.expires_in)
                of_next = reply is not claimed
                self._answered(call, msgspec.structs.replace(reply, next=renewed) if of_next else renewed, now)

        asked = _claim_asked(call.ask)
        ask = asks.renew(
            claimed.id,
            actor=asked["actor"],
            gen=claimed.gen,
            lease=asked.get("lease"),
            bound=True if asked.get("bound") else None,
        )
        self._inside(ask, now, confirmed)
