"""Lines with checksums, and what is left of one that was cut or overwritten."""

from __future__ import annotations

import pytest

from claimdagd.store import framing
from claimdagd.store.framing import LineReader, crc_ok, holds_more_than_a_line, with_crc
from tests.simulation.fault_disk import Disk

LINE = with_crc(b'{"seq":1,"text":",\\"crc\\":\\"00000000\\"}"}')


def test_line_with_checksum_verifies_and_no_changed_bit_does() -> None:
    """One bit anywhere is enough."""
    line = LINE[:-1]
    assert crc_ok(line)
    for offset in range(len(line)):
        for bit in range(8):
            changed = bytearray(line)
            changed[offset] ^= 1 << bit
            assert not crc_ok(bytes(changed))


@pytest.mark.parametrize("line", [b"", b"{}", b',"crc":"00000000"}', b'{,"crc":"15d54739"}'])
def test_line_without_a_field_does_not_verify(line: bytes) -> None:
    """There is no such line."""
    assert not crc_ok(line)


def test_tail_that_was_cut_is_told_from_an_overwritten_newline() -> None:
    """A write that was cut short leaves a part of a line; a whole line and more is damage."""
    for size in range(len(LINE)):
        assert not holds_more_than_a_line(LINE[:size])
    assert holds_more_than_a_line(LINE[:-1] + b"x")
    assert holds_more_than_a_line(LINE[:-1] + LINE)


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_reader_gives_whole_lines_wherever_chunks_end(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows the last newline is the rest."""
    monkeypatch.setattr(framing, "CHUNK", chunk)
    disk = Disk("/d")
    disk.put("/d/f", b"a\n\nbcd\ne")
    reader = LineReader(disk, "/d/f")
    assert [line for lines in reader.batches() for line in lines] == [b"a", b"", b"bcd"]
    assert (reader.rest, reader.size) == (b"e", 8)
    assert disk.open_files == 0
