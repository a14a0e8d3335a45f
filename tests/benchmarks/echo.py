"""The least that a server of lines can be: for each line that comes, one of a fixed length goes back.

`python -m tests.benchmarks.echo SOCKET BYTES_BACK KIND`, KIND one of streams, streams-uvloop, streams-trio (anyio's own
sockets: what came is answered with one send), lines, lines-uvloop, lines-trio (line by line, each awaited), protocol,
protocol-uvloop (a bare asyncio.Protocol). What these cost is what claimdagd's cost is held against.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream


async def serve_streams(path: str, line: bytes) -> None:
    async def handle(stream: SocketStream) -> None:
        async with stream:
            try:
                rest = b""
                while True:
                    *lines, rest = (rest + await stream.receive(65536)).split(b"\n")
                    if lines:
                        await stream.send(b"".join([line for _ in lines]))
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass

    listener = await anyio.create_unix_listener(path)
    print("up", flush=True)
    await listener.serve(handle)


async def serve_lines(path: str, line: bytes) -> None:
    async def handle(stream: SocketStream) -> None:
        async with stream:
            lines = BufferedByteReceiveStream(stream)
            try:
                while True:
                    await lines.receive_until(b"\n", 65536)
                    await stream.send(line)
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                pass

    listener = await anyio.create_unix_listener(path)
    print("up", flush=True)
    await listener.serve(handle)


class Echo(asyncio.Protocol):
    """Finds the lines and answers them at once."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is a WriteTransport in all but its class.
        self.write = cast(asyncio.WriteTransport, transport).write

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        if lines:
            self.write(b"".join([self.line for _ in lines]))


async def serve_protocol(path: str, line: bytes) -> None:
    server = await asyncio.get_running_loop().create_unix_server(lambda: Echo(line), path)
    print("up", flush=True)
    await server.serve_forever()


def main() -> None:
    path, size, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    line = b"y" * (size - 1) + b"\n"
    serve = {"protocol": serve_protocol, "lines": serve_lines, "streams": serve_streams}[kind.partition("-")[0]]
    backend = "trio" if kind.endswith("trio") else "asyncio"
    options = {"use_uvloop": kind.endswith("uvloop")} if backend == "asyncio" else {}
    anyio.run(serve, path, line, backend=backend, backend_options=options)


if __name__ == "__main__":
    main()
