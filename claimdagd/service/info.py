"""What the ops that only ask may know of the service. Read-only."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from claimdagd.core.graph import Graph
from claimdagd.service.sessions import Config, Storage


class Counters(NamedTuple):
    """Numbers of the moment, as `stats` tells them."""

    parked: int
    watchers: int
    connections: int
    seq: int
    lags: int


class ServiceInfo(NamedTuple):
    """The graph, what the service was given, when it started (monotonic), and its counters."""

    graph: Graph
    config: Config
    store: Storage
    started: float
    counters: Callable[[], Counters]
