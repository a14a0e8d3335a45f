"""The commands watch and wait: look on while others work. Both outlive a daemon that restarts.

They stand on the blocking connection and hold nothing: what they show is the daemon's word, made safe for a terminal.
"""

from __future__ import annotations

import math
import sys
import time

from claimdag_client._protocol.backoff import delays
from claimdag_client._protocol.subscription import Subscription
from claimdag_client._transport.endpoint import Endpoint
from claimdag_client._transport.patience import ANSWER_SLACK_S, SILENCE_LIMIT_S
from claimdag_client._transport.transport import Connection, connect
from claimdag_client.cli import streams
from claimdag_client.cli.command import Command
from claimdag_client.cli.progress import Progress
from claimdag_client.cli.render.text import Paint, clean, fit, json_line
from claimdag_client.cli.session import DONE, Session
from claimdag_client.errors import ClaimdagError, Refused, Unreachable, Unresponsive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any, TextIO

#: A daemon that went away has this long to come back, under systemd say, before one is started from here.
START_AFTER_S = 5.0
#: How often a progress bar moves by itself.
REDRAW_S = 0.2
#: A daemon that has said nothing for so long is asked whether it is there.
PROBE_AFTER_S = 4.0


def _watch(args: Namespace, session: Session) -> int:
    connection = session.connection
    under = None if args.under is None else session.node_id(args.under)
    look = _Watch(args.from_seq, under, json=bool(args.json))
    while True:
        try:
            with connection:
                look.follow(connection)
        except Unresponsive:
            raise
        except Unreachable:
            pass
        connection = _again(session.place, "watch")


class _Watch:
    """What has been seen of the ledger, and how it is shown."""

    def __init__(self, from_seq: int | None, under: str | None, *, json: bool) -> None:
        self.subscription = Subscription(from_seq, under)
        self.json = json
        self.paint = Paint(sys.stdout)

    def follow(self, connection: Connection) -> None:
        """Show entries until the connection ends. Raises Unreachable then."""
        for entry in self._entries(connection):
            if isinstance(entry, dict) and isinstance(entry.get("seq"), int) and self.subscription.accept(entry["seq"]):
                self.show(entry)

    def _entries(self, connection: Connection) -> Iterator[Any]:
        graph = connection.graph
        if self.subscription.graph not in (None, graph):
            _note("watch", f"another graph is served now: {graph}")
            self.subscription.restart()
        began = False
        try:
            self.subscription.begin(graph, connection.ask(self.subscription.request(graph))["seq"])
            began = True
            while True:
                message = connection.receive()
                if "error" in message:
                    raise Refused(message["error"])
                yield message.get("event")
        except Refused as exc:
            # Cut off, for example for reading too slowly: the ledger has what was missed.
            if exc.code == "shutting_down" or (exc.code == "lagged" and began):
                raise Unreachable("cut off") from None
            raise

    def show(self, entry: dict[str, Any]) -> None:
        if self.json:
            lines = [json_line(entry)]
        else:
            from claimdag_client.cli.render.log import entry_lines

            lines = [
                fit(line, self.paint.columns, unicode=self.paint.unicode) for line in entry_lines(entry, self.paint)
            ]
        streams.write("\n".join(lines) + "\n")
        streams.flush()


def _wait(args: Namespace, session: Session) -> int:
    until = None if args.timeout is None else time.monotonic() + args.timeout
    if args.timeout is not None:
        session.limit(args.timeout)
    bar = _bar(sys.stderr)
    connection = session.connection
    ids = [session.node_id(each) for each in args.ids]
    if args.under is not None:
        # A node ends with everything below it.
        ids.append(session.node_id(args.under))
    nodes: list[dict[str, Any]] | None = None
    try:
        while nodes is None:
            try:
                with connection:
                    nodes = _ended(connection, ids, until, bar)
            except Unresponsive:
                raise
            except Unreachable:
                connection = _again(session.place, "wait", until)
    finally:
        if bar is not None:
            bar.clear()
    _show_ended(nodes, session, json=bool(args.json))
    return DONE


def _bar(stream: TextIO | None) -> Progress | None:
    paint = Paint(stream)
    return Progress(stream, paint) if stream is not None and paint.tty else None


