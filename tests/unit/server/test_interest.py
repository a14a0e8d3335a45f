"""The table of states and backlogs: each pair has its row, and no row hangs or spins."""

from __future__ import annotations

import itertools

import pytest

from claimdagd.server.loop.interest import BACKLOGS, INTEREST, Backlog, Interest, State

PAIRS = list(itertools.product(State, Backlog))
WITH_LINES = {Backlog.LINES, Backlog.UNREAD_AND_LINES, Backlog.TOO_MUCH_AND_LINES}
WITH_UNREAD = {Backlog.UNREAD, Backlog.UNREAD_AND_LINES, Backlog.TOO_MUCH, Backlog.TOO_MUCH_AND_LINES}
TOO_MUCH = {Backlog.TOO_MUCH, Backlog.TOO_MUCH_AND_LINES}


def row(state: State, backlog: Backlog) -> Interest:
    return INTEREST[state][backlog]


@pytest.mark.parametrize(("state", "backlog"), PAIRS)
def test_no_connection_waits_for_nothing(state: State, backlog: Backlog) -> None:
    """Else it would hang for ever. One that read too long a line answers it before it waits."""
    interest = row(state, backlog)
    if (state, backlog) not in {(State.OVERLONG, Backlog.NOTHING), (State.OVERLONG, Backlog.REPLIES_TO_COME)}:
        assert any(interest)


@pytest.mark.parametrize(("state", "backlog"), PAIRS)
def test_room_is_waited_for_exactly_while_answers_are_unread(state: State, backlog: Backlog) -> None:
    """A writer without anything to write would spin."""
    assert row(state, backlog).write == (backlog in WITH_UNREAD)


@pytest.mark.parametrize(("state", "backlog"), PAIRS)
def test_nothing_is_read_while_lines_are_left_or_too_much_is_unread(state: State, backlog: Backlog) -> None:
    """So memory is bounded, and a peer that does not read is not read from."""
    interest = row(state, backlog)
    if backlog in WITH_LINES | TOO_MUCH:
        assert not interest.read
    if state not in (State.OPEN, State.DISCARDING):
        assert not interest.read


@pytest.mark.parametrize(("state", "backlog"), PAIRS)
def test_lines_have_a_turn_unless_too_much_is_unread_or_the_connection_closes(state: State, backlog: Backlog) -> None:
    """Every line that was read is handled."""
    expected = backlog in WITH_LINES - TOO_MUCH and state is not State.CLOSING
    assert row(state, backlog).turn == expected


@pytest.mark.parametrize(("state", "backlog"), PAIRS)
def test_connection_is_closed_only_when_all_is_said(state: State, backlog: Backlog) -> None:
    """And then at once, if the peer sends no more."""
    interest = row(state, backlog)
    if interest.finish:
        assert interest == Interest(finish=True)
        assert backlog not in WITH_UNREAD
    if state is State.CLOSING:
        assert interest.finish == (backlog not in WITH_UNREAD)
    if state is State.HALF_CLOSED:
        assert interest.finish == (backlog is Backlog.NOTHING)


@pytest.mark.parametrize("backlog", [each for each in Backlog if each is not Backlog.NOTHING])
def test_half_closed_peer_that_leaves_altogether_is_noticed(backlog: Backlog) -> None:
    """Nothing that is read would tell."""
    assert row(State.HALF_CLOSED, backlog).hangup


def test_goodbye_follows_the_answer_to_an_overlong_line() -> None:
    """Not before the peer has taken it."""
    said = {(state, backlog) for state, backlog in PAIRS if row(state, backlog).goodbye}
    assert said == {(State.DISCARDING, Backlog.NOTHING), (State.DISCARDING, Backlog.REPLIES_TO_COME)}


def test_backlogs_are_told_by_lines_and_unread() -> None:
    """Each but those without either."""
    assert set(BACKLOGS.values()) == set(Backlog) - {Backlog.NOTHING, Backlog.REPLIES_TO_COME}
    for (lines, unread), backlog in BACKLOGS.items():
        assert lines == (backlog in WITH_LINES)
        assert bool(unread) == (backlog in WITH_UNREAD)
        assert (unread == 2) == (backlog in TOO_MUCH)
