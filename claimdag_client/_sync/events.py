"""The blocking iterator of events, on connections of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from claimdag_client._protocol.backoff import delays
from claimdag_client._protocol.subscription import RESUMABLE, Subscription
from claimdag_client._transport.transport import Connection
from claimdag_client.errors import Refused, Unreachable, refusal
from claimdag_client.events import Event, decode_event, decode_message


def subscribe(subscription: Subscription, connect: Callable[[], Connection], patience_s: float | None) -> Connection:
    """Return a connection on which the events of `subscription` come."""
    began = time.monotonic()
    for pause in delays():
        try:
            connection = connect()
            try:
                ok = connection.ask(subscription.request(connection.graph))
                subscription.begin(connection.graph, ok["seq"])
                return connection
            except BaseException:
                connection.close()
                raise
        except Refused as exc:
            if exc.code != "shutting_down":
                raise refusal(exc.error) from None
        except Unreachable:
            if patience_s is not None and time.monotonic() - began > patience_s:
                raise
        time.sleep(pause)
    raise AssertionError


def events(
    subscription: Subscription, first: Connection, connect: Callable[[], Connection], patience_s: float | None
) -> Iterator[Event]:
    """Yield event after event, first on the connection `first`."""
    connection = first
    while True:
        with connection:
            try:
                yield from _of_connection(subscription, connection)
            except Unreachable:
                pass
        connection = subscribe(subscription, connect, patience_s)


def _of_connection(subscription: Subscription, connection: Connection) -> Iterator[Event]:
    while True:
        message = decode_message(connection.receive_line())
        if message.error is not None:
            error = refusal(message.error)
            if error.code in RESUMABLE:
                return  # Cut off, for example for reading too slowly: the ledger has what was missed.
            raise error
        try:
            event = decode_event(message.event)
        except msgspec.MsgspecError:
            continue
        if subscription.accept(event.seq):
            yield event
