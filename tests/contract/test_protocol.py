"""docs/reference/protocol.md against the code: every example replayed, every table compared."""

from __future__ import annotations

import itertools
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from claimdagd import limits, model, wire
from claimdagd.server.loop import connection
from claimdagd.service import ledger
from tests.contract.markdown import Block, Section, Table, code_words, read
from tests.contract.wire_examples import World, agrees, loosely, replay

DOCUMENT = "docs/reference/protocol.md"
SECTIONS = read(DOCUMENT)
EXAMPLES = [(section.title, b) for section in SECTIONS for b in section.blocks if b.language == "wire"]
OPS = {section.title: section for section in SECTIONS if section.title in wire.REQUEST_TYPES}
#: What any op, and any mutating op, may be answered with: the document says so once.
COMMON = {"bad_request", "unknown_op", "too_large", "internal", "storage", "shutting_down"}
#: The words of the tables, and the JSON type that each stands for.
WORDS = {
    "id": "string",
    "name": "string",
    "text": "string",
    "integer": "integer",
    "number": "number",
    "bool": "boolean",
    "list": "array",
    "map": "object",
    "object": "object",
}


def _tables(marker: str) -> Iterator[tuple[str, Table]]:
    for section in SECTIONS:
        for table in section.tables:
            for name, value in table.markers:
                if name == marker:
                    yield value, table


FIELD_TABLES = dict(_tables("fields"))
STRUCTS: dict[str, Any] = {
    name: cls
    for name, cls in [*vars(wire).items(), ("Dep", model.Dep), ("Grant", model.Grant)]
    if isinstance(cls, type) and issubclass(cls, msgspec.Struct)
}


# ------------------------------------------------------------------------------------------------------------ examples


@pytest.mark.parametrize("block", [b for _, b in EXAMPLES], ids=[f"{title}-{b.at}" for title, b in EXAMPLES])
def test_example_replayed_against_the_service_comes_back_as_printed(block: Block, tmp_path: Path) -> None:
    """Each block is one session with a fresh daemon, and nothing comes that it does not show."""
    world = World(tmp_path / "state")
    for line, said, came in replay(world, block.lines):
        assert agrees(said, came), f"{DOCUMENT}:{block.at}\n  says {line}\n  came {came}"
    assert not world.unheard()
    world.close()


def test_errors_in_the_examples_of_an_op_are_in_its_list() -> None:
    """An op's list of errors has every code that its own examples show."""
    for op, section in OPS.items():
        listed = _listed_codes(section)
        for block in section.blocks:
            for line in block.lines:
                shown = re.search(r'"error": \{"code": "(\w+)"', line)
                if shown:
                    assert shown[1] in listed | COMMON, f"{op}: {shown[1]}"


def _listed_codes(section: Section) -> set[str]:
    listed = set()
    for line in section.text:
        if line.startswith("- `"):
            listed |= {code for code in code_words(line.partition(":")[0]) if code in set(wire.Code)}
    return listed


@pytest.mark.parametrize("op", wire.REQUEST_TYPES)
def test_every_op_has_a_section_with_its_errors_and_its_fields(op: str) -> None:
    """No op is missing, and none lists as its own what any op may give."""
    section = OPS[op]
    text = "\n".join(section.text)
    assert "Errors" in text
    listed = _listed_codes(section)
    assert bool(listed) is not ("only those that any op may give" in text)
    assert listed <= set(wire.Code)


# -------------------------------------------------------------------------------------------------------------- tables


