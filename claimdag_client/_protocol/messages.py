"""Lines of the protocol as JSON, for those who must start fast. Standard library only; no I/O."""

from __future__ import annotations

from claimdag_client._protocol.fast_json import dumps, loads
from claimdag_client.errors import Malformed, Mismatch
from claimdagd.limits import LINE_MAX_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def encode(request: Mapping[str, Any]) -> bytes:
    """Return a request as a line with its newline. Raises Malformed if it is too long or holds what is not text."""
    try:
        line = dumps(request).encode()
    except UnicodeEncodeError:
        raise Malformed("some of the text given is not valid UTF-8", remedy="give it as UTF-8") from None
    except ValueError:
        raise Malformed("a number given is not a finite one") from None
    if len(line) > LINE_MAX_BYTES:
        raise Malformed(
            f"the request is {len(line):,} bytes long, over the {LINE_MAX_BYTES:,} that one line may have",
            remedy="split it into several",
        )
    return line + b"\n"


def decode(line: bytes, path: str) -> dict[str, Any]:
    """Return the object in a line that was received at `path`. Raises Mismatch if there is none."""
    try:
        message = loads(line.decode())
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise Mismatch(f"what listens at {path} does not speak claimdagd's protocol: {line[:80]!r}")
    return message
