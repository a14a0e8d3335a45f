"""A Unix socket as a byte stream, safe to cancel at any moment on both event loops.

anyio's own stream on asyncio registers `Future.set_result` as the reader. If a receive is cancelled in the same turn of
the loop in which its bytes arrive, that callback finds the future cancelled, and the loop prints InvalidStateError. The
waits used here check the future first.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

#: How long to wait before connecting again to a daemon whose queue of connections is full.
QUEUE_FULL_S = 0.05


class UnixStream(anyio.abc.ByteStream):
    """A connected Unix socket. One task may receive while another sends."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._closed = False

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return the next bytes. Raises EndOfStream once the peer has closed its end."""
        await anyio.lowlevel.checkpoint()
        while True:
            try:
                data = self._socket.recv(max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
            except OSError as exc:
                raise self._broken() from exc
            else:
                if not data:
                    raise anyio.EndOfStream
                return data

    async def send(self, item: bytes) -> None:
        """Send all of `item`."""
        await anyio.lowlevel.checkpoint()
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
            except OSError as exc:
                raise self._broken() from exc

    async def send_eof(self) -> None:
        """Close the sending end; the peer's answers still come."""
        self._socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close the socket. A task that waits on it gets ClosedResourceError."""
        if not self._closed:
            self._closed = True
            anyio.notify_closing(self._socket)
            self._socket.close()
        await anyio.lowlevel.checkpoint()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {anyio.abc.SocketAttribute.raw_socket: lambda: self._socket}

    def _broken(self) -> Exception:
        return anyio.ClosedResourceError() if self._closed else anyio.BrokenResourceError()


async def connect_unix(path: str) -> UnixStream:
    """Connect to the socket at `path`. Raises OSError if nothing listens there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        while True:
            try:
                sock.connect(path)
                break
            except BlockingIOError:
                # The daemon's queue of connections is full, and no event tells when it no longer is.
                await anyio.sleep(QUEUE_FULL_S)
        await anyio.lowlevel.checkpoint()
    except BaseException:
        sock.close()
        raise
    return UnixStream(sock)
