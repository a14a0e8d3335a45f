"""The public Python names with their signatures, one a line; `python -m tests.contract.public_surface` pins them.

Public are the names that a module of PUBLIC offers: its `__all__`, or else what it defines without an underscore.
"""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tests.contract.markdown import ROOT

PINNED = ROOT / "tests/data/public_surface.txt"
PUBLIC = (
    "claimdag_client",
    "claimdag_client.sync",
    "claimdag_client.errors",
    "claimdag_client.events",
    "claimdag_client.executors",
)


def names(module: ModuleType) -> list[str]:
    """Return the public names of a module."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    )


def lines() -> Iterator[str]:
    """Return the whole surface, sorted, one name a line."""
    for path in PUBLIC:
        module = importlib.import_module(path)
        for name in names(module):
            yield from _described(f"{path}.{name}", getattr(module, name))


def _described(path: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if issubclass(base, BaseException))
        yield f"class {path}({bases})"
        if issubclass(value, BaseException | enum.Enum):
            return
        for name, member in sorted(inspect.getmembers(value)):
            if name.startswith("_") and name not in ("__enter__", "__aenter__", "__iter__", "__aiter__"):
                continue
            if inspect.isfunction(member) or inspect.ismethod(member):
                yield f"    {path}.{name}{_signature(member)}"
            elif isinstance(member, property):
                yield f"    {path}.{name}"
    elif callable(value):
        yield f"{path}{_signature(value)}"
    else:
        yield f"{path}: {type(value).__name__}"


def _signature(value: Any) -> str:
    # Annotations are checked by mypy, and may name private types; a caller depends on names, order and defaults.
    signature = inspect.signature(value)
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


def pin() -> None:
    """Write the surface of today to the pinned file."""
    PINNED.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")


if __name__ == "__main__":
    pin()
