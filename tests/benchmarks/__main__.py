"""`python -m tests.benchmarks [NAME ...] [--quick | --full]`: run the benchmarks named, or all, and print their tables.

Every table is of one run, its ratios between figures taken in turns; nothing here passes or fails. See
docs/explanation/performance.md for what each shows and for how to install what it compares with.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable

from tests.benchmarks import cycles, drain, growth, memory, peers, ping, stalls, startup, stg
from tests.benchmarks.table import Scale


def _drain(scale: Scale) -> None:
    sizes = {Scale.QUICK: "1000,10000", Scale.USUAL: "1000,10000,50000", Scale.FULL: "1000,10000,100000"}
    drain.main(["--nodes", sizes[scale], "--rounds", str(scale.pick(1, 3, 3))])


def _stg(_scale: Scale) -> None:
    stg.main()


#: In the order in which all of them are run.
BENCHMARKS: dict[str, tuple[Callable[[Scale], None], str | None]] = {
    "cycles": (cycles.run, cycles.__doc__),
    "peers": (peers.run, peers.__doc__),
    "growth": (growth.run, growth.__doc__),
    "memory": (memory.run, memory.__doc__),
    "startup": (startup.run, startup.__doc__),
    "ping": (ping.run, ping.__doc__),
    "stalls": (stalls.run, stalls.__doc__),
    "drain": (_drain, drain.__doc__),
    "stg": (_stg, stg.__doc__),
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:9}{(doc or '').partition(chr(10))[0]}" for name, (_, doc) in BENCHMARKS.items()),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)} (default: all)")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_const", dest="scale", const=Scale.QUICK, help="under a minute for all")
    scale.add_argument("--full", action="store_const", dest="scale", const=Scale.FULL, help="up to 1,000,000 nodes")
    parser.set_defaults(scale=Scale.USUAL)
    options = parser.parse_args(argv)
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    print(
        f"{options.scale.value} run; Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}: ratios hold, absolute times are this machine's"
    )
    for name in options.names or BENCHMARKS:
        began = time.monotonic()
        print(f"\n== {name}")
        BENCHMARKS[name][0](options.scale)
        print(f"({time.monotonic() - began:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
