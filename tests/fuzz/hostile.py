"""Requests of a hostile shape, for Hypothesis: valid, almost valid, and nothing of the kind. Must decide nothing."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from claimdagd import wire

#: Text that hurts somebody: escapes, surrogates, NULs, separators, other scripts, and everything.
NASTY = (
    "\x1b[2J", "\x00", "\ud800", "\udfff\ud800", "\u2028", "\u202e", "\ufeff", "'; rm -rf /", "$(id)", "`id`", "\r\n",
    "NaN", "é" * 64, "a" * 64, "a" * 65, "x" * 4096, "x" * 4097, "é" * 2049, "{}", "", " ", "fuzz-2", "a/b:c@d.e-f_g",
)  # fmt: skip
texts = st.one_of(st.sampled_from(NASTY), st.text(max_size=12))
ids = st.one_of(
    st.integers(0, 12).map(lambda n: f"fuzz-{n}"),
    st.sampled_from(
        ["", "fuzz", "fuzz-", "fuzz-0", "fuzz-01", "fuzz-999999999999999999", "fuzz-9999999999999999999", "othr-1",
         "FUZZ-1", "fuzz-1\n", "fuzz--1", "fuzz-1e3", "../../etc/passwd", "g", "a"]
    ),
    texts,
)  # fmt: skip
names = st.one_of(st.sampled_from(["a", "b", "somebody", "gpu", "n" * 64, "n" * 65, "n n", "", "é", "a\n"]), texts)
numbers = st.one_of(
    st.integers(-3, 5),
    st.sampled_from(
        [2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**40, -1, 0, 1e308, -1e308, 5e-324, 0.1, -0.0, 1e12,
         1e12 + 1, 1_000_000_000, 1_000_000_001, 366 * 86400.0, 366 * 86400.0 + 1]
    ),
)  # fmt: skip
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
deps = st.lists(
    st.fixed_dictionaries({"on": ids}, optional={"when": st.sampled_from(["after_ok", "after_any", "never"])}),
    max_size=4,
)
needs = st.dictionaries(names, st.one_of(st.integers(1, 3), numbers), max_size=3)
_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "kind": st.sampled_from(["task", "step", "goal", "molecule", "epic"]),
    "status": st.sampled_from(["todo", "ready", "blocked", "done", "failed", "cancelled", "claimed", "x"]),
    "role": st.sampled_from(["implementor", "verifier", "general", "unset", "boss"]),
    "parent": st.one_of(st.none(), ids),
    "summary": texts,
    "cost": numbers,
    "priority": numbers,
    "needs": needs,
    "deps": deps,
    "max_attempts": st.one_of(st.none(), numbers),
}
nodes = st.lists(st.fixed_dictionaries({}, optional={**_FIELDS, "ref": ids}), max_size=5)
next_ = st.fixed_dictionaries({}, optional={"actor": names, "role": _FIELDS["role"], "wait": numbers, "lease": numbers,
                                            "bound": st.booleans(), "slack": numbers})  # fmt: skip
_BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    **_FIELDS, "id": ids, "before": ids, "after": ids, "under": ids, "ids": st.lists(ids, max_size=4), "actor": names,
    "resource": names, "assignee": names, "nodes": nodes, "return": st.lists(ids, max_size=3), "next": next_,
    "once": st.one_of(st.sampled_from(["t", "t" * 128, "t" * 129, ""]), texts), "error": texts, "client": texts,
    "gen": numbers, "lease": numbers, "wait": numbers, "timeout": numbers, "slack": numbers, "units": numbers,
    "from": numbers, "limit": numbers, "protocol": numbers, "bound": st.booleans(), "strict": st.booleans(),
    "terminal": st.booleans(), "archived": st.booleans(), "all": st.booleans(),
    "when": st.sampled_from(["after_ok", "after_any", "x"]), "rid": st.one_of(numbers, texts),
}  # fmt: skip

#: shutdown is left out: it would end the target, not break it.
OPS = sorted(set(wire.REQUEST_TYPES) - {"shutdown"})


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request of a known op with its own fields, hostile values in some, now and then one that does not belong."""
    import msgspec

    op = draw(st.sampled_from(OPS))
    fields = [f.encode_name for f in msgspec.structs.fields(wire.REQUEST_TYPES[op])]
    required = [f.encode_name for f in msgspec.structs.fields(wire.REQUEST_TYPES[op]) if f.required]
    chosen = {*required, *draw(st.lists(st.sampled_from(fields), max_size=5))}
    body: dict[str, Any] = {"op": op}
    for name in sorted(chosen):
        body[name] = draw(st.one_of(_BY_NAME.get(name, anything), anything) if draw(st.integers(0, 9)) == 0
                          else _BY_NAME.get(name, anything))  # fmt: skip
    if draw(st.integers(0, 19)) == 0:
        body[draw(texts)] = draw(anything)
    return body


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A line: a hostile request, with its surrogates as they are, and sometimes cut, doubled or bent."""
    body = draw(requests())
    text = json.dumps(body, ensure_ascii=draw(st.booleans()))
    data = text.encode("utf-8", "surrogatepass").replace(b"\n", b" ")
    bend = draw(st.integers(0, 11))
    if bend == 0 and len(data) > 2:
        at = draw(st.integers(0, len(data) - 1))
        data = data[:at] + draw(st.binary(max_size=3)) + data[at + draw(st.integers(0, 3)) :]
    elif bend == 1:
        data = data[: draw(st.integers(0, len(data)))]
    elif bend == 2:
        # A key twice: which of them counts is nobody's promise, but it is one of them.
        data = data[:-1] + b',"op":"ping"}'
    return data.replace(b"\n", b" ")


def deep(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    """Nested so deep."""
    return opening * depth + closing * depth
