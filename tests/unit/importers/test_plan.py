"""The project's own plan format, in its three spellings, and everything that can be wrong with its form."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from claimdag_client.importers import plan
from claimdagd.wire import SubmitNode

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
    assert taken.faults == []
    assert taken.place_of(taken.paths[2]) == "line 13: nodes[1].children[0]"


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


def test_every_fault_is_said_once_with_its_place() -> None:
    """Form, values, names and cycles together, in the order of the file."""
    document = {
        "nodes": [
            {"ref": "a", "sumary": "x", "cost": "much"},
            {"ref": "a", "priority": 1.5, "needs": {"gpu": "one", "cpu": 2, "b d": 1}},
            "just text",
            {"ref": "b", "children": [{"parent": "a", "max_attempts": "few"}], "after": [{"x": 1}]},
            {"children": {}, "deps": [{"on": "a", "when": "never"}, {"on": "a", "if": 1}, None]},
            {"ref": "", "summary": 7, "role": "boss", "after": ["zz", "b", "7q2f-1"]},
            {"ref": "c", "after": "d"},
            {"ref": "d", "after": ["c"], "cost": 0},
            {"ref": "e", "parent": "f", "after": "e"},
            {"ref": "f", "parent": "e", "priority": 101},
        ],
        "capacities": {"gpu": -1, "cpu": 1},
        "version": 2,
    }
    taken = plan.read(json.dumps(document, indent=1).encode(), "json", whole)
    roles = "unset, explore, architect, implementor, verifier, orchestrator, general"
    fields = (
        "after, after_any, children, cost, deps, kind, max_attempts, needs, not_before, parent, priority, ref, "
        "retries, retry_delay, role"
    )
    told = [re.sub(r"^line \d+: ", "", text) for text in taken.told()]
    assert [text for text in told if "unknown field 'sumary'" not in text] == [
        "unknown field 'version' at the top; accepted are capacities, nodes",
        "capacities.gpu: it must be a whole number from 0 to 1000000000, not -1",
        "nodes[0].cost: it must be a number over 0 and up to 1000000000000, not 'much'",
        "nodes[1].priority: it must be a whole number from -100 to 100, not 1.5",
        "nodes[1].needs.gpu: it must be a whole number from 1 to 1000000000, not 'one'",
        "nodes[1].needs: a key of it must be a name (1 to 64 of A-Za-z0-9._@:/-), not 'b d'",
        "nodes[1].ref: ref 'a' is taken by nodes[0]",
        "nodes[2]: a node must be a table of fields, not 'just text'",
        "nodes[3].after[0]: it must name a node, not a table",
        "nodes[3].children[0].max_attempts: it must be a whole number from 1 to 1000000000 or null, not 'few'",
        "nodes[3].children[0].parent: it stands under a parent and names one too",
        "nodes[4].deps[0].when: it must be one of after_ok, after_any, not 'never'",
        "nodes[4].deps[1]: unknown field 'if'; accepted are on, when",
        "nodes[4].deps[2]: it must name a node, not None",
        "nodes[4].children: it must be a list of nodes",
        "nodes[5].ref: it must be a text of 1 to 256 characters or null, not ''",
        "nodes[5].summary: it must be a text, not 7: put it in quotes",
        f"nodes[5].role: it must be one of {roles}, not 'boss'",
        "nodes[5].after[0]: 'zz' is no ref of this plan, and no id of a node",
        "nodes[7].cost: it must be a number over 0 and up to 1000000000000, not 0",
        "nodes[7].after[0]: it closes a cycle: d -> c -> d",
        "nodes[8].after: e cannot wait on itself",
        "nodes[9].priority: it must be a whole number from -100 to 100, not 101",
        "nodes[9].parent: it closes a cycle of parents: f -> e -> f",
    ]
    (unknown,) = [text for text in told if "unknown field 'sumary'" in text]
    assert unknown.startswith(f"nodes[0]: unknown field 'sumary'; accepted are {fields}")
    # What is left is a sound submission.
    assert taken.nodes[5] == {"deps": [{"on": "b"}, {"on": "7q2f-1"}]}
    assert taken.nodes[6]["deps"] == [{"on": "d"}]


def test_needs_over_the_plans_own_capacities_are_a_fault() -> None:
    """The daemon would say so of them too, but it may not be there."""
    taken = read({"capacities": {"gpu": 1}, "nodes": [{"needs": {"gpu": 2, "cpu": 9}}]})
    assert [*taken.told()] == ["line 1: nodes[0].needs.gpu: it needs 2 of gpu, whose capacity in this plan is 1"]
    assert taken.nodes == [{"needs": {"cpu": 9}}]


@pytest.mark.parametrize(
    ("form", "text", "line"),
    [
        ("json", '[\n {"ref": "a"},\n {"children": [\n  {"ref": "b",\n   "cost": "x"}]}\n]', 5),
        ("json", '{"nodes": [{},\n{"ref": "a, \\"b",\n "children":\n[{"cost": "x"}]}]}', 4),
        ("yaml", "- ref: a\n- kind: goal\n  children:\n  - ref: b\n    # why\n    cost: x\n", 6),
        ("yaml", "nodes:\n- ref: a\n- kind: goal\n  children: [{ref: b,\n    cost: x}]\n", 5),
        ("toml", '[[nodes]]\nref = "a"\n[[nodes]]\nref = "g"\n[[nodes.children]]\nref = "b"\ncost = "x"\n', 7),
        ("toml", '[[nodes]]\nsummary = """\n[[nodes]]\n"""\n[[nodes]]\n[[nodes.children]]\n"cost" = "x"\n', 7),
    ],
)
def test_the_line_of_a_fault_is_found(form: str, text: str, line: int) -> None:
    """In each of the three spellings, also below children."""
    if form == "yaml":
        pytest.importorskip("yaml")
    (told,) = plan.read(text.encode(), form, whole).told()
    assert told.startswith(f"line {line}: nodes[1].children[0].cost: it must be a number")


def test_every_field_of_the_wire_is_one_of_a_plan() -> None:
    """A field that is added there is read here, and judged by its type."""
    names = {field.encode_name for field in msgspec.structs.fields(SubmitNode)}
    assert names <= plan._FIELDS
    for name in names - {"parent", "deps"}:
        assert len(read([{name: ["wrong"]}]).faults) == 1, name


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
    try:
        told = " ".join(plan.read(text, form, whole).told())
    except plan.BadPlan as exc:
        told = str(exc)
    assert said in told


def test_the_format_goes_by_the_ending() -> None:
    """Of what else there is, the endings are named."""
    assert [plan.format_of(f"a.{end}") for end in ("json", "YAML", "yml", "toml")] == ["json", "yaml", "yaml", "toml"]
    with pytest.raises(plan.BadPlan, match="json"):
        plan.format_of("Makefile")
