"""Projects and their graphs: bind a directory to one, and find all there are. Prints nothing."""

from __future__ import annotations

import os

from claimdag_client._transport.endpoint import Endpoint
from claimdag_client._transport.transport import connect
from claimdag_client.errors import ClaimdagError
from claimdagd.limits import GROUPS, LIVE, TERMINAL
from claimdagd.paths import GRAPHS, PROJECT_FILE, Location, is_graph_name, read_project_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any


def proposed_name(directory: str) -> str | None:
    """Return the name of a directory as the name of a graph; None if nothing of it would be left."""
    name = "".join(char if is_graph_name("a" + char) else "-" for char in os.path.basename(directory))
    name = name.lstrip(".-")[:64]
    return name if is_graph_name(name) else None


def project_file_text(name: str) -> str:
    """Return what stands in a project file that binds to the graph `name`."""
    return f'graph = "{name}"\n'


def bind_project(directory: str, name: str) -> bool:
    """Write the project file; return False if it is there and says so already. Raises FileExistsError, OSError.

    Raises UnsafePathError if what is there cannot be read.
    """
    path = os.path.join(directory, PROJECT_FILE)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        if read_project_file(path, os.getuid()) == name:
            return False
        raise
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(project_file_text(name))
    return True


def unbind_project(directory: str) -> str | None:
    """Remove a project file that is as `bind_project` wrote it; return the graph's name, or None."""
    path = os.path.join(directory, PROJECT_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(4096)
    except (OSError, ValueError):
        return None
    name = text.removeprefix('graph = "').removesuffix('"\n')
    if not is_graph_name(name) or text != project_file_text(name):
        return None
    os.unlink(path)
    return name


def known_graphs(base: str) -> Iterator[Location]:
    """Yield the default graph in `base`, and each graph by its name."""
    yield Location(base)
    try:
        names = sorted(os.listdir(os.path.join(base, GRAPHS)))
    except OSError:
        return
    for name in names:
        directory = os.path.join(base, GRAPHS, name)
        if is_graph_name(name) and os.path.isdir(directory):
            yield Location(directory)


def describe(location: Location) -> dict[str, Any]:
    """Return a graph as `claimdag graphs` tells it, from its daemon or else from its files."""
    told: dict[str, Any] = {"name": location.graph, "directory": location.directory, "socket": location.socket}
    try:
        with connect(Endpoint(location.socket, start=False), client="claimdag graphs") as connection:
            stats = connection.request("stats")
            return {**told, "live": True, "graph": connection.graph, **_counts(stats["statuses"])}
    except ClaimdagError:
        pass
    return {**told, "live": False, **_from_files(location.directory)}


def _counts(statuses: Mapping[str, int]) -> dict[str, int]:
    finished = sum(statuses.get(status, 0) for status in TERMINAL)
    claimed = sum(statuses.get(status, 0) for status in LIVE)
    return {
        "unfinished": sum(statuses.values()) - finished,
        "ready": statuses.get("ready", 0),
        "claimed": claimed,
        "finished": finished,
    }


def _from_files(directory: str) -> dict[str, Any]:
    from collections import Counter
    from time import time

    from claimdagd.store.errors import StateError
    from claimdagd.store.recovery import read_offline

    try:
        state = read_offline(directory, time()).state
    except StateError as exc:
        return {"graph": None, "trouble": exc.what}
    except OSError:
        return {"graph": None, **_counts({})}
    statuses = Counter(str(node.status) for node in state.nodes.values())
    # An open group is running by its children, and has no holder.
    groups = sum(node.kind in GROUPS and node.status in LIVE for node in state.nodes.values())
    counts = _counts(statuses)
    return {"graph": state.tag, **counts, "claimed": counts["claimed"] - groups}
