"""A daemon for client tests that can be made to misbehave: it cuts connections around an answer, restarts, goes quiet.

It knows enough of the protocol for one-shot work (no deps, groups or resources) and counts what it did. Must not be
taken for the rules: those are the real daemon's, which the system tests run.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any


class Refusal(Exception):
    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **details}


class Session:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.watching = False

    def say(self, value: dict[str, Any]) -> None:
        try:
            self.sock.sendall(json.dumps(value).encode() + b"\n")
        except OSError:
            pass

    def hang_up(self) -> None:
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class FakeDaemon:
    """`cut_before` and `cut_after` name ops at which the next such request costs the connection, unread or unanswered.

    `mute` ops are done but never answered. `did` lists every request that was acted on, in order.
    """

    def __init__(self, path: Path, *, tag: str = "t3st", lease: float = 60.0) -> None:
        self.path = str(path)
        self.tag = tag
        self.lease = lease
        self.lock = threading.RLock()
        self.nodes: dict[str, dict[str, Any]] = {}
        self.bound: dict[str, Session] = {}
        self.once: dict[str, dict[str, Any]] = {}
        self.ledger: list[dict[str, Any]] = []
        self.kept_from = 1
        self.parked: list[tuple[Session, dict[str, Any], float]] = []
        self.sessions: list[Session] = []
        self.cut_before: list[str] = []
        self.cut_after: list[str] = []
        self.mute: set[str] = set()
        self.refuse: dict[str, list[dict[str, Any]]] = {}
        self.did: list[dict[str, Any]] = []
        self.connections = 0
        self.leaving = False
        self._listener: socket.socket | None = None
        self.up()

    # ------------------------------------------------------------------------------------------------- the process

    def up(self) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(64)
        self._listener = listener
        self.leaving = False
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def down(self) -> None:
        if self._listener is not None:
            os.unlink(self.path)
            # A blocked accept only ends by shutdown, not by close.
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self.cut()

    def restart(self) -> None:
        self.down()
        self.up()

    def cut(self) -> None:
        with self.lock:
            for session in self.sessions:
                session.hang_up()

    def drain(self) -> None:
        """As at SIGTERM: what is parked is answered, what comes is refused."""
        with self.lock:
            self.leaving = True
            parked, self.parked = self.parked, []
            for session, request, _ in parked:
                session.say({"rid": request.get("rid"), "error": {"code": "shutting_down", "message": "x: leaving"}})

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            session = Session(sock)
            with self.lock:
                self.connections += 1
                self.sessions.append(session)
            threading.Thread(target=self._serve, args=(session,), daemon=True).start()

    def _serve(self, session: Session) -> None:
        rest = b""
        try:
            while data := session.sock.recv(65536):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if not self._one(session, json.loads(line)):
                        return
        except OSError:
            pass
        finally:
            with self.lock:
                self.sessions.remove(session)
                self.parked = [entry for entry in self.parked if entry[0] is not session]
            session.sock.close()

    def _one(self, session: Session, request: dict[str, Any]) -> bool:
        op = request["op"]
        with self.lock:
            if op in self.cut_before:
                self.cut_before.remove(op)
                session.hang_up()
                return False
            answer = self._answer(session, request)
            if op in self.cut_after:
                self.cut_after.remove(op)
                session.hang_up()
                return False
            if answer is not None and op not in self.mute:
                session.say({"rid": request.get("rid"), **answer})
        return True

    def _answer(self, session: Session, request: dict[str, Any]) -> dict[str, Any] | None:
        op = request["op"]
        try:
            if self.refuse.get(op):
                return {"error": self.refuse[op].pop(0)}
            if self.leaving and op not in ("hello", "ping"):
                raise Refusal("shutting_down", f"{op}: the daemon is leaving")
            once = request.get("once")
            if once in self.once:
                return {"ok": self.once[once]}
            self.did.append(request)
            ok = getattr(self, f"do_{op}")(session, request)
            if ok is None:
                return None
            if once:
                self.once[once] = ok
            return {"ok": ok}
        except Refusal as exc:
            return {"error": exc.error}

    # ----------------------------------------------------------------------------------------------------- the ops

    def add(self, summary: str = "", **fields: Any) -> str:
        with self.lock:
            number = len(self.nodes) + 1
            now = time.time()
            node = {
                "id": f"{self.tag}-{number}", "kind": "task", "role": "unset", "status": "ready", "summary": summary,
                "parent": None, "deps": [], "needs": {}, "cost": 1.0, "priority": 0, "assignee": None, "gen": 1,
                "attempts": 0, "max_attempts": None, "outcome": None, "cause": None, "error": None, "archived": False,
                "created_at": now, "updated_at": now, "started_at": None, "finished_at": None,
            } | fields  # fmt: skip
            self.nodes[node["id"]] = node
            self._wrote("upsert", node)
            self._wake()
            return str(node["id"])

    def lose(self, id: str, why: str = "reclaimed") -> None:
        """Take a held node back, and tell its holder."""
        with self.lock:
            node = self.nodes[id]
            gen = node["gen"]
            node.update(status="ready", assignee=None, gen=gen + 1)
            self._wrote("reclaim", node)
            session = self.bound.pop(id, None)
            if session is not None:
                session.say({"event": {"op": "lost", "id": id, "gen": gen, "why": why}})
            self._wake()

    def count(self, op: str, **fields: Any) -> int:
        return sum(r["op"] == op and all(r.get(k) == v for k, v in fields.items()) for r in self.did)

    def _wrote(self, op: str, node: dict[str, Any]) -> None:
        entry = {"seq": len(self.ledger) + 1, "at": time.time(), "op": op, "actor": node["assignee"], "nodes": [node]}
        entry = json.loads(json.dumps(entry))
        self.ledger.append(entry)
        for session in self.sessions:
            if session.watching:
                session.say({"event": entry})

    def _wake(self) -> None:
        parked, self.parked = self.parked, []
        for session, request, until in parked:
            answer = self._answer(session, {**request, "wait": max(0.0, until - time.monotonic())})
            if answer is not None:
                session.say({"rid": request.get("rid"), **answer})

    def _look(self) -> None:
        with self.lock:
            self._wake()

    def _held(self, request: dict[str, Any]) -> dict[str, Any]:
        node = self.nodes.get(request["id"])
        if node is None:
            raise Refusal("not_found", f"{request['op']}: no such node", id=request["id"])
        if request.get("gen") not in (None, node["gen"]):
            raise Refusal("gen_mismatch", f"{request['op']}: gen mismatch", gen=node["gen"])
        return node

    def do_hello(self, session: Session, request: dict[str, Any]) -> dict[str, Any]:
        limits = {
            "max_nodes": 4096, "line_bytes": 4194304, "lease": self.lease, "grace": 5, "summary_bytes": 4096,
            "error_bytes": 1024, "once_tokens": 4096,
        }  # fmt: skip
        return {"version": "0", "protocol": 1, "graph": self.tag, "pid": os.getpid(), "limits": limits, "later": 1}

    def do_ping(self, session: Session, request: dict[str, Any]) -> dict[str, Any]:
        return {"now": time.time()}

    def do_shutdown(self, session: Session, request: dict[str, Any]) -> dict[str, Any]:
        return {}

    def do_upsert(self, session: Session, request: dict[str, Any]) -> dict[str, Any]:
        fields = {k: v for k, v in request.items() if k not in ("op", "rid", "once", "actor", "id")}
        id = request.get("id") or self.add(**fields)
        return dict(self.nodes[id])

    def do_get(self, session: Session, request: dict[str, Any]) -> dict[str, Any]:
        return dict(self._held(request))

    def do_list(self, session: Session, request: dict[str, Any]) -> dict[str, Any]:
        return {"nodes": [*self.nodes.values()]}

    def do_claim(self, session: Session, request: dict[str, Any]) -> dict[str, Any]:
        node = self._held(request)
        for other in self.nodes.values():
            if other["assignee"] == request["actor"]:
                raise Refusal("assignee_busy", "claim: busy", id=other["id"], gen=other["gen"])
        if node["status"] != "ready":
            raise Refusal("not_claimable", "claim: not claimable")
        node.update(
            status="claimed", assignee=request["actor"], gen=node["gen"] + 1, attempts=node["attempts"] + 1,
            lease=request.get("lease", self.lease), bound=bool(request.get("bound")),
        )  # fmt: skip
        if request.get("bound"):
            self.bound[node["id"]] = session
        self._wrote("claim", node)
        return {"id": node["id"], "gen": node["gen"], "expires_in": node["lease"], "node": dict(node)}

    def do_claim_next(self, session: Session, request: dict[str, Any]) -> dict[str, Any] | None:
        for node in self.nodes.values():
            if node["status"] == "ready":
                return self.do_claim(session, {**request, "id": node["id"]})
        if request.get("wait"):
            until = time.monotonic() + request["wait"]
            self.parked.append((session, request, until))
            if request["wait"] < 60:
                timer = threading.Timer(request["wait"], self._look)
                timer.daemon = True
                timer.start()
            return None
        if any(node["status"] not in ("done", "failed", "cancelled") for node in self.nodes.values()):
            live = any(node["assignee"] for node in self.nodes.values())
            raise Refusal("nothing_runnable", "claim_next: nothing runnable", deps=1, leases=int(live), stuck=not live)
        raise Refusal("nothing_pending", "claim_next: nothing pending")

    def do_renew(self, session: Session, request: dict[str, Any]) -> dict[str, Any]:
        node = self._held(request)
        if node["assignee"] is None:
            raise Refusal("not_claimable", "renew: nobody holds it")
        node["lease"] = request.get("lease", node["lease"])
        if request.get("bound"):
            self.bound[node["id"]] = session
        return {"id": node["id"], "gen": node["gen"], "expires_in": node["lease"]}

    def do_running(self, session: Session, request: dict[str, Any]) -> dict[str, Any]:
        ok = self.do_renew(session, request)
        self.nodes[request["id"]]["status"] = "running"
        return ok

    def do_release(self, session: Session, request: dict[str, Any]) -> dict[str, Any]:
        node = self._held(request)
        node.update(status="ready", assignee=None, gen=node["gen"] + 1)
        self.bound.pop(node["id"], None)
        self._wrote("release", node)
        self._wake()
        return {"id": node["id"], "gen": node["gen"]}

    def do_complete(self, session: Session, request: dict[str, Any]) -> dict[str, Any]:
        node = self._held(request)
        status = request.get("status", "done")
        if node["status"] in ("done", "failed", "cancelled") and node["status"] != status:
            raise Refusal("terminal", "complete: it is finished")
        node.update(status=status, outcome=status, assignee=None, error=request.get("error"))
        self.bound.pop(node["id"], None)
        self._wrote("complete", node)
        self._wake()
        following, code = None, None
        if "next" in request:
            try:
                following = self.do_claim_next(session, {"actor": request["actor"], **request["next"]})
            except Refusal as refusal:
                code = refusal.error["code"]
        return {"node": dict(node), "ready": [], "next": following, "code": code}

    def do_watch(self, session: Session, request: dict[str, Any]) -> dict[str, Any] | None:
        first = request.get("from", len(self.ledger) + 1)
        if first < self.kept_from:
            raise Refusal("lagged", "watch: older than the ledger keeps")
        session.say({"rid": request.get("rid"), "ok": {"seq": first - 1}})
        for entry in self.ledger[first - 1 :]:
            session.say({"event": entry})
        session.watching = True
        return None
