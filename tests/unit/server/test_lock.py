"""The flock that says whether a daemon lives."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from claimdagd.server.host.directory import UnsafePathError
from claimdagd.server.host.lock import Lock, LockHeldError

UID = os.geteuid()

HOLD = "import sys, time; from claimdagd.server.host.lock import Lock; import os;\
 l = Lock.take(sys.argv[1], os.geteuid()); print('held', flush=True); time.sleep(60)"


def test_lock_that_is_held_names_the_holder(short_dir: Path) -> None:
    """The second gets the pid of the first, after a moment's patience (law 7.9, 1.2)."""
    path = str(short_dir / "lock")
    first = Lock.take(path, UID)
    with pytest.raises(LockHeldError, match=f"pid {os.getpid()} is alive"):
        Lock.take(path, UID, patience_s=0)
    first.close()
    Lock.take(path, UID, patience_s=0).close()


def test_lock_of_a_killed_process_is_free_and_of_a_stopped_one_is_not(short_dir: Path) -> None:
    """Nothing but the flock decides: no pid is looked at."""
    path = str(short_dir / "lock")
    holder = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        os.kill(holder.pid, 19)
        with pytest.raises(LockHeldError, match=f"pid {holder.pid} "):
            Lock.take(path, UID, patience_s=0.1)
        holder.kill()
        holder.wait()
        Lock.take(path, UID, patience_s=0).close()
    finally:
        holder.kill()
        holder.communicate()


def test_lock_waits_for_one_that_is_just_leaving(short_dir: Path) -> None:
    """A daemon started while the last one drains does not have to be started twice."""
    path = str(short_dir / "lock")
    first = Lock.take(path, UID)
    released = threading.Event()

    def leave() -> None:
        released.set()
        first.close()

    timer = threading.Timer(0.1, leave)
    timer.start()
    Lock.take(path, UID).close()
    assert released.is_set()
    timer.join()


def test_lock_that_was_replaced_is_noticed(short_dir: Path) -> None:
    """A file of the same name is not the same file."""
    path = short_dir / "lock"
    lock = Lock.take(str(path), UID)
    assert lock.is_ours()
    path.unlink()
    assert not lock.is_ours()
    path.touch()
    assert not lock.is_ours()
    lock.close()


def test_lock_is_never_taken_through_a_symbolic_link(short_dir: Path) -> None:
    """What the link names is neither made nor changed."""
    (short_dir / "lock").symlink_to(short_dir / "victim")
    with pytest.raises(UnsafePathError, match="symbolic link"):
        Lock.take(str(short_dir / "lock"), UID)
    assert not (short_dir / "victim").exists()


def test_lock_that_is_not_a_plain_file_is_refused(short_dir: Path) -> None:
    """A named pipe does not make the daemon wait either."""
    os.mkfifo(short_dir / "lock")
    with pytest.raises(UnsafePathError, match="not a regular file"):
        Lock.take(str(short_dir / "lock"), UID)


@pytest.mark.skipif(UID != 0, reason="only root can make files of another user")
def test_lock_of_another_user_is_refused(short_dir: Path) -> None:
    """Who owns the file may hold its lock for good."""
    (short_dir / "lock").touch()
    os.chown(short_dir / "lock", 65534, 65534)
    with pytest.raises(UnsafePathError, match="65534"):
        Lock.take(str(short_dir / "lock"), UID)
