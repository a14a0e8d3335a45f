"""Lines with checksums: JSON objects, one a line, each with the checksum of its own bytes at the end.

Both files of the store are made of them:  {...,"crc":"0a1b2c3d"}  where crc is the CRC-32, in hexadecimal, of the
bytes of the line before `,"crc"`. This module knows nothing of what is in a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from zlib import crc32

from claimdagd.store.files import Files

#: The version of both files. It moves with every change that an older daemon would misread.
FORMAT = 1
#: How many bytes are read at a time, and copied without a turn of the loop between.
CHUNK = 1 << 20
_SEAL_BYTES = len(b',"crc":"00000000"}')
_SEAL = re.compile(rb',"crc":"[0-9a-f]{8}"\}')


def with_crc(body: bytes) -> bytes:
    """Return the line, with newline, of a JSON object that has at least one field."""
    head = body[:-1]
    return b'%b,"crc":"%08x"}\n' % (head, crc32(head))


def crc_ok(line: bytes) -> bool:
    """Return whether a line, without its newline, is as it was written."""
    head = line[:-_SEAL_BYTES]
    return line[-_SEAL_BYTES:] == b',"crc":"%08x"}' % crc32(head) and len(head) > 1


def holds_more_than_a_line(tail: bytes) -> bool:
    """Return whether a tail without newline begins with a whole line and goes on: then its newline was overwritten.

    A write that was cut short cannot leave that behind. The bytes of a checksum field cannot be inside a JSON string,
    in which quotes are escaped.
    """
    return any(match.end() < len(tail) and crc_ok(tail[: match.end()]) for match in _SEAL.finditer(tail))


class LineReader:
    """Reads a file as batches of whole lines, a chunk at a time.

    After the last batch `rest` is what follows the last newline, and `size` is how many bytes were read. Reading may
    raise OSError.
    """

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self.rest = b""
        self.size = 0

    def batches(self) -> Iterator[list[bytes]]:
        """Yield the lines, without newlines."""
        fd = self._files.open_read(self.path)
        try:
            while chunk := self._files.read_at(fd, CHUNK, self.size):
                self.size += len(chunk)
                lines = (self.rest + chunk).split(b"\n")
                self.rest = lines.pop()
                yield lines
        finally:
            self._files.close(fd)
