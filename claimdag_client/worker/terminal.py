"""Who has the terminal: lends it to a command's process group and takes it back, as a shell with job control does.

So Ctrl-C and Ctrl-\\ go to the command, an editor or an agent in it can read keys, and Ctrl-Z stops the whole job. It
must act only where standard input is this session's terminal and this process's group is in its foreground.
"""

from __future__ import annotations

import os
import signal
import termios
from typing import Any, Self

STDIN = 0


class Terminal:
    """The controlling terminal on standard input."""

    def __init__(self, modes: list[Any]) -> None:
        #: How its line was set before a command had it.
        self._modes = modes
        #: The group that has it on loan.
        self.lent_to: int | None = None

    @classmethod
    def of_stdin(cls) -> Self | None:
        """The terminal, or None where standard input is not that of this session."""
        try:
            os.tcgetpgrp(STDIN)
            return cls(termios.tcgetattr(STDIN))
        except (OSError, termios.error):
            return None

    def ours(self) -> bool:
        """This process's group is in the foreground."""
        try:
            return os.tcgetpgrp(STDIN) == os.getpgrp()
        except OSError:
            return False

    def lend(self, group: int) -> None:
        """Put a group in the foreground."""
        self.lent_to = group
        lend_terminal(group)

    def take_back_from_nobody(self) -> None:
        """As take_back, when the group that it was lent to never came to be."""
        self.lent_to = None
        lend_terminal(os.getpgrp())

    def take_back(self, *, restore: bool) -> None:
        """Put this process's group back there, if the loan still stands; `restore` undoes what a killed one left."""
        group, self.lent_to = self.lent_to, None
        try:
            if group is None or os.tcgetpgrp(STDIN) not in (group, os.getpgrp()):
                return  # The shell has given it to another job.
            lend_terminal(os.getpgrp())
            if restore:
                termios.tcsetattr(STDIN, termios.TCSADRAIN, self._modes)
        except (OSError, termios.error):
            pass  # It hung up.


def lend_terminal(group: int) -> None:
    """Put a group in the foreground of the terminal on standard input. Used between fork and exec too."""
    # From the background this costs a SIGTTOU, unless that is blocked.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        os.tcsetpgrp(STDIN, group)
    except OSError:
        pass
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
