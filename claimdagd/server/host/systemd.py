"""Messages to systemd: ready, status, alive, stopping. Must never fail the daemon, with or without a listener."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping


class Notifier:
    """Sends sd_notify(3) messages to the socket that NOTIFY_SOCKET named; does nothing without one."""

    def __init__(self, address: str = "", watchdog_s: float = 0.0) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._status = ""
        #: Within how many seconds `alive` must be called again; 0 where no watchdog is set.
        self.watchdog_s = watchdog_s

    @classmethod
    def from_environ(cls, environ: MutableMapping[str, str], pid: int) -> Notifier:
        """Read and remove what systemd set, so that no child speaks in the daemon's name."""
        address = environ.pop("NOTIFY_SOCKET", "")
        usec = environ.pop("WATCHDOG_USEC", "")
        for_pid = environ.pop("WATCHDOG_PID", "")
        meant_for_us = usec.isdigit() and for_pid in ("", str(pid))
        return cls(address, int(usec) / 1e6 if meant_for_us else 0.0)

    def ready(self, status: str) -> None:
        """Tell systemd that requests are answered from now on."""
        self._status = status
        self._send(f"READY=1\nMAINPID={os.getpid()}\nSTATUS={status}")

    def status(self, status: str) -> None:
        """Change the line that `systemctl status` shows, if it is another one."""
        if status != self._status:
            self._status = status
            self._send(f"STATUS={status}")

    def alive(self) -> None:
        """Feed the watchdog. Called by the loop that answers requests, so that a hung one is noticed."""
        if self.watchdog_s:
            self._send("WATCHDOG=1")

    def stopping(self, status: str) -> None:
        """Tell systemd that the daemon is leaving."""
        self._status = status
        self._send(f"STOPPING=1\nSTATUS={status}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as sock:
                sock.sendto(message.encode(), self._address)
        except OSError:
            pass
