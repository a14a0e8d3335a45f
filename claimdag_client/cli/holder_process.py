"""The process that `--pid auto` names: the nearest one above this command that outlives it.

An agent's host starts a shell for each command of its shell tool, and that shell ends with the command. So shells that
run a command or a script are left out, as are words before a command such as `timeout`. What is left is a program
(the agent's host, an interpreter) or a shell that a person types at. Standard library only.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

SHELLS: Final = frozenset(("sh", "ash", "bash", "dash", "fish", "ksh", "mksh", "tcsh", "csh", "zsh", "busybox"))
#: What stands before a command and ends with it.
WRAPPERS: Final = frozenset((
    "chrt", "env", "flock", "ionice", "nice", "nohup", "npx", "pipx", "poetry", "script", "setsid", "stdbuf",
    "strace", "taskset", "time", "timeout", "uv", "uvx", "xargs",
))  # fmt: skip
#: What starts all else: it outlives every worker, and so stands for none.
STARTERS: Final = frozenset((
    "(sd-pam)", "atd", "cron", "crond", "docker-init", "dumb-init", "init", "sshd", "sshd-session", "systemd", "tini",
))  # fmt: skip
#: Flags of shells with a word after them that is no script: an editor's terminal has some.
_TAKE_A_WORD: Final = frozenset(("--init-file", "--rcfile", "-o", "+o", "-O", "+O", "-C", "--init-command"))
#: More ancestors than this are not looked at.
DEPTH_MAX: Final = 64


class Ancestor:
    """A process above this command, as /proc showed it."""

    def __init__(self, pid: int, proc: str) -> None:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            head, _, tail = file.read().rpartition(b")")
        fields = tail.split()
        self.pid = pid
        self.name = head.partition(b"(")[2].decode(errors="replace")
        self.parent = int(fields[1])
        with open(f"{proc}/{pid}/status", "rb") as file:
            uids = next(line for line in file if line.startswith(b"Uid:"))
        self.uid = int(uids.split()[2])
        with open(f"{proc}/{pid}/cmdline", "rb") as file:
            self.words = [word.decode(errors="replace") for word in file.read().split(b"\0")[:-1]]
        try:
            self.has_terminal = os.readlink(f"{proc}/{pid}/fd/0").startswith(("/dev/pts/", "/dev/tty", "/dev/console"))
        except OSError:
            self.has_terminal = int(fields[4]) != 0

    @property
    def passes(self) -> bool:
        """Whether it ends with the command that it runs: a shell without a person, or a word before a command."""
        if self.name in SHELLS:
            return not self.has_terminal or _is_given_work(self.words[1:])
        return self.name in WRAPPERS


def _is_given_work(words: list[str]) -> bool:
    """Return whether the words of a shell's command line hold a script, or the flag before a command: `bash -lc`."""
    rest = iter(words)
    for word in rest:
        if word in _TAKE_A_WORD:
            next(rest, None)
        elif not word.startswith(("-", "+")) or (word[:2] != "--" and word[:1] == "-" and "c" in word):
            return True
    return False


def find_holder(start: int | None = None, proc: str = "/proc") -> int | None:
    """Return the number of the process above this command that outlives it, or None if there is none.

    Args:
        start: the process to begin with; the parent of this one unless it is said.
        proc: where the system shows processes.
    """
    pid = os.getppid() if start is None else start
    uid = os.geteuid()
    for _ in range(DEPTH_MAX):
        if pid <= 0:
            return None
        try:
            ancestor = Ancestor(pid, proc)
        except (OSError, ValueError, IndexError, StopIteration):
            return None
        if ancestor.uid != uid or ancestor.name in STARTERS:
            return None
        if not ancestor.passes:
            return pid
        pid = ancestor.parent
    return None
