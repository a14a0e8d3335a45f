"""How many files the process may have open: raised as far as it goes, and told when that is too little."""

from __future__ import annotations

import logging
import resource

import pytest

from claimdagd.server.host import open_files
from claimdagd.server.host.open_files import (
    LEAST,
    NEEDED,
    RESERVED,
    WANTED,
    TooFewDescriptorsError,
    connections_allowed,
)


class Limits:
    """The kernel's part: `forbidden` is a sandbox that lets nobody raise anything."""

    def __init__(self, soft: int, hard: int, *, forbidden: bool = False) -> None:
        self.pair = (soft, hard)
        self.forbidden = forbidden

    def get(self, _: int) -> tuple[int, int]:
        return self.pair

    def set(self, _: int, pair: tuple[int, int]) -> None:
        if self.forbidden:
            raise PermissionError
        self.pair = pair


@pytest.mark.parametrize(
    ("soft", "hard", "allowed"),
    [
        (1024, 1 << 20, WANTED - RESERVED),
        (1024, resource.RLIM_INFINITY, WANTED - RESERVED),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, WANTED - RESERVED),
        (256, 4096, 4096 - RESERVED),
        (20, LEAST, LEAST - RESERVED),
    ],
)
def test_limit_is_raised_as_far_as_it_goes(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, allowed: int) -> None:
    """Connections have what is not kept for files."""
    limits = Limits(soft, hard)
    monkeypatch.setattr(open_files.resource, "getrlimit", limits.get)
    monkeypatch.setattr(open_files.resource, "setrlimit", limits.set)
    assert connections_allowed() == allowed


@pytest.mark.parametrize("limit", [4, 19, LEAST - 1])
def test_limit_too_low_to_run_is_refused_with_what_is_needed(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """The message has both numbers and the remedy."""
    monkeypatch.setattr(open_files.resource, "getrlimit", Limits(limit, limit).get)
    with pytest.raises(TooFewDescriptorsError) as refused:
        connections_allowed()
    for part in (f"is {limit}:", f"needs {LEAST} to start", f"ulimit -Hn {NEEDED}", f"LimitNOFILE={NEEDED}"):
        assert part in str(refused.value)


def test_limit_below_what_is_needed_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The daemon starts, and says how many connections fit."""
    monkeypatch.setattr(open_files.resource, "getrlimit", Limits(256, 256).get)
    assert connections_allowed() == 256 - RESERVED
    assert "the limit of open files is 256: at most 224 connections" in caplog.text
    assert f"ulimit -Hn {NEEDED}" in caplog.text


def test_limit_that_is_enough_is_not_mentioned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing to say."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(open_files.resource, "getrlimit", Limits(NEEDED, NEEDED).get)
    connections_allowed()
    assert not caplog.records


def test_sandbox_that_forbids_raising_is_lived_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """What there is has to do."""
    limits = Limits(512, 4096, forbidden=True)
    monkeypatch.setattr(open_files.resource, "getrlimit", limits.get)
    monkeypatch.setattr(open_files.resource, "setrlimit", limits.set)
    assert connections_allowed() == 512 - RESERVED