def _schema(cls: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    (schema,), parts = msgspec.json.schema_components([cls])
    return parts[schema["$ref"].rpartition("/")[2]], parts


def _without_null(prop: dict[str, Any], parts: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The schema of what it is when it is not null, and whether it may be."""
    choices = [choice for choice in prop.get("anyOf", [prop]) if choice != {"type": "null"}]
    nullable = len(choices) < len(prop.get("anyOf", [prop]))
    if len(choices) > 1:
        return {"type": " or ".join(sorted(choice["type"] for choice in choices))}, nullable
    if "$ref" in choices[0]:
        return parts[choices[0]["$ref"].rpartition("/")[2]], nullable
    return choices[0], nullable


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _check_type(where: str, said: str, prop: dict[str, Any], parts: dict[str, Any], shows_null: bool) -> None:
    schema, nullable = _without_null(prop, parts)
    said, said_null, _ = said.partition(" or null")
    assert bool(said_null) is (nullable and shows_null), f"{where}: null"
    if said.startswith("one of "):
        values, words = set(schema.get("enum", ())), set(code_words(said))
        # Why a next claim came to nothing is only some of all codes.
        assert words == values or (words < values and where == "Completed.code"), f"{where}: {values}"
        return
    if said == "text or integer":
        assert schema["type"] == "integer or string", where
        return
    word = said.split()[0].rstrip(",")
    assert WORDS[word] == schema["type"], f"{where}: {schema}"
    if word == "name" and "pattern" in schema:
        assert schema["pattern"] == model.NAME_PATTERN, where
    assert word == "name" or "pattern" not in schema, f"{where} is a name"
    if word in ("integer", "number", "text"):
        bounds = [_number(n) for n in re.findall(r"-?\d[\d,.e]*", said)]
        low = schema.get("minimum", schema.get("exclusiveMinimum", schema.get("minLength")))
        high = schema.get("maximum", schema.get("maxLength"))
        limits = [float(limit) for limit in (low, high) if limit is not None]
        assert bounds == limits, f"{where}: {limits}"
        assert (" over " in said) is ("exclusiveMinimum" in schema), where


@pytest.mark.parametrize("name", FIELD_TABLES)
def test_fields_of_a_table_are_those_of_the_struct(name: str) -> None:
    """Names, order, whether they may be left out, types and bounds, as msgspec's own schema of the struct has them.

    Law 2.2, 2.4, 2.9, 8.5.
    """
    cls = STRUCTS[name]
    schema, parts = _schema(cls)
    props = dict(schema["properties"])
    required = set(schema.get("required", ()))
    is_request = issubclass(cls, wire.Request | wire.NodeFields | wire.Next) or cls is model.Dep
    if cls is not wire.Mutation:
        # What any request may carry is said once.
        for common in ("rid", "once", "actor"):
            if issubclass(cls, wire.Request) and common not in required:
                props.pop(common, None)
    props.pop("op", None)
    told = {code_words(row[0])[0].rstrip("?"): row for row in FIELD_TABLES[name].rows}
    assert set(told) == set(props), name
    clearable = {f.encode_name for f in msgspec.structs.fields(cls) if f.default is msgspec.UNSET}
    for field, (first, said, *_) in told.items():
        where = f"{name}.{field}"
        if is_request or cls is model.Grant:
            assert code_words(first)[0].endswith("?") is (field not in required), where
        _check_type(where, said, props[field], parts, not is_request or field in clearable)


def test_every_struct_of_the_wire_has_a_table() -> None:
    """A request with fields of its own, a reply, and what they are made of."""
    bare = {"Request", "Reply", "NodeFields", "Reason"}
    empty = {
        name
        for name, cls in STRUCTS.items()
        if issubclass(cls, wire.Request) and cls.__struct_fields__ in (wire.Request.__struct_fields__,)
    }
    assert set(STRUCTS) - bare - empty == set(FIELD_TABLES)
    marked = {value for section in SECTIONS for value in _values(section, "fields")}
    assert marked == set(FIELD_TABLES)


def _values(section: Section, marker: str) -> list[str]:
    return [value for table in section.tables for name, value in table.markers if name == marker]


def test_table_of_codes_has_each_code_once() -> None:
    """In the order of the enum, so that a new code shows where it is missing."""
    (table,) = (table for _, table in _tables("codes"))
    assert [code_words(row[0])[0] for row in table.rows] == [code.value for code in wire.Code]


def test_table_of_statuses_has_each_status_once() -> None:
    """In the order of the enum (law 3.1)."""
    (table,) = (table for name, table in _tables("enum") if name == "Status")
    assert [code_words(row[0])[0] for row in table.rows] == [status.value for status in model.Status]


def test_limits_are_those_of_the_code() -> None:
    """Each number in the table of limits, in its order (law 2.4, 7.8)."""
    (table,) = (table for _, table in _tables("limits"))
    told = [[_number(n) for n in re.findall(r"\d[\d,]*", row[1])] for row in table.rows]
    assert told == [
        [limits.LINE_MAX_BYTES],
        [limits.SUMMARY_MAX_BYTES],
        [limits.ERROR_MAX_BYTES],
        [64],
        [128],
        [limits.ONCE_TOKENS_MAX],
        [limits.LEDGER_ENTRIES_MAX, ledger.BYTES_MAX],
        [model.LEASE_MAX_S],
        [4096],
        [connection.UNREAD_MAX_BYTES, connection.STALL_S],
        [connection.WATCHER_MAX_BYTES],
    ]


# --------------------------------------------------------------------------------- what a session really comes to meet


def _requests(chance: random.Random, ids: list[str]) -> Iterator[dict[str, Any]]:
    """Plausible requests without end, about nodes that may or may not be there."""
    actors = ["ann", "ben", "cat"]
    while True:
        id_ = chance.choice([*ids[-12:], "7q2f-999"])
        other = chance.choice([*ids[-12:], "7q2f-999"])
        actor = chance.choice(actors)
        gen = chance.choice([{}, {}, {"gen": chance.randint(1, 4)}])
        named = chance.choice([{}, {"actor": actor}])
        make = {
            "kind": chance.choice(["task", "task", "step", "goal"]),
            "deps": [{"on": other, "when": chance.choice(["after_ok", "after_any"])}] if chance.random() < 0.4 else [],
            "needs": {chance.choice("ab"): chance.choice([1, 1, 1, 2])} if chance.random() < 0.7 else {},
            "parent": id_ if chance.random() < 0.3 else None,
        }
        changes = [{"summary": "x"}, {"status": "blocked"}, {"status": "todo"}, {"status": "done"}, {"kind": "goal"}]
        changes += [{"parent": other}, {"parent": None}, {"deps": [{"on": other}]}, {"needs": {"a": 1}}]
        yield chance.choice(
            [
                {"op": "upsert", **make},
                {"op": "upsert", "id": id_, **chance.choice(changes)},
                {"op": "submit", "nodes": [make, {"ref": "r", **make}]},
                {"op": "link", "before": id_, "after": other},
                {"op": "unlink", "before": id_, "after": other},
                {"op": chance.choice(["get", "why"]), "id": id_},
                {"op": "list", "under": id_},
                {"op": "ready"},
                {"op": "claim", "id": id_, "actor": actor, **gen},
                {"op": "claim_next", "actor": actor},
                {"op": "claim_next", "actor": actor},
                {"op": chance.choice(["renew", "running", "release"]), "id": id_, **gen, **named},
                {"op": "complete", "id": id_, "status": chance.choice(["done", "done", "failed"]), **gen, **named},
                {"op": chance.choice(["cancel", "reopen", "archive", "unarchive"]), "id": id_},
                {"op": chance.choice(["reopen", "archive", "unarchive"]), "id": id_, **gen},
                {"op": "reclaim", "lease": 0},
                {"op": "capacity", "resource": "b", "units": chance.randint(1, 2)},
                {"op": "wait", "ids": [id_], "timeout": 0},
                {"op": "watch", "from": 0},
                {"op": chance.choice(["resources", "stats", "log", "ping", "hello"])},
            ]
        )


@pytest.mark.slow
def test_no_op_gives_a_code_that_its_section_does_not_list(tmp_path: Path) -> None:
    """Some thousands of requests at random: whatever is refused is refused in a way that the document tells of."""
    given: dict[str, set[str]] = defaultdict(set)
    for seed in range(6):
        world = World(tmp_path / str(seed), max_nodes=24)
        ids: list[str] = []
        for n, request in enumerate(itertools.islice(_requests(random.Random(seed), ids), 600)):
            world.say(str(n % 3), msgspec.json.encode(request).decode())
            while answer := world.heard(str(n % 3)):
                ok = answer.get("ok") or {}
                if "error" in answer:
                    given[request["op"]].add(answer["error"]["code"])
                elif request["op"] == "upsert" and "id" in ok:
                    ids.append(ok["id"])
                elif request["op"] == "submit" and "ids" in ok:
                    ids.extend(ok["ids"])
        world.close()
    for op, codes in given.items():
        assert codes <= _listed_codes(OPS[op]) | COMMON, op
    met = set().union(*given.values())
    assert met >= {code.value for code in wire.Code} - COMMON - {"timeout", "lagged", "would_not_run"}, "too tame"


@pytest.mark.parametrize(
    ("said", "came", "good"),
    [
        ('{"a": ..., ...}', {"a": None, "b": 1}, True),
        ('{"a": 1, ...}', {"b": 1}, False),
        ('{"a": 1}', {"a": 1, "b": 2}, False),
        ('["x", ...]', ["x", "y"], True),
        ('{"m": "one ... three"}', {"m": "one two three"}, True),
        ('{"m": "one ... three"}', {"m": "one two"}, False),
        ('{"n": 1}', {"n": 1.0}, False),
        ("{...}", None, False),
    ],
)
def test_examples_are_compared_strictly_but_for_the_dots(said: str, came: Any, good: bool) -> None:
    """The comparison itself can fail: an example that says something else than what came is found."""
    assert agrees(loosely(said), came) is good
