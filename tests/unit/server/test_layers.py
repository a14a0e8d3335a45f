"""Imports point one way, and what must do no I/O imports nothing that could."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: Each layer, by the longest prefix that fits, and what of this project it may import besides itself.
MAY_IMPORT = {
    "claimdagd.model": set(),
    "claimdagd.wire": {"claimdagd.model"},
    "claimdagd.core": {"claimdagd.model", "claimdagd.wire"},
    "claimdagd.store": {"claimdagd.model"},
    "claimdagd.service": {"claimdagd.model", "claimdagd.wire", "claimdagd.core", "claimdagd.store"},
    "claimdagd.server": {"claimdagd.service", "claimdagd.model", "claimdagd.wire"},
    "claimdagd.main": {
        "claimdagd.model",
        "claimdagd.core",
        "claimdagd.store",
        "claimdagd.service",
        "claimdagd.server",
    },
    "claimdagd.__main__": {"claimdagd.main"},
    "claimdagd": set(),
    "claimdag_client": {"claimdag_client.cli.offline", "claimdagd.model", "claimdagd.wire"},
    # A reader of the state without its daemon, and nothing else of the client.
    "claimdag_client.cli.offline": {"claimdag_client", "claimdagd.model", "claimdagd.store"},
}
PURE = ("claimdagd.model", "claimdagd.wire", "claimdagd.core", "claimdagd.service")
NOT_PURE = {"anyio", "asyncio", "datetime", "os", "pathlib", "random", "secrets", "socket", "threading", "time", "trio"}


def layer_of(module: str) -> str:
    return max((name for name in MAY_IMPORT if f"{module}.".startswith(f"{name}.")), key=len)


def modules() -> Iterator[tuple[str, Path]]:
    for package in ("claimdagd", "claimdag_client"):
        for path in (ROOT / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path


def imported_by(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import module` names a module of another layer as well as `import package.module` does.
            for alias in node.names:
                below = ROOT.joinpath(*node.module.split("."), alias.name)
                is_module = below.is_dir() or below.with_suffix(".py").exists()
                yield f"{node.module}.{alias.name}" if is_module else node.module


def test_imports_point_one_way() -> None:
    """No layer knows of one above it."""
    wrong = [
        f"{module} imports {name}"
        for module, path in modules()
        for name in imported_by(path)
        if name.split(".")[0] in ("claimdagd", "claimdag_client")
        and layer_of(name) not in MAY_IMPORT[layer_of(module)] | {layer_of(module)}
        and name != "claimdagd"  # the package itself, for the version: it imports nothing
    ]
    assert wrong == []


def test_what_is_synchronous_imports_no_clock_no_chance_and_no_io() -> None:
    """Graph, wire and service are told the time and given a store; the simulator depends on it."""
    wrong = [
        f"{module} imports {name}"
        for module, path in modules()
        if layer_of(module) in PURE
        for name in imported_by(path)
        if name.split(".")[0] in NOT_PURE
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("claimdagd", ["msgspec", "claimdagd.model"]),
        ("claimdagd.core.graph", ["anyio", "asyncio", "socket"]),
        ("claimdagd.service", ["anyio", "asyncio", "socket"]),
    ],
)
def test_importing_one_part_does_not_drag_in_another(module: str, absent: list[str]) -> None:
    """As a fresh interpreter sees it."""
    code = f"import sys, {module}; print([name for name in {absent!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"
