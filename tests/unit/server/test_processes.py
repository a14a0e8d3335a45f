"""The watch of processes by pidfds, with real processes and a poller that is not there."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from claimdagd.model import Process
from claimdagd.server.host.processes import PidfdWatch


class Readers:
    """What the watch needs of a poller: descriptors with their callbacks."""

    def __init__(self) -> None:
        self.callbacks: dict[int, Callable[[], None]] = {}

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self.callbacks[fd] = callback

    def forget(self, fd: int) -> None:
        del self.callbacks[fd]


@pytest.fixture
def watch() -> Iterator[PidfdWatch]:
    watch = PidfdWatch()
    yield watch
    watch.close()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "600"])
    yield child
    child.kill()
    child.wait()


def accepted(watch: PidfdWatch, pid: int) -> Process:
    process = watch.check(pid, os.getpid())
    assert isinstance(process, Process), process
    return process


def test_process_is_watched_once(watch: PidfdWatch, child: subprocess.Popen[bytes]) -> None:
    """However often it is named; each number has its start time."""
    process = accepted(watch, child.pid)
    assert accepted(watch, child.pid) == process
    assert watch.watch(process)
    assert (process.pid, len(watch)) == (child.pid, 1)
    assert process.start > 0


def test_end_is_reported_once_by_the_poller(watch: PidfdWatch, child: subprocess.Popen[bytes]) -> None:
    """Also of a process that was watched before there was a poller."""
    readers, ended = Readers(), []
    watch.on_ended = ended.append
    process = accepted(watch, child.pid)
    watch.start(readers)
    (callback,) = readers.callbacks.values()
    callback()
    assert (ended, readers.callbacks, len(watch)) == ([process], {}, 0)


def test_number_with_another_start_time_is_another_process(watch: PidfdWatch, child: subprocess.Popen[bytes]) -> None:
    """Then the one that was meant has ended."""
    process = accepted(watch, child.pid)
    watch.unwatch(process)
    assert not watch.watch(process._replace(start=process.start - 1))
    assert watch.watch(process)


def test_process_that_ends_after_it_was_opened_is_refused(
    watch: PidfdWatch, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever /proc said of the number by then."""
    facts = watch._facts(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(watch, "_facts", lambda pid: facts)
    assert watch.check(child.pid, None) == "it has ended"
    assert len(watch) == 0


def test_peer_without_a_number_here_is_refused(watch: PidfdWatch, child: subprocess.Popen[bytes]) -> None:
    """The kernel says 0 of a peer in another pid namespace."""
    assert "another pid namespace" in str(watch.check(child.pid, 0))


def test_process_in_a_namespace_below_is_refused(
    watch: PidfdWatch, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a number in each."""
    facts = watch._facts(child.pid)
    assert facts is not None
    monkeypatch.setattr(watch, "_facts", lambda pid: facts._replace(namespaces=2))
    assert watch.check(child.pid, None) == "it is in another pid namespace"


def test_process_of_another_user_is_refused(
    watch: PidfdWatch, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the effective user."""
    facts = watch._facts(child.pid)
    assert facts is not None
    monkeypatch.setattr(watch, "_facts", lambda pid: facts._replace(uid=facts.uid + 1))
    assert watch.check(child.pid, None) == f"it is user {facts.uid + 1}'s"


@pytest.mark.parametrize("number", [errno.ESRCH, errno.EINVAL, errno.ENOSYS, errno.EPERM])
def test_process_that_cannot_be_opened_is_refused_with_why(
    watch: PidfdWatch, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A thread, an old system, a sandbox."""

    def refuse(pid: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert isinstance(watch.check(os.getpid(), None), str)
    assert not watch.watch(Process(os.getpid(), 1))


def test_no_room_is_an_error_of_the_system(watch: PidfdWatch, child: subprocess.Popen[bytes]) -> None:
    """A process that is watched already needs no more room."""
    process = accepted(watch, child.pid)
    watch.has_room = lambda: False
    assert accepted(watch, child.pid) == process
    with pytest.raises(OSError, match="used up"):
        watch.check(os.getpid(), None)
    assert len(watch) == 1


def test_recovered_process_that_cannot_be_watched_counts_as_running(
    watch: PidfdWatch, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lack of descriptors is no end. It is tried again until there is one, and an end meanwhile is reported."""
    ended: list[Process] = []
    watch.on_ended = ended.append
    process = accepted(watch, child.pid)
    watch.unwatch(process)

    def full(pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", full)
        assert watch.watch(process)
        watch.retry()
        assert (len(watch), ended) == (0, [])
    watch.retry()
    assert (len(watch), ended) == (1, [])
    watch.unwatch(process)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", full)
        assert watch.watch(process)
    child.kill()
    child.wait()
    watch.retry()
    watch.retry()
    assert (len(watch), ended) == (0, [process])
