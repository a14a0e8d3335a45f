"""What holds for all documents: their links lead somewhere, and the changelog names what this version speaks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from claimdagd import __version__, limits
from claimdagd.store import framing as lines
from tests.contract.markdown import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_a_file_and_a_heading(path: Path) -> None:
    """Those that are not to other sites."""
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if re.match(r"https?:", target):
            continue
        name, _, anchor = target.partition("#")
        found = path.parent / name if name else path
        assert found.exists(), target
        assert not anchor or anchor in _anchors(found), target


def test_changelog_begins_with_this_version_its_protocol_and_its_format() -> None:
    """A raised number without a line in the changelog is found here."""
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## \[?([\d.]+)", text, re.MULTILINE)[0] == __version__
    assert re.findall(r"^- \*\*Protocol:\*\* (\d+)", text, re.MULTILINE)[0] == str(limits.PROTOCOL)
    assert re.findall(r"^- \*\*Journal format:\*\* writes (\d+)", text, re.MULTILINE)[0] == str(lines.FORMAT)
