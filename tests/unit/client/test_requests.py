"""The vocabulary of both clients against the protocol's own types: no op, field or code is missing or misspelt."""

from __future__ import annotations

import inspect
import math
from typing import Any

import msgspec
import pytest

import claimdag_client
from claimdag_client import errors
from claimdag_client._async import client as aio
from claimdag_client._protocol import failure_text as ending
from claimdag_client._protocol import messages, requests, several
from claimdag_client._sync import client as sync
from claimdagd import wire

ASKED = [
    requests.ping(),
    requests.upsert(
        "7q2f-1", kind="task", status="blocked", role="general", parent=None, summary="s", cost=2, priority=1,
        needs={"gpu": 1}, deps=["7q2f-2", {"on": "7q2f-3", "when": "after_any"}, wire.Dep("7q2f-4")], max_attempts=None,
        actor="a",
    ),
    requests.submit([{"ref": "x", "summary": "s", "deps": ["y"]}, {"ref": "y"}], returns=["y"], actor="a"),
    requests.get("7q2f-1"),
    requests.why("7q2f-1"),
    requests.list_nodes(terminal=True, archived=True, all=True, status="ready", under="7q2f-1", assignee="a"),
    requests.ready(role="general", slack=1, strict=True),
    requests.claim("7q2f-1", actor="a", gen=1, lease=math.inf),
    requests.claim_next("a", role="general", slack=1, strict=False, lease=3, bound=False, wait=math.inf),
    requests.renew("7q2f-1", actor="a", gen=1, lease=5, bound=True),
    requests.running("7q2f-1", actor="a", gen=1, lease=5, bound=True),
    requests.release("7q2f-1", actor="a", gen=1),
    requests.reopen("7q2f-1", actor="a", gen=1),
    requests.archive("7q2f-1", actor="a", gen=1),
    requests.unarchive("7q2f-1", actor="a", gen=1),
    requests.complete("7q2f-1", status="failed", summary="s", error="e", actor="a", gen=1),
    requests.cancel("7q2f-1", error="e", actor="a"),
    several.renew_many(["7q2f-1", "7q2f-2"], actor="a", lease=math.inf, bound=True),
    several.running_many(["7q2f-1"], actor="a", lease=5, bound=True),
    several.release_many(["7q2f-1"], actor="a"),
    several.reopen_many(["7q2f-1"], actor="a"),
    several.reopen_failed(under="7q2f-1", actor="a"),
    several.archive_many(["7q2f-1"], actor="a"),
    several.unarchive_many(["7q2f-1"], actor="a"),
    several.complete_many(["7q2f-1"], status="failed", error="e", actor="a", final=True),
    several.cancel_many(("7q2f-1", "7q2f-2"), error="e", actor="a"),
    several.cancel_under("7q2f-1", error="e", actor="a"),
    requests.reclaim(lease=5, actor="a"),
    requests.link("7q2f-1", "7q2f-2", when="after_any", actor="a"),
    requests.unlink("7q2f-1", "7q2f-2", when="after_any", actor="a"),
    requests.resources(),
    requests.capacity("gpu", 2, actor="a"),
    requests.pause(under="7q2f-1", actor="a"),
    requests.resume(under="7q2f-1", actor="a"),
    requests.wait("7q2f-1", "7q2f-2", timeout=5),
    requests.log(from_=1, limit=2, id="7q2f-1"),
    requests.stats(),
    requests.checkpoint(),
    requests.shutdown(),
]  # fmt: skip


@pytest.mark.parametrize("ask", ASKED, ids=lambda ask: ask.op)
def test_ask_with_every_argument_is_a_request_of_the_protocol(ask: requests.Request[Any]) -> None:
    """The daemon's own decoder takes the line."""
    line = messages.encode({"op": ask.op, **ask.fields, "rid": 1})
    request = msgspec.json.decode(line, type=wire.AnyRequest)
    assert wire.REQUEST_TYPES[ask.op] is type(request)


def test_vocabulary_covers_the_protocol() -> None:
    """Every op but those that have a form of their own (hello, and watch as `events`)."""
    assert {ask.op for ask in ASKED} == set(wire.REQUEST_TYPES) - {"hello", "watch"}


def test_one_id_as_a_text_is_not_taken_for_its_letters() -> None:
    """A text is a sequence too."""
    assert several.cancel_many("7q2f-1").fields == {"ids": ["7q2f-1"]}


def test_arguments_left_out_are_not_sent_and_null_is() -> None:
    """Absent is different from null."""
    assert requests.upsert("7q2f-1").fields == {"id": "7q2f-1"}
    assert requests.upsert("7q2f-1", parent=None).fields == {"id": "7q2f-1", "parent": None}


def test_errors_have_a_class_for_every_code() -> None:
    """In the tree that the module draws."""
    assert set(errors.BY_CODE) == {str(code) for code in wire.Code}
    assert len(set(errors.BY_CODE.values())) == len(errors.BY_CODE)
    drawn = errors.__doc__ or ""
    for name in errors.__all__:
        if name not in ("BY_CODE", "refusal"):
            assert name in drawn, name


def test_both_clients_have_the_same_public_shape() -> None:
    """Whoever knows one knows the other; and everything public says what it is."""
    names = {name for name in dir(aio.Client) if not name.startswith("_")}
    assert names - {"connected"} == {name for name in dir(sync.Client) if not name.startswith("_")} - {"close"}
    for cls in (aio.Client, sync.Client):
        for name in names & set(dir(cls)):
            assert getattr(cls, name).__doc__, f"{cls.__module__}.{name}"
    assert inspect.signature(aio.connect).parameters.keys() == inspect.signature(sync.connect).parameters.keys()
    assert [*inspect.signature(aio.Client.get).parameters] == ["self", "id"]


def test_package_offers_its_names() -> None:
    """Loaded when they are first used."""
    for name in claimdag_client.__all__:
        assert getattr(claimdag_client, name).__name__ == name
    assert set(claimdag_client.__all__) <= set(dir(claimdag_client))
    with pytest.raises(AttributeError):
        _ = claimdag_client.nothing


def test_error_text_fits_the_field_in_whole_characters() -> None:
    """At most 1,024 bytes, cut between characters."""
    assert ending.error_text(KeyError("x")) == "KeyError: 'x'"
    assert ending.error_text(ValueError()) == "ValueError"
    text = ending.error_text("é" * 2000)
    assert len(text.encode()) <= 1024
    assert text.endswith("é…")
    assert ending.error_text("lone \ud800") == "lone ?"
