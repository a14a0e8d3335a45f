"""How an async client reaches the daemon: a connection with its hello answered. No claim, no retry, no start."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import anyio.abc
import msgspec

from claimdag_client._async.unix_stream import connect_unix
from claimdag_client._protocol.handshake import HELLO_MAX_BYTES, Handshake
from claimdag_client._transport.transport import check_peer_uid
from claimdag_client.errors import Mismatch, Unreachable, Unresponsive
from claimdag_client.events import Lines
from claimdagd import wire
from claimdagd.limits import ANSWER_MAX_BYTES

#: A daemon that is there gets this long to say hello.
HELLO_S = 10.0


@dataclass
class OpenConnection:
    """A connection on which both sides have said hello; `rest` are the lines that came after the answer."""

    stream: anyio.abc.ByteStream
    hello: wire.HelloOk
    lines: Lines
    rest: list[bytes]


async def open_connection(path: str, name: str, limit_s: float = HELLO_S) -> OpenConnection:
    """Connect and say hello. Raises Unreachable if no daemon answers, Mismatch if it speaks another protocol."""
    stream: anyio.abc.ByteStream | None = None
    try:
        with anyio.fail_after(limit_s):
            stream = await connect_unix(path)
            check_peer_uid(stream.extra(anyio.abc.SocketAttribute.raw_socket), path)
            opened = await _say_hello(stream, Handshake(name, path))
            stream = None
            return opened
    except TimeoutError:
        raise Unresponsive(
            f"the daemon at {path} is there but does not answer (waited {limit_s:.3g} s)",
            remedy="it may be stopped or overloaded: see `ps` and its daemon.log",
        ) from None
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        raise Unreachable(f"the daemon at {path} hung up before it answered", remedy="ask again") from None
    except OSError as exc:
        raise Unreachable(f"no daemon listens at {path} ({exc.strerror})", remedy="start one: claimdagd") from None
    except (ValueError, msgspec.MsgspecError):
        raise Mismatch(f"what listens at {path} does not speak claimdagd's protocol") from None
    finally:
        if stream is not None:
            await anyio.aclose_forcefully(stream)


async def _say_hello(stream: anyio.abc.ByteStream, handshake: Handshake) -> OpenConnection:
    await stream.send(handshake.request)
    lines = Lines(HELLO_MAX_BYTES)
    got: list[bytes] = []
    while True:
        while not got:
            got = lines.feed(await stream.receive(65536))
        hello = handshake.receive(got.pop(0))
        if hello is not None:
            lines.limit_bytes = ANSWER_MAX_BYTES
            return OpenConnection(stream, msgspec.convert(hello, wire.HelloOk), lines, got)
