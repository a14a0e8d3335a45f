"""Which importers there are, and which one a file is for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint

import pytest

from claimdag_client.importers import registry
from claimdag_client.importers.interface import Draft, Importer, Item, Options


class Lines:
    """A source of another package: a row a line."""

    name = "lines"
    about = "a row a line"

    def looks_like(self, name: str, head: bytes) -> bool:
        return name.endswith(".lines")

    def read(self, pieces: Iterable[bytes], options: Options) -> Draft:
        draft = Draft()
        for number, line in enumerate(b"".join(pieces).decode().split(), 1):
            draft.add(Item(line, "", at=number, place=f"line {number}"))
        return draft


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register `Lines`, and something under a name of ours."""
    points = [EntryPoint(name, f"{__name__}:Lines", registry.GROUP) for name in ("lines", "beads")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    for point in points:
        monkeypatch.setattr(type(point), "load", lambda self: Lines)


@pytest.mark.usefixtures("other")
def test_a_source_of_another_package_is_one_by_its_entry_point() -> None:
    """Ours come first, and keep their names."""
    assert registry.names() == [*registry.OURS, "lines"]
    found = registry.named("lines")
    assert list(found.read([b"a b"], Options()).items) == ["a", "b"]
    assert type(registry.named("beads")).__name__ == "BeadsImporter"
    guessed = registry.guessed("x.lines", b"a")
    assert guessed is not None
    assert guessed.name == "lines"


@pytest.mark.parametrize("name", registry.OURS)
def test_ours_are_called_by_their_names(name: str) -> None:
    """And read an empty file without a row or an error."""
    importer: Importer = registry.named(name)
    assert importer.name == name
    assert importer.about
    assert importer.read([], Options()).items == {}


@pytest.mark.parametrize(
    ("path", "head", "source"),
    [
        ("tasks.json", '{"master": {"tasks": []}}', "taskmaster"),
        ("x.json", '[{"number": 1, "title": "t", "state": "open"}]', "github"),
        (".beads/issues.jsonl", '{"id": "a"}', "beads"),
        ("-", '\ufeff[{"id": "a", "issue_type": "task"}]', "beads"),
        ("-", "strict digraph {\n}", "dot"),
        ("-", "ref,summary\n", "csv"),
        ("-", "hello\n\n  - [x] a\n", "tasks"),
        ("README.md", "", "tasks"),
        ("x.tsv", "", "csv"),
        ("x.txt", "a\n", None),
        ("x.json", "[]", None),
    ],
)
def test_a_file_is_known_by_its_name_and_its_beginning(path: str, head: str, source: str | None) -> None:
    """Or by neither."""
    found = registry.guessed(path, head.encode())
    assert (found.name if found else None) == source
