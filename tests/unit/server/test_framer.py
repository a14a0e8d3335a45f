"""Bytes into lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimdagd.server.loop.framer import Framer, LineTooLongError


@given(st.binary(max_size=60).map(lambda data: data.replace(b"x", b"\n")), st.lists(st.integers(1, 9)))
def test_framer_gives_the_same_lines_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    """The lines are those of the whole, and what has no newline yet is held."""
    framer = Framer(100)
    lines: list[bytes] = []
    rest = data
    for cut in cuts:
        lines += framer.feed(rest[:cut])
        rest = rest[cut:]
    lines += framer.feed(rest)
    *expected, tail = data.split(b"\n")
    assert lines == expected
    assert framer.held == len(tail)
    assert framer.rest() == tail


@given(st.lists(st.integers(0, 12), max_size=8), st.integers(1, 20))
def test_framer_stops_at_the_first_line_over_the_limit(sizes: list[int], step: int) -> None:
    """The lines before it are given, none after it, and never is more held than the limit and one piece."""
    data = b"".join(b"y" * size + b"\n" for size in sizes)
    good = next((i for i, size in enumerate(sizes) if size > 10), len(sizes))
    framer = Framer(10)
    lines: list[bytes] = []
    try:
        for start in range(0, len(data), step):
            lines += framer.feed(data[start : start + step])
            assert framer.held <= 10
    except LineTooLongError as exc:
        lines += exc.whole
        assert good < len(sizes)
    else:
        assert good == len(sizes)
    assert [len(line) for line in lines] == sizes[:good]


def test_framer_holds_bytes_in_pieces_without_copying_them_over_and_over() -> None:
    """A megabyte in single bytes takes a moment, not minutes."""
    framer = Framer(1 << 20)
    for _ in range(1 << 18):
        framer.feed(b"z")
    assert framer.feed(b"\n") == [b"z" * (1 << 18)]
    with pytest.raises(LineTooLongError):
        framer.feed(b"z" * ((1 << 20) + 1))
