"""The old place of tests/support/daemon.py."""

from tests.support.daemon import WAIT_S, Client, Daemon, running, until

__all__ = ["WAIT_S", "Client", "Daemon", "running", "until"]
