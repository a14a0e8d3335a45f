"""The warden ends what it was told of, and nothing else, when the worker's end of its pipe closes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from claimdag_client.worker.orphan_guard import group_lives, signal_group

SCRIPT = """
import sys
from claimdag_client.worker.orphan_guard import Warden
warden = Warden.start(0.2)
named, unnamed, failed = map(int, sys.argv[1:])
warden.tell(unnamed)
warden.mark()
warden.tell(failed)
warden.forget_since_mark()
warden.tell(named)
warden.unwatch(unnamed)
warden.close()
"""


@pytest.fixture
def groups() -> Iterator[list[subprocess.Popen[bytes]]]:
    found = [subprocess.Popen(["sleep", "60"], process_group=0) for _ in range(3)]
    yield found
    for process in found:
        process.kill()
        process.wait()


def test_warden_ends_the_groups_that_are_named_and_no_other(groups: list[subprocess.Popen[bytes]]) -> None:
    """Not one taken back, and not the number of one that never came to be."""
    subprocess.run([sys.executable, "-c", SCRIPT, *(str(group.pid) for group in groups)], check=True, timeout=15)
    assert groups[0].wait(5) == -signal.SIGTERM
    assert groups[1].poll() is None
    assert groups[2].poll() is None


def test_group_of_zombies_does_not_live(groups: list[subprocess.Popen[bytes]]) -> None:
    """Whoever nobody has reaped yet is over all the same."""
    pid = groups[0].pid
    assert group_lives(pid)
    groups[0].kill()
    for _ in range(500):
        if not group_lives(pid):
            break
        signal.sigtimedwait([], 0.01)
    assert not group_lives(pid)
    assert signal_group(pid, 0)
    groups[0].wait()
    assert not signal_group(pid, 0)
