"""What a claim and a completion cost over the socket, against a bare echo server on the same loop (a).

First the server's CPU time per request, client and server pinned to one core: one request at a time, and 64 pipelined;
the ratios are to anyio's own echo of the same loop and the same run, once with lines of 90 bytes out and 250 back, once
with lines as long as claimdagd's. Then cycles of claim and complete per second, of one worker and of several.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.benchmarks.processes import LOOPS, Load, claimdagd, cores, directory, echo, loops, run_load
from tests.benchmarks.table import Cell, Scale, median, show

DEPTH = 64
#: Rounds before those that count: the interpreter specialises itself, and the kernel maps memory.
WARM = 200
#: Line lengths: a usual small request and answer, and what `complete` with `next` sends and gets.
SMALL = (90, 250)
TRUE = (85, 1400)

KINDS = {"ping": "ping", "claim": "claim_next + complete", "next": "complete with next"}


@dataclass
class Figures:
    """Of one server and one kind of request: CPU per request, one by one and pipelined; rounds in order."""

    alone: list[float]
    piped: list[float]


def echo_kind(loop: str) -> str:
    return "streams" if loop == "asyncio" else f"streams-{loop}"


def run(scale: Scale) -> None:
    """Print the tables."""
    rounds = scale.pick(1, 5, 9)
    count = scale.pick(600, 1200, 4000)
    cpu: dict[str, Figures] = {}
    rates: dict[str, list[float]] = {}
    core = cores()[-1]

    def note(name: str, alone: Load, piped: Load) -> None:
        figures = cpu.setdefault(name, Figures([], []))
        figures.alone.append(alone.cpu_us)
        figures.piped.append(piped.cpu_us)

    def both(name: str, pid: int, path: str, kind: str, bytes_out: int = 90) -> None:
        halves = 2 if kind == "claim" else 1
        run_load(pid, path, kind, WARM, core=core, bytes_out=bytes_out)
        note(
            name,
            run_load(pid, path, kind, count // halves, core=core, bytes_out=bytes_out),
            run_load(pid, path, kind, 4 * count // halves // DEPTH, depth=DEPTH, core=core, bytes_out=bytes_out),
        )

    for _ in range(rounds):
        for loop in loops():
            with directory() as where:
                for out, back in (SMALL, TRUE):
                    with echo(where, echo_kind(loop), back) as (pid, path):
                        both(f"{loop} echo {out}/{back}", pid, path, "echo", out)
                with echo(where, echo_kind(loop).replace("streams", "lines"), SMALL[1]) as (pid, path):
                    both(f"{loop} lines {SMALL[0]}/{SMALL[1]}", pid, path, "echo", SMALL[0])
                if loop != "trio":
                    with echo(where, f"protocol{'-uvloop' if loop == 'uvloop' else ''}", SMALL[1]) as (pid, path):
                        both(f"{loop} protocol {SMALL[0]}/{SMALL[1]}", pid, path, "echo", SMALL[0])
                with claimdagd(where, *LOOPS[loop]) as daemon:
                    daemon.submit(12 * count + 16 * DEPTH + 3 * WARM)
                    for kind in KINDS:
                        both(f"{loop} {kind}", daemon.pid, daemon.path, kind)
                    for workers in (1, 4, 8):
                        each = count // workers
                        daemon.submit(2 * count + workers)
                        for kind, halves in (("claim", 2), ("next", 1)):
                            load = run_load(daemon.pid, daemon.path, kind, each, workers=workers)
                            rates.setdefault(f"{loop} {kind} {workers}", []).append(load.rate / halves)
                    daemon.submit(4 * count + 4 * DEPTH)
                    load = run_load(daemon.pid, daemon.path, "next", 4 * count // DEPTH, depth=DEPTH)
                    rates.setdefault(f"{loop} next piped", []).append(load.rate)
    _show_cpu(cpu)
    _show_rates(rates)


def _show_cpu(cpu: dict[str, Figures]) -> None:
    rows: list[list[Cell]] = []
    for loop in loops():
        small = cpu[f"{loop} echo {SMALL[0]}/{SMALL[1]}"]
        true = cpu[f"{loop} echo {TRUE[0]}/{TRUE[1]}"]
        names = [
            (f"anyio echo {SMALL[0]}/{SMALL[1]} B", small),
            (f"anyio echo {TRUE[0]}/{TRUE[1]} B", true),
            ("anyio echo 90/250 B, line by line", cpu[f"{loop} lines {SMALL[0]}/{SMALL[1]}"]),
            ("asyncio.Protocol echo 90/250 B", cpu.get(f"{loop} protocol {SMALL[0]}/{SMALL[1]}")),
            *((f"claimdagd {text}", cpu[f"{loop} {kind}"]) for kind, text in KINDS.items()),
        ]
        for name, figures in names:
            if figures is not None:
                rows.append(
                    [
                        f"{loop}: {name}",
                        median(figures.alone),
                        _ratio(figures.alone, small.alone),
                        _ratio(figures.alone, true.alone),
                        median(figures.piped),
                        _ratio(figures.piped, small.piped),
                        _ratio(figures.piped, true.piped),
                    ]
                )
    show(
        "Server CPU microseconds per request, all on one core (x: to anyio's echo of 90/250 B, x true: of true sizes)",
        ("loop: server", "closed loop", "x", "x true", f"{DEPTH} piped", "x", "x true"),
        rows,
    )


def _ratio(these: list[float], those: list[float]) -> float:
    """The median of the ratios round by round."""
    return median(a / b for a, b in zip(these, those, strict=True))


def _show_rates(rates: dict[str, list[float]]) -> None:
    rows: list[list[Cell]] = []
    for loop in loops():
        for kind in ("claim", "next"):
            row: list[Cell] = [f"{loop}: {KINDS[kind]}", *(median(rates[f"{loop} {kind} {n}"]) for n in (1, 4, 8))]
            row.append(median(rates[f"{loop} next piped"]) if kind == "next" else None)
            rows.append(row)
    show(
        "Cycles of claim and complete per second, closed loop, each worker a process, nothing pinned",
        ("loop", "1 worker", "4 workers", "8 workers", f"1 worker, {DEPTH} piped"),
        rows,
    )
