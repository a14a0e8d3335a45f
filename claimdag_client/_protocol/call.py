"""One request under way, until it is settled. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from claimdag_client._protocol.held_claim import HeldClaim
from claimdag_client._protocol.requests import Request
from claimdag_client.errors import ClaimdagError

T = TypeVar("T")

CLAIMING_OPS = frozenset({"claim", "claim_next"})
#: Ops whose request carries a time to wait, by the name of that field; it is shorter when the request is sent again.
WAIT_FIELDS = {"claim_next": "wait", "wait": "timeout"}


class Call(Generic[T]):
    """A request that is sent until it is settled: then `result` returns the reply or raises."""

    __slots__ = (
        "_error", "_result", "abandoned", "ends", "held", "internal", "on_settled", "once", "request", "rid", "sends",
        "sent_at", "settled", "until",
    )  # fmt: skip

    def __init__(self, rid: int, request: Request[T], on_settled: Callable[[], None]) -> None:
        self.rid = rid
        self.request = request
        self.on_settled = on_settled
        self.once: str | None = None
        #: When the wait that the request carries is over.
        self.until: float | None = None
        self.sends = 0
        self.sent_at = 0.0
        #: The protocol's own request, for which no caller waits.
        self.internal = False
        #: The caller no longer waits: a claim that the reply brings goes back.
        self.abandoned = False
        self.settled = False
        #: The claim that the reply brought, and those that the request ends.
        self.held: HeldClaim | None = None
        self.ends: list[HeldClaim] = []
        self._result: Any = None
        self._error: ClaimdagError | None = None

    def result(self) -> T:
        """Return the reply of a settled call, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[no-any-return]

    def settle(self, result: Any = None, error: ClaimdagError | None = None) -> None:
        """Set the result, unless there is one, and tell the caller."""
        if not self.settled:
            self._result, self._error, self.settled = result, error, True
            self.on_settled()

    def fields(self, now: float) -> dict[str, Any]:
        """Return the whole request, as it is to be sent at `now`."""
        fields = {"op": self.request.op, **self.request.fields, "rid": self.rid}
        if self.once is not None:
            fields["once"] = self.once
        if self.until is not None:
            fields[WAIT_FIELDS[self.request.op]] = max(0.0, self.until - now)
        return fields


def wait_of(request: Request[Any]) -> float | None:
    """Return the seconds that the daemon may take to answer, if the request says so itself."""
    return request.fields.get(WAIT_FIELDS.get(request.op, ""))


def claim_fields(request: Request[Any]) -> dict[str, Any]:
    """Return the fields of the claim that `request` asks for: its own, or those of the `next` of a complete."""
    if request.op in CLAIMING_OPS:
        return request.fields
    return {"actor": request.fields["actor"], **request.fields["next"]}
