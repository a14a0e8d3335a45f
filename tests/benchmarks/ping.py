"""What the command line costs (f): `claimdag ping` with a daemon running, against bare Python.

Whole commands from fork to exit, interleaved: milliseconds by the clock and of CPU, medians, as ratios to
`python -c pass` and to the same with -I -S, which leaves out site and with it half of what Python starts with.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.benchmarks.processes import claimdagd, directory, environment
from tests.benchmarks.table import Cell, Scale, median, show


def claimdag() -> list[str]:
    """The installed command, else the module."""
    script = Path(sys.executable).with_name("claimdag")
    return [str(script)] if script.exists() else [sys.executable, "-m", "claimdag_client.cli"]


def timed(command: list[str], environ: dict[str, str]) -> tuple[float, float]:
    """Milliseconds by the clock and of CPU of a whole command, which must succeed."""
    devnull = os.open(os.devnull, os.O_RDWR)
    try:
        began = time.perf_counter()
        actions = [(os.POSIX_SPAWN_DUP2, devnull, 0), (os.POSIX_SPAWN_DUP2, devnull, 1)]
        pid = os.posix_spawn(command[0], command, environ, file_actions=actions)
        _, status, usage = os.wait4(pid, 0)
        wall = time.perf_counter() - began
    finally:
        os.close(devnull)
    if status:
        raise RuntimeError(f"{command}: status {status}")
    return 1e3 * wall, 1e3 * (usage.ru_utime + usage.ru_stime)


def run(scale: Scale) -> None:
    """Print the table."""
    rounds = scale.pick(9, 31, 101)
    with directory() as where, claimdagd(where) as daemon:
        daemon.submit(2 * rounds + 10)
        environ = {
            **environment(),
            "CLAIMDAG_SOCKET": daemon.path,
            "CLAIMDAG_DIR": str(where),
            "CLAIMDAG_NO_START": "1",
        }
        tag = daemon.ask("hello")["graph"]
        command = claimdag()
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "python -I -S -c pass": [sys.executable, "-I", "-S", "-c", "pass"],
            "claimdag ping": [*command, "ping"],
            "claimdag list": [*command, "list", "--assignee", "nobody"],
            "claimdag why 1": [*command, "why", f"{tag}-1"],
            "claimdag --help": [*command, "--help"],
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for words in commands.values():
            timed(words, environ)  # compiles what was not yet
        for _ in range(rounds):
            for name, words in commands.items():
                times[name].append(timed(words, environ))
    rows: list[list[Cell]] = []
    bare, barest = times["python -c pass"], times["python -I -S -c pass"]
    for name, found in times.items():
        row: list[Cell] = [name]
        for i in (0, 1):
            row += [
                median(f[i] for f in found),
                median(f[i] / b[i] for f, b in zip(found, bare, strict=True)),
                median(f[i] / b[i] for f, b in zip(found, barest, strict=True)),
            ]
        rows.append(row)
    show(
        "Command line: milliseconds of a whole command (x: to python -c pass, x: to python -I -S -c pass)",
        ("", "clock", "x", "x", "CPU", "x", "x"),
        rows,
    )
