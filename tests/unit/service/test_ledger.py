"""The last entries in memory: bounded, numbered, and found by node."""

from __future__ import annotations

import pytest

from claimdagd.service import ledger as module
from claimdagd.service.ledger import Ledger


def line(seq: int, node: str = "t3st-1") -> bytes:
    return b'{"seq":%d,"nodes":[{"id":"%b"}]}\n' % (seq, node.encode())


def filled(count: int) -> Ledger:
    ledger = Ledger(0)
    for seq in range(1, count + 1):
        ledger.add(line(seq))
    return ledger


def test_empty_ledger_begins_after_what_was_recovered() -> None:
    """The next entry is the first one kept."""
    ledger = Ledger(41)
    assert (ledger.first, ledger.last) == (42, 41)
    ledger.add(line(42))
    assert (ledger.first, ledger.last) == (42, 42)


def test_recovered_entries_are_kept_as_they_were_journaled() -> None:
    """Without their newlines when they are read."""
    ledger = Ledger(2, [line(1)[:-1], line(2)[:-1]])
    assert list(ledger.since(1)) == [line(1)[:-1], line(2)[:-1]]


def test_since_clips_at_both_ends() -> None:
    """Before the first, after the last."""
    ledger = filled(3)
    assert len(list(ledger.since(0))) == 3
    assert len(list(ledger.since(3))) == 1
    assert list(ledger.since(99)) == []


def test_oldest_go_first_by_number_and_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry is always kept, however large."""
    ledger = Ledger(0)
    monkeypatch.setattr(module, "BYTES_MAX", 100)
    for seq in range(1, 20):
        ledger.add(line(seq))
    assert ledger.last == 19
    assert ledger.first > 15
    ledger.add(b"x" * 500 + b"\n")
    assert (ledger.first, ledger.last) == (20, 20)


def test_entries_are_the_first_from_a_seq_or_the_last_ones() -> None:
    """`limit` counts from whichever end was asked for."""
    ledger = filled(5)
    assert ledger.entries(2, 2, None) == [line(2)[:-1], line(3)[:-1]]
    assert ledger.entries(None, 2, None) == [line(4)[:-1], line(5)[:-1]]


def test_entries_of_a_node_are_those_that_name_it_whole() -> None:
    """Not those of a node whose id begins alike; those that pruned it, too."""
    ledger = Ledger(0)
    ledger.add(line(1, "t3st-1"))
    ledger.add(line(2, "t3st-11"))
    ledger.add(b'{"seq":3,"nodes":[],"gone":["t3st-1"]}\n')
    assert ledger.entries(None, None, "t3st-1") == [line(1, "t3st-1")[:-1], b'{"seq":3,"nodes":[],"gone":["t3st-1"]}']
