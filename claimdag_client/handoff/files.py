"""The files of a project as `claimdag init --agents` changes them: read, planned, shown, written."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from claimdag_client.handoff.edits import NotPlain, put_block, put_entry, take_block, take_entry
from claimdag_client.handoff.hosts import Block, Edit


class Plan:
    """What will be in each file, and what could not be planned. Nothing is written before `write`."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        #: By the real path, since AGENTS.md and CLAUDE.md are often one file: the text before and after.
        self._texts: dict[Path, tuple[str | None, str | None]] = {}
        self.faults: list[str] = []

    @classmethod
    def made(cls, root: Path, edits: Iterable[Edit], *, remove: bool) -> Plan:
        """The plan of these edits; each fault is kept with its file and costs only that edit."""
        plan = cls(root)
        # Several entries in one file were each put first: the last one comes out first.
        for edit in reversed([*edits]) if remove else edits:
            try:
                plan._add(edit, remove=remove)
            except (NotPlain, OSError, UnicodeDecodeError) as exc:
                plan.faults.append(f"{edit.path}: {exc}")
        return plan

    def _add(self, edit: Edit, *, remove: bool) -> None:
        path = (self._root / edit.path).resolve()
        if not path.is_relative_to(self._root):
            raise NotPlain(f"it leads out of the project, to {path}")
        if path not in self._texts:
            text = _read(path)
            self._texts[path] = (text, text)
        before, now = self._texts[path]
        if remove:
            after = now if now is None else _without(now, edit)
        elif isinstance(edit, Block):
            after = put_block(now, edit.body, edit.marks)
        else:
            after = put_entry(now, edit.keys, edit.value)
        self._texts[path] = (before, after)

    def changes(self) -> Iterator[tuple[Path, str | None, str | None]]:
        """The files that will differ: path, text before, text after; None is no file."""
        for path, (before, after) in self._texts.items():
            if before != after:
                yield path, before, after

    def shown(self) -> Iterator[str]:
        """The changes as a unified diff."""
        for path, before, after in self.changes():
            name = str(path.relative_to(self._root))
            yield from difflib.unified_diff(
                (before or "").splitlines(),
                (after or "").splitlines(),
                "/dev/null" if before is None else f"a/{name}",
                "/dev/null" if after is None else f"b/{name}",
                lineterm="",
            )

    def write(self) -> list[str]:
        """Write what was planned, each file whole or not at all. Returns a line for each."""
        done = []
        for path, before, after in list(self.changes()):
            name = path.relative_to(self._root)
            if after is None:
                path.unlink()
                done.append(f"removed {name}")
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, after)
            done.append(f"{'made' if before is None else 'changed'} {name}")
        return done


def _without(text: str, edit: Edit) -> str | None:
    return take_block(text, edit.marks) if isinstance(edit, Block) else take_entry(text, edit.keys, edit.value)


def _read(path: Path) -> str | None:
    try:
        # Bytes, since text mode would fold CRLF.
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None


def _replace(path: Path, text: str) -> None:
    """Put a file in place by rename, with the mode of the one that was there."""
    temporary = path.with_name(f".{path.name}.claimdag-{os.getpid()}")
    try:
        temporary.write_bytes(text.encode("utf-8"))
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
