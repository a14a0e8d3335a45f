"""docs/reference/law.md: every number cited exists, every rule is cited or tested, and the examples are true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.contract.markdown import ROOT, Block, read
from tests.contract.wire_examples import World, agrees, replay

LAW = "docs/reference/law.md"
RULES = re.findall(r"^- \*\*L(\d+\.\d+)\*\*", (ROOT / LAW).read_text(), re.MULTILINE)
EXAMPLES = {section.title: section.blocks[0] for section in read("tests/contract/law_examples.md") if section.blocks}
#: "law 3.4", "law 3.4, 3.5" or "law 3.4 and 3.5", in whatever case and over the end of a line.
_CITATION = re.compile(r"\blaw\s+(\d+\.\d+(?:(?:,| and)\s+\d+\.\d+)*)", re.IGNORECASE)


def citations(directory: str) -> dict[str, set[str]]:
    """Return the rules cited below a directory, each with the files that cite it."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / directory).rglob("*.py")):
        if path == Path(__file__):
            continue
        for numbers in _CITATION.findall(path.read_text(encoding="utf-8")):
            for number in re.findall(r"\d+\.\d+", numbers):
                found.setdefault(number, set()).add(str(path.relative_to(ROOT)))
    return found


CITED = {directory: citations(directory) for directory in ("claimdagd", "claimdag_client", "tests")}


def test_rules_are_numbered_once_and_in_order() -> None:
    """A number names one rule; a gap is where one was dropped."""
    keys = [tuple(map(int, number.split("."))) for number in RULES]
    assert keys == sorted(set(keys))


def test_every_number_cited_is_a_rule() -> None:
    """Neither code nor tests cite a rule that is not in the law."""
    for cited in CITED.values():
        assert {number: files for number, files in cited.items() if number not in RULES} == {}


def test_every_rule_is_cited_or_tested() -> None:
    """A rule that nothing holds is a wish."""
    held = set(EXAMPLES).union(*CITED.values())
    assert [number for number in RULES if number not in held] == []


def test_examples_are_of_rules() -> None:
    """Each session is headed by the number of a rule."""
    assert set(EXAMPLES) <= set(RULES)


@pytest.mark.parametrize(("number", "block"), EXAMPLES.items(), ids=list(EXAMPLES))
def test_rule_is_what_the_service_does(number: str, block: Block, tmp_path: Path) -> None:
    """The session of a rule comes out as printed."""
    world = World(tmp_path / "state", max_nodes=int(dict(block.markers).get("max nodes", 4096)))
    for line, expected, came in replay(world, block.lines):
        assert agrees(expected, came), f"law {number}\n  says {line}\n  came {came}"
    assert not world.unheard()
    world.close()
