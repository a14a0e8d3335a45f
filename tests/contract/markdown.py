"""Reading the project's own documents: sections, fenced blocks, tables and markers. Must not know what they are about.

A marker is an HTML comment on a line of its own, `<!-- name: value -->`; it belongs to the block or table after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
_HEADING = re.compile(r"(#+) (.*)")
_MARKER = re.compile(r"<!-- ([a-z ]+)(?:: (.*?))? -->$")


@dataclass
class Block:
    """A fenced block: its info string, its lines, the markers before it and the line that it begins at."""

    language: str
    lines: list[str]
    markers: list[tuple[str, str]]
    at: int


@dataclass
class Table:
    """The cells of a table's rows, without its head."""

    rows: list[list[str]]
    markers: list[tuple[str, str]]
    at: int


@dataclass
class Section:
    """What stands under one heading, up to the next."""

    title: str
    text: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def read(name: str) -> list[Section]:
    """The sections of a document, named from the project's root."""
    sections = [Section("")]
    markers: list[tuple[str, str]] = []
    lines = iter(enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1))
    table: Table | None = None
    for at, line in lines:
        section = sections[-1]
        if line.startswith("```"):
            inside = []
            for _, inner in lines:
                if inner.startswith("```"):
                    break
                inside.append(inner)
            section.blocks.append(Block(line[3:], inside, markers, at))
            markers = []
        elif heading := _HEADING.fullmatch(line):
            sections.append(Section(heading[2].strip("`")))
            markers = []
        elif marker := _MARKER.fullmatch(line):
            markers.append((marker[1], marker[2] or ""))
        elif line.startswith("|"):
            cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if table is None:
                table = Table([], markers, at)
                markers = []
                section.tables.append(table)
            elif not all(set(cell) <= set("-:") for cell in cells):
                table.rows.append(cells)
            continue
        else:
            section.text.append(line)
        table = None
    return sections


def code_words(cell: str) -> list[str]:
    """What stands between backquotes."""
    return re.findall(r"`([^`]+)`", cell)
