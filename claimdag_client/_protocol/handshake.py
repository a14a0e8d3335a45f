"""The first exchange on a connection: hello, and what its answer means. Standard library only; no I/O.

All ways to a daemon (the async client, the blocking client, the command line) send `request` and pass each line that
comes to `receive` until it returns the hello.
"""

from __future__ import annotations

from claimdag_client._protocol.messages import decode, encode
from claimdag_client.errors import Mismatch, Refused, Unreachable
from claimdagd.limits import PROTOCOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: No hello comes near this.
HELLO_MAX_BYTES = 1024 * 1024


class DaemonLeaving(Unreachable):
    """The daemon is shutting down: its successor, or a new one, can be reached in a moment."""


class Handshake:
    """The hello of one connection to the daemon at `path`, by the program `client`."""

    def __init__(self, client: str, path: str) -> None:
        self.path = path
        self.request = encode({"op": "hello", "client": client, "protocol": PROTOCOL, "rid": 0})

    def receive(self, line: bytes) -> dict[str, Any] | None:
        """Return the daemon's hello, or None if `line` is an event that came before it.

        Raises Mismatch if the daemon speaks another protocol or none, DaemonLeaving if it is shutting down, and Refused
        if it refuses for another reason.
        """
        message = decode(line, self.path)
        if "event" in message:
            return None
        error = message.get("error")
        if isinstance(error, dict):
            raise self._refusal(error)
        hello = message.get("ok")
        if not isinstance(hello, dict):
            raise Mismatch(f"what listens at {self.path} does not speak claimdagd's protocol: no ok, no error")
        if hello.get("protocol") != PROTOCOL:
            raise mismatch(hello.get("protocol"), hello.get("version"))
        return hello

    def _refusal(self, error: dict[str, Any]) -> Exception:
        refused = Refused(error)
        if refused.code == "shutting_down":
            return DaemonLeaving(f"the daemon at {self.path} is leaving", remedy="ask again")
        theirs = refused.details.get("protocol")
        if refused.code == "bad_request" and isinstance(theirs, int):
            return mismatch(theirs, refused.details.get("version"))
        return refused


def mismatch(theirs: object, version: object) -> Mismatch:
    """Return the error for a daemon of `version` that speaks protocol `theirs`: which side to change, and how."""
    which = f"claimdagd {version} speaks" if version else "the daemon speaks"
    newer = isinstance(theirs, int) and theirs > PROTOCOL
    return Mismatch(
        f"{which} protocol {theirs}, this client protocol {PROTOCOL}",
        remedy=(
            "upgrade this client (pip install --upgrade claimdagd)"
            if newer
            else "stop the older daemon with claimdag shutdown (its state is kept) and ask again: a new one starts"
        ),
    )
