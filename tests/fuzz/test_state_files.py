"""Whatever stands in the state's files: the state, whole, or a refusal that changes nothing; salvage never fails."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claimdagd.store.framing import with_crc
from tests.fuzz import hostile
from tests.fuzz.targets import a_state, state_files

FAST = settings(
    deadline=None, max_examples=250, database=None, suppress_health_check=list(HealthCheck), print_blob=True
)
base = cache(a_state)


def test_state_files_of_a_state_are_that_state() -> None:
    """The tool itself: untouched files are taken."""
    found = state_files(base())
    assert found is not None
    assert len(found.nodes) == 6


@FAST
@given(st.binary(max_size=300), st.one_of(st.none(), st.binary(max_size=300)))
def test_state_files_of_bytes_are_refused(journal: bytes, snapshot: bytes | None) -> None:
    """Bytes that no daemon wrote are never a graph, and never an empty one."""
    files = {"journal.jsonl": journal} if snapshot is None else {"journal.jsonl": journal, "snapshot.jsonl": snapshot}
    assert state_files(files) is None


@st.composite
def bent(draw: st.DrawFn) -> dict[str, bytes]:
    """Real files with bytes changed, dropped or put in, or cut short."""
    files = dict(base())
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(files)))
        data = files[name]
        at = draw(st.integers(0, len(data)))
        how = draw(st.sampled_from(["change", "cut", "insert", "drop a line", "double a line", "swap lines"]))
        lines = data.splitlines(keepends=True)
        n = draw(st.integers(0, max(0, len(lines) - 1)))
        if how == "change":
            data = data[:at] + draw(st.binary(min_size=1, max_size=4)) + data[at + draw(st.integers(1, 4)) :]
        elif how == "cut":
            data = data[:at]
        elif how == "insert":
            data = data[:at] + draw(st.binary(min_size=1, max_size=9)) + data[at:]
        elif lines and how == "drop a line":
            data = b"".join(lines[:n] + lines[n + 1 :])
        elif lines and how == "double a line":
            data = b"".join(lines[: n + 1] + lines[n:])
        elif lines:
            lines[0], lines[n] = lines[n], lines[0]
            data = b"".join(lines)
        files[name] = data
    return files


@FAST
@given(bent())
def test_state_files_that_are_damaged_are_refused_or_taken_up_to_a_torn_end(files: dict[str, bytes]) -> None:
    """What was damaged is noticed; only a last line cut short may be missing."""
    found = state_files(files)
    if found is not None:
        full = state_files(base())
        assert full is not None
        assert found.seq <= full.seq


@st.composite
def forged(draw: st.DrawFn) -> dict[str, bytes]:
    """Real files in which a line says something else, under a checksum that fits."""
    files = dict(base())
    name = draw(st.sampled_from(sorted(files)))
    lines = files[name].splitlines()
    n = draw(st.integers(0, len(lines) - 1))
    body = json.loads(lines[n])
    body.pop("crc", None)
    places = list(_places(body))
    for _ in range(draw(st.integers(1, 2))):
        holder, key = draw(st.sampled_from(places))
        try:
            holder[key] = draw(st.one_of(hostile.anything, hostile.ids, hostile.numbers, hostile.deps))
        except (KeyError, IndexError):
            pass
    text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace").replace(b"\n", b" ")
    lines[n] = with_crc(text)[:-1]
    files[name] = b"\n".join(lines) + b"\n"
    return files


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield value, key
            yield from _places(inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield value, index
            yield from _places(inner)


@FAST
@given(forged())
def test_state_files_that_are_forged_do_not_break_the_daemon(files: dict[str, bytes]) -> None:
    """A checksum keeps out accidents, not a user who writes his own files: he gets a graph or a refusal, no crash."""
    state_files(files)
