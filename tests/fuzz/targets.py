"""What is fuzzed, and what must hold of it whatever comes: the protocol through the service, and the files of a state.

A target takes bytes and raises Broken where a promise is broken. Used by Hypothesis in the suite, by atheris where it
is installed, and by the soak. It must not know where the bytes come from.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from claimdagd.app import open_service
from claimdagd.core import invariants
from claimdagd.core.graph import Graph
from claimdagd.limits import LINE_MAX_BYTES
from claimdagd.server.loop.framer import Framer, LineTooLongError
from claimdagd.service import Config
from claimdagd.store.errors import StateError, UnknownFormat
from claimdagd.store.recovery import Recovered, recover
from claimdagd.wire import Code
from tests.simulation.fault_disk import Disk
from tests.support.clock import ManualClock

DIR, TAG = "/state", "fuzz"
#: One request, however hostile, must not hold up the others for longer; generous, for a busy machine.
SLOW_S = 5.0
CODES = frozenset(Code) - {Code.INTERNAL}


class Broken(AssertionError):
    """Something that must never happen."""


class Complaints(logging.Handler):
    """The daemon's log of its own errors: there must be none."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


class Protocol:
    """A daemon with a few nodes in it, and two connections."""

    def __init__(self, max_nodes: int = 64) -> None:
        self.disk = Disk(DIR)
        self.clock = ManualClock()
        self.service, self.graph, self.store, _ = open_service(
            self.disk, DIR, self.clock, Config(), new_tag=lambda: TAG, max_nodes=max_nodes
        )
        self.out: list[bytes] = []
        self.session = self.service.open(self.out.append, _nothing)
        self.other = self.service.open(_ignore, _nothing)
        self.lines = self.owed = 0
        self.service.receive(
            self.other,
            [
                b'{"op":"submit","nodes":[{"ref":"g","kind":"goal"},{"ref":"a","parent":"g"},{"ref":"b","parent":"g",'
                b'"deps":[{"on":"a"}],"needs":{"gpu":1}},{"ref":"c","needs":{"gpu":1}}]}',
                b'{"op":"claim","id":"fuzz-2","actor":"somebody"}',
                b'{"op":"upsert"}',
                b'{"op":"complete","id":"fuzz-5","status":"failed","error":"no"}',
            ],
        )

    def say(self, lines: Sequence[bytes]) -> list[dict[str, Any]]:
        """Send whole lines; the answers, each of them looked at."""
        complaints = Complaints()
        log = logging.getLogger("claimdagd")
        log.addHandler(complaints)
        self.out.clear()
        began = time.process_time()  # of this process alone: a busy machine is no fault of the daemon
        try:
            self.service.receive(self.session, lines)
        except Exception as exc:
            raise Broken(f"{type(exc).__name__}: {exc} came out of {_shown(lines)}") from exc
        finally:
            log.removeHandler(complaints)
        took = time.process_time() - began
        if took > SLOW_S:
            raise Broken(f"{took:.1f} s for {_shown(lines)}")
        if complaints.said:
            raise Broken(f"{_shown(lines)} made the daemon say {complaints.said[0]}")
        self.lines += len(lines)
        answers = [answer for data in self.out for answer in _answers(data, lines)]
        # What was parked before may be answered now.
        self.owed += len(lines) - sum("event" not in answer for answer in answers)
        if self.owed < 0:
            raise Broken(f"more answers than requests: {_shown(lines)}")
        return answers

    def bytes(self, data: bytes) -> list[dict[str, Any]]:
        """Send bytes as a peer does, through the framer."""
        framer = Framer(LINE_MAX_BYTES)
        try:
            lines = framer.feed(data)
        except LineTooLongError as exc:
            lines = exc.whole
        else:
            lines.append(framer.rest())
        return self.say([line for line in lines if line])

    def check(self) -> None:
        """The graph is whole, and the state on disk is the one in memory."""
        invariants.check(self.graph)
        found = recover(self.disk.copy(), DIR, new_tag=lambda: "none")
        if found.nodes != {i: v.record for i, v in self.graph.vertices.items()}:
            raise Broken("the state on disk is not the one in memory")


