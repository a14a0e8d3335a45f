"""The ops that only ask: they answer from the graph as it is, and change nothing."""

from __future__ import annotations

import pytest

from claimdagd.service.queries import QUERIES
from claimdagd.wire import REQUEST_TYPES
from tests.support.in_process import InProcessDaemon

OP_OF = {cls: op for op, cls in REQUEST_TYPES.items()}
ASKED = {"get": {"id": "s1mu-1"}, "why": {"id": "s1mu-1"}}


@pytest.fixture
def daemon() -> InProcessDaemon:
    daemon = InProcessDaemon()
    daemon.peer().ask({"op": "upsert"}, {"op": "upsert", "needs": {"gpu": 1}})
    return daemon


@pytest.mark.parametrize("op", sorted(OP_OF[cls] for cls in QUERIES))
def test_question_is_answered_and_changes_nothing(daemon: InProcessDaemon, op: str) -> None:
    """No entry, no node, also while the daemon leaves."""
    seq = daemon.store.seq
    daemon.service.drain()
    (answer,) = daemon.peer().ask({"op": op, **ASKED.get(op, {})})
    assert "ok" in answer
    assert daemon.store.seq == seq


@pytest.mark.parametrize("op", ["get", "why"])
def test_unknown_node_is_refused_by_name(daemon: InProcessDaemon, op: str) -> None:
    """With the op in front."""
    (answer,) = daemon.peer().ask({"op": op, "id": "s1mu-9"})
    assert (answer["error"]["code"], answer["error"]["id"]) == ("not_found", "s1mu-9")
    assert answer["error"]["message"].startswith(f"{op}: ")


def test_stats_counts_what_is_connected_and_what_waits(daemon: InProcessDaemon) -> None:
    """At that moment."""
    waits, watches = daemon.peer(), daemon.peer()
    waits.ask({"op": "wait", "ids": ["s1mu-1"]})
    watches.ask({"op": "watch"})
    (answer,) = daemon.peer().ask({"op": "stats"})
    ok = answer["ok"]
    assert (ok["parked"], ok["watchers"], ok["connections"], ok["nodes"], ok["seq"]) == (1, 1, 4, 2, 2)


def test_hello_of_another_protocol_names_both_and_the_remedy(daemon: InProcessDaemon) -> None:
    """Older and newer clients alike."""
    older, newer = daemon.peer().ask({"op": "hello", "protocol": 0}, {"op": "hello", "protocol": 2, "client": "x"})
    assert "upgrade the client" in older["error"]["message"]
    assert "x speaks 2; upgrade the daemon" in newer["error"]["message"]
    assert newer["error"]["protocol"] == 1
