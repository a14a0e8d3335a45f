"""Whatever a peer sends: one answer a line, JSON, with a known code; never a traceback, never `internal`, no hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claimdagd.limits import ERROR_MAX_BYTES, LINE_MAX_BYTES, SUMMARY_MAX_BYTES
from tests.fuzz import hostile
from tests.fuzz.targets import Protocol

FAST = settings(
    deadline=None, max_examples=250, database=None, suppress_health_check=list(HealthCheck), print_blob=True
)


@pytest.fixture
def target() -> Protocol:
    return Protocol()


@FAST
@given(st.lists(hostile.lines(), min_size=1, max_size=8))
def test_protocol_of_hostile_requests_is_answered(lines: list[bytes]) -> None:
    """Requests of a hostile shape, several in one go, on a graph with something in it."""
    target = Protocol()
    target.say(lines)
    target.check()


@FAST
@given(st.binary(max_size=400))
def test_protocol_of_bytes_is_answered(data: bytes) -> None:
    """Bytes that mean nothing."""
    Protocol().bytes(data)


@FAST
@given(hostile.anything)
def test_protocol_of_json_that_is_no_request_is_refused(value: object) -> None:
    """Any JSON at all: an object without an op of ours, or no object, is a bad request."""
    (answer,) = Protocol().say([json.dumps(value).encode()])
    assert "ok" not in answer or answer["ok"] is not None


@pytest.mark.parametrize("depth", [10, 1_000, 100_000, LINE_MAX_BYTES // 2])
@pytest.mark.parametrize("pair", [(b"[", b"]"), (b'{"op":', b"}"), (b'{"op":"get","id":{"a":', b"}}")])
def test_protocol_of_deep_nesting_is_refused(target: Protocol, depth: int, pair: tuple[bytes, bytes]) -> None:
    """Nested as deep as a line can be: refused in one line, closed or not."""
    opening, closing = pair
    depth = min(depth, LINE_MAX_BYTES // (len(opening) + len(closing)))
    for line in (opening * depth + closing * depth, opening * depth):
        (answer,) = target.say([line])
        assert answer["error"]["code"] == "bad_request"
        assert len(json.dumps(answer)) < 4096


@pytest.mark.parametrize(
    "number",
    ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 400, "1" * 5000, "0x10", "01", "1.", ".5", "--1", "+1"],
)
@pytest.mark.parametrize("field", ["lease", "gen", "wait", "slack", "rid"])
def test_protocol_of_numbers_that_are_none_is_refused(target: Protocol, field: str, number: str) -> None:
    """What is no JSON number, or no number that a field takes, is refused and changes nothing."""
    line = b'{"op":"claim_next","actor":"zoe","%b":%b}' % (field.encode(), number.encode())
    (answer,) = target.say([line])
    if field == "rid" and "error" not in answer:
        assert answer["rid"] == int(number)  # a number of 400 digits is a rid like any other
    else:
        assert answer["error"]["code"] == "bad_request"
        assert target.store.seq == 4


def test_protocol_of_surrogates_and_bad_utf8_is_refused(target: Protocol) -> None:
    """Half a character is no text, escaped or raw: it never gets into the state or back out."""
    for text in (b"\\ud800", b"\\udc00\\ud800", b"\xed\xa0\x80", b"\xff\xfe", b"\xc0\xaf", b"\xf8\x88\x80\x80\x80"):
        for line in (
            b'{"op":"upsert","summary":"%b"}' % text,
            b'{"op":"get","id":"%b"}' % text,
            b'{"op":"%b"}' % text,
            b'{"op":"ping","rid":"%b"}' % text,
            b'{"op":"ping","%b":1}' % text,
        ):
            target.say([line])
    target.check()


@pytest.mark.parametrize("number", [2**31, 2**53 + 1, 2**63, 2**64, 10**40])
def test_protocol_of_seqs_beyond_all_is_answered(target: Protocol, number: int) -> None:
    """An entry that never comes: no entries from it on, and a watch that waits for it."""
    log, watch, next_ = target.say(
        [b'{"op":"log","from":%d}' % number, b'{"op":"watch","from":%d}' % number, b'{"op":"upsert"}']
    )
    assert log["ok"] == {"entries": []}
    assert watch["ok"] == {"seq": number - 1}
    assert next_["ok"]["id"] == "fuzz-6"


def test_protocol_of_a_key_twice_is_answered_once(target: Protocol) -> None:
    """The last one counts, or it is refused; it is never taken as two."""
    (answer,) = target.say([b'{"op":"upsert","summary":"a","summary":"b","op":"upsert"}'])
    assert "error" in answer or answer["ok"]["summary"] == "b"
    (answer,) = target.say([b'{"op":"upsert","needs":{"gpu":1,"gpu":1}}'])
    assert "error" in answer or answer["ok"]["needs"] == {"gpu": 1}


@pytest.mark.parametrize("count", [64, 4096, 100_000])
def test_protocol_of_very_many_deps_is_answered(target: Protocol, count: int) -> None:
    """Thousands of deps, on one node, on none, on others' nodes: accepted or refused, in time."""
    for on in ("fuzz-2", "fuzz-%d", "none-%d", "fuzz-4"):
        deps = [{"on": on % n if "%" in on else on} for n in range(1, count + 1)]
        line = json.dumps({"op": "upsert", "deps": deps}).encode()
        if len(line) <= LINE_MAX_BYTES:
            target.say([line])
    target.check()


