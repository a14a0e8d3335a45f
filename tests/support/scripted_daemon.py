"""A daemon for tests of the command line: it answers each op with what a test has put there, on a real socket."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

HELLO = {
    "version": "9.8.7",
    "protocol": 1,
    "graph": "7q2f",
    "pid": 42,
    "limits": {"max_nodes": 4096, "lease": 900.0, "grace": 5.0, "line_bytes": 4194304},
}


def view(number: int, **fields: Any) -> dict[str, Any]:
    """A node as the daemon shows it."""
    return {
        "id": f"7q2f-{number}", "kind": "task", "role": "unset", "status": "ready", "summary": f"thing {number}",
        "parent": None, "deps": [], "needs": {}, "cost": 1.0, "priority": 0, "assignee": None, "gen": 1, "attempts": 0,
        "max_attempts": None, "outcome": None, "cause": None, "error": None, "archived": False, "created_at": 1.0,
        "updated_at": 1.0, "started_at": None, "finished_at": None, "lease": None, "bound": False, "grants": [],
        "depth": 1.0, "quiet": None, "expires_in": None, "waiting_on": {"deps": [], "resources": []}, **fields,
    }  # fmt: skip


class ScriptedDaemon:
    """Answers each op with what `answers` has for it: an `ok`, an {"error": ...}, raw bytes, or a function of those.

    An answer of None hangs up. Every request but hello is kept in `requests`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, Any] = {"hello": HELLO}
        self.requests: list[dict[str, Any]] = []
        self._peers: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._peers.append(peer)
            self._threads.append(threading.Thread(target=self._serve, args=(peer,), daemon=True))
            self._threads[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, peer.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                op = request.pop("op")
                if op != "hello":
                    self.requests.append({"op": op, **request})
                answer = self.answers[op]
                if callable(answer):
                    answer = answer(request)
                if answer is None:
                    return
                if not isinstance(answer, bytes):
                    body = answer if set(answer) == {"error"} else {"ok": answer}
                    answer = json.dumps(body).encode() + b"\n"
                try:
                    peer.sendall(answer)
                except OSError:
                    return

    def refuse(self, op: str, code: str, message: str, **details: Any) -> None:
        """Let an op be refused."""
        self.answers[op] = {"error": {"code": code, "message": message, **details}}

    def hang_up_all(self) -> None:
        """Leave, as far as clients can see."""
        for peer in self._peers:
            try:
                peer.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)
