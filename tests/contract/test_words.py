"""The word list finds what it is to find, and its clean rooms are clean."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.contract.markdown import ROOT


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    """tools/check_words.py, which is no package."""
    spec = importlib.util.spec_from_file_location("check_words", ROOT / "tools/check_words.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_words"] = module
    spec.loader.exec_module(module)
    return module


def test_clean_rooms_are_clean(checker: ModuleType) -> None:
    """As the commit hook and .ci/run check it."""
    words = checker.WordList()
    hits = [
        hit for path in checker.all_files() if words.is_clean(str(path.relative_to(ROOT))) for hit in words.hits(path)
    ]
    assert hits == [], "\n".join(map(str, hits))


def test_clean_rooms_exist(checker: ModuleType) -> None:
    """A room that was moved is not dropped from the list unseen."""
    assert [room for room in checker.WordList().clean if not (ROOT / room).exists()] == []


def test_old_words_are_found(checker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In identifiers, comments, docstrings and messages; not in part of a word, and not on an exempt line."""
    monkeypatch.setattr(checker, "ROOT", tmp_path)
    path = tmp_path / "x.py"
    path.write_text(
        'def judge() -> None:\n    """Refuse it for\n    good."""\n    print(f"nobody {1}")\n'
        "judgement = 1  # whatever\nflips = 2  # words: a key of the journal\n"
    )
    words = checker.WordList(ROOT / "tools/words.toml")
    assert [(hit.line, hit.word) for hit in words.hits(path)] == [
        (1, "judge"), (2, "for good"), (4, "nobody"), (5, "whatever"),
    ]  # fmt: skip
