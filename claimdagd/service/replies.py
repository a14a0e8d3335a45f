"""How answers are put into bytes: one line each, `ok` or `error`. Must not decide anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from claimdagd import wire
from claimdagd.core.apply import Result
from claimdagd.core.graph import Graph
from claimdagd.core.queries.views import resource_view, view_from
from claimdagd.core.refusal import Refusal
from claimdagd.core.state import Vertex

_encode = msgspec.json.Encoder().encode

Records = dict[Vertex, bytes]

_OPS: Final = {cls: op for op, cls in wire.REQUEST_TYPES.items()}


def op_of(r: wire.Request) -> str:
    """Return the op of a request, as the wire spells it."""
    return _OPS[type(r)]


def encode_ok(rid: str | int | None, ok: bytes) -> bytes:
    """Return the line of an answer; `rid` is echoed if the caller sent one."""
    if rid is None:
        return b'{"ok":%b}\n' % ok
    if type(rid) is int:
        return b'{"rid":%d,"ok":%b}\n' % (rid, ok)
    return b'{"rid":%b,"ok":%b}\n' % (_encode(rid), ok)


def nodes_of(views: Iterable[bytes]) -> bytes:
    """Return a list of views as an `ok` object."""
    return b'{"nodes":[%b]}' % b",".join(views)


def error_of(refusal: Refusal) -> bytes:
    """Return the error object of a refusal."""
    return _encode({"code": refusal.code, "message": refusal.message, **refusal.details})


def refused(rid: str | int | None, refusal: Refusal) -> bytes:
    """Return the line that refuses a request."""
    if rid is None:
        return b'{"error":%b}\n' % error_of(refusal)
    return b'{"rid":%b,"error":%b}\n' % (_encode(rid), error_of(refusal))


def view(graph: Graph, v: Vertex, recs: Records) -> bytes:
    """Return the view of a node; keep the JSON of its record for the journal."""
    encoded = recs.get(v)
    if encoded is None:
        encoded = recs[v] = _encode(v.record)
    return view_from(graph, v, encoded)


def _node(graph: Graph, _r: Any, result: Result, recs: Records) -> bytes:
    assert result.v is not None
    return view(graph, result.v, recs)


def _ids(_graph: Graph, _r: Any, result: Result, _recs: Records) -> bytes:
    return _encode({"ids": result.ids})


def _claim(graph: Graph, _r: Any, result: Result, recs: Records) -> bytes:
    assert result.v is not None
    return claimed(graph, result.v, recs)


def claimed(graph: Graph, v: Vertex, recs: Records) -> bytes:
    """Return the reply to a claim."""
    lease = v.lease
    assert lease is not None
    return b'{"id":"%b","gen":%d,"expires_in":%.3f,"node":%b}' % (
        v.record.id.encode(),
        v.record.gen,
        lease.deadline - graph.now,
        view(graph, v, recs),
    )


def _held(graph: Graph, _r: Any, result: Result, _recs: Records) -> bytes:
    v = result.v
    assert v is not None
    assert v.lease is not None
    return b'{"id":"%b","gen":%d,"expires_in":%.3f}' % (
        v.record.id.encode(),
        v.record.gen,
        v.lease.deadline - graph.now,
    )


def _moved(_graph: Graph, _r: Any, result: Result, _recs: Records) -> bytes:
    assert result.v is not None
    return b'{"id":"%b","gen":%d}' % (result.v.record.id.encode(), result.v.record.gen)


def next_part(claim: bytes | None, refusal: Refusal | None) -> bytes:
    """Return the part of a complete's reply about the next claim: the claim, or null with its code."""
    if claim is not None:
        return b',"next":%b,"code":null,"next_error":null' % claim
    if refusal is None:
        return b',"next":null,"code":null,"next_error":null'
    return b',"next":null,"code":%b,"next_error":%b' % (_encode(refusal.code), error_of(refusal))


def with_next(completed: bytes, claim: bytes | None, refusal: Refusal | None = None) -> bytes:
    """Return a complete's reply with its `next` replaced."""
    return b"%b%b}" % (completed[: completed.rindex(b',"next":')], next_part(claim, refusal))


def _completed(graph: Graph, _r: Any, result: Result, recs: Records) -> bytes:
    assert result.v is not None
    claim = claimed(graph, result.next, recs) if result.next is not None else None
    return b'{"node":%b,"ready":%b%b}' % (
        view(graph, result.v, recs),
        _encode(result.ready) if result.ready else b"[]",
        next_part(claim, result.next_refusal),
    )


def _resource(graph: Graph, _r: Any, result: Result, _recs: Records) -> bytes:
    assert result.name is not None
    return _encode(resource_view(graph, result.name))


def _paused(_graph: Graph, _r: Any, result: Result, _recs: Records) -> bytes:
    return _encode({"paused": result.paused})


def reply_of(graph: Graph, r: wire.Request, result: Result, recs: Records) -> bytes:
    """Return the `ok` object that answers `r`; where it names several nodes, one entry for each in `results`."""
    encode = REPLIES[type(r)]
    if result.many is None:
        return encode(graph, r, result, recs)
    return b'{"results":[%b]}' % b",".join([encode(graph, r, each, recs) for each in result.many])


REPLIES: dict[type[wire.Request], Callable[[Graph, Any, Result, Records], bytes]] = {
    wire.Upsert: _node,
    wire.Submit: _ids,
    wire.Claim: _claim,
    wire.ClaimNext: _claim,
    wire.Renew: _held,
    wire.Running: _held,
    wire.Release: _moved,
    wire.Reopen: _moved,
    wire.Archive: _moved,
    wire.Unarchive: _moved,
    wire.Complete: _completed,
    wire.Cancel: _ids,
    wire.Reclaim: _ids,
    wire.Link: _node,
    wire.Unlink: _node,
    wire.SetCapacity: _resource,
    wire.Pause: _paused,
    wire.Resume: _paused,
}
