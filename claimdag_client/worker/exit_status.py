"""What the end of a command means to its node and to the caller, and what a command is told at its start. Pure."""

from __future__ import annotations

import os
import signal


def ending_of(status: int) -> str | None:
    """Return the error of a node whose command ended with `status`; None for success."""
    if status == 0:
        return None
    if status > 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def exit_status(status: int) -> int:
    """Return the status with which a shell would report `status`."""
    return status if status >= 0 else 128 - status


def start_status(error: OSError | ValueError) -> int:
    """Return a shell's exit status for a command that cannot be started: 127 if it is not found, else 126."""
    return 127 if isinstance(error, FileNotFoundError) else 126


def claim_environment(id: str, gen: int, summary: str, socket: str) -> list[bytes]:
    """Return what a command learns about its node, as NAME=VALUE."""
    values = {"CLAIMDAG_ID": id, "CLAIMDAG_GEN": str(gen), "CLAIMDAG_SUMMARY": summary}
    # No environment can hold a NUL.
    told = [f"{name}={value}".encode(errors="replace").replace(b"\0", "�".encode()) for name, value in values.items()]
    return [*told, b"CLAIMDAG_SOCKET=" + os.fsencode(socket)]
