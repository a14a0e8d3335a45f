"""What went wrong is said with the file, the line, and the remedy that fits."""

from __future__ import annotations

import errno
import os

import pytest

from claimdagd.store.errors import CorruptState, StateError, StorageError, UnknownFormat, UnreadableState


def test_damage_names_file_line_and_salvage() -> None:
    """It is the one fault that a salvage mends."""
    text = str(CorruptState("/d/journal.jsonl", 7, "the checksum does not match"))
    assert text.startswith("/d/journal.jsonl, line 7: the checksum does not match. Nothing was changed.")
    assert "--salvage" in text


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.EACCES, "chmod"), (errno.EPERM, "chmod"), (errno.EMFILE, "ulimit -n"), (errno.ENFILE, "ulimit -n"),
        (errno.EISDIR, "Put the file back"), (errno.ELOOP, "Put the file back"), (errno.EIO, "log"),
        (errno.ENOMEM, "log"), (errno.ENOENT, "removing"), (None, "log"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_has_a_remedy_of_its_own(code: int | None, remedy: str) -> None:
    """None of them is salvage."""
    cause = OSError("odd") if code is None else OSError(code, os.strerror(code))
    text = str(UnreadableState("/d/f", cause))
    assert remedy in text
    assert "salvage" not in text
    assert "Nothing was changed" in text


def test_another_format_is_no_damage() -> None:
    """A newer one is for a newer version; an unknown one may be of another program."""
    assert "upgrade" in str(UnknownFormat("/d/f", 2, 1))
    assert "unknown" in str(UnknownFormat("/d/f", 0, 1))
    for number in (0, 2):
        assert "salvage" not in str(UnknownFormat("/d/f", number, 1))
    assert not issubclass(UnknownFormat, CorruptState)
    assert issubclass(UnknownFormat, StateError)


def test_storage_error_has_the_words_of_the_system() -> None:
    """Also if the system gave none."""
    assert (
        str(StorageError.of("/d/f", OSError(errno.ENOSPC, "No space left on device")))
        == "/d/f: No space left on device"
    )
    assert str(StorageError.of("/d/f", OSError("odd"))) == "/d/f: odd"
