"""The project's own plan format, in its three spellings, and everything that can be wrong with its form."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from claimdag_client.importers import plan

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "plan.md"


def whole(name: str) -> str:
    return f"7q2f-{name}" if name.isdigit() else name


def read(document: Any) -> plan.Plan:
    return plan.read(json.dumps(document).encode(), "json", whole)


def example() -> bytes:
    """The example in the document."""
    found = re.search(r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1].encode()


EXAMPLE_NODES = [
    {"ref": "design", "summary": "decide the grammar", "role": "architect", "cost": 600},
    {"ref": "release", "kind": "goal", "summary": "the first release"},
    {
        "ref": "parser", "summary": "write the parser", "role": "implementor", "cost": 1800, "parent": "release",
        "deps": [{"on": "design"}],
    },
    {
        "ref": "check", "summary": "test it in a browser", "role": "verifier", "needs": {"browser": 1},
        "parent": "release", "deps": [{"on": "parser"}],
    },
    {
        "summary": "tell the others, whatever came of it", "priority": 5,
        "deps": [{"on": "release", "when": "after_any"}],
    },
]  # fmt: skip


def test_the_example_of_the_document_reads_as_it_says() -> None:
    """YAML, with children, one name or a list, and capacities."""
    pytest.importorskip("yaml")
    taken = plan.read(example(), "yaml", whole)
    assert taken.nodes == EXAMPLE_NODES
    assert taken.capacities == {"browser": 2}
    assert taken.places[2] == "nodes[1].children[0]"


def test_toml_and_json_say_the_same() -> None:
    """The three spellings mean the same thing."""
    toml = b"""
[capacities]
browser = 2
[[nodes]]
ref = "a"
summary = "first"
[[nodes]]
kind = "goal"
[[nodes.children]]
after = ["a", "12"]
after_any = "a"
"""
    taken = plan.read(toml, "toml", whole)
    assert taken.nodes == [
        {"ref": "a", "summary": "first"},
        {"ref": "(nodes[1])", "kind": "goal"},
        {
            "parent": "(nodes[1])",
            "deps": [{"on": "a"}, {"on": "7q2f-12"}, {"on": "a", "when": "after_any"}],
        },
    ]
    assert read([{"ref": "a", "summary": "first"}]).nodes == taken.nodes[:1]


def test_a_bare_on_in_yaml_is_not_taken_for_true() -> None:
    """YAML 1.1 reads `on` as a truth value; here it is the name of a field."""
    pytest.importorskip("yaml")
    text = b"- {ref: 1}\n- deps: [{on: 1, when: after_any}, 1]\n  parent: 5\n"
    assert plan.read(text, "yaml", whole).nodes == [
        {"ref": "1"},
        {"parent": "7q2f-5", "deps": [{"on": "1", "when": "after_any"}, {"on": "1"}]},
    ]


def test_every_fault_of_the_form_is_said_with_its_place() -> None:
    """All at once, as the daemon does with faults of the graph."""
    with pytest.raises(plan.BadPlan) as caught:
        read(
            {
                "nodes": [
                    {"ref": "a", "sumary": "x", "cost": "much"},
                    {"ref": "a", "priority": 1.5, "needs": {"gpu": "one"}},
                    "just text",
                    {"ref": "b", "children": [{"parent": "a", "max_attempts": "few"}], "after": [{"x": 1}]},
                    {"children": {}, "deps": [{"on": "a", "when": "never"}, {"on": "a", "if": 1}, None]},
                    {"ref": "", "summary": 7},
                ],
                "capacities": {"gpu": -1},
                "version": 2,
            }
        )
    assert caught.value.faults == [
        "unknown field 'version' at the top: there are nodes and capacities",
        "capacities: it is a table of whole numbers, as in {gpu: 2}",
        "nodes[1]: ref 'a' is taken by nodes[0]",
        "nodes[0]: unknown field 'sumary'",
        "nodes[0].cost: 'much' is not a number",
        "nodes[1].priority: 1.5 is not a whole number",
        "nodes[1].needs: {'gpu': 'one'} is not a table of whole numbers, as in {gpu: 1}",
        "nodes[2]: a node is a table of fields, not 'just text'",
        "nodes[3].after: {'x': 1} names no node",
        "nodes[3].children[0].max_attempts: 'few' is not a whole number",
        "nodes[3].children[0]: it stands under a parent and names one too",
        "nodes[4].deps[0]: when is after_ok or after_any, not 'never'",
        "nodes[4].deps[1]: unknown field 'if'",
        "nodes[4].deps[2]: None names no node",
        "nodes[4].children: it is a list of nodes",
        "nodes[5].ref: '' is not a name",
        "nodes[5].summary: 7 is not text: put it in quotes",
    ]


@pytest.mark.parametrize(
    ("text", "form", "said"),
    [
        (b"{", "json", "not JSON"),
        (b"a = ", "toml", "not TOML"),
        (b"a: [", "yaml", "not YAML"),
        (b"\xff", "json", "not UTF-8"),
        (b"7", "json", "a list of nodes"),
        (b"{}", "json", "at least one node"),
        (b"[" * 100_000, "json", "nested too deep"),
        (b"- summary: 2026-01-02\n", "yaml", "put it in quotes"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(text: bytes, form: str, said: str) -> None:
    """Whatever is in it."""
    if form == "yaml":
        pytest.importorskip("yaml")
    with pytest.raises(plan.BadPlan) as caught:
        plan.read(text, form, whole)
    assert said in str(caught.value)


def test_the_format_goes_by_the_ending() -> None:
    """Of what else there is, the endings are named."""
    assert [plan.format_of(f"a.{end}") for end in ("json", "YAML", "yml", "toml")] == ["json", "yaml", "yaml", "toml"]
    with pytest.raises(plan.BadPlan, match="json"):
        plan.format_of("Makefile")
