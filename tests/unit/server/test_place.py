"""The daemon's place: directory, locks and socket, taken in order, looked at, and left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from claimdagd.paths import UnsafePathError
from claimdagd.server.host.lock import Lock, LockHeldError
from claimdagd.server.host.place import Place

UID = os.geteuid()


def take(directory: Path, socket: Path | None = None) -> Place:
    return Place.take(str(directory), str(socket) if socket else None, {}, UID)


def test_place_is_made_and_left_in_order(short_dir: Path) -> None:
    """The socket is gone afterwards, and the next one may take it."""
    place = take(short_dir / "d")
    listener = place.listen()
    assert place.listen() is listener
    assert (short_dir / "d" / "sock").is_socket()
    assert place.ownership_lost() is None
    place.close()
    assert not (short_dir / "d" / "sock").exists()
    take(short_dir / "d").close()


def test_directory_that_is_held_is_refused(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whoever holds it."""
    monkeypatch.setattr("claimdagd.server.host.lock.PATIENCE_S", 0.0)
    first = take(short_dir / "d")
    taken = Lock.take
    monkeypatch.setattr(Lock, "take", lambda path, uid: taken(path, uid, patience_s=0))
    with pytest.raises(LockHeldError):
        take(short_dir / "d")
    first.close()


def test_socket_elsewhere_has_a_lock_of_its_own(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Daemons of two directories may be told the same socket."""
    taken = Lock.take
    monkeypatch.setattr(Lock, "take", lambda path, uid: taken(path, uid, patience_s=0))
    first = take(short_dir / "d", short_dir / "s")
    with pytest.raises(LockHeldError):
        take(short_dir / "e", short_dir / "s")
    first.close()


@pytest.mark.parametrize("what", ["directory", "lock", "socket"])
def test_loss_of_each_part_is_named(short_dir: Path, what: str) -> None:
    """Moved away or unlinked."""
    place = take(short_dir / "d")
    listener = place.listen()
    lost = {"directory": short_dir / "d", "lock": short_dir / "d" / "lock", "socket": short_dir / "d" / "sock"}[what]
    lost.rename(short_dir / "away")
    assert place.ownership_lost() == f"the {what} {lost}"
    listener.sock.close()
    for lock in place.locks:
        lock.close()


def test_socket_path_that_is_too_long_is_refused_before_anything_is_made(short_dir: Path) -> None:
    """Nothing is left behind."""
    with pytest.raises(UnsafePathError, match="at most 107"):
        take(short_dir / "d", short_dir / ("s" * 120))
    assert not (short_dir / "d").exists()
