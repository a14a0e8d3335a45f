"""A position in the ledger, over connections that come and go."""

from __future__ import annotations

import pytest

from claimdag_client._protocol.subscription import Subscription
from claimdag_client.errors import GraphChanged


def test_from_now_on_begins_behind_the_last_entry_of_the_first_connection() -> None:
    """And goes on from there on the next connection."""
    subscription = Subscription()
    assert subscription.request("t3st") == {"op": "watch"}
    subscription.begin("t3st", 7)
    assert subscription.next == 8
    assert subscription.accept(8)
    subscription.begin("t3st", 20)
    assert subscription.request("t3st") == {"op": "watch", "from": 9}


def test_an_event_is_accepted_once() -> None:
    """However often it comes."""
    subscription = Subscription(3)
    subscription.begin("t3st", 9)
    assert [subscription.accept(seq) for seq in (2, 3, 3, 5, 4, 6)] == [False, True, False, True, False, True]


def test_another_graph_is_an_error_until_the_watcher_restarts() -> None:
    """Its numbers mean something else."""
    subscription = Subscription(5)
    subscription.begin("t3st", 9)
    with pytest.raises(GraphChanged):
        subscription.request("0ther")
    subscription.restart()
    assert subscription.request("0ther") == {"op": "watch", "from": 1}
