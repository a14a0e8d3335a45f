"""Descriptors 0 to 2 in a process of its own: held open if they were closed, left alone if not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from claimdagd.descriptors import above_standard_streams


@pytest.mark.parametrize("closed", ["", "0", "1", "2", "01", "02", "12", "012"])
def test_closed_streams_become_the_null_device_and_open_ones_stay(closed: str) -> None:
    """Children inherit them, and what was closed is still None in sys."""
    code = f"""
import os
from claimdagd.descriptors import hold_standard_streams
closed = [int(each) for each in {closed!r}]
for descriptor in closed:
    os.close(descriptor)
before = [None if each in closed else os.fstat(each)[:3] for each in range(3)]
hold_standard_streams()
null = os.stat(os.devnull)[:3]
assert [os.fstat(each)[:3] for each in range(3)] == [null if each in closed else before[each] for each in range(3)]
assert all(map(os.get_inheritable, range(3)))
if 0 in closed:
    assert os.read(0, 1) == b""
for descriptor in closed:
    if descriptor:
        os.write(descriptor, b"into nothing")
os._exit(0)
"""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    ran = subprocess.run([sys.executable, "-c", code], check=False, **{**streams, "stdin": subprocess.DEVNULL})
    assert ran.returncode == 0, ran.stderr


def test_descriptor_above_the_streams_is_returned_as_it_is() -> None:
    """Only one of 0 to 2 is duplicated."""
    descriptor = os.open(os.devnull, os.O_RDONLY)
    assert above_standard_streams(descriptor) == descriptor
    os.close(descriptor)
