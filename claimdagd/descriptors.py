"""Descriptors 0 to 2: hold them open, and keep every other file off them.

A process that starts with one of them closed gives its number to the next file that it opens, and a stray line for
stderr then lands in that file. Both packages call `hold_standard_streams` before they open anything. Standard library
only: the start of the command line pays for this import.
"""

from __future__ import annotations

import os

FIRST_FREE = 3


def hold_standard_streams() -> None:
    """Open the null device on each of descriptors 0 to 2 that is closed; children inherit it.

    `sys.stdin`, `sys.stdout` and `sys.stderr` stay None if they were closed at the start, so a program can still tell.
    """
    for descriptor in range(FIRST_FREE):
        try:
            os.fstat(descriptor)
        except OSError:
            _open_null(descriptor)


def above_standard_streams(descriptor: int) -> int:
    """Return `descriptor`, or a duplicate of it numbered 3 or more in its place."""
    if descriptor >= FIRST_FREE:
        return descriptor
    import fcntl  # rarely needed, and the command line starts faster without it

    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
    finally:
        os.close(descriptor)


def _open_null(descriptor: int) -> None:
    flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY
    try:
        opened = os.open(os.devnull, flags | os.O_CLOEXEC)
    except OSError:
        # No null device, as in a bare chroot: the root directory holds the number and refuses writes.
        opened = os.open("/", os.O_RDONLY | os.O_CLOEXEC)
    if opened == descriptor:
        os.set_inheritable(descriptor, True)
    else:
        os.dup2(opened, descriptor, inheritable=True)
        os.close(opened)
