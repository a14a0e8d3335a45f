"""A raw client for tests of the shell: sends bytes as told, reads lines, and a server around the stub to talk to."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import sniffio

from claimdagd.server.host.listener import bind
from claimdagd.server.server import Server
from tests.unit.server.stub import StubService

WAIT_S = 10.0


class Peer:
    """One raw connection; every wait is bounded."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.buffer = b""

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        with anyio.fail_after(WAIT_S):
            while view:
                try:
                    view = view[self.sock.send(view) :]
                except BlockingIOError:
                    await anyio.wait_writable(self.sock)

    async def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        await self.send(json.dumps({"op": op, **fields}).encode() + b"\n")
        return await self.answer()

    async def chunk(self) -> bytes:
        with anyio.fail_after(WAIT_S):
            while True:
                try:
                    return self.sock.recv(262144)
                except BlockingIOError:
                    await anyio.wait_readable(self.sock)

    async def line(self) -> bytes:
        while b"\n" not in self.buffer:
            data = await self.chunk()
            if not data:
                raise EOFError(self.buffer)
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    async def answer(self) -> dict[str, Any]:
        return json.loads(await self.line())

    async def rest(self) -> bytes:
        """Everything up to the end of the stream, however that comes."""
        rest = self.buffer
        self.buffer = b""
        try:
            while data := await self.chunk():
                rest += data
        except ConnectionResetError:
            pass
        return rest

    def half_close(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()


class Running:
    """A server in the test's own loop."""

    def __init__(self, server: Server, service: StubService, path: Path) -> None:
        self.server = server
        self.service = service
        self.path = path
        self.status: int | None = None
        self._peers: list[Peer] = []

    def connect(self) -> Peer:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(str(self.path))
        self._peers.append(Peer(sock))
        return self._peers[-1]

    def hang_up_all(self) -> None:
        for peer in self._peers:
            peer.close()

    async def until(self, condition: Any, what: str = "condition") -> None:
        with anyio.move_on_after(WAIT_S):
            while not condition():
                await anyio.sleep(0.005)
            return
        raise AssertionError(f"{what} did not come about within {WAIT_S} s")


@asynccontextmanager
async def serving(directory: Path, service: StubService | None = None, **options: Any) -> AsyncIterator[Running]:
    """Serve the stub in `directory` for as long as the block runs, then leave in order."""
    service = service or StubService()
    path = directory / "sock"
    server = Server(service, bind(str(path), os.geteuid()), service.clock, **options)
    running = Running(server, service, path)
    ended = anyio.Event()

    async def serve() -> None:
        running.status = await server.run(sniffio.current_async_library())
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        await anyio.lowlevel.checkpoint()
        with anyio.fail_after(WAIT_S):
            while not server.accepting:
                await anyio.sleep(0.001)
        try:
            yield running
        finally:
            running.hang_up_all()
            server.stop("the test is over")
            with anyio.move_on_after(WAIT_S, shield=True):
                await ended.wait()
