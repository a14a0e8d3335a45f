"""The command `claimdagd`: reads the arguments, takes the place on the file system, recovers the state and serves it.

Must hold no rule of the graph, and say everything that went wrong in one line with what to do about it.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import logging
import os
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import anyio

from claimdagd import __version__
from claimdagd.app import Opened, open_service
from claimdagd.arguments import make_parser
from claimdagd.descriptors import hold_standard_streams
from claimdagd.limits import EXIT_ALREADY_RUNNING, EXIT_BUG, EXIT_CORRUPT, EXIT_OS, EXIT_STORAGE, EXIT_UNSAFE
from claimdagd.model import TAG_ALPHABET
from claimdagd.paths import UnsafePathError, graph_name
from claimdagd.server.host import logs, open_files
from claimdagd.server.host.lock import LockHeldError
from claimdagd.server.host.place import Place
from claimdagd.server.host.processes import PidfdWatch
from claimdagd.server.host.systemd import Notifier
from claimdagd.server.server import Options, Server
from claimdagd.service import Config, Service
from claimdagd.store.errors import StateError, StorageError, UnreadableState
from claimdagd.store.files import OsFiles

log = logging.getLogger("claimdagd")

EXIT_INTERRUPTED = 130

#: What ends the daemon with a message and no more; the first kind that fits counts.
EXIT_STATUS: dict[type[Exception], int] = {
    LockHeldError: EXIT_ALREADY_RUNNING,
    UnsafePathError: EXIT_UNSAFE,
    UnreadableState: EXIT_STORAGE,
    StateError: EXIT_CORRUPT,
    StorageError: EXIT_STORAGE,
    open_files.TooFewDescriptorsError: EXIT_OS,
    OSError: EXIT_OS,
}

#: How many objects are made between two looks of the collector at the young ones.
YOUNG_OBJECTS = 10_000
#: A full collection looks at every node: 400 ms at 200,000. None happens by itself.
NEVER = 1_000_000_000
#: After the files of the state could not be put right, before the next try without a request: it may be long work.
FILES_RETRY_S = 5.0


class SystemClock:
    """The machine's clocks."""

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon until it is told to leave; returns its exit status."""
    hold_standard_streams()
    arguments = make_parser().parse_args(argv)
    if arguments.backend == "trio" and importlib.util.find_spec("trio") is None:
        make_parser().error("trio is not installed: pip install 'claimdagd[trio]'")
    # What this process makes is for its user alone.
    os.umask(0o077)
    repeats = logs.configure(arguments.log_level)
    try:
        return _run(arguments, repeats)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except tuple(EXIT_STATUS) as exc:
        log.error("%s", exc)
        return next(status for kind, status in EXIT_STATUS.items() if isinstance(exc, kind))
    except Exception:
        log.exception("claimdagd ends by an error in itself; please report it with this line")
        return EXIT_BUG
    finally:
        repeats.report(everything=True)


def _run(arguments: argparse.Namespace, repeats: logs.RepeatLimit) -> int:
    max_connections = open_files.connections_allowed()
    notifier = Notifier.from_environ(os.environ, os.getpid())
    place = Place.take(arguments.dir, arguments.socket, os.environ, os.geteuid(), graph_option=arguments.graph)
    processes = PidfdWatch()
    opened = _open(arguments, place.directory, processes)
    service, graph, store, _ = opened
    listener = place.listen()
    named = _named(graph_name(place.directory), graph.tag)
    server = Server(
        service,
        listener,
        SystemClock(),
        options=Options(idle_exit_s=arguments.idle_exit, max_connections=max_connections),
        notifier=notifier,
        sync=store.sync if arguments.durability == "fsync" else None,
        ownership_lost=place.ownership_lost,
        status=lambda: _status(named, opened, server),
        housekeep=Housekeeping(service, repeats),
        processes=processes,
    )
    log.info(
        "serving graph %s (%d nodes) at %s, pid %d, claimdagd %s",
        named, len(graph.vertices), listener.path, os.getpid(), __version__,
    )  # fmt: skip
    try:
        return anyio.run(server.run, arguments.backend, backend=arguments.backend, backend_options=_loop(arguments))
    finally:
        processes.close()
        listener.close()
        store.close()
        place.close()


def _open(arguments: argparse.Namespace, directory: str, processes: PidfdWatch) -> Opened:
    """Open the service, and spare the collector what is on disk."""
    config = Config(
        grace_s=arguments.grace,
        fsync=arguments.durability == "fsync",
        pid=os.getpid(),
        graph_name=graph_name(directory),
        check=arguments.check,
    )
    opened = open_service(
        OsFiles(), directory, SystemClock(), config,
        new_tag=_new_tag, salvage=arguments.salvage, max_nodes=arguments.max_nodes, lease_s=arguments.lease,
        processes=processes,
    )  # fmt: skip
    for note in opened.recovered.notes:
        log.warning("%s", note)
    opened.store.on_repair = log.error
    freeze_gc()
    return opened


class Housekeeping:
    """What is done with every heartbeat: look at the files of the state, spare the collector, count repeated lines."""

    def __init__(self, service: Service, repeats: logs.RepeatLimit) -> None:
        self._service = service
        self._repeats = repeats
        self._trouble = ""
        self._not_before = 0.0

    def __call__(self) -> None:
        collect_young_objects()
        self._repeats.report()
        if time.monotonic() < self._not_before:
            return
        try:
            self._service.check_store()
        except StorageError as exc:
            self._not_before = time.monotonic() + FILES_RETRY_S
            if str(exc) != self._trouble:
                log.error("the state cannot be kept, and every change will be refused: %s", exc)
            self._trouble = str(exc)
        else:
            self._trouble = ""


def freeze_gc() -> None:
    """Have the garbage collector look at young objects alone from now on: what is loaded stays."""
    gc.set_threshold(YOUNG_OBJECTS, 20, NEVER)
    gc.freeze()


def collect_young_objects() -> None:
    """Collect the young objects, and freeze what outlives that: it has no cycles, so references alone free it."""
    gc.collect(1)
    gc.freeze()


def _status(named: str, opened: Opened, server: Server) -> str:
    """Return the line of `systemctl status`."""
    graph = opened.graph
    nodes, live, connections = len(graph.vertices), graph.live, len(server.connections)
    return f"graph {named}: {nodes} nodes, {live} claimed, {connections} connected"


def _named(name: str | None, tag: str) -> str:
    """Return the name of the graph, if it has one, and its tag."""
    return f"{name} ({tag})" if name else tag


def _new_tag() -> str:
    """Return four random characters: an id of an earlier graph hardly ever names a node of this one."""
    return "".join(random.SystemRandom().choices(TAG_ALPHABET, k=4))


def _loop(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.backend != "asyncio":
        return {}
    wanted = arguments.uvloop and not os.environ.get("CLAIMDAG_NO_UVLOOP")
    return {"use_uvloop": bool(wanted and importlib.util.find_spec("uvloop"))}


if __name__ == "__main__":
    sys.exit(main())
