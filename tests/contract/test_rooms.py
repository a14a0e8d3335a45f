"""Each room imports only the rooms that the table allows, and nothing runs in a circle."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.contract import rooms
from tests.contract.rooms import ROOMS, ROOT, circles, imports, room_of

PURE = ("claimdagd.model", "claimdagd.wire", "claimdagd.waitgraph", "claimdagd.core", "claimdagd.service")
NOT_PURE = {"anyio", "asyncio", "datetime", "os", "pathlib", "random", "secrets", "socket", "threading", "time", "trio"}
IMPORTS = imports()


def test_every_module_belongs_to_a_room() -> None:
    """A new room gets a line in tests/contract/rooms.py, with what it is for and what it may import."""
    assert [module for module in IMPORTS if room_of(module) is None] == []


def test_rooms_import_only_what_the_table_allows() -> None:
    """Imports under TYPE_CHECKING and inside functions count."""
    wrong = []
    for module, names in IMPORTS.items():
        room = room_of(module)
        for name in names:
            target = room_of(name)
            if room is None or target == room:
                continue
            if target not in ROOMS[room].may_import:
                wrong.append(f"{module} imports {name}: {room} may not import {target}")
    assert wrong == []


def test_modules_do_not_import_in_a_circle() -> None:
    """No module reaches itself."""
    assert circles(IMPORTS) == []


def test_rooms_are_in_layers() -> None:
    """The table itself has no circle: there is a bottom and a top."""
    assert circles({name: set(room.may_import) for name, room in ROOMS.items()}) == []
    assert {name for room in ROOMS.values() for name in room.may_import} <= ROOMS.keys()


def test_document_shows_the_table_of_rooms() -> None:
    """It stands there as `python -m tests.contract.rooms` writes it."""
    assert rooms.table() in rooms.DOCUMENT.read_text()


def test_what_is_synchronous_imports_no_clock_no_chance_and_no_io() -> None:
    """Graph, wire and service are told the time and given a store; the simulator depends on it."""
    wrong = []
    for package in rooms.PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            if any(f"{module}.".startswith(f"{name}.") for name in PURE):
                wrong += [f"{module} imports {name}" for name in rooms.external_imports(path) & NOT_PURE]
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("claimdagd", ["msgspec", "claimdagd.model"]),
        ("claimdagd.core.graph", ["anyio", "asyncio", "socket"]),
        ("claimdagd.service", ["anyio", "asyncio", "socket"]),
        ("claimdag_client", ["anyio", "msgspec", "asyncio", "socket"]),
        ("claimdag_client._transport.transport", ["anyio", "msgspec", "asyncio", "socket", "dataclasses"]),
        ("claimdag_client.cli.main", ["anyio", "msgspec", "asyncio", "socket"]),
    ],
)
def test_importing_one_part_does_not_drag_in_another(module: str, absent: list[str]) -> None:
    """As a fresh interpreter sees it."""
    code = f"import sys, {module}; print([name for name in {absent!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"
