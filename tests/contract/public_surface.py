"""What the package offers: its public names with their signatures, as text that a test holds to a file.

`python -m tests.contract.public_surface` writes the file after a change that is meant.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import claimdag_client
from claimdag_client import errors, events, sync

FILE = Path(__file__).with_name("public_surface.txt")


def surface() -> str:
    """Return one line for each public name, each with its signature if it has one."""
    lines: list[str] = []
    for module in (claimdag_client, sync, errors):
        for name in sorted(module.__all__):
            lines += _lines(f"{module.__name__}.{name}", getattr(module, name))
    lines += _lines("claimdag_client.events.Event", events.Event)
    return "\n".join(lines) + "\n"


def _lines(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield f"{name}: {len(value)} entries"
    elif inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base.__module__.startswith("claimdag"))
        yield f"class {name}({bases})" if issubclass(value, Exception) else f"class {name}"
        if not issubclass(value, Exception):
            for member in sorted(dir(value)):
                if not member.startswith("_"):
                    yield f"    {_member(member, inspect.getattr_static(value, member))}"
    else:
        yield f"{name}{_signature(value)}"


def _member(name: str, value: Any) -> str:
    if not inspect.isfunction(value):
        return f"{name}: property" if isinstance(value, property) else name
    return f"{'async ' if inspect.iscoroutinefunction(value) else ''}{name}{_signature(value)}"


def _signature(value: Any) -> str:
    return str(inspect.signature(value)).replace("'", "")


if __name__ == "__main__":
    FILE.write_text(surface(), encoding="utf-8")
