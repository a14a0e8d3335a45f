"""Edits that leave every other byte as it was, and come out again exactly."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimdag_client.handoff.edits import HASH, MARKDOWN, NotPlain, put_block, put_entry, take_block, take_entry

KEYS = ("mcpServers", "claimdag")
SERVER = {"command": "claimdag", "args": ["mcp"]}
HOOK = {"hooks": [{"type": "command", "command": "claimdag hook stop"}]}
STOP = ("hooks", "Stop", "")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
documents = st.dictionaries(
    st.sampled_from(["mcpServers", "hooks", "x", "y"]),
    st.dictionaries(st.sampled_from(["a", "Stop", "b"]), st.lists(values, max_size=2), max_size=3),
    max_size=4,
)


@given(st.none() | st.text(alphabet="ab\n\r<!-# >", max_size=40), st.sampled_from([MARKDOWN, HASH]))
def test_block_put_and_taken_gives_the_text_back(text: str | None, marks: object) -> None:
    """Any text, with or without a newline at its end, or no file at all."""
    assert take_block(put_block(text, "one\ntwo", marks), marks) == text


@given(st.text(alphabet="ab\n", max_size=20))
def test_block_put_twice_stands_once_and_is_renewed(text: str) -> None:
    """An older block is replaced where it stands."""
    once = put_block(text, "old", MARKDOWN)
    assert put_block(once, "old", MARKDOWN) == once
    assert put_block(once, "new", MARKDOWN) == put_block(text, "new", MARKDOWN)


def test_block_in_a_file_of_crlf_lines_has_them_too() -> None:
    """A file keeps one kind of line end."""
    assert "\n" not in put_block("a\r\nb\r\n", "one\ntwo", MARKDOWN).replace("\r\n", "")


def test_block_whose_end_mark_is_gone_is_refused() -> None:
    """What stands after it may be the user's own."""
    broken = put_block("a\n", "one", MARKDOWN).replace("claimdag end", "x")
    with pytest.raises(NotPlain, match="is missing"):
        take_block(broken, MARKDOWN)


@given(st.none() | documents, st.sampled_from([None, 1, 2, "\t"]), st.sampled_from(["", "\n"]))
def test_entry_put_and_taken_gives_the_text_back(document: object, indent: object, tail: str) -> None:
    """Any JSON object, however it is laid out, and no file at all."""
    text = None if document is None else json.dumps(document, indent=indent) + tail
    for path, entry in ((KEYS, SERVER), (STOP, HOOK)):
        put = put_entry(text, path, entry)
        assert take_entry(put, path, entry) == text
        assert put_entry(put, path, entry) == put


@given(documents)
def test_entry_leaves_every_other_value(document: dict[str, dict[str, list[object]]]) -> None:
    """The value at the path is ours, and all others are as they were."""
    put = json.loads(put_entry(json.dumps(document), KEYS, SERVER))
    assert put["mcpServers"].pop("claimdag") == SERVER
    assert {k: v for k, v in put.items() if v or k != "mcpServers"} == {
        k: v for k, v in document.items() if v or k != "mcpServers"
    }


def test_two_entries_in_one_file_come_out_in_the_order_of_the_edits() -> None:
    """The two hooks of one settings file."""
    text = '{\n  "model": "x"\n}\n'
    start = ("hooks", "SessionStart", "")
    both = put_entry(put_entry(text, STOP, HOOK), start, HOOK)
    assert take_entry(take_entry(both, start, HOOK) or "", STOP, HOOK) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("// a comment\n{}", "not plain JSON"),
        ("[1]", "not a JSON object"),
        ('{"mcpServers": []}', "another type"),
        ('{"mcpServers": {"claimdag": {"command": "mine"}}}', "another value"),
    ],
)
def test_file_that_cannot_be_edited_safely_is_refused(text: str, says: str) -> None:
    """It is left to the user, with the reason."""
    with pytest.raises(NotPlain, match=says):
        put_entry(text, KEYS, SERVER)


def test_entry_that_was_changed_since_is_left_to_the_user() -> None:
    """Taking it out would take the user's own words along."""
    changed = put_entry('{"a": 1}', KEYS, SERVER).replace('"mcp"]', '"mcp", "--actor", "me"]')
    assert take_entry(changed, KEYS, SERVER) == changed
