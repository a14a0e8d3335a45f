"""Fuzzing led by coverage, with atheris: `python -m tests.fuzz.guided protocol|files --seconds N --seed S`.

A process of its own, since atheris instruments what it imports and ends the process by itself. Exit status 3: atheris
is not installed here.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

SKIPPED = 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided")
    parser.add_argument("target", choices=("protocol", "files"))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="where interesting inputs are kept (default: nowhere)")
    options = parser.parse_args()
    try:
        import atheris
    except ImportError:
        sys.stderr.write("atheris is not installed\n")
        return SKIPPED
    with atheris.instrument_imports(include=["claimdagd"]):
        from tests.fuzz import targets
    one = _protocol(targets) if options.target == "protocol" else _files(targets)
    with tempfile.TemporaryDirectory() as scratch:
        corpus = options.corpus or Path(scratch)
        corpus.mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(_seeds(targets, options.target)):
            (corpus / f"seed-{number}").write_bytes(data)
        flags = [f"-max_total_time={options.seconds}", f"-seed={options.seed}", "-rss_limit_mb=1024", "-timeout=20",
                 f"-artifact_prefix={tempfile.gettempdir()}/claimdag-fuzz-", "-print_final_stats=1"]  # fmt: skip
        atheris.Setup([sys.argv[0], *flags, str(corpus)], one)
        atheris.Fuzz()
    return 0


def _protocol(targets: object) -> Callable[[bytes], None]:
    state = {"target": targets.Protocol()}  # type: ignore[attr-defined]

    def one(data: bytes) -> None:
        target = state["target"]
        target.bytes(data)
        if target.lines > 2000:
            target.check()
            state["target"] = targets.Protocol()  # type: ignore[attr-defined]

    return one


def _files(targets: object) -> Callable[[bytes], None]:
    def one(data: bytes) -> None:
        journal, _, snapshot = data.partition(b"\x00\x00")
        files = {"journal.jsonl": journal}
        if snapshot:
            files["snapshot.jsonl"] = snapshot
        targets.state_files(files)  # type: ignore[attr-defined]

    return one


def _seeds(targets: object, which: str) -> list[bytes]:
    files = targets.a_state()  # type: ignore[attr-defined]
    if which == "files":
        return [files["journal.jsonl"], files["journal.jsonl"] + b"\x00\x00" + files["snapshot.jsonl"]]
    return [
        b'{"op":"upsert","summary":"x","deps":[{"on":"fuzz-2","when":"after_any"}],"needs":{"gpu":1},"once":"t"}\n',
        b'{"op":"submit","nodes":[{"ref":"a"},{"ref":"b","parent":"a","deps":[{"on":"a"}]}],"return":["b"],"rid":1}\n',
        b'{"op":"claim_next","actor":"w","lease":5,"bound":true,"wait":1}\n{"op":"complete","id":"fuzz-3","next":{}}\n',
        b'{"op":"link","before":"fuzz-2","after":"fuzz-4"}\n{"op":"cancel","id":"fuzz-1"}\n{"op":"reopen","id":"fuzz-1"}\n',
        b'{"op":"wait","ids":["fuzz-1"],"timeout":0}\n{"op":"watch","from":1}\n{"op":"log","limit":2}\n{"op":"stats"}\n',
    ]


if __name__ == "__main__":
    sys.exit(main())
