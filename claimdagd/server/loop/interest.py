"""What a connection waits for, by its state and by what it still has to do: a table, and nothing else.

A connection that waits for too little hangs, and one that waits for too much spins; so every pair has its row.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class State(Enum):
    """Where a connection is in its life. It goes from top to bottom, and may leave out any but the last."""

    #: Requests are read and answered.
    OPEN = "open"
    #: A line over the limit has begun: the whole lines before it are handled, and no more is read.
    OVERLONG = "overlong"
    #: The answer to that line is queued: what still comes is read and dropped, so that the peer lives to read why.
    DISCARDING = "discarding"
    #: The peer has closed its sending side, and waits for answers.
    HALF_CLOSED = "half_closed"
    #: The connection is closed once the peer has read what is queued.
    CLOSING = "closing"


class Backlog(Enum):
    """What is left to do: lines to handle, answers that the peer has not read yet, or too many of them."""

    NOTHING = "nothing"
    #: Nothing but replies that come later, or events.
    REPLIES_TO_COME = "replies_to_come"
    LINES = "lines"
    UNREAD = "unread"
    UNREAD_AND_LINES = "unread_and_lines"
    #: So much is unread that requests are left unread too.
    TOO_MUCH = "too_much"
    TOO_MUCH_AND_LINES = "too_much_and_lines"


class Interest(NamedTuple):
    """What to wait for: bytes to read, room to write, another turn, or the end of both directions.

    `finish`: nothing, so close. `goodbye`: tell the peer that nothing more comes, and set a deadline.
    """

    read: bool = False
    write: bool = False
    turn: bool = False
    hangup: bool = False
    finish: bool = False
    goodbye: bool = False


_NONE: Final = Interest()
_READ: Final = Interest(read=True)
_WRITE: Final = Interest(write=True)
_READ_WRITE: Final = Interest(read=True, write=True)
_TURN: Final = Interest(turn=True)
_WRITE_TURN: Final = Interest(write=True, turn=True)
_FINISH: Final = Interest(finish=True)

INTEREST: Final[dict[State, dict[Backlog, Interest]]] = {
    State.OPEN: {
        Backlog.NOTHING: _READ,
        Backlog.REPLIES_TO_COME: _READ,
        Backlog.LINES: _TURN,
        Backlog.UNREAD: _READ_WRITE,
        Backlog.UNREAD_AND_LINES: _WRITE_TURN,
        Backlog.TOO_MUCH: _WRITE,
        Backlog.TOO_MUCH_AND_LINES: _WRITE,
    },
    State.OVERLONG: {
        Backlog.NOTHING: _NONE,
        Backlog.REPLIES_TO_COME: _NONE,
        Backlog.LINES: _TURN,
        Backlog.UNREAD: _WRITE,
        Backlog.UNREAD_AND_LINES: _WRITE_TURN,
        Backlog.TOO_MUCH: _WRITE,
        Backlog.TOO_MUCH_AND_LINES: _WRITE,
    },
    State.DISCARDING: {
        Backlog.NOTHING: Interest(read=True, goodbye=True),
        Backlog.REPLIES_TO_COME: Interest(read=True, goodbye=True),
        Backlog.LINES: _TURN,
        Backlog.UNREAD: _READ_WRITE,
        Backlog.UNREAD_AND_LINES: _WRITE_TURN,
        Backlog.TOO_MUCH: _WRITE,
        Backlog.TOO_MUCH_AND_LINES: _WRITE,
    },
    State.HALF_CLOSED: {
        Backlog.NOTHING: _FINISH,
        Backlog.REPLIES_TO_COME: Interest(hangup=True),
        Backlog.LINES: Interest(turn=True, hangup=True),
        Backlog.UNREAD: Interest(write=True, hangup=True),
        Backlog.UNREAD_AND_LINES: Interest(write=True, turn=True, hangup=True),
        Backlog.TOO_MUCH: Interest(write=True, hangup=True),
        Backlog.TOO_MUCH_AND_LINES: Interest(write=True, hangup=True),
    },
    State.CLOSING: {
        Backlog.NOTHING: _FINISH,
        Backlog.REPLIES_TO_COME: _FINISH,
        Backlog.LINES: _FINISH,
        Backlog.UNREAD: _WRITE,
        Backlog.UNREAD_AND_LINES: _WRITE,
        Backlog.TOO_MUCH: _WRITE,
        Backlog.TOO_MUCH_AND_LINES: _WRITE,
    },
}

#: Backlog by (lines, unread: none, some, too much); without either it depends on replies to come.
BACKLOGS: Final = {
    (True, 0): Backlog.LINES,
    (False, 1): Backlog.UNREAD,
    (True, 1): Backlog.UNREAD_AND_LINES,
    (False, 2): Backlog.TOO_MUCH,
    (True, 2): Backlog.TOO_MUCH_AND_LINES,
}