def _answers(data: bytes, lines: Sequence[bytes]) -> list[dict[str, Any]]:
    answers = []
    if not data.endswith(b"\n"):
        raise Broken(f"an answer without an end to {_shown(lines)}: {data[-200:]!r}")
    for line in data[:-1].split(b"\n"):
        try:
            answer = json.loads(line.decode("utf-8"), parse_constant=_no_such_number)
        except ValueError as exc:
            raise Broken(f"not JSON, as an answer to {_shown(lines)}: {line[:200]!r} ({exc})") from exc
        if not isinstance(answer, dict) or ("ok" in answer) + ("error" in answer) + ("event" in answer) != 1:
            raise Broken(f"no answer to {_shown(lines)}: {line[:200]!r}")
        error = answer.get("error")
        if error is not None:
            if error.get("code") not in CODES:
                raise Broken(f"{_shown(lines)} was answered {error}")
            message = error.get("message")
            if not message or "Traceback" in message:
                raise Broken(f"{_shown(lines)} was answered {error}")
        answers.append(answer)
    return answers


def _no_such_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _shown(lines: Sequence[bytes]) -> str:
    return ", ".join(repr(line[:300]) for line in lines[:3])


def _nothing() -> None: ...


def _ignore(_data: bytes) -> None: ...


# -------------------------------------------------------------------------------------------------------- state files


def state_files(files: dict[str, bytes]) -> Recovered | None:
    """Take a directory of these files as a state: whole, refused, or salvaged, and nothing else. None: refused."""
    disk = Disk(DIR)
    for name, data in files.items():
        disk.put(f"{DIR}/{name}", data)
    before = disk.contents()
    try:
        found = recover(disk, DIR, new_tag=lambda: TAG)
        _load(found)
    except (StateError, ValueError):
        found = None
    except Exception as exc:
        raise Broken(f"{type(exc).__name__}: {exc} came out of recover") from exc
    if disk.contents() != before:
        raise Broken("recover wrote something")
    _salvage(disk, before)
    return found


def _salvage(disk: Disk, before: dict[str, bytes]) -> None:
    try:
        saved = recover(disk, DIR, salvage=True, new_tag=lambda: TAG, at=1.0)
    except UnknownFormat:
        if disk.contents() != before:
            raise Broken("a salvage that was refused wrote something") from None
        return
    except Exception as exc:
        raise Broken(f"{type(exc).__name__}: {exc} came out of salvage") from exc
    kept = {path.rpartition("/")[2]: data for path, data in disk.contents().items() if path not in before}
    if kept and any(kept.get(path.rpartition("/")[2]) != data for path, data in before.items()):
        raise Broken("what was salvaged from was not kept whole")
    if not saved.salvaged:
        return
    try:
        _load(saved)
    except Exception as exc:
        raise Broken(f"{type(exc).__name__}: {exc}: what was salvaged is no state") from exc


def _load(found: Recovered) -> None:
    graph = Graph(found.tag)
    graph.load(found.nodes, found.capacities, found.next_number, 0.0, found.paused)


def a_state() -> dict[str, bytes]:
    """The files of a small state: a snapshot, and a journal with a cascade, a claim and a token after it."""
    target = Protocol()
    for _ in target.service.snapshot():
        pass
    target.say(
        [
            b'{"op":"upsert","summary":"one","once":"t"}',
            b'{"op":"capacity","resource":"gpu","units":2}',
            b'{"op":"claim_next","actor":"a","bound":true}',
            b'{"op":"complete","id":"fuzz-2","status":"failed"}',
            b'{"op":"archive","id":"fuzz-5"}',
        ]
    )
    return {path.rpartition("/")[2]: data for path, data in target.disk.contents().items()}


Target = Callable[[bytes], object]
