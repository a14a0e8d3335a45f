"""The arguments of `claimdagd` and its help, which its manual is made from. Must open nothing and decide nothing."""

from __future__ import annotations

import argparse
import sys

from claimdagd import __version__
from claimdagd.limits import LEASE_MAX_S
from claimdagd.server.host.logs import LEVELS

EPILOG = """\
The state is in DIR: the first of CLAIMDAG_DIR, $XDG_RUNTIME_DIR/claimdag, $XDG_STATE_HOME/claimdag,
~/.local/state/claimdag and /tmp/claimdag-UID. It leaves in order on SIGTERM and SIGINT, and what it had
answered is there again when it is next started.

examples:
  claimdagd
  claimdagd --dir ~/graph --durability fsync     a state that survives the machine
  claimdagd --dir ~/graph --salvage              after it refused a damaged one
  claimdagd --graph website                      a graph of its own for one project

Exit status: 0 it was told to leave, 2 wrong use, 65 the state is damaged or of another format, 71 the system does
not give what it needs, such as open files, 74 the state cannot be read or written or its directory, lock or socket
was taken away, 75 another one is alive, 77 the directory cannot be trusted. 70 is an error in claimdagd itself.
"""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the daemon's command line."""
    parser = argparse.ArgumentParser(
        prog="claimdagd",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Serve one claim graph at one Unix socket. The command line claimdag starts it by itself.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"claimdagd {__version__}")
    parser.add_argument("--dir", metavar="DIR", help="where the state is kept (default: see below)")
    parser.add_argument("--socket", metavar="PATH", help="where to listen (default: CLAIMDAG_SOCKET, else DIR/sock)")
    parser.add_argument("--graph", metavar="NAME", help="serve the graph of that name, in DIR/graphs/NAME")
    parser.add_argument("--max-nodes", metavar="N", type=_count, default=4096, help="the graph's cap (4096)")
    parser.add_argument("--lease", metavar="S", type=_positive, default=900.0, help="a claim's seconds (900)")
    parser.add_argument(
        "--grace", metavar="S", type=_seconds, default=5.0, help="seconds a lost connection's claims are kept (5)"
    )
    parser.add_argument(
        "--durability", choices=("process", "fsync"), default="process",
        help="what an answer survives: this process's death, or the machine's, at the price of a flush",
    )  # fmt: skip
    parser.add_argument("--salvage", action="store_true", help="take what can be read of a damaged state; keeps a copy")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio", help="the event loop (asyncio)")
    parser.add_argument(
        "--no-uvloop", dest="uvloop", action="store_false", help="asyncio's own loop even where uvloop is installed"
    )
    # Re-derives everything after every change: for tests, and for hunting a bug.
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="what is said on stderr (info)")
    parser.add_argument(
        "--idle-exit", metavar="S", type=_positive, help="leave after being idle, empty and alone for S seconds"
    )
    return parser


def _count(text: str) -> int:
    return int(_number(text, "a whole number from 1", int, least=1))


def _seconds(text: str) -> float:
    return _number(text, "a number of seconds from 0", float)


def _positive(text: str) -> float:
    return _number(text, "a number of seconds over 0", float, least=sys.float_info.min)


def _number(text: str, what: str, kind: type[int] | type[float], *, least: float = 0) -> float:
    try:
        number = kind(text)
    except ValueError:
        number = -1
    if not least <= number <= LEASE_MAX_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return number
