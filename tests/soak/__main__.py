"""`python -m tests.soak NAME --seconds N --seed S`: one long test by name, the modules of this package.

A module registers by being here: its name is the subcommand, its docstring the help, its `arguments(parser)`, if any,
adds options of its own, and its `soak(options) -> int` runs it and gives the exit status. `options.seconds` and
`options.seed` are always there; the seed is printed, so that a failure can be run again. Only the module that was
named is imported.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import random
import sys
from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Long tests, one at a time.")
    commands = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
        doc = ast.get_docstring(ast.parse(path.read_text())) or ""
        command = commands.add_parser(path.stem, help=doc.partition("\n")[0], description=doc)
        command.add_argument("--seconds", type=float, default=60.0, help="how long (default %(default)s)")
        command.add_argument("--seed", type=int, default=None, help="what to begin with (default: by chance, printed)")
        if words[:1] == [path.stem]:
            module = importlib.import_module(f"tests.soak.{path.stem}")
            if hasattr(module, "arguments"):
                module.arguments(command)
    options = parser.parse_args(words)
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1_000_000)
    sys.stdout.write(f"{options.name}: seed {options.seed}, {options.seconds:g} s\n")
    sys.stdout.flush()
    return int(importlib.import_module(f"tests.soak.{options.name}").soak(options))


if __name__ == "__main__":
    sys.exit(main())
