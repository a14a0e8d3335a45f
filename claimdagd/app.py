"""The service of one directory, put together from what is on disk: used by the daemon and by every test of it.

Here store, graph and service meet, which know nothing of each other's making. Must hold no rule of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from claimdagd.core.graph import Graph
from claimdagd.service import Clock, Config, Service
from claimdagd.service.processes import ProcessWatch
from claimdagd.store.errors import StateError
from claimdagd.store.files import Files
from claimdagd.store.reader import Recovered
from claimdagd.store.recovery import gc_paused, recover
from claimdagd.store.store import Store


class Opened(NamedTuple):
    """A service with its graph and its store, and what was recovered to make them."""

    service: Service
    graph: Graph
    store: Store
    recovered: Recovered


def open_service(
    files: Files,
    directory: str,
    clock: Clock,
    config: Config,
    *,
    new_tag: Callable[[], str],
    salvage: bool = False,
    max_nodes: int = 4096,
    lease_s: float = 900.0,
    starvation: int = 100,
    processes: ProcessWatch | None = None,
) -> Opened:
    """Recover what `directory` holds and return the service over it. Raises StateError or StorageError.

    Args:
        new_tag: makes the tag of a graph that begins here.
        salvage: take what can be read of a damaged state.
        starvation: how often a node is bypassed before units are reserved for it.
    """
    recovered = recover(files, directory, salvage=salvage, new_tag=new_tag, at=clock.wall())
    graph = Graph(recovered.tag, max_nodes=max_nodes, default_lease_s=lease_s, starvation=starvation)
    with gc_paused():
        try:
            graph.load(recovered.nodes, recovered.capacities, recovered.next_number, clock.now(), recovered.paused)
        except ValueError as exc:
            remedy = "Every line verifies, so this is a bug of claimdagd: keep a copy of the directory and report it"
            raise StateError(directory, None, str(exc), remedy) from exc
    store = Store(files, directory, "fsync" if config.fsync else "process", recovered)
    service = Service(graph, store, clock, config, once=recovered.once, ledger=recovered.ledger, processes=processes)
    return Opened(service, graph, store, recovered)
