"""The text with which a failed node ends. Pure."""

from __future__ import annotations

from claimdagd.limits import ERROR_MAX_BYTES


def error_text(error: BaseException | str) -> str:
    """`error` as text of at most what a node's `error` field holds, in UTF-8."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}".removesuffix(": ")
    data = text.encode(errors="replace")
    if len(data) <= ERROR_MAX_BYTES:
        return data.decode()
    return data[: ERROR_MAX_BYTES - 3].decode(errors="ignore") + "…"
