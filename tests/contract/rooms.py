"""The rooms of both packages and what each may import: the one table that the layer test and the documents share.

`python -m tests.contract.rooms` writes the table into docs/explanation/rooms.md.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/explanation/rooms.md"
PACKAGES = ("claimdagd", "claimdag_client")


class Room(NamedTuple):
    """What a room is for, and the rooms that it may import besides itself and the standard library."""

    purpose: str
    may_import: tuple[str, ...] = ()


_CORE = tuple(
    f"claimdagd.core.{name}"
    for name in (
        "state",
        "refusal",
        "mutation",
        "indexes",
        "indexing",
        "graph",
        "lookup",
        "cycles",
        "invariants",
        "queries",
        "operations",
        "apply",
    )
)
_TYPES = ("claimdagd.limits", "claimdagd.model", "claimdagd.wire")
_PLACES = ("claimdagd.descriptors", "claimdagd.limits", "claimdagd.paths")

#: A module belongs to the room with the longest name that begins its own. The order is bottom up.
ROOMS: dict[str, Room] = {
    "claimdagd": Room("the version, and nothing else"),
    "claimdagd.limits": Room("constants that both packages share"),
    "claimdagd.descriptors": Room("standard streams held open; standard library only"),
    "claimdagd.paths": Room("the choice of directory and socket", ("claimdagd.descriptors", "claimdagd.limits")),
    "claimdagd.model": Room("the node, its enums and its bounds", ("claimdagd.limits",)),
    "claimdagd.wire": Room("requests, replies and error codes as types", ("claimdagd.limits", "claimdagd.model")),
    "claimdagd.faults": Room("what is wrong with a value beside its type of the wire", ()),
    "claimdagd.waitgraph": Room("the rule of the wait graph, once", ("claimdagd.model",)),
    "claimdagd.core": Room("the package of the graph and its rules"),
    "claimdagd.core.state": Room("a vertex and its queue entries, plain data", ("claimdagd.limits", "claimdagd.model")),
    "claimdagd.core.refusal": Room("the one exception of a refused operation", ("claimdagd.wire",)),
    "claimdagd.core.mutation": Room("what one operation changed", ("claimdagd.core.state", "claimdagd.model")),
    "claimdagd.core.indexes": Room(
        "derived state: links, ranks, ready queue, resources, leases; none knows the graph or another index",
        ("claimdagd.core.state", "claimdagd.waitgraph", "claimdagd.limits", "claimdagd.model"),
    ),
    "claimdagd.core.indexing": Room(
        "connects the indexes, and keeps them true to each change of a record",
        ("claimdagd.core.indexes", "claimdagd.core.state", "claimdagd.limits", "claimdagd.model"),
    ),
    "claimdagd.core.graph": Room(
        "the choke point of every change, and the undo log",
        ("claimdagd.core.indexes", "claimdagd.core.indexing", "claimdagd.core.mutation", "claimdagd.core.state",
         "claimdagd.limits", "claimdagd.model"),
    ),
    "claimdagd.core.lookup": Room(
        "finding the node that a request names",
        ("claimdagd.core.graph", "claimdagd.core.refusal", "claimdagd.core.state", *_TYPES),
    ),
    "claimdagd.core.cycles": Room(
        "whether new edges or new nodes close a cycle", ("claimdagd.core.state", "claimdagd.waitgraph")
    ),
    "claimdagd.core.invariants": Room(
        "the check that rebuilds every index",
        ("claimdagd.core.graph", "claimdagd.core.indexes", "claimdagd.core.indexing", "claimdagd.core.state",
         "claimdagd.waitgraph", "claimdagd.model"),
    ),
    "claimdagd.core.queries": Room(
        "reading the graph: views, reasons, deadlocks",
        ("claimdagd.core.graph", "claimdagd.core.indexes", "claimdagd.core.lookup", "claimdagd.core.refusal",
         "claimdagd.core.state", "claimdagd.waitgraph", *_TYPES),
    ),
    "claimdagd.core.operations": Room(
        "one module for each family of operations: decide, may refuse, then change",
        ("claimdagd.core.cycles", "claimdagd.core.graph", "claimdagd.core.indexes", "claimdagd.core.lookup",
         "claimdagd.core.mutation", "claimdagd.core.queries", "claimdagd.core.refusal", "claimdagd.core.state",
         "claimdagd.waitgraph", *_TYPES),
    ),
    "claimdagd.core.apply": Room(
        "one request to one operation",
        ("claimdagd.core.graph", "claimdagd.core.mutation", "claimdagd.core.operations", "claimdagd.core.refusal",
         "claimdagd.core.state", *_TYPES),
    ),
    "claimdagd.store": Room(
        "journal and snapshot; the only user of files",
        ("claimdagd.descriptors", "claimdagd.limits", "claimdagd.model", "claimdagd.waitgraph"),
    ),
    "claimdagd.service": Room(
        "requests in, answers out: batches, leases, waiting, watchers; told the time",
        ("claimdagd", "claimdagd.store", "claimdagd.faults", *_CORE, *_TYPES),
    ),
    "claimdagd.app": Room(
        "puts graph, store and service together",
        ("claimdagd", "claimdagd.core.graph", "claimdagd.service", "claimdagd.store", "claimdagd.paths", *_TYPES),
    ),
    "claimdagd.server": Room(
        "the daemon with its sockets",
        ("claimdagd.server.loop", "claimdagd.server.host", "claimdagd.service", *_TYPES, "claimdagd.paths"),
    ),
    "claimdagd.server.loop": Room("poller, connections, framing", ("claimdagd.service", *_TYPES)),
    "claimdagd.server.host": Room(
        "directory, lock, listener, signals, systemd, logs, processes", ("claimdagd.model", *_PLACES)
    ),
    "claimdagd.arguments": Room(
        "the daemon's arguments and its help", ("claimdagd", "claimdagd.limits", "claimdagd.server.host")
    ),
    "claimdagd.main": Room(
        "from arguments to an exit status",
        ("claimdagd", "claimdagd.app", "claimdagd.arguments", "claimdagd.server", "claimdagd.server.host",
         "claimdagd.service", "claimdagd.store", "claimdagd.descriptors", "claimdagd.paths", *_TYPES),
    ),
    "claimdagd.__main__": Room("python -m claimdagd", ("claimdagd.main",)),
    "claimdag_client.errors": Room("the exceptions of both clients", ("claimdagd.limits", "claimdagd.wire")),
    "claimdag_client.events": Room("what a watcher hears", ("claimdagd.limits", "claimdagd.model", "claimdagd.wire")),
    "claimdag_client._protocol": Room(
        "requests, handshake, subscription, claims; no I/O and no clock",
            ("claimdag_client.errors", "claimdag_client.events", *_TYPES),
    ),
    "claimdag_client._transport": Room(
        "blocking connection and start of a daemon; standard library only",
        ("claimdag_client._protocol", "claimdag_client.errors", *_PLACES),
    ),
    "claimdag_client._async": Room(
        "the anyio client: a thin pump over the protocol",
        ("claimdag_client._protocol", "claimdag_client._transport", "claimdag_client.errors", "claimdag_client.events",
         *_TYPES, "claimdagd.paths"),
    ),
    "claimdag_client._sync": Room(
        "the blocking client: a thin pump over the protocol",
        ("claimdag_client._protocol", "claimdag_client._transport", "claimdag_client.errors", "claimdag_client.events",
         *_TYPES, "claimdagd.paths"),
    ),
    "claimdag_client.sync": Room(
        "the public door of the blocking client", ("claimdag_client._sync", "claimdag_client.executors")
    ),
    "claimdag_client.executors": Room(
        "run_on: a graph worked off through a concurrent.futures executor",
        ("claimdag_client", "claimdag_client._protocol", "claimdag_client.errors", *_TYPES),
    ),
    "claimdag_client.claims": Room(
        "the public door of claims", ("claimdag_client._async", "claimdag_client._protocol")
    ),
    "claimdag_client": Room(
        "public names, loaded when they are used",
        ("claimdag_client._async", "claimdag_client._protocol", "claimdag_client.claims", "claimdag_client.errors",
         "claimdag_client.events"),
    ),
    "claimdag_client.wait_graph": Room("the wait graph over views", ("claimdagd.waitgraph",)),
    "claimdag_client.importers": Room(
        "plans and trackers' exports to nodes; no daemon",
        ("claimdag_client.wait_graph", "claimdagd.faults", "claimdagd.waitgraph", *_TYPES),
    ),
    "claimdag_client.outputs": Room(
        "the files of what commands wrote; standard library only", ("claimdagd.descriptors", "claimdagd.paths")
    ),
    "claimdag_client.cli": Room(
        "the command line; the only room that prints; never imports the async client",
        ("claimdag_client._transport", "claimdag_client._protocol", "claimdag_client.errors",
         "claimdag_client.handoff", "claimdag_client.importers", "claimdag_client.outputs",
         "claimdag_client.wait_graph", "claimdagd",
         "claimdagd.core.graph",
         "claimdagd.core.queries", "claimdagd.store", "claimdagd.waitgraph", "claimdagd.descriptors", "claimdagd.paths",
         *_TYPES),
    ),
    "claimdag_client.handoff": Room("the files by which agents' hosts find claimdag; no daemon"),
    "claimdag_client.mcp": Room(
        "the graph as tools of the Model Context Protocol; needs the extra mcp",
        ("claimdag_client", "claimdag_client.handoff", "claimdag_client.cli", "claimdag_client.errors",
         "claimdag_client._transport", "claimdagd", *_TYPES, "claimdagd.paths"),
    ),
    "claimdag_client.worker": Room(
        "run and work; the only room that forks",
        ("claimdag_client.cli", "claimdag_client._async", "claimdag_client._protocol", "claimdag_client._transport",
         "claimdag_client.errors", "claimdag_client.outputs",
         "claimdag_client.events", *_TYPES, "claimdagd.descriptors", "claimdagd.paths"),
    ),
}  # fmt: skip


def room_of(module: str) -> str | None:
    """Return the room of a module; None if a module at the top of a package has no line of its own."""
    room = max((name for name in ROOMS if f"{module}.".startswith(f"{name}.")), key=len)
    return None if room in PACKAGES and module != room else room


def imports() -> dict[str, set[str]]:
    """Return what each module of both packages imports of them, under TYPE_CHECKING and inside functions too."""
    found: dict[str, set[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[module] = {name for name in _imported_by(path) if name.split(".")[0] in PACKAGES} - {module}
    return found


def _imported_by(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import module` names a module of another room as well as `import package.module` does.
            for alias in node.names:
                below = ROOT.joinpath(*node.module.split("."), alias.name)
                is_module = below.is_dir() or below.with_suffix(".py").exists()
                yield f"{node.module}.{alias.name}" if is_module else node.module


def external_imports(path: Path) -> set[str]:
    """Return the top names of all that a file imports."""
    return {name.split(".")[0] for name in _imported_by(path)}


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components of more than one member."""
    reached = {name: _reach(graph, name) for name in graph}
    found: list[set[str]] = []
    for name in graph:
        if name in reached[name] and not any(name in circle for circle in found):
            found.append({other for other in reached[name] if name in reached.get(other, ())})
    return found


def _reach(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    rest = [start]
    while rest:
        for name in graph.get(rest.pop(), ()):
            if name not in seen:
                seen.add(name)
                rest.append(name)
    return seen


def table() -> str:
    """Return the rooms as a table in Markdown."""
    rows = ["| room | is for | may import |", "|---|---|---|"]
    for name, room in ROOMS.items():
        allowed = ", ".join(f"`{other}`" for other in room.may_import) or "nothing"
        rows.append(f"| `{name}` | {room.purpose} | {allowed} |")
    return "\n".join(rows)


def write() -> None:
    """Put the table into the document that shows it."""
    head, _, _ = DOCUMENT.read_text(encoding="utf-8").partition("| room |")
    DOCUMENT.write_text(f"{head}{table()}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
