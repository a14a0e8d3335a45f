"""Where the daemon, and a reader without it, get the state from: recover and read_offline.

reader.py reads and never writes; salvage.py writes, and only on request.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from claimdagd.store.errors import CorruptState, StateError
from claimdagd.store.files import Files, OsFiles
from claimdagd.store.reader import Recovered, load
from claimdagd.store.salvage import salvage_state

__all__ = ["Offline", "Recovered", "read_offline", "recover"]

#: How often a reader without the lock looks again when the files change under it.
READ_TRIES = 8


@dataclass(slots=True)
class Offline:
    """The last whole state, as read without the daemon. `age` is the seconds since the last write."""

    state: Recovered
    at: float
    age: float


def recover(
    files: Files, directory: str, *, salvage: bool = False, new_tag: Callable[[], str], at: float = 0.0
) -> Recovered:
    """Return the state in `directory`; a new graph, tagged by `new_tag`, if there are no files at all.

    Raises StateError, having changed nothing. With `salvage` damaged files are first kept in a directory of their own,
    named by `at` (Unix seconds), and what verifies is taken; StorageError if that copy cannot be made. What is not
    damage but cannot be read, or is of another format, is refused all the same.
    """
    try:
        with gc_paused():
            found = load(files, directory)
    except CorruptState as damage:
        if not salvage:
            raise
        with gc_paused():
            return salvage_state(files, directory, damage, new_tag=new_tag, at=at)
    if found is None:
        found = Recovered(new_tag())
    if salvage:
        found.notes.append("nothing is damaged: there was nothing to salvage")
    return found


def read_offline(directory: str, now: float, files: Files | None = None) -> Offline:
    """Return the last whole state, beside a daemon that may be writing: no lock, no write. `now` is in Unix seconds.

    Raises FileNotFoundError if there is no state, StateError if it cannot be read.
    """
    files = files or OsFiles()
    for tries_left in reversed(range(READ_TRIES)):
        try:
            with gc_paused():
                state = load(files, directory)
        except StateError:
            # Snapshot and journal may be of two moments, or the journal was rolled back while it was read.
            if not tries_left:
                raise
        else:
            if state is None:
                raise FileNotFoundError(2, "no state of a claimdagd", directory)
            return Offline(state, state.at, max(0.0, now - state.at))
    raise AssertionError("unreachable")


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector: loading makes only objects that stay, and collections would triple its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
