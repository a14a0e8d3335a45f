"""Which importers there are: those of this package, and those of others under the entry point group."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from claimdag_client.importers.interface import Importer

GROUP = "claimdag.importers"
#: In the order in which a file is guessed at: from the form that is told most surely to the least.
OURS = {
    "beads": "claimdag_client.importers.beads:BeadsImporter",
    "github": "claimdag_client.importers.github:GithubImporter",
    "taskmaster": "claimdag_client.importers.taskmaster:TaskmasterImporter",
    "dot": "claimdag_client.importers.dot:DotImporter",
    "csv": "claimdag_client.importers.table:TableImporter",
    "tasks": "claimdag_client.importers.tasks:TasksImporter",
}
#: So much of a file is looked at to guess its source.
HEAD_BYTES = 1 << 16


def names() -> list[str]:
    """Return the names of all sources; none is imported."""
    return [*OURS, *sorted({point.name for point in entry_points(group=GROUP)} - set(OURS))]


def named(name: str) -> Importer:
    """Return the importer of a source. KeyError if there is none of this name."""
    if name in OURS:
        module, _, attribute = OURS[name].partition(":")
        importer: Importer = getattr(import_module(module), attribute)()
        return importer
    for point in entry_points(group=GROUP):
        if point.name == name:
            other: Importer = point.load()()
            return other
    raise KeyError(name)


def guessed(path: str, head: bytes) -> Importer | None:
    """Return the importer that a file is for by its name and its beginning, or None."""
    candidates: Iterable[str] = names()
    for name in candidates:
        importer = named(name)
        if importer.looks_like(path, head):
            return importer
    return None
