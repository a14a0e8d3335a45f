"""The ways in which state on disk goes wrong: it cannot be written, or it cannot be read for what it is.

    StorageError          a write, flush, rename or truncation failed; the state before it stands
    StateError            the state cannot be read; nothing was changed
      CorruptState          a file does not verify: the one that a salvage mends
      UnreadableState       the system refused to let a file be read
      UnknownFormat         a file is of a format that this version does not know

This module must not import any other part of the store.
"""

from __future__ import annotations

import errno


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
        """Wrap the system's error on `path`."""
        return cls(path, error.strerror or str(error))


class StateError(Exception):
    """The state on disk cannot be taken for what it should be. Nothing was changed.

    `line` counts from 1 and is None if the whole file is meant; `remedy` says what a person can do.
    """

    def __init__(self, path: str, line: int | None, reason: str, remedy: str) -> None:
        super().__init__(path, line, reason, remedy)
        self.path = path
        self.line = line
        self.reason = reason
        self.remedy = remedy

    @property
    def what(self) -> str:
        """Where and why, without the remedy."""
        where = self.path if self.line is None else f"{self.path}, line {self.line}"
        return f"{where}: {self.reason}"

    def __str__(self) -> str:
        return f"{self.what}. Nothing was changed. {self.remedy}"


class CorruptState(StateError):
    """A file is not what a daemon wrote there, or a part of it is gone; a salvage takes what verifies."""

    def __init__(self, path: str, line: int | None, reason: str) -> None:
        remedy = "`claimdagd --salvage` keeps a copy of the files, takes what verifies and says what it left out"
        super().__init__(path, line, reason, remedy)


class UnreadableState(StateError):
    """The system refused to let a file be read. It may be whole, so a salvage would throw it away for nothing."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(path, None, f"unreadable: {error.strerror or error}", _remedy(path, error.errno))


class UnknownFormat(StateError):
    """A file is of a format that this version does not know: to salvage it would throw it away."""

    def __init__(self, path: str, number: int, newest: int) -> None:
        if number > newest:
            reason = f"format {number} is newer than {newest}, the newest that this claimdagd reads"
            remedy = "Start the claimdagd that wrote it, or a newer one: pip install --upgrade claimdagd"
        else:
            reason = f"format {number} is unknown"
            remedy = "Move the file away if it is none of claimdagd's"
        super().__init__(path, 1, reason, remedy)


def _remedy(path: str, code: int | None) -> str:
    match code:
        case errno.EACCES | errno.EPERM:
            return f"Give its owner access again (chmod u+rwX {path}), or start it as the owner"
        case errno.EMFILE | errno.ENFILE:
            return "Raise the limit of open files (ulimit -n) and start it again"
        case errno.EINVAL | errno.EISDIR | errno.ENOTDIR | errno.ELOOP:
            return "Put the file back in the place of what is there now, or move that away"
        case errno.ENOENT:
            return "See who is removing it, and start it again"
        case _:
            return "See what the system's log says of the disk, and copy the directory before anything else"
