"""Nothing of anybody's reaches a terminal in a form that acts on it."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimdag_client.cli.render.text import (
    Paint,
    clean,
    clean_lines,
    cut,
    duration,
    json_line,
    number,
    pad,
    size,
    some,
    width,
)

#: An escape sequence, a C1 control, overrides of direction, a tag character, what no screen shows.
NASTY = "\x1b[31mred\x1b]0;title\x07 \x9b31m \u202egnp.exe \u2066 \u200b \U000e0041 \x7f \ud800 \ufeff \r\n\t"


@given(st.text())
def test_clean_of_any_text_is_printable_but_for_joiners(text: str) -> None:
    """Whatever goes in, no control character and no invisible one comes out."""
    assert all(char.isprintable() or char in "\u200c\u200d" for char in clean(text))


def test_clean_of_escapes_shows_them() -> None:
    """An escape is seen as what it is, and ordinary text of any language is left alone."""
    shown = clean(NASTY)
    assert "\\x1b[31m" in shown
    assert "\\x9b" in shown
    assert "\\u202e" in shown
    assert "\\U000e0041" in shown
    assert clean("naïve 日本語 🧑\u200d💻") == "naïve 日本語 🧑\u200d💻"
    assert clean_lines("a\nb\x1b") == ["a", "b\\x1b"]


@given(st.text())
def test_json_line_of_any_text_is_ascii_and_comes_back(text: str) -> None:
    """JSON keeps the text whole, in escapes alone."""
    line = json_line({"summary": text})
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == {"summary": text}


@given(st.text(alphabet=st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"])), st.integers(0, 40))
def test_cut_never_passes_the_columns_given(text: str, columns: int) -> None:
    """What is cut fits, wide characters and combining ones counted as terminals do."""
    assert width(cut(text, columns)) <= columns
    assert cut(text, None) == text
    assert width(pad(text, 50)) == max(50, width(text))


def test_width_of_wide_and_combining_characters_is_what_terminals_use() -> None:
    """East Asian characters take two columns, accents on their own none."""
    assert width("日本") == 4
    assert width("e\u0301") == 1


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (0.25, "0.2 s"), (59.9, "59 s"), (61, "1 min 1 s"), (600, "10 min"), (7500, "2 h 5 min"),
     (7200, "2 h"), (200_000, "2 d 7 h"), (172_800, "2 d")],
)  # fmt: skip
def test_duration_is_said_in_at_most_two_units(seconds: float, said: str) -> None:
    """A span of time as a person says it."""
    assert duration(seconds) == said


def test_numbers_and_sizes_are_said_briefly() -> None:
    """No trailing zeros, no powers of ten."""
    assert number(3.0) == "3"
    assert number(2_000_000.0) == "2000000"
    assert number(0.125) == "0.125"
    assert size(500) == "500 bytes"
    assert size(3 * 1024 * 1024) == "3.0 MiB"
    assert some(["a", "b", "c"], 2) == "a, b and 1 more"


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_paint_colours_only_a_terminal_and_never_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe, NO_COLOR and a dumb terminal get plain text."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Paint(_Terminal())("x", "red") == "\x1b[31mx\x1b[0m"
    assert Paint(io.StringIO())("x", "red") == "x"
    monkeypatch.setenv("TERM", "dumb")
    assert Paint(_Terminal())("x", "red") == "x"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert Paint(_Terminal())("x", "red") == "x"
