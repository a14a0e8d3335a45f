"""Rows of JSON files in one pass: each form, and no more memory than a row needs."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator

import pytest

from claimdag_client.importers.interface import Fault
from claimdag_client.importers.json_records import lines_of, records

REST = "; nothing after it was read"
ROW = {"id": "p-1", "title": "é \u2028 [", "n": [1, {"x": "}"}]}


def read(text: str, size: int = 1) -> list[object]:
    data = text.encode()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return [str(row) if isinstance(row, Fault) else (line, row) for line, row in records(pieces)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (json.dumps(ROW), [1]),
        (f"{json.dumps(ROW)}\n\n{json.dumps(ROW)}\r\n", [1, 3]),
        (json.dumps([ROW, ROW]), [1, 1]),
        (f"[\n{json.dumps(ROW)}\n,\n{json.dumps(ROW)}\n]\n", [2, 4]),
        ("\ufeff" + json.dumps([ROW], indent=1), [2]),
        (json.dumps(ROW, indent=1) + json.dumps(ROW, indent=1), [1, 10]),
        (json.dumps({"issues": [ROW]}, indent=1), [1]),
        ("", []),
        ("[]", []),
        (" \n\n", []),
    ],
)
def test_each_form_gives_the_rows_with_their_lines(text: str, lines: list[int], size: int) -> None:
    """Cut anywhere, also inside a character."""
    found = read(text, size)
    assert [row for _, row in found] == [ROW] * len(lines)  # type: ignore[misc]
    assert [line for line, _ in found] == lines  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[1", "line 1: it is not a JSON object"),
        ('[{"id": 1}', "line 1: it is not JSON: the array has no end"),
        ('{"id": 1}\n{"id": }\n', "line 2: it is not JSON: Expecting value at column 8"),
        ('[{"id": "x}]', f"line 1: it is not JSON: Unterminated string starting at at column 8{REST}"),
    ],
)
def test_what_is_no_json_is_one_fault_at_its_place(text: str, fault: str) -> None:
    """And what stands before it is read."""
    assert fault in read(text, 5)


@pytest.mark.parametrize("form", ["lines", "array"])
def test_a_long_file_is_read_in_the_memory_of_some_pieces(form: str) -> None:
    """20 MB of rows, of which none is kept."""
    row = json.dumps({"id": "p-1", "text": "x" * 500}).encode()
    between = b"\n" if form == "lines" else b","

    def pieces() -> Iterator[bytes]:
        yield b"" if form == "lines" else b"["
        block = (row + between) * 100
        for _ in range(380):
            yield block
        yield row if form == "lines" else row + b"]"

    tracemalloc.start()
    try:
        count = sum(1 for _ in records(pieces()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 38_001
    assert peak < 4_000_000


def test_lines_have_no_ends_and_no_mark() -> None:
    """Whatever the pieces are."""
    assert [*lines_of([b"\xef\xbb", b"\xbfa\nb", b"", b"\n\n", b"c"])] == [b"a", b"b", b"", b"c"]
