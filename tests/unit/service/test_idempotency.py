"""Tokens and what answered them."""

from __future__ import annotations

from claimdagd.limits import ONCE_TOKENS_MAX
from claimdagd.service.idempotency import OnceTokens


def test_token_has_its_first_reply() -> None:
    """None stands for a request without a token."""
    tokens = OnceTokens({"a": b"1"})
    assert (tokens.reply("a"), tokens.reply("b"), tokens.reply(None)) == (b"1", None, None)


def test_restore_undoes_remember() -> None:
    """Whether the token had been answered before or not."""
    tokens = OnceTokens({"a": b"1"})
    before = tokens.remember("a", b"2")
    assert (before, tokens.reply("a")) == (b"1", b"2")
    tokens.restore("a", before)
    assert tokens.reply("a") == b"1"
    tokens.restore("b", tokens.remember("b", b"3"))
    assert tokens.reply("b") is None


def test_oldest_go_only_when_trimmed() -> None:
    """A refused request must not cost another's token."""
    tokens = OnceTokens()
    for number in range(ONCE_TOKENS_MAX + 2):
        tokens.remember(f"t{number}", b"{}")
    assert len(tokens) == ONCE_TOKENS_MAX + 2
    tokens.trim()
    assert len(tokens) == ONCE_TOKENS_MAX
    assert tokens.reply("t1") is None
    assert tokens.reply("t2") is not None


def test_token_answered_anew_is_the_youngest() -> None:
    """A claim that waited has the reply of its grant."""
    tokens = OnceTokens({"a": b"1", "b": b"2"})
    tokens.remember("a", b"3")
    assert list(tokens.items()) == [("b", b"2"), ("a", b"3")]
