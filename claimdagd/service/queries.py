"""The ops that only ask: each answers from the graph as it is at that moment, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from claimdagd import __version__, wire
from claimdagd.core.lookup import find
from claimdagd.core.queries.deadlock import deadlock_possible, find_deadlocks
from claimdagd.core.queries.explain import why
from claimdagd.core.queries.views import encode_view, listed, resources
from claimdagd.core.refusal import Refusal
from claimdagd.limits import ERROR_MAX_BYTES, LINE_MAX_BYTES, ONCE_TOKENS_MAX, PROTOCOL, SUMMARY_MAX_BYTES
from claimdagd.wire import Code

if TYPE_CHECKING:
    from claimdagd.service.service import Service

_encode = msgspec.json.Encoder().encode


def nodes_of(views: Iterable[bytes]) -> bytes:
    """A list of views as an `ok` object."""
    return b'{"nodes":[%b]}' % b",".join(views)


def _hello(service: Service, r: wire.Hello) -> bytes:
    if r.protocol is not None and r.protocol != PROTOCOL:
        older = "the client" if r.protocol < PROTOCOL else "the daemon"
        raise Refusal(
            Code.BAD_REQUEST,
            f"hello: protocol mismatch: claimdagd {__version__} speaks protocol {PROTOCOL}, "
            f"{r.client or 'the client'} speaks {r.protocol}; upgrade {older}, or restart the daemon "
            "from the same installation as the client (claimdag shutdown)",
            protocol=PROTOCOL,
            version=__version__,
        )
    graph, config = service.graph, service.config
    ok = wire.HelloOk(
        version=__version__,
        protocol=PROTOCOL,
        graph=graph.tag,
        pid=config.pid,
        limits=wire.Limits(
            max_nodes=graph.max_nodes,
            line_bytes=LINE_MAX_BYTES,
            lease=graph.default_lease_s,
            grace=config.grace_s,
            summary_bytes=SUMMARY_MAX_BYTES,
            error_bytes=ERROR_MAX_BYTES,
            once_tokens=ONCE_TOKENS_MAX,
        ),
    )
    return _encode(ok)


def _ping(service: Service, _r: wire.Ping) -> bytes:
    return b'{"now":%.6f}' % service.graph.wall


def _get(service: Service, r: wire.Get) -> bytes:
    return encode_view(service.graph, find(service.graph, "get", r.id))


def _why(service: Service, r: wire.Why) -> bytes:
    return _encode(why(service.graph, find(service.graph, "why", r.id)))


def _list(service: Service, r: wire.List) -> bytes:
    return nodes_of(encode_view(service.graph, v) for v in listed(service.graph, r))


def _ready(service: Service, r: wire.Ready) -> bytes:
    order = service.graph.ready_queue.in_order(r.role, r.slack, r.strict)
    return nodes_of(encode_view(service.graph, v, runnable) for v, runnable in order)


def _resources(service: Service, _r: wire.Resources) -> bytes:
    return _encode({"resources": resources(service.graph)})


def _stats(service: Service, _r: wire.Stats) -> bytes:
    graph, store = service.graph, service.store
    return _encode(
        {
            "statuses": {status.value: n for status, n in graph.counts.items()},
            "nodes": len(graph.vertices),
            "live": graph.live,
            "parked": service.parked,
            "watchers": service.watchers,
            "connections": service.connections,
            "uptime": graph.now - service.started,
            "seq": service.seq,
            "journal_bytes": store.journal_bytes,
            "snapshot_bytes": store.snapshot_bytes,
            "lags": service.lags,
            "deadlocks": find_deadlocks(graph) if deadlock_possible(graph) else [],
            "graph": graph.tag,
            "version": __version__,
            "pid": service.config.pid,
        }
    )


QUESTIONS: Final[dict[type[wire.Request], Callable[[Service, Any], bytes]]] = {
    wire.Hello: _hello,
    wire.Ping: _ping,
    wire.Get: _get,
    wire.Why: _why,
    wire.List: _list,
    wire.Ready: _ready,
    wire.Resources: _resources,
    wire.Stats: _stats,
}
