"""The service driven in this process, with a real journal: what is measured without a socket.

Must not take any part of the daemon's place: it wires the layers as claimdagd.main does.
"""

from __future__ import annotations

from claimdagd.app import open_service
from claimdagd.core.graph import Graph
from claimdagd.service import Config, Service
from claimdagd.store.files import OsFiles
from claimdagd.store.recovery import recover
from claimdagd.store.store import Store
from tests.support.clock import RealClock


def new_service(graph: Graph, directory: str) -> Service:
    """A service over the empty `graph`, which journals in the empty `directory`."""
    files = OsFiles()
    recovered = recover(files, directory, new_tag=lambda: graph.tag)
    store = Store(files, directory, "process", recovered)
    return Service(graph, store, RealClock(), Config())


def reopened(directory: str, max_nodes: int) -> Service:
    """A service over the state that `directory` holds."""
    opened = open_service(OsFiles(), directory, RealClock(), Config(), new_tag=lambda: "n3w0", max_nodes=max_nodes)
    return opened.service
