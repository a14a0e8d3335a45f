"""Examples of the protocol, replayed against the real service: what they send, and what they say that comes back.

In a block `wire`, `> ` and `< ` stand before a request and an answer or event; a name before that (`B> `) is another
connection. `(90 seconds later)` moves the clock, `(B hangs up)` ends a connection. In what comes back, `...` as a value
stands for any value, as a member for any further members, and inside a string for any text. It must not know the ops.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from claimdagd.app import open_service
from claimdagd.service import Config
from claimdagd.store.files import OsFiles
from tests.support.clock import ManualClock

TAG = "7q2f"
WALL = 1_796_083_200.0
PID = 4711
ANY = "..."
_LINE = re.compile(r"([A-Z]?)([<>]) (.*)")
_LATER = re.compile(r"\(([0-9.]+) seconds? later\)")
_HANGS_UP = re.compile(r"\(([A-Z]?) ?hangs up\)")


class World:
    """A fresh service with a store in `directory`, and connections by name."""

    def __init__(self, directory: Path, max_nodes: int = 4096) -> None:
        self.clock = ManualClock(1000.0, WALL)
        directory.mkdir(parents=True)
        opened = open_service(
            OsFiles(), str(directory), self.clock, Config(pid=PID, check=True), new_tag=lambda: TAG, max_nodes=max_nodes
        )
        self.service, self.store = opened.service, opened.store
        self.service.on_snapshot = self._want_snapshot
        self._snapshot_wanted = False
        self._sessions: dict[str, Any] = {}
        self._heard: dict[str, list[bytes]] = {}

    def close(self) -> None:
        self.store.close()

    def _want_snapshot(self) -> None:
        self._snapshot_wanted = True

    def say(self, name: str, line: str) -> None:
        """Send one line on connection `name`, which is opened when it is first named."""
        if name not in self._sessions:
            heard = self._heard.setdefault(name, [])
            self._sessions[name] = self.service.open(heard.append, lambda: None)
        self.service.receive(self._sessions[name], [line.encode()])
        self._settle()

    def _settle(self) -> None:
        if self._snapshot_wanted:
            self._snapshot_wanted = False
            for _ in self.service.snapshot():
                pass
        self.service.tick()

    def later(self, seconds: float) -> None:
        """Let time pass, with everything done when it is due."""
        until = self.clock.t + seconds
        while True:
            due = self.service.tick()
            if due is None or due >= until:
                break
            self.clock.t = max(self.clock.t, due)
        self.clock.t = until
        self.service.tick()

    def hang_up(self, name: str) -> None:
        """End connection `name`."""
        self.service.closed(self._sessions.pop(name))
        self._settle()

    def heard(self, name: str) -> Any:
        """The next line that `name` got, as JSON; None where there is none."""
        lines = [line for chunk in self._heard.get(name, []) for line in chunk.splitlines(keepends=True)]
        if not lines:
            return None
        self._heard[name][:] = lines[1:]
        assert lines[0].endswith(b"\n")
        return json.loads(lines[0])

    def unheard(self) -> dict[str, list[bytes]]:
        """What came that no example spoke of."""
        return {name: lines for name, lines in self._heard.items() if lines}


def replay(world: World, lines: list[str]) -> Iterator[tuple[str, Any, Any]]:
    """Play an example; yields each line of what should come back, with what it says and what came."""
    for line in lines:
        if later := _LATER.fullmatch(line):
            world.later(float(later[1]))
        elif gone := _HANGS_UP.fullmatch(line):
            world.hang_up(gone[1])
        elif spoken := _LINE.fullmatch(line):
            name, way, text = spoken.groups()
            if way == ">":
                world.say(name, text)
            else:
                yield line, loosely(text), world.heard(name)
        elif line:
            raise ValueError(f"what is {line!r}?")


def loosely(text: str) -> Any:
    """JSON in which `...` may stand for a value or for further members."""
    out: list[str] = []
    stack: list[str] = []
    last = ""
    i = 0
    while i < len(text):
        char = text[i]
        if char == '"':
            end = i + 1
            while text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            out.append(text[i : end + 1])
            i, last = end + 1, '"'
            continue
        if text.startswith(ANY, i):
            out.append('"...": 0' if stack[-1:] == ["{"] and last in "{," else '"..."')
            i, last = i + 3, '"'
            continue
        if char in "{[":
            stack.append(char)
        elif char in "}]":
            stack.pop()
        if not char.isspace():
            last = char
        out.append(char)
        i += 1
    return json.loads("".join(out))


def agrees(said: Any, came: Any) -> bool:
    """Whether what came is what the example says."""
    if said == ANY:
        return True
    if isinstance(said, dict):
        if not isinstance(came, dict):
            return False
        names = said.keys() - {ANY}
        if not (names <= came.keys() if ANY in said else names == came.keys()):
            return False
        return all(agrees(said[name], came[name]) for name in names)
    if isinstance(said, list):
        if not isinstance(came, list):
            return False
        if said[-1:] == [ANY]:
            return len(came) >= len(said) - 1 and all(map(agrees, said[:-1], came))
        return len(said) == len(came) and all(map(agrees, said, came))
    if isinstance(said, str) and ANY in said:
        pattern = ".*".join(map(re.escape, said.split(ANY)))
        return isinstance(came, str) and re.fullmatch(pattern, came, re.DOTALL) is not None
    return type(said) is type(came) and bool(said == came)
