"""The client's end of the protocol without I/O: requests under way, claims held, and when to renew them.

Both clients drive it: they send the bytes of `data_to_send`, pass the daemon's lines to `receive_line`, report
`connection_made` and `connection_lost`, and call `handle_timer` at `next_timer`. It promises, however the connection
does:

- Every call is settled once. A dropped connection costs nothing: an unanswered request is sent again on the next one. A
  mutation carries a `once` token, so that the daemon does it once.
- A held claim is renewed when a third of its lease has passed, and rebound at once on a new connection.
- A retried claim may report a grant that has since expired, so it is confirmed by a renew; if that is refused, the
  claim is made again.
- A claim that is granted after its caller stopped waiting is released.
- A caller's time limit is kept, and a daemon that stays connected but silent is given up.

Times are monotonic seconds, passed by the caller. This module does no I/O and reads no clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import msgspec

from claimdag_client._protocol import requests
from claimdag_client._protocol.call import CLAIMING_OPS, Call, claim_fields, wait_of
from claimdag_client._protocol.held_claim import HeldClaim
from claimdag_client._protocol.messages import encode
from claimdag_client._protocol.requests import Request
from claimdag_client.errors import ClaimdagError, DaemonError, Refused, Unreachable, Unresponsive, refusal
from claimdag_client.events import decode_message
from claimdagd import wire

T = TypeVar("T")

ENDING_OPS = frozenset({"complete", "release"})
#: Refusals of those that say that the claim is gone.
CLAIM_GONE_CODES = frozenset({"gen_mismatch", "not_found", "not_assignee", "terminal"})
#: Sent twice they do what they do once, so they carry no `once` token.
IDEMPOTENT_OPS = frozenset({"renew", "running"})
#: A daemon that shut down and came back must not be shut down again.
UNREPEATABLE_OPS = frozenset({"shutdown"})
#: A renewal that the daemon failed to do is tried again after this.
RENEW_AGAIN_S = 1.0
#: The daemon gets this beyond the caller's time limit, to answer that the time has passed.
ANSWER_SLACK_S = 1.0
STOPPED = "it may be stopped or overloaded: see `ps` and its daemon.log"


class ClientProtocol:
    """The protocol of one client, over any number of connections; see the module.

    Args:
        token: Makes this client's `once` tokens unlike any other's.
        on_notice: Called with each event that concerns no claim of this client.
        silence_limit_s: How long a connected daemon may leave a request unanswered that it can answer at once. None:
            indefinitely.
    """

    def __init__(
        self,
        token: str,
        on_notice: Callable[[dict[str, Any]], None] | None = None,
        *,
        silence_limit_s: float | None = None,
    ) -> None:
        self.token = token
        self.on_notice = on_notice
        self.silence_limit_s = math.inf if silence_limit_s is None else silence_limit_s
        self.graph: str | None = None
        self.calls: dict[int, Call[Any]] = {}
        self.held: dict[tuple[str, int], HeldClaim] = {}
        self.connected = False
        #: The daemon is shutting down: drop this connection, and look for the next daemon.
        self.leaving = False
        #: The number of replies so far: a connection that brought some was worth making.
        self.answers = 0
        self.closed_by: ClaimdagError | None = None
        self._silence_ends_at = math.inf
        self._rid = 0
        self._out: list[bytes] = []

    # ------------------------------------------------------------------------------------------------ the caller

    def start(self, request: Request[T], now: float, on_settled: Callable[[], None]) -> Call[T]:
        """Start a call. Raises Malformed if the request cannot be sent at all."""
        call = self._call(request, on_settled)
        if request.op in wire.MUTATING_OPS and request.op not in IDEMPOTENT_OPS:
            call.once = f"{self.token}-{call.rid}"
        if (wait := wait_of(request)) is not None:
            call.until = now + wait
        line = encode(call.fields(now))
        if self.closed_by is not None:
            call.settle(error=self.closed_by)
            return call
        self.calls[call.rid] = call
        if request.op in ENDING_OPS:
            for held in self._held_of(request, _ids_named(request)):
                call.ends.append(held)
                held.ending = True
        if self.connected:
            self._send(call, line, now)
        return call

    def time_limit(self, request: Request[Any]) -> float | None:
        """Return how long a caller should wait for the reply, if the request itself sets a limit; else None."""
        wait = wait_of(request)
        return None if wait is None else wait + ANSWER_SLACK_S

    def overdue(self, call: Call[Any], now: float) -> Unresponsive:
        """Give up a call whose time limit has passed; return the error for its caller."""
        self.abandon(call, now)
        return Unresponsive(f"{call.request.op}: the daemon did not answer within the time limit given", remedy=STOPPED)

    def abandon(self, call: Call[Any], now: float) -> None:
        """Stop waiting for a call: a claim that it brings, or has brought, is released."""
        call.abandoned = True
        if call.settled and call.held is not None and call.held.lost is None:
            self._release(call.held, now)
        elif call.rid in self.calls and not self.connected:
            self._drop(call)

    def forget(self, held: HeldClaim) -> None:
        """Renew a claim no longer."""
        self.held.pop((held.id, held.gen), None)

    def data_to_send(self) -> bytes:
        """Return what is to be sent now."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    # -------------------------------------------------------------------------------------------- the connection

    def connection_made(self, graph: str, now: float) -> None:
        """Begin a connection whose hello was answered: rebind held claims, send unanswered requests again."""
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
                self._send(call, encode(call.fields(now)), now)

    def connection_lost(self) -> None:
        """End a connection: calls that must not be repeated fail, the others wait for the next connection."""
        self.connected = False
        self._out.clear()
        for held in self.held.values():
            held.renewing = False
        for call in [*self.calls.values()]:
            if call.internal or call.abandoned:
                self._drop(call)
            elif call.sends and call.request.op in UNREPEATABLE_OPS:
                self._drop(call)
                call.settle(error=Unreachable("the connection ended before the answer came"))

    def close(self, error: ClaimdagError) -> None:
        """Fail every call, now and later, with `error`: there will be no further connection."""
        self.connected, self.closed_by = False, error
        for held in [*self.held.values()]:
            self._lose(held, "unreachable")
        calls = [*self.calls.values()]
        self.calls.clear()
        for call in calls:
            call.settle(error=error)

    def receive_line(self, line: bytes, now: float) -> None:
        """Handle a line from the daemon. Raises ValueError if it is not of the protocol: drop the connection."""
        try:
            message = decode_message(line)
            event = msgspec.json.decode(message.event, type=dict[str, Any]) if message.event else None
        except (msgspec.MsgspecError, RecursionError) as exc:
            raise ValueError(f"not of the protocol: {line[:80]!r}") from exc
        if event is not None:
            self._handle_event(event, now)
            return
        call = self.calls.get(message.rid) if isinstance(message.rid, int) else None
        if message.error is not None:
            error = refusal(message.error)
            if error.code == "shutting_down" and (call is None or call.request.op not in UNREPEATABLE_OPS):
                self.leaving = True
            elif call is not None:
                self.answers += 1
                self._handle_refusal(call, error, now)
        elif message.ok and call is not None:
            try:
                reply = msgspec.json.decode(message.ok, type=call.request.reply)
            except (msgspec.MsgspecError, RecursionError) as exc:
                raise ValueError(f"{call.request.op}: not of the protocol: {exc}") from exc
            self.answers += 1
            self._handle_reply(call, reply, now)

    def next_timer(self) -> float | None:
        """Return when to call `handle_timer` next; None: not before something else happens."""
        if not self.connected:
            return None
        due = self._silence_ends_at if self.calls else math.inf
        for held in self.held.values():
            if held.renew_at < due and held.renewable:
                due = held.renew_at
        return None if due == math.inf else due

    def handle_timer(self, now: float) -> None:
        """Renew claims that are due, and give up calls that a silent daemon has left unanswered."""
        if self.connected:
            if now >= self._silence_ends_at:
                self._end_silence(now)
            for held in self.held.values():
                if held.renew_at <= now and held.renewable:
                    self._renew(held, now)

    # ------------------------------------------------------------------------------------------------- internals

    def _call(self, request: Request[T], on_settled: Callable[[], None]) -> Call[T]:
        self._rid += 1
        return Call(self._rid, request, on_settled)

    def _send(self, call: Call[Any], line: bytes, now: float) -> None:
        call.sends += 1
        call.sent_at = now
        if call.until is None and now + self.silence_limit_s < self._silence_ends_at:
            self._silence_ends_at = now + self.silence_limit_s
        self._out.append(line)

    def _end_silence(self, now: float) -> None:
        self._silence_ends_at = math.inf
        for call in [*self.calls.values()]:
            if call.until is not None or call.abandoned:
                continue
            ends_at = call.sent_at + self.silence_limit_s
            if ends_at > now:
                self._silence_ends_at = min(self._silence_ends_at, ends_at)
            elif not call.internal:
                call.abandoned = True
                message = f"{call.request.op}: the daemon has not answered for {self.silence_limit_s:g} s"
                call.settle(error=Unresponsive(message, remedy=STOPPED))

    def _start_internal(self, request: Request[Any], now: float, on_settled: Callable[[Call[Any]], None]) -> None:
        call: Call[Any] = self._call(request, lambda: on_settled(call))
        call.internal = True
        self.calls[call.rid] = call
        self._send(call, encode(call.fields(now)), now)

    def _drop(self, call: Call[Any]) -> None:
        self.calls.pop(call.rid, None)
        for held in call.ends:
            held.ending = False

    def _held_of(self, request: Request[Any], ids: Collection[str]) -> list[HeldClaim]:
        """Return the claims of this client on those of the nodes that `request` names by `ids`."""
        gen = request.fields.get("gen")
        if len(ids) == 1 and gen is not None:
            known = self.held.get((next(iter(ids)), gen))
            return [] if known is None else [known]
        return [held for held in self.held.values() if held.id in ids and gen in (None, held.gen)]

    def _handle_event(self, event: dict[str, Any], now: float) -> None:
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

    def _lose(self, held: HeldClaim, why: str) -> None:
        self.forget(held)
        if held.lost is None:
            held.lost = why
            if held.on_lost is not None:
                held.on_lost()

    def _renew(self, held: HeldClaim, now: float) -> None:
        def renewed(call: Call[Any]) -> None:
            held.renewing = False

        held.renewing = True
        held.renew_at = now + RENEW_AGAIN_S
        bound = True if held.bound else None
        request = requests.renew(held.id, actor=held.actor, gen=held.gen, lease=held.lease, bound=bound)
        self._start_internal(request, now, renewed)

    def _handle_refusal(self, call: Call[Any], error: Refused, now: float) -> None:
        self._drop(call)
        request = call.request
        # Of several nodes, those that the faults name; else the one that the request names.
        codes = {fault["id"]: str(fault["code"]) for fault in error.faults if "id" in fault}
        codes = codes or dict.fromkeys(_ids_named(request) if "id" in request.fields else (), error.code)
        for held in self._held_of(request, codes):
            code = codes[held.id]
            if (request.op in IDEMPOTENT_OPS and not isinstance(error, DaemonError)) or (
                request.op in ENDING_OPS and code in CLAIM_GONE_CODES
            ):
                self._lose(held, code)
        call.settle(error=error)

    def _handle_reply(self, call: Call[Any], reply: Any, now: float) -> None:
        claimed: wire.Claimed | None = reply if call.request.op in CLAIMING_OPS else getattr(reply, "next", None)
        if claimed is not None:
            if call.sends > 1 and not call.abandoned:
                self._confirm(call, reply, claimed, now)
                return
            self._hold(call, claimed, now)
        elif call.request.op in IDEMPOTENT_OPS:
            for each in reply["results"] if isinstance(reply, dict) else (reply,):
                held = self.held.get((each.id, each.gen))
                if held is not None:
                    held.extend(each.expires_in, now)
        for ended in call.ends:
            self.forget(ended)
        self._drop(call)
        call.settle(call.request.finish(reply))

    def _hold(self, call: Call[Any], claimed: wire.Claimed, now: float) -> None:
        asked = claim_fields(call.request)
        held = HeldClaim(
            claimed.id, claimed.gen, actor=asked["actor"], lease=asked.get("lease"), bound=asked.get("bound", False)
        )
        held.extend(claimed.expires_in, now)
        self.held[held.id, held.gen] = held
        call.held = held
        if call.abandoned:
            self._release(held, now)

    def _release(self, held: HeldClaim, now: float) -> None:
        self.forget(held)
        if self.connected:
            self._start_internal(requests.release(held.id, actor=held.actor, gen=held.gen), now, lambda call: None)

    def _confirm(self, call: Call[Any], reply: Any, claimed: wire.Claimed, now: float) -> None:
        """Confirm by a renew the grant of a claim that was sent twice; if that is refused, claim again."""

        def confirmed(renewal: Call[Any]) -> None:
            if call.settled or call.rid not in self.calls:
                return
            try:
                held = renewal.result()
            except DaemonError as exc:
                self._handle_refusal(call, exc, now)
            except Refused:
                if call.abandoned:
                    self._drop(call)
                    return
                call.once = f"{self.token}-{call.rid}-{call.sends}"
                self._send(call, encode(call.fields(now)), now)
                call.sends = 1
            else:
                call.sends = 1
                renewed = msgspec.structs.replace(claimed, expires_in=held.expires_in)
                of_next = reply is not claimed
                self._handle_reply(call, msgspec.structs.replace(reply, next=renewed) if of_next else renewed, now)

        asked = claim_fields(call.request)
        request = requests.renew(
            claimed.id,
            actor=asked["actor"],
            gen=claimed.gen,
            lease=asked.get("lease"),
            bound=True if asked.get("bound") else None,
        )
        self._start_internal(request, now, confirmed)


def _ids_named(request: Request[Any]) -> Collection[str]:
    """Return the ids of the nodes that a request names, one or several."""
    fields = request.fields
    return (fields["id"],) if "id" in fields else fields.get("ids", ())
