"""--since and --at: how long ago, a time of day, a date; and what log and list show by them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from claimdag_client.cli import values
from tests.support.scripted_daemon import ScriptedDaemon, view

from .conftest import Ran

Cli = Callable[..., Ran]


@pytest.fixture(autouse=True, params=["UTC", "Asia/Kolkata", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reader somewhere."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86400)])
def test_duration_is_counted_back_from_now(text: str, seconds: int) -> None:
    """As in every other flag."""
    before = time.time() - seconds
    assert before <= values.SINCE.convert(text) <= time.time() - seconds


def test_time_of_day_is_the_last_for_since_and_the_next_for_at() -> None:
    """Never more than a day away, and on the side that is meant."""
    for minutes in (-61, -1, 1, 61, 600):
        then = datetime.now() + timedelta(minutes=minutes)
        text = f"{then:%H:%M}".removeprefix("0")
        since, at, now = values.SINCE.convert(text), values.AT.convert(text), time.time()
        assert now - 90_100 < since <= now < at < now + 90_100
        assert {f"{datetime.fromtimestamp(moment):%H:%M}" for moment in (since, at)} == {f"{then:%H:%M}"}


def test_date_is_of_the_readers_zone_unless_it_names_one() -> None:
    """With a time or without."""
    for text, then in (
        ("2026-12-24", datetime(2026, 12, 24)),
        ("2026-12-24T18:30", datetime(2026, 12, 24, 18, 30)),
        ("2026-12-24 18:30:05", datetime(2026, 12, 24, 18, 30, 5)),
    ):
        assert values.SINCE.convert(text) == values.AT.convert(text) == then.timestamp()
    assert values.AT.convert("1970-01-02T00:00Z") == 86400.0


@pytest.mark.parametrize("text", ["", "yesterday", "25:00", "1x", "-5m", "2026-13-01"])
def test_other_words_are_told_with_what_is_taken(text: str, cli: Cli) -> None:
    """Flag, value, and what it takes."""
    ran = cli("log", f"--since={text}")
    assert ran.status == 2
    assert ran.err.startswith(f"claimdag: log: --since {text or repr('')}: it must be so long ago, such as 90s")


def test_list_since_shows_what_changed_after(cli: Cli, daemon: ScriptedDaemon) -> None:
    """By when a node was last changed."""
    now = time.time()
    daemon.answers["list"] = {"nodes": [view(2, updated_at=now - 60), view(1, updated_at=now - 3600)]}
    assert cli("list", "--since", "10m", "-q").out == "7q2f-2\n"
    assert cli("list", "--since", "2h", "-q").out == "7q2f-2\n7q2f-1\n"


def test_log_since_counts_its_limit_after_the_moment(cli: Cli, daemon: ScriptedDaemon) -> None:
    """The last N as without --since; the first N after --from."""
    now = time.time()
    ages = {1: 7200, 2: 300, 3: 200, 4: 100}
    daemon.answers["log"] = {
        "entries": [{"seq": seq, "at": now - age, "op": "renew", "nodes": []} for seq, age in ages.items()]
    }

    def seqs(*flags: str) -> list[int]:
        return [entry["seq"] for entry in cli("log", *flags, "--json").json]

    assert seqs("--since", "1h") == [2, 3, 4]
    assert seqs("--since", "1h", "--limit", "2") == [3, 4]
    assert seqs("--since", "1h", "--limit", "2", "--from", "1") == [2, 3]
    assert [request.get("limit") for request in daemon.requests] == [None] * 3
    assert seqs("--limit", "9") == [1, 2, 3, 4]
    assert daemon.requests[-1] == {"op": "log", "limit": 9}


def test_log_tells_how_long_work_took(cli: Cli, daemon: ScriptedDaemon) -> None:
    """Of what has ended, and when a failure is tried again."""
    ended = view(1, status="done", started_at=100.0, finished_at=225.0)
    again = view(2, status="todo", failures=1, updated_at=100.0, not_before=160.0)
    later = view(3, status="todo", failures=0, updated_at=100.0, not_before=160.0)
    unheld = view(4, status="done", finished_at=225.0)
    daemon.answers["log"] = {
        "entries": [
            {"seq": n, "at": 1e9, "op": "complete", "nodes": [node]}
            for n, node in enumerate((ended, again, later, unheld), 1)
        ]
    }
    lines = cli("log").out.splitlines()
    assert [line.partition("gen 1 ")[2] for line in lines] == [
        "after 2 min 5 s thing 1", "again in 1 min thing 2", "thing 3", "thing 4",
    ]  # fmt: skip


def test_at_is_sent_as_the_moment(cli: Cli, daemon: ScriptedDaemon) -> None:
    """And not together with --in."""
    daemon.answers["upsert"] = view(1)
    assert cli("upsert", "1", "--at", "1970-01-02T00:00Z").status == 0
    assert daemon.requests == [{"op": "upsert", "id": "7q2f-1", "not_before": 86400.0}]
    assert cli("upsert", "1", "--at", "18:30", "--in", "5m").status == 2
