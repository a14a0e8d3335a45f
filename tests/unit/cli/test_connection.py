"""The connection: where the daemon is looked for, what is said to it first, and what is made of strange answers."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from claimdag_client._protocol.messages import encode
from claimdag_client._transport.endpoint import Endpoint
from claimdag_client._transport.transport import connect
from claimdag_client.errors import Malformed, Mismatch, Refused, Unreachable
from claimdagd.limits import LINE_MAX_BYTES
from claimdagd.paths import locate
from tests.support.scripted_daemon import HELLO, ScriptedDaemon


def test_endpoint_is_where_the_daemon_listens(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides ask the same function, and a client that changes its directory stays with its graph."""
    (short_dir / ".claimdag.toml").write_text('graph = "website"\n')
    monkeypatch.chdir(short_dir)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))
    for name in ("CLAIMDAG_DIR", "CLAIMDAG_SOCKET", "CLAIMDAG_GRAPH"):
        monkeypatch.delenv(name, raising=False)
    endpoint = Endpoint()
    theirs = locate(None, None, None, os.environ, os.getuid())
    assert (endpoint.socket, endpoint.state_directory) == (theirs.socket, theirs.directory)
    monkeypatch.chdir("/")
    assert endpoint.socket == f"{short_dir}/claimdag/graphs/website/sock"


def test_a_socket_path_that_is_too_long_is_refused_by_name(tmp_path: Path) -> None:
    """The system would cut it or refuse it without a word of why."""
    with pytest.raises(Unreachable, match="at most 107") as caught:
        connect(Endpoint(str(tmp_path / ("x" * 120)), start=False))
    assert "--socket" in caught.value.remedy


def test_no_daemon_and_no_start_is_unreachable(short_dir: Path) -> None:
    """Nothing is started where that was forbidden."""
    with pytest.raises(Unreachable, match="no daemon listens"):
        connect(Endpoint(directory=str(short_dir), start=False))
    assert list(short_dir.iterdir()) == []


@pytest.mark.parametrize(("theirs", "remedy"), [(2, "upgrade this client"), (0, "claimdag shutdown")])
@pytest.mark.parametrize("daemon_refuses", [True, False])
def test_another_protocol_is_said_with_both_versions(
    daemon: ScriptedDaemon, theirs: int, remedy: str, daemon_refuses: bool
) -> None:
    """Whoever notices first, the person reads both versions and what to do (law 9.3)."""
    if daemon_refuses:
        daemon.refuse("hello", "bad_request", "hello: protocol mismatch", protocol=theirs, version="3.0")
    else:
        daemon.answers["hello"] = {**HELLO, "protocol": theirs, "version": "3.0"}
    with pytest.raises(Mismatch, match=rf"claimdagd 3.0 speaks protocol {theirs}, this client protocol 1") as caught:
        connect(Endpoint(str(daemon.path), start=False))
    assert remedy in caught.value.remedy


def test_a_daemon_that_is_leaving_is_waited_for(daemon: ScriptedDaemon) -> None:
    """It hangs up on the first, refuses the second as it shuts down; its successor answers the third."""
    answers: list[Any] = [None, {"error": {"code": "shutting_down", "message": "hello: shutting down"}}, HELLO]
    daemon.answers["hello"] = lambda _request: answers.pop(0)
    with connect(Endpoint(str(daemon.path), start=False)) as connection:
        assert connection.graph == "7q2f"
    assert answers == []


def test_a_daemon_that_does_not_answer_is_given_up(daemon: ScriptedDaemon) -> None:
    """A stopped daemon is alive, and no reason to wait for ever."""
    release = threading.Event()
    daemon.answers["hello"] = lambda _request: release.wait(5) and None
    with pytest.raises(Unreachable, match="does not answer"):
        connect(Endpoint(str(daemon.path), start=False), limit_s=0.1)
    release.set()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\n", b"[1]\n", b'{"rid":1}\n', b"[" * 5000 + b"\n"])
def test_what_does_not_speak_the_protocol_is_said_to(daemon: ScriptedDaemon, answer: bytes) -> None:
    """Some other server on that path is not taken for a daemon."""
    daemon.answers["hello"] = answer
    with pytest.raises(Mismatch, match="does not speak claimdagd's protocol"):
        connect(Endpoint(str(daemon.path), start=False))


def test_events_before_an_answer_are_passed_over(daemon: ScriptedDaemon) -> None:
    """What the daemon tells unasked is no answer; and an answer may come in pieces."""
    daemon.answers["ping"] = b'{"event":{"op":"expiring"}}\n{"ok":{"now":1.5}}\n'
    with connect(Endpoint(str(daemon.path), start=False)) as connection:
        assert connection.request("ping") == {"now": 1.5}


def test_a_refusal_carries_all_that_came(daemon: ScriptedDaemon) -> None:
    """Code and message apart, the details beside them."""
    daemon.refuse("get", "not_found", "get: no such node", id="7q2f-9")
    with connect(Endpoint(str(daemon.path), start=False)) as connection, pytest.raises(Refused) as caught:
        connection.request("get", id="7q2f-9")
    assert (caught.value.code, caught.value.message, caught.value.details) == (
        "not_found", "get: no such node", {"id": "7q2f-9"},
    )  # fmt: skip


def test_an_answer_that_does_not_come_is_unreachable(daemon: ScriptedDaemon) -> None:
    """The daemon died over the request."""
    daemon.answers["ping"] = None
    with connect(Endpoint(str(daemon.path), start=False)) as connection, pytest.raises(Unreachable, match="hung up"):
        connection.request("ping")


def test_encode_of_what_cannot_be_sent_says_why() -> None:
    """Too long, not text, not a number: each by name, before anything is sent."""
    with pytest.raises(Malformed, match=r"4,194,304"):
        encode({"op": "upsert", "summary": "x" * LINE_MAX_BYTES})
    with pytest.raises(Malformed, match="UTF-8"):
        encode({"op": "upsert", "summary": "\udcff"})
    with pytest.raises(Malformed, match="finite"):
        encode({"op": "upsert", "cost": float("nan")})
