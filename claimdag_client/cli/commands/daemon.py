"""Commands about the daemon itself that are more than one request: hello, shutdown."""

from __future__ import annotations

from claimdag_client._transport.transport import connect
from claimdag_client.cli.command import Command
from claimdag_client.cli.session import DONE, REFUSED, Session
from claimdag_client.errors import Unreachable, Unresponsive

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

#: A daemon answers what it was asked and leaves within a second; a stopped one does not.
LEAVING_TIMEOUT_S = 10.0


def _hello(args: argparse.Namespace, session: Session) -> int:
    from claimdagd import __version__

    hello = session.connection.hello
    if args.json:
        session.say_json(hello)
        return DONE
    from claimdag_client.cli.render.text import clean, duration, number, size

    limits = hello.get("limits", {})
    session.say(
        f"claimdagd {clean(hello.get('version'))}, protocol {hello.get('protocol')}, pid {hello.get('pid')}, "
        f"graph {clean(session.connection.graph_told)}"
    )
    session.say(f"claimdag {__version__}, at {clean(session.connection.path)}")
    known = (
        ("max_nodes", "nodes at most", number),
        ("lease", "for a claim, unless it says otherwise", duration),
        ("grace", "of grace when a bound claim's connection ends", duration),
        ("line_bytes", "in one request", size),
    )
    for name, words, form in known:
        if name in limits:
            session.say(f"  {form(limits[name])} {words}")
    return DONE


def _shutdown(args: argparse.Namespace, session: Session) -> int:
    # No hello: a daemon of another protocol must be able to be told to leave, and this request is in all of them.
    with connect(session.place, client="claimdag shutdown", hello=False) as connection:
        try:
            ok = connection.request("shutdown")
            connection.settimeout(LEAVING_TIMEOUT_S)
            # It has left when it has hung up: who asks for a stop wants to start another, or remove the directory.
            while connection.receive_line():
                pass
        except TimeoutError:
            session.note(f"it has not left within {LEAVING_TIMEOUT_S:.0f} s: it may be stopped, or busy")
            return REFUSED
        except Unresponsive:
            raise
        except Unreachable:
            ok = {}
    if args.json:
        session.say_json(ok)
    return DONE


COMMANDS = {
    "hello": Command(
        run=_hello,
        about="Show the daemon's version, protocol, process, graph and limits, and this client's version.",
        examples=("claimdag hello", "claimdag hello --json"),
    ),
    "shutdown": Command(
        run=_shutdown,
        about="Let the daemon leave: it answers what it was asked, and keeps its state for the next one.",
        examples=("claimdag shutdown", "claimdag stop"),
        starts=False,
    ),
}
