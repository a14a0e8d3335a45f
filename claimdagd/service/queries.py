"""The ops that only ask: each answers from the graph as it is at that moment, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from claimdagd import __version__, wire
from claimdagd.core.lookup import find, scope_root
from claimdagd.core.queries.deadlock import deadlock_possible, find_deadlocks
from claimdagd.core.queries.explain import why
from claimdagd.core.queries.order import claim_order
from claimdagd.core.queries.views import counts_under, encode_view, listed, live_under, resources
from claimdagd.core.refusal import Refusal
from claimdagd.limits import ERROR_MAX_BYTES, LINE_MAX_BYTES, ONCE_TOKENS_MAX, PROTOCOL, SUMMARY_MAX_BYTES
from claimdagd.service.info import ServiceInfo
from claimdagd.service.replies import nodes_of
from claimdagd.wire import Code

_encode = msgspec.json.Encoder().encode


def _hello(info: ServiceInfo, r: wire.Hello) -> bytes:
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
    graph, config = info.graph, info.config
    ok = wire.HelloOk(
        version=__version__,
        protocol=PROTOCOL,
        graph=graph.tag,
        name=config.graph_name,
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


def _ping(info: ServiceInfo, _r: wire.Ping) -> bytes:
    return b'{"now":%.6f}' % info.graph.wall


def _get(info: ServiceInfo, r: wire.Get) -> bytes:
    return encode_view(info.graph, find(info.graph, "get", r.id))


def _why(info: ServiceInfo, r: wire.Why) -> bytes:
    return _encode(why(info.graph, find(info.graph, "why", r.id)))


def _list(info: ServiceInfo, r: wire.List) -> bytes:
    return nodes_of(encode_view(info.graph, v) for v in listed(info.graph, r))


def _ready(info: ServiceInfo, r: wire.Ready) -> bytes:
    under = scope_root(info.graph, "ready", r.under)
    order = claim_order(info.graph, r.role, r.slack, r.strict, under)
    return nodes_of(encode_view(info.graph, v, runnable) for v, runnable in order)


def _resources(info: ServiceInfo, _r: wire.Resources) -> bytes:
    return _encode({"resources": resources(info.graph)})


def _stats(info: ServiceInfo, r: wire.Stats) -> bytes:
    graph, store = info.graph, info.store
    now = info.counters()
    under = scope_root(graph, "stats", r.under)
    counts = graph.counts if under is None else counts_under(under)
    return _encode(
        {
            "statuses": {status.value: n for status, n in counts.items()},
            "nodes": sum(counts.values()),
            "live": graph.live if under is None else live_under(graph, under),
            "paused": graph.pauses.ids(),
            "parked": now.parked,
            "watchers": now.watchers,
            "connections": now.connections,
            "uptime": graph.now - info.started,
            "seq": now.seq,
            "journal_bytes": store.journal_bytes,
            "snapshot_bytes": store.snapshot_bytes,
            "lags": now.lags,
            "deadlocks": find_deadlocks(graph) if deadlock_possible(graph) else [],
            "graph": graph.tag,
            "version": __version__,
            "pid": info.config.pid,
        }
    )


QUERIES: Final[dict[type[wire.Request], Callable[[ServiceInfo, Any], bytes]]] = {
    wire.Hello: _hello,
    wire.Ping: _ping,
    wire.Get: _get,
    wire.Why: _why,
    wire.List: _list,
    wire.Ready: _ready,
    wire.Resources: _resources,
    wire.Stats: _stats,
}
