"""How an async client reaches the daemon: a connection with its hello answered. No claim, no retry, no start."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import anyio.abc
import msgspec

from claimdag_client._transport import connection
from claimdag_client._transport.connection import Unreachable
from claimdag_client.errors import refusal
from claimdag_client.events import Lines, decode_message
from claimdagd import wire
from claimdagd.limits import PROTOCOL

#: A daemon that is there gets this long to say hello.
HELLO_S = 10.0


@dataclass
class Dialled:
    """A connection on which both sides have said hello; `rest` are the lines that came after the answer."""

    stream: anyio.abc.ByteStream
    hello: wire.HelloOk
    lines: Lines
    rest: list[bytes]


async def dial(path: str, name: str) -> Dialled:
    """Connect and say hello. Unreachable when nobody answers, Mismatch when they speak another protocol."""
    stream: anyio.abc.ByteStream | None = None
    try:
        with anyio.fail_after(HELLO_S):
            stream = await anyio.connect_unix(path)
            connection.refuse_a_strangers_daemon(stream.extra(anyio.abc.SocketAttribute.raw_socket), path)
            dialled = await _say_hello(stream, path, name)
            stream = None
            return dialled
    except TimeoutError:
        raise Unreachable(
            f"the daemon at {path} is there but does not answer",
            remedy="it may be stopped or overloaded: see `ps` and its daemon.log",
        ) from None
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        raise Unreachable(f"the daemon at {path} hung up before it answered", remedy="ask again") from None
    except OSError as exc:
        raise Unreachable(f"no daemon listens at {path} ({exc.strerror})", remedy="start one: claimdagd") from None
    except (ValueError, msgspec.MsgspecError):
        raise connection.Mismatch(f"what listens at {path} does not speak claimdagd's protocol") from None
    finally:
        if stream is not None:
            await anyio.aclose_forcefully(stream)


async def _say_hello(stream: anyio.abc.ByteStream, path: str, name: str) -> Dialled:
    await stream.send(connection.encode({"op": "hello", "client": name, "protocol": PROTOCOL, "rid": 0}))
    lines = Lines()
    got: list[bytes] = []
    while not got:
        got = lines.feed(await stream.receive(65536))
    message = decode_message(got[0])
    if message.error is not None:
        error = refusal(message.error)
        theirs = error.details.get("protocol")
        if error.code == "shutting_down":
            raise Unreachable(f"the daemon at {path} is leaving", remedy="ask again")
        if isinstance(theirs, int):
            raise connection.mismatch_of(theirs, error.details.get("version"))
        raise error
    hello = msgspec.json.decode(message.ok, type=wire.HelloOk)
    if hello.protocol != PROTOCOL:
        raise connection.mismatch_of(hello.protocol, hello.version)
    return Dialled(stream, hello, lines, got[1:])
