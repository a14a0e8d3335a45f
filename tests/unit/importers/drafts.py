"""How the tests of this directory run an importer on a text."""

from __future__ import annotations

from typing import Any

from claimdag_client.importers.interface import Importer, Options
from claimdag_client.importers.resolve import Resolved, resolve


def read(importer: Importer, text: str | bytes, **options: Any) -> Resolved:
    """What the importer makes of a text that comes in pieces of an odd size."""
    data = text.encode() if isinstance(text, str) else text
    pieces = [data[at : at + 61] for at in range(0, len(data), 61)] or [b""]
    return resolve(importer.read(pieces, Options(**options)))


def faults(found: Resolved) -> list[str]:
    return [str(fault) for fault in found.draft.faults]


def held(found: Resolved) -> dict[str, str]:
    """The reason of each node that is blocked, as its summary has it."""
    return {
        node["ref"]: node["summary"].rpartition(" [held: ")[2].removesuffix("]")
        for node in found.nodes()
        if node.get("status") == "blocked"
    }


def order(found: Resolved) -> dict[str, list[str]]:
    """What each node waits on."""
    return {node["ref"]: [dep["on"] for dep in node["deps"]] for node in found.nodes() if "deps" in node}


def tree(found: Resolved) -> dict[str, str]:
    """The parent of each node that has one."""
    return {node["ref"]: node["parent"] for node in found.nodes() if "parent" in node}


def summaries(found: Resolved) -> list[str]:
    return [node["summary"] for node in found.nodes()]
