"""Verbs about the daemon itself: ping, hello, stats, checkpoint, shutdown."""

from __future__ import annotations

from claimdag_client._transport.transport import connect
from claimdag_client.cli.session import DONE, REFUSED, Command, Session
from claimdag_client.errors import Unreachable, Unresponsive

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

#: A daemon answers what it was asked and leaves within a second; a stopped one does not.
LEAVING_TIMEOUT_S = 10.0


def _ping(args: argparse.Namespace, session: Session) -> int:
    ok = session.ask("ping")
    if args.json:
        session.say_json(ok)
    else:
        session.say("pong")
    return DONE


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
        f"graph {clean(hello.get('graph'))}"
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


def _stats(args: argparse.Namespace, session: Session) -> int:
    stats = session.ask("stats")
    if args.json:
        session.say_json(stats)
        return DONE
    from claimdag_client.cli.refusals import deadlock_text
    from claimdag_client.cli.render.text import clean, duration, number, size

    forms = {"uptime": duration, "journal_bytes": size, "snapshot_bytes": size}
    for name, value in stats.items():
        if name == "deadlocks":
            for deadlock in value:
                session.say(f"{'deadlock':16}{clean(deadlock_text(deadlock))}")
        elif isinstance(value, dict):
            session.say(f"{clean(name):16}" + (", ".join(f"{clean(k)} {clean(v)}" for k, v in value.items()) or "none"))
        else:
            text = forms.get(name, number)(value) if isinstance(value, (int, float)) else str(value)
            session.say(f"{clean(name):16}{clean(text)}")
    return DONE


def _checkpoint(args: argparse.Namespace, session: Session) -> int:
    ok = session.ask("checkpoint")
    if args.json:
        session.say_json(ok)
    else:
        session.say(f"seq={ok['seq']} bytes={ok['bytes']}")
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


VERBS = {
    "ping": Command(
        _ping, about="Ask whether the daemon answers; prints pong.", examples=["claimdag ping"]
    ),
    "hello": Command(
        _hello,
        about="The daemon's version, protocol, process, graph and limits, and this client's version.",
        examples=["claimdag hello", "claimdag hello --json"],
    ),
    "stats": Command(
        _stats,
        about="The daemon's counts: nodes by status, live claims, connections, sizes, lags, deadlocks.",
        examples=["claimdag stats", "claimdag stats --json"],
    ),
    "checkpoint": Command(
        _checkpoint,
        about="Let the daemon write a snapshot now and start its journal anew.",
        examples=["claimdag checkpoint"],
    ),
    "shutdown": Command(
        _shutdown,
        about="Let the daemon leave: it answers what it was asked, and keeps its state for the next one.",
        examples=["claimdag shutdown", "claimdag stop"],
        starts=False,
    ),
}
