from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.contract.markdown import ROOT, read
from tests.contract.wire_examples import World, agrees, replay

CHOICES = {
    int(number): text
    for section in read("docs/explanation/design.md")
    if section.title == "Choices"
    for number, text in re.findall(r"^(\d+)\. (.*)", "\n".join(section.text), re.MULTILINE)
}

#: What shows each of them, but for one that takes too many steps to print.
PLAYED = {int(section.title): section.blocks[0] for section in read("tests/contract/choices.md") if section.blocks}
STARVATION = 18


@pytest.mark.parametrize("number", CHOICES)
def test_choice_is_what_the_service_does(number: int, tmp_path: Path) -> None:
    """Each choice of the document, as a session."""
    if number == STARVATION:
        _starve(tmp_path)
        return
    block = PLAYED[number]
    world = World(tmp_path / "state", max_nodes=int(dict(block.markers).get("max nodes", 4096)))
    for line, said, came in replay(world, block.lines):
        assert agrees(said, came), f"{CHOICES[number]}\n  says {line}\n  came {came}"
    assert not world.unheard()
    world.close()


def _starve(directory: Path) -> None:
    """A node that needs both units waits behind work that needs one: after a hundred, both are kept for it."""
    world = World(directory / "state")

    def ask(text: str) -> dict[str, object]:
        world.say("", text)
        answer = world.heard("")
        return dict(answer.get("ok") or answer["error"])

    ask('{"op": "capacity", "resource": "r", "units": 2}')
    ask('{"op": "upsert", "needs": {"r": 1}}')
    held = [ask('{"op": "claim_next", "actor": "w0"}')["id"]]
    big = ask('{"op": "upsert", "priority": 5, "needs": {"r": 2}}')["id"]
    for n in range(1, 130):
        ask('{"op": "upsert", "needs": {"r": 1}}')
        claimed = ask(f'{{"op": "claim_next", "actor": "w{n}"}}')
        if "id" not in claimed:
            break
        held.append(claimed["id"])
        ask(f'{{"op": "complete", "id": "{held.pop(0)}"}}')
    assert 100 <= n <= 102
    ask(f'{{"op": "complete", "id": "{held.pop(0)}"}}')
    assert ask('{"op": "claim_next", "actor": "last"}')["id"] == big
    world.close()


def test_every_choice_is_numbered_in_order() -> None:
    """Without a gap, and none is left of one that was taken out."""
    assert list(CHOICES) == list(range(1, len(CHOICES) + 1))
    assert {*PLAYED, STARVATION} == set(CHOICES)


def test_parts_that_the_drawing_names_are_there() -> None:
    """Every path of the project that the document speaks of."""
    text = (ROOT / "docs/explanation/design.md").read_text()
    for path in re.findall(r"claimdagd/[\w./]+", text):
        assert (ROOT / path).exists(), path
