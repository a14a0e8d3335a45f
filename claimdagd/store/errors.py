"""The two ways in which state on disk goes wrong: it cannot be written, or it cannot be believed.

StorageError    a write, flush, rename or truncation failed; the state before it stands
Damaged         what is on disk does not verify; nothing was touched

This module must not import any other part of the store.
"""

from __future__ import annotations


class StorageError(Exception):
    """Something could not be put on disk. What was there before still stands.

    `path` is the file meant, `strerror` the system's words for why.
    """

    def __init__(self, path: str, strerror: str) -> None:
        super().__init__(path, strerror)
        self.path = path
        self.strerror = strerror

    def __str__(self) -> str:
        return f"{self.path}: {self.strerror}"

    @classmethod
    def of(cls, path: str, error: OSError) -> StorageError:
        """The system's error on `path`."""
        return cls(path, error.strerror or str(error))


class Damaged(Exception):
    """What is on disk is not what a daemon wrote there, or a part of it is gone. Nothing was changed.

    `line` counts from 1 and is None where the whole file is meant.
    """

    def __init__(self, path: str, line: int | None, reason: str) -> None:
        super().__init__(path, line, reason)
        self.path = path
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        where = self.path if self.line is None else f"{self.path}, line {self.line}"
        return f"{where}: {self.reason}. Nothing was changed. {self.remedy}"

    @property
    def remedy(self) -> str:
        """What a person can do about it."""
        return "`claimdagd --salvage` keeps a copy of the files, takes what verifies and says what it left out"
