"""Tokens that make a retried request safe: the same token again gets the first reply (law 4.13)."""

from __future__ import annotations

from collections.abc import Iterable

from claimdagd.limits import ONCE_TOKENS_MAX


class OnceTokens:
    """The last tokens and the `ok` objects that answered them, as JSON, oldest first."""

    def __init__(self, known: dict[str, bytes] | None = None) -> None:
        self._replies: dict[str, bytes] = dict(known or {})

    def __len__(self) -> int:
        return len(self._replies)

    def reply(self, token: str | None) -> bytes | None:
        """Return the first reply to `token`, or None."""
        return None if token is None else self._replies.get(token)

    def remember(self, token: str, ok: bytes) -> bytes | None:
        """Make `ok` the reply to `token`. Return the reply before, for `restore`."""
        before = self._replies.pop(token, None)
        self._replies[token] = ok
        return before

    def restore(self, token: str, before: bytes | None) -> None:
        """Undo the last `remember` of `token`."""
        if before is None:
            self._replies.pop(token, None)
        else:
            self._replies[token] = before

    def trim(self) -> None:
        """Drop the oldest tokens, once the newer ones are on disk: a refused request must not cost a token."""
        replies = self._replies
        while len(replies) > ONCE_TOKENS_MAX:
            del replies[next(iter(replies))]

    def items(self) -> Iterable[tuple[str, bytes]]:
        """Return all tokens with their replies, oldest first."""
        return self._replies.items()