def _ended(connection: Connection, ids: list[str], until: float | None, bar: Progress | None) -> list[dict[str, Any]]:
    request: dict[str, Any] = {"op": "wait", "rid": "wait"}
    if ids:
        request["ids"] = ids
    if until is not None:
        request["timeout"] = max(0.0, until - time.monotonic())
    silence = _Silence(connection, until)
    connection.send(request, silence.patience)
    if bar is not None:
        connection.send({"op": "watch", "rid": "watch"}, silence.patience)
        connection.send({"op": "list", "all": True, "rid": "list"}, silence.patience)
    connection.settimeout(REDRAW_S)
    while True:
        try:
            message = connection.receive()
            silence.ended()
        except TimeoutError:
            message = {}
            silence.check()
        if "error" in message:
            _raise_for(message["error"], of_wait=message.get("rid") == "wait")
        elif message.get("rid") == "wait":
            return list(message["ok"]["nodes"])
        elif bar is not None:
            _move(bar, message, ids)


def _raise_for(error: dict[str, Any], *, of_wait: bool) -> None:
    """Raise an error if it ends the waiting: Unreachable if a new connection helps. The bar's own errors do not."""
    if error.get("code") == "shutting_down":
        raise Unreachable("the daemon is leaving")
    if error.get("code") == "lagged":
        raise Unreachable("cut off")
    if of_wait:
        raise Refused(error)


def _move(bar: Progress, message: dict[str, Any], ids: list[str]) -> None:
    if message.get("rid") == "list":
        bar.know(message["ok"]["nodes"], ids)
    elif isinstance(message.get("event"), dict):
        bar.told(message["event"])
    bar.draw()


class _Silence:
    """Tells a daemon that is stuck from one that has nothing to say yet: by the time limit, or else by a ping."""

    def __init__(self, connection: Connection, until: float | None) -> None:
        self._connection = connection
        self._limited = until is not None
        self._probe_at = math.inf
        self.patience = connection.patience(None if until is None else until - time.monotonic())
        self.ended()

    def ended(self) -> None:
        """Note that the daemon has said something."""
        if not self._limited:
            self.patience = self._connection.patience()
            self._probe_at = time.monotonic() + PROBE_AFTER_S

    def check(self) -> None:
        """Raise Unresponsive if the daemon has been silent for too long; ask it for a sign of life before that."""
        self._connection.check(self.patience)
        if time.monotonic() >= self._probe_at:
            self._probe_at = math.inf
            self._connection.send({"op": "ping", "rid": "ping"}, self.patience)


def _show_ended(nodes: list[dict[str, Any]], session: Session, *, json: bool) -> None:
    from claimdag_client.cli.render.node import coloured, sign

    for node in nodes:
        if json:
            session.say_json(node)
            continue
        status = str(node.get("status", "?"))
        error = f" ({clean(node['error'])})" if node.get("error") else ""
        named = f"{clean(node.get('id', '?'))} {coloured(clean(status), status, session.paint)}"
        session.say(f"{sign(status, session.paint)} {named}{error}")


def _again(place: Endpoint, verb: str, until: float | None = None) -> Connection:
    """Look for a daemon that went away, without end or until `until`. Raises Unreachable then."""
    began = time.monotonic()
    told = False
    for pause in delays():
        time.sleep(pause)
        waited = time.monotonic() - began
        try:
            limit_s = SILENCE_LIMIT_S if until is None else max(0.0, until - time.monotonic()) + ANSWER_SLACK_S
            start = place.start and waited > START_AFTER_S
            return connect(place, client=f"claimdag {verb}", start=start, limit_s=limit_s)
        except Unresponsive:
            raise
        except Unreachable:
            if until is not None and time.monotonic() > until:
                raise
        except ClaimdagError:
            raise
        if waited > START_AFTER_S and not told:
            told = True
            _note(verb, f"no daemon answers at {place.socket}; looking for it")
    raise AssertionError


def _note(verb: str, text: str) -> None:
    streams.tell(f"claimdag: {verb}: {clean(text)}\n")


COMMANDS = {
    "watch": Command(
        run=_watch,
        flags={
            "from": "from this entry of the ledger on",
            "under": "only what changes this node or a node below it",
            "json": "the entries as journaled, one a line",
        },
        about=(
            "Show the ledger as it grows: every change, as it is journaled, from now or from an entry on.\n\n"
            "When the daemon restarts it goes on from the last entry shown: nothing is missed or shown twice."
        ),
        examples=("claimdag watch", "claimdag watch --from 1 --json"),
    ),
    "wait": Command(
        run=_wait,
        flags={
            "ids": "",
            "under": "everything below this node",
            "timeout": "",
            "json": "the nodes as they ended, one a line",
        },
        about=(
            "Wait until nodes are finished: done, failed or cancelled; without an ID, until all work is that is "
            "unfinished now. Prints each with how it ended.\n\n"
            "On a terminal a bar shows how much of the work under them is done. The exit status is 0 once all are "
            "finished, however they ended, and 1 if --timeout is over first."
        ),
        examples=("claimdag wait 7q2f-17", "claimdag wait 17 18 --timeout 10m", "claimdag wait --under 3"),
    ),
}