def test_protocol_of_a_submission_that_fills_the_line_is_answered() -> None:
    """A plan of 4 MiB in one line, with every node hanging on the one before it."""
    target = Protocol(max_nodes=100_000)
    nodes = []
    size = 64
    while size < LINE_MAX_BYTES - 100:
        node = {"ref": f"n{len(nodes)}", "deps": [{"on": f"n{len(nodes) - 1}"}] if nodes else []}
        size += len(json.dumps(node)) + 2
        nodes.append(node)
    (answer,) = target.say([json.dumps({"op": "submit", "nodes": nodes, "return": ["n0"]}).encode()])
    assert answer["ok"] == {"ids": ["fuzz-6"]}


@pytest.mark.parametrize(
    ("field", "most"), [("summary", SUMMARY_MAX_BYTES), ("error", ERROR_MAX_BYTES), ("actor", 64), ("once", 128)]
)
def test_protocol_at_and_over_a_limit(field: str, most: int) -> None:
    """At the limit it is taken, one over it is refused by the field's name."""
    for size, ok in ((most, True), (most + 1, False)):
        target = Protocol()
        body = {"op": "cancel", "id": "fuzz-2"} if field == "error" else {"op": "upsert"}
        (answer,) = target.say([json.dumps({**body, field: "x" * size}).encode()])
        assert ("ok" in answer) is ok, answer
        if not ok:
            assert answer["error"]["code"] == "bad_request"
            assert answer["error"]["field"] == field
            assert target.store.seq == 4


def test_protocol_of_a_line_over_the_limit_is_told_by_the_framer() -> None:
    """The service never sees it; what came whole before it is answered."""
    answers = Protocol().bytes(b'{"op":"ping"}\n' + b"x" * (LINE_MAX_BYTES + 1) + b'\n{"op":"ping"}\n')
    assert len(answers) == 1


def test_protocol_of_garbage_keeps_no_memory(target: Protocol) -> None:
    """Thousands of refused lines, some of them long, leave nothing behind."""
    bad = [b'{"op":"get","id":"%b"}' % (b"x" * n) for n in (1, 1000, 100_000)]
    bad += [b"[" * 5000, b'{"op":"' + b"y" * 50_000 + b'"}', b'{"op":"upsert","' + b"z" * 50_000 + b'":1}', b"\xff"]
    for line in bad:
        target.say([line])
    tracemalloc.start()
    for line in bad:
        target.say([line])
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(200):
        for line in bad:
            (answer,) = target.say([line])
            assert len(json.dumps(answer)) < 250_000
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 200_000, grown


@pytest.mark.parametrize("which", ["protocol", "files"])
def test_atheris_finds_nothing_in_a_few_seconds(which: str) -> None:
    """Fuzzing led by coverage, where atheris is installed; `python -m tests.soak fuzz` goes on for longer."""
    pytest.importorskip("atheris", reason="atheris is not installed; Hypothesis has fuzzed all the same")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.guided", which, "--seconds", "4", "--seed", "1"],
        capture_output=True, text=True, timeout=55, check=False, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
