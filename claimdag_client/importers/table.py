"""Reads a table in CSV whose header has the names of a plan's fields; commas, semicolons or tabs."""

from __future__ import annotations

import csv

from msgspec import inspect

from claimdag_client.importers.interface import Dependency, Draft, Item, Options, name_of, quoted
from claimdag_client.importers.json_records import lines_of
from claimdagd.faults import wrong
from claimdagd.wire import SubmitNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_TYPES = {field.encode_name: field.type for field in inspect.type_info(SubmitNode).fields}  # type: ignore[attr-defined]
_NUMBERS = {"cost": float, "priority": int, "max_attempts": int}
FIELDS = ("ref", "summary", "kind", "role", "status", "parent", "after", "after_any", "needs", "cost", "priority",
          "max_attempts")  # fmt: skip
#: Other names that people give to these columns.
ALIASES = {"id": "ref", "title": "summary", "depends_on": "after", "blocked_by": "after", "estimate": "cost"}
FINISHED = frozenset({"done", "closed", "completed"})
OPEN = frozenset({"", "todo", "ready", "open"})


class TableImporter:
    """The importer of this source."""

    name = "csv"
    about = f"a table with a header of plan fields: {', '.join(FIELDS)}"

    def looks_like(self, name: str, head: bytes) -> bool:
        """Whether it is a table by its name, or by its first line."""
        if name.lower().endswith((".csv", ".tsv")):
            return True
        first = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].decode(errors="replace").strip()
        return len(_columns(first)) > 1 and all(_field(name) in FIELDS for name in _columns(first))

    def read(self, pieces: Iterable[bytes], options: Options) -> Draft:
        """Read a table."""
        draft = Draft()
        lines = _decoded(draft, lines_of(pieces))
        header = next((line for line in lines if line.strip()), "")
        fields = [_field(name) for name in _columns(header.strip("\r"))]
        bad = [name for name in fields if name not in FIELDS]
        for name in bad:
            text = f"unknown column {quoted(name)}; accepted are {', '.join(FIELDS)}"
            draft.fault(0, "line 1", text, "the column")
        if "ref" not in fields and "summary" not in fields:
            draft.fault(0, "line 1", "there must be a column ref or summary", "the file")
            return draft
        rows = csv.reader((line + "\n" for line in lines), delimiter=_delimiter(header), strict=True)
        try:
            for row in rows:
                options.tick()
                if any(cell.strip() for cell in row):
                    named = dict(zip(fields, row, strict=False))
                    _take(draft, named, rows.line_num + 1, len(row) - len(fields), options)
        except csv.Error as exc:
            line = rows.line_num + 1
            draft.fault(line, f"line {line}", f"{exc}; nothing after it was read", "the rest")
        return draft


def _decoded(draft: Draft, lines: Iterator[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode()
        except UnicodeDecodeError:
            draft.fault(number, f"line {number}", "it is not UTF-8", "what is not")
            yield line.decode(errors="replace")


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


def _columns(header: str) -> list[str]:
    try:
        return next(csv.reader([header], delimiter=_delimiter(header)), [])
    except csv.Error:  # a cell that is too long for a name
        return []


def _field(name: str) -> str:
    name = name.strip().lower().replace(" ", "_")
    return ALIASES.get(name, name)


def _take(draft: Draft, row: dict[str, str], line: int, surplus: int, options: Options) -> None:
    place = f"line {line}"
    if surplus > 0:
        draft.fault(line, place, f"it has {surplus} more cells than the header", "those cells")
    cells = {name: cell.strip() for name, cell in row.items()}
    summary = cells.get("summary", "")
    key = name_of(cells.get("ref", "")) if cells.get("ref") else summary
    if not key:
        text = f"its ref is {quoted(cells['ref'])}, not a name" if cells.get("ref") else "it has no ref and no summary"
        draft.fault(line, place, text, "the row")
        return
    status = cells.get("status", "").lower()
    if status in FINISHED and not options.closed:
        draft.finish(key, "done", at=line, place=place, title=None if cells.get("ref") else summary)
        return
    item = Item(key, summary, at=line, place=place)
    item.shown = bool(cells.get("ref"))
    if not draft.add(item):
        return
    if status not in OPEN and status not in FINISHED:
        draft.hold(item, "blocked in the file" if status == "blocked" else f"it has the unknown status {status!r}")
    item.parent = cells.get("parent") or None
    for field, when in (("after", "after_ok"), ("after_any", "after_any")):
        for on in cells.get(field, "").replace(";", " ").replace(",", " ").split():
            item.deps.append(Dependency(on, "waits on", when=when))
    item.needs = _needs(draft, item, cells.get("needs", ""))
    for name in ("kind", "role", "cost", "priority", "max_attempts"):
        if cells.get(name):
            _set(draft, item, name, cells[name])


def _set(draft: Draft, item: Item, name: str, cell: str) -> None:
    """Set a field to what a cell holds, if it is of the field's type."""
    value: Any = cell if name in ("kind", "role") else _number(cell, name)
    faults = [*wrong(value, _TYPES[name], name)]
    for fault in faults:
        draft.fault(item.at, f"{item.place}, column {name}", fault.message, f"its {name}")
    if not faults:
        setattr(item, name, value)
    elif name == "kind":
        draft.hold(item, f"it is of the unknown kind {cell!r}")


def _number(cell: str, name: str) -> Any:
    try:
        return _NUMBERS[name](cell)
    except ValueError:
        return cell


def _needs(draft: Draft, item: Item, cell: str) -> dict[str, int] | None:
    """Read `gpu=1 browser=2`; a bare name is one unit."""
    needs: dict[str, Any] = {}
    for part in cell.replace(";", " ").replace(",", " ").split():
        name, equals, units = part.partition("=")
        needs[name] = (int(units) if units.isascii() and units.isdigit() else units) if equals else 1
    faults = [*wrong(needs, _TYPES["needs"], "needs")]
    for fault in faults:
        draft.fault(item.at, f"{item.place}, column needs", fault.message, "its needs, but held")
        draft.hold(item, "its needs could not be read")
    return None if faults else needs
