"""Who is told of every mutation, and from which entry on."""

from __future__ import annotations

import pytest

from claimdagd import wire
from claimdagd.core.refusal import Refusal
from claimdagd.service.ledger import Ledger
from claimdagd.service.sessions import Session
from claimdagd.service.watchers import Watchers


class Told:
    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.hung_up = 0
        self.session = Session(1, self.lines.append, self._hang_up)

    def _hang_up(self) -> None:
        self.hung_up += 1


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(2, [b'{"seq":1}', b'{"seq":2}'])


@pytest.fixture
def watchers(ledger: Ledger) -> Watchers:
    return Watchers(ledger, lambda node_id, scope: node_id.startswith(scope))


def test_watch_from_now_begins_after_the_last_entry(watchers: Watchers, ledger: Ledger) -> None:
    """The seq told is that of the last entry that is not sent."""
    told = Told()
    assert watchers.begin(told.session, wire.Watch()) == b'{"ok":{"seq":2}}\n'
    ledger.add(b'{"seq":3}\n')
    watchers.publish(b'{"seq":3}\n')
    assert told.lines == [b'{"event":{"seq":3}}\n']


def test_watch_from_the_past_is_answered_with_what_was_missed(watchers: Watchers, ledger: Ledger) -> None:
    """Nothing twice, nothing left out."""
    told = Told()
    answer = watchers.begin(told.session, wire.Watch(from_=2))
    assert answer == b'{"ok":{"seq":1}}\n{"event":{"seq":2}}\n'
    ledger.add(b'{"seq":3}\n')
    watchers.publish(b'{"seq":3}\n')
    assert len(told.lines) == 1


def test_watch_from_the_future_hears_nothing_before(watchers: Watchers, ledger: Ledger) -> None:
    """It asked for entry 4."""
    told = Told()
    watchers.begin(told.session, wire.Watch(from_=4))
    for seq in (3, 4):
        ledger.add(b'{"seq":%d}\n' % seq)
        watchers.publish(b'{"seq":%d}\n' % seq)
    assert told.lines == [b'{"event":{"seq":4}}\n']


def test_watch_of_a_scope_hears_what_concerns_it(watchers: Watchers, ledger: Ledger) -> None:
    """Of what is missed and of what comes; events that are no entries come in any case."""
    told = Told()
    for seq, node in ((3, "a1"), (4, "b1")):
        ledger.add(b'{"seq":%d,"nodes":[{"id":"%b"}]}\n' % (seq, node.encode()))
    answer = watchers.begin(told.session, wire.Watch(from_=3, under="a"))
    assert answer == b'{"ok":{"seq":2}}\n{"event":{"seq":3,"nodes":[{"id":"a1"}]}}\n'
    for seq, node in ((5, "b2"), (6, "a2")):
        line = b'{"seq":%d,"nodes":[{"id":"%b"}]}\n' % (seq, node.encode())
        ledger.add(line)
        watchers.publish(line)
    watchers.tell(b"x\n")
    assert told.lines == [b'{"event":{"seq":6,"nodes":[{"id":"a2"}]}}\n', b"x\n"]


def test_watch_from_an_entry_no_longer_kept_is_refused_with_where_to_go_on() -> None:
    """Nobody is told of a gap as if there were none."""
    watchers = Watchers(Ledger(9, [b'{"seq":9}']), lambda _node_id, _scope: True)
    with pytest.raises(Refusal) as refused:
        watchers.check(wire.Watch(from_=8))
    assert refused.value.details == {"oldest": 9, "seq": 9}
    watchers.check(wire.Watch(from_=9))


def test_dropped_watcher_hears_no_more(watchers: Watchers) -> None:
    """Nor is it counted."""
    told = Told()
    watchers.begin(told.session, wire.Watch())
    watchers.drop(told.session)
    watchers.tell(b"x\n")
    assert (told.lines, len(watchers), told.session.watching) == ([], 0, False)


def test_hang_up_lets_all_go(watchers: Watchers) -> None:
    """As the daemon leaves."""
    both = [Told(), Told()]
    for each in both:
        watchers.begin(each.session, wire.Watch())
    watchers.hang_up()
    assert [each.hung_up for each in both] == [1, 1]
