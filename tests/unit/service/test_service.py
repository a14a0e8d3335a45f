"""Sessions and dispatch: every op has a handler, bugs are contained, and connections come and go."""

from __future__ import annotations

import json

import pytest

from claimdagd import wire
from tests.support.in_process import InProcessDaemon


def test_every_op_has_a_handler() -> None:
    """None is known to the wire alone."""
    assert InProcessDaemon().service._handlers.keys() == set(wire.REQUEST_TYPES.values())


def test_bug_costs_one_answer_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has it; what came before and after is done."""
    daemon = InProcessDaemon()
    monkeypatch.setitem(daemon.service._handlers, wire.Get, lambda *_: 1 / 0)
    answers = daemon.peer().ask({"op": "upsert"}, {"op": "get", "id": "s1mu-1", "rid": 2}, {"op": "upsert"})
    assert [answer.get("error", {}).get("code") for answer in answers] == [None, "internal", None]
    assert "internal error in get" in caplog.text
    assert "ZeroDivisionError" not in json.dumps(answers)


def test_idle_is_nobody_and_nothing_unfinished() -> None:
    """A finished graph is idle, a connected one is not."""
    daemon = InProcessDaemon()
    assert daemon.service.idle
    peer = daemon.peer()
    assert not daemon.service.idle
    peer.ask({"op": "upsert"})
    daemon.service.closed(peer.session)
    assert not daemon.service.idle
    other = daemon.peer()
    other.ask({"op": "complete", "id": "s1mu-1"})
    daemon.service.closed(other.session)
    assert daemon.service.idle


def test_session_is_closed_once() -> None:
    """A second time changes nothing."""
    daemon = InProcessDaemon()
    peer = daemon.peer()
    daemon.service.closed(peer.session)
    daemon.service.closed(peer.session)
    assert daemon.service.idle


def test_watcher_that_is_too_slow_is_told_where_to_go_on() -> None:
    """And is counted among the lags."""
    daemon = InProcessDaemon()
    watcher = daemon.peer()
    watcher.ask({"op": "watch"})
    daemon.peer().ask({"op": "upsert"})
    line = json.loads(daemon.service.lagged(watcher.session))
    assert (line["error"]["code"], line["error"]["seq"]) == ("lagged", 1)
    (answer,) = daemon.peer().ask({"op": "stats"})
    assert (answer["ok"]["lags"], answer["ok"]["watchers"]) == (1, 0)


def test_shutdown_is_answered_before_the_shell_hears_of_it() -> None:
    """Whoever asked for it knows."""
    daemon = InProcessDaemon()
    heard: list[None] = []
    daemon.service.on_shutdown = lambda: heard.append(None)
    (answer,) = daemon.peer().ask({"op": "shutdown", "rid": 1})
    assert (answer, heard) == ({"rid": 1, "ok": {}}, [None])


def test_log_is_read_when_it_is_told() -> None:
    """So it holds what the requests before it in the same chunk did."""
    daemon = InProcessDaemon()
    _, log = daemon.peer().ask({"op": "upsert"}, {"op": "log"})
    assert [entry["seq"] for entry in log["ok"]["entries"]] == [1]
