"""The tools as a model sees them: schemas, annotations, and how much of a model's attention they cost."""

from __future__ import annotations

import msgspec
import pytest

from claimdag_client.mcp import texts, vocabulary
from claimdag_client.mcp.vocabulary import TOOLS, schema

#: Four characters of English and JSON are about one token.
CHARACTERS_A_TOKEN = 4


def test_descriptions_cost_less_than_2500_tokens() -> None:
    """All that a host puts before its model for our tools, but the result schemas, which it does not show."""
    shown = sum(len(tool.description) + len(msgspec.json.encode(schema(tool.arguments))) for tool in TOOLS.values())
    assert shown / CHARACTERS_A_TOKEN < 2500


@pytest.mark.parametrize("name", TOOLS)
def test_schemas_are_objects_and_the_description_is_a_sentence(name: str) -> None:
    """Hosts want an object at the top of a schema, and a model wants to know what comes next."""
    tool = TOOLS[name]
    assert schema(tool.arguments)["type"] == "object"
    assert schema(tool.result)["type"] == "object"
    assert tool.description.endswith(".")


def test_annotations_tell_reading_and_destroying_apart() -> None:
    """What only reads is never destructive, and what ends others' work is."""
    assert {name for name, tool in TOOLS.items() if tool.read_only} == {"status", "list", "get", "why"}
    assert {name for name, tool in TOOLS.items() if tool.destructive} == {"fail", "cancel"}


def test_refusal_text_lists_every_fault_of_a_plan() -> None:
    """Each fault has a line with its place."""
    refused = vocabulary.Refused(code="bad_request", message="submit: 2 faults")
    faults = [{"index": 0, "message": "no node x"}, {"index": 3, "ref": "b", "message": "cost"}]
    assert texts.refusal_text(refused, {"faults": faults}) == (
        "Refused: submit: 2 faults.\n- nodes[0]: no node x\n- nodes[3] (b): cost"
    )


@pytest.mark.parametrize(
    ("code", "details", "says"),
    [
        ("nothing_pending", {}, "all work is finished"),
        ("nothing_runnable", {"deps": 2}, "2 waiting on other nodes"),
        ("nothing_runnable", {"blocked": 1, "stuck": True}, "only a person or new work can help"),
    ],
)
def test_nothing_to_take_is_told_in_words(code: str, details: dict[str, object], says: str) -> None:
    """An agent learns whether to stop, to wait or to ask a person."""
    assert says in texts.nothing_text(code, details)
