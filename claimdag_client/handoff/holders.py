"""Which actors the agent host above this process works as. Reads small files and /proc; asks no daemon.

`claimdag mcp` leaves a file beside the socket, named after its process, with its actor and the host that started it. A
hook of the same host finds it by the host's process number. A file of a process that has ended is ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

DIRECTORY = "agents"


def _parent_of(pid: int) -> int | None:
    """The parent of a process, or None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command's name is in parentheses and may hold anything; the fields after the last one are fixed.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _ancestors() -> Iterator[int]:
    pid: int | None = os.getpid()
    while pid is not None and pid > 1:
        yield pid
        pid = _parent_of(pid)


@contextmanager
def announced(socket: str, actor: str) -> Iterator[None]:
    """Let the hooks of this process's host find `actor` while the body runs. Best effort: a hook only warns."""
    directory = os.path.join(os.path.dirname(socket), DIRECTORY)
    path = os.path.join(directory, str(os.getpid()))
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump({"actor": actor, "host": os.getppid()}, file)
    except OSError:
        pass
    try:
        yield
    finally:
        try:
            os.unlink(path)
        except OSError:
            pass


def actors_of_this_host(socket: str) -> list[str]:
    """CLAIMDAG_ACTOR if it is set, and the actors of every `claimdag mcp` that the host above us started."""
    found = [os.environ["CLAIMDAG_ACTOR"]] if os.environ.get("CLAIMDAG_ACTOR") else []
    directory = os.path.join(os.path.dirname(socket), DIRECTORY)
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return found
    above = set(_ancestors())
    for name in names:
        try:
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                told = json.load(file)
            host, actor = told["host"], told["actor"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if host in above and name.isdigit() and _parent_of(int(name)) == host and actor not in found:
            found.append(actor)
    return found
