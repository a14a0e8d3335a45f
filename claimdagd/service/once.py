"""Tokens that make a retried request safe: the same token again gets the first reply (DESIGN 4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

KEPT: Final = 4096


class OnceTokens:
    """The last tokens and the `ok` objects that answered them, as JSON, oldest first."""

    def __init__(self, known: dict[str, bytes] | None = None) -> None:
        self._replies: dict[str, bytes] = dict(known or {})

    def __len__(self) -> int:
        return len(self._replies)

    def reply(self, token: str | None) -> bytes | None:
        """The first reply to `token`, or None."""
        return None if token is None else self._replies.get(token)

    def remember(self, token: str, ok: bytes) -> None:
        """`ok` answers `token` from now on."""
        replies = self._replies
        replies[token] = ok
        if len(replies) > KEPT:
            del replies[next(iter(replies))]

    def forget(self, token: str) -> None:
        """What `token` did was taken back."""
        self._replies.pop(token, None)

    def items(self) -> Iterable[tuple[str, bytes]]:
        """All of them, oldest first."""
        return self._replies.items()
