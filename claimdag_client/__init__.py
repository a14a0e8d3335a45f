"""Clients of claimdagd: `connect` (async, on asyncio and trio), `claimdag_client.sync.connect` (blocking).

This package module imports nothing heavy, so that the command line starts fast: names are loaded when first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself is among what is not imported for nothing
if TYPE_CHECKING:
    from typing import Any

    from claimdag_client._async.claims import Claim
    from claimdag_client._async.client import Client, connect
    from claimdag_client.errors import ClaimdagError, ClaimLost, Refused, Unreachable
    from claimdag_client.events import Event

__all__ = ["Claim", "ClaimLost", "ClaimdagError", "Client", "Event", "Refused", "Unreachable", "connect"]

_HOME = {
    "Claim": "_async.claims",
    "ClaimLost": "errors",
    "ClaimdagError": "errors",
    "Client": "_async.client",
    "Event": "events",
    "Refused": "errors",
    "Unreachable": "errors",
    "connect": "_async.client",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
