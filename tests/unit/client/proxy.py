"""A proxy between a client and a daemon that hands on whole messages, late if told to, and cuts at a boundary.

It never changes, repeats or reorders one. A message at which it cuts is not handed on, and both ends are hung up.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path


class Proxy:
    """Listens at `path` for a daemon at `upstream`. `cut(n, line)` says whether message `n`, from 1, is a cut.

    `delay_s` is the longest that a message is held back. `passed` counts messages in both directions.
    """

    def __init__(self, path: Path, upstream: Path, cut: Callable[[int], bool], *, delay_s: float = 0.0) -> None:
        self.path = path
        self.passed = 0
        self.cuts = 0
        self._upstream = str(upstream)
        self._cut = cut
        self._delay_s = delay_s
        self._random = random.Random(5)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._start(self._accept)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            daemon = socket.socket(socket.AF_UNIX)
            daemon.connect(self._upstream)
            with self._lock:
                self._open |= {client, daemon}
            self._start(self._hand_on, client, daemon)
            self._start(self._hand_on, daemon, client)

    def _hand_on(self, source: socket.socket, target: socket.socket) -> None:
        rest = b""
        try:
            while data := source.recv(65536):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if not self._one(line, target):
                        return
        except OSError:
            pass
        finally:
            for end in (source, target):
                self._hang_up(end)

    def _one(self, line: bytes, target: socket.socket) -> bool:
        if self._delay_s:
            time.sleep(self._random.random() * self._delay_s)
        with self._lock:
            self.passed += 1
            if self._cut(self.passed):
                self.cuts += 1
                return False
        target.sendall(line + b"\n")
        return True

    @staticmethod
    def _hang_up(end: socket.socket) -> None:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            opened = [*self._open]
        for end in opened:
            self._hang_up(end)
        for thread in self._threads:
            thread.join(5)
        for end in opened:
            end.close()
        self.path.unlink()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
