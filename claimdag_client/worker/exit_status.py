"""What a command's end means: to the node, to whoever asked for the command, and what the command is told at its start.

Pure but for a look at this process's environment.
"""

from __future__ import annotations

import os
import signal


def ending_of(status: int) -> str | None:
    """A command's status as a node's error; None for success."""
    if status == 0:
        return None
    if status > 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def exit_status(status: int) -> int:
    """A command's status as a shell gives it on."""
    return status if status >= 0 else 128 - status


def start_status(error: OSError | ValueError) -> int:
    """A shell's exit status for a command that cannot be started: not found, or found and not runnable."""
    return 127 if isinstance(error, FileNotFoundError) else 126


def environment_of(id: str, gen: int, summary: str, socket: str) -> dict[bytes, bytes]:
    """This process's environment and what the command is told of its node."""
    told = {"CLAIMDAG_ID": id, "CLAIMDAG_GEN": str(gen), "CLAIMDAG_SUMMARY": summary}
    environment = dict(os.environb)
    for name, value in told.items():
        # No environment can hold a NUL.
        environment[name.encode()] = value.encode(errors="replace").replace(b"\0", "�".encode())
    environment[b"CLAIMDAG_SOCKET"] = os.fsencode(socket)
    return environment
