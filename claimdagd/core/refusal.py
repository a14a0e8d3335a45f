"""How the core says no: one exception with a closed code. Any other exception out of the core is a bug."""

from __future__ import annotations

from typing import Any

from claimdagd.wire import Code


class Refusal(Exception):
    """A request that is refused; nothing was changed by it.

    `message` reads "verb: what"; `details` ride beside it in the answer as fields.
    """

    def __init__(self, code: Code, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"
