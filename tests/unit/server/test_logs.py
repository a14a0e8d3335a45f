"""The log: one line a record, and repeated lines limited by kind and counted."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from claimdagd.server.host.logs import BURST, KINDS_MAX, OneLine, RepeatLimit

log = logging.getLogger("claimdagd.tests")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(clock: Clock) -> Iterator[Kept]:
    handler = Kept()
    handler.addFilter(RepeatLimit(clock=clock))
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        yield handler
    finally:
        log.removeHandler(handler)


def limit_of(kept: Kept) -> RepeatLimit:
    (limit,) = kept.filters
    assert isinstance(limit, RepeatLimit)
    return limit


def test_repeated_lines_are_counted_and_told_once_the_window_is_over(kept: Kept, clock: Clock) -> None:
    """Whatever their arguments are."""
    for number in range(417):
        log.warning("refused a connection of user %d", number)
    assert len(kept.lines) == BURST
    limit_of(kept).report()
    assert len(kept.lines) == BURST
    clock.now += 10
    limit_of(kept).report()
    assert kept.lines[BURST:] == ["412 more in the last 10 s: refused a connection of user 416"]
    log.warning("refused a connection of user %d", 1)
    assert len(kept.lines) == BURST + 2


def test_kinds_do_not_count_for_each_other(kept: Kept) -> None:
    """Nor do messages that are all argument, such as what a recovery has to say."""
    for number in range(50):
        log.warning("%s", f"note {number}")
    log.error("accepting failed")
    assert len(kept.lines) == 51


def test_message_that_is_rare_is_never_left_out(kept: Kept, clock: Clock) -> None:
    """Each window counts anew, though nobody reported the one before."""
    for _ in range(3 * BURST):
        log.warning("a slow one")
        clock.now += 5
    assert len(kept.lines) == 3 * BURST


def test_report_of_everything_waits_for_no_window(kept: Kept) -> None:
    """As the daemon leaves."""
    for _ in range(BURST + 1):
        log.error("the same")
    limit_of(kept).report(everything=True)
    assert kept.lines[-1] == "1 more in the last 0 s: the same"


def test_kinds_are_bounded(kept: Kept) -> None:
    """Memory does not grow with what is said."""
    for number in range(3 * KINDS_MAX):
        log.warning("%s", f"note {number}")
    assert len(limit_of(kept)._kinds) <= KINDS_MAX
    assert len(kept.lines) == 3 * KINDS_MAX


def test_debug_lines_are_not_limited(kept: Kept) -> None:
    """Whoever asks for them wants them all."""
    for _ in range(50):
        log.debug("again")
    assert len(kept.lines) == 50


@pytest.mark.parametrize(
    ("style", "line"),
    [
        ("journal", "<4>a\\nb?"),
        ("terminal", "claimdagd: warning: a\\nb?"),
    ],
)
def test_record_is_one_line_whatever_is_in_it(style: str, line: str) -> None:
    """Newlines and control characters do not get through."""
    record = logging.LogRecord("claimdagd", logging.WARNING, "", 0, "a\nb\x1b", None, None)
    assert OneLine(style).format(record) == line
