"""Shell blocks of the documents, run as they are printed: `#=>` lines are what the commands before them print.

`...` stands for any text. The graph's tag, which is by chance, is written 7q2f; how many seconds or minutes something
takes is not compared. Must not know what the commands are.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

PRINTS = "#=>"
_TAG = re.compile(r"\b(?=[0-9a-z]{4}-\d)[0-9a-z]{4}(?=-\d)|(?<=graph )[0-9a-z]{4}\b")
_TIME = re.compile(r"\b\d+(\.\d+)? (s|min)\b")
_SECONDS = re.compile(r'(?<="expires_in":)\d+\.\d+')


def environment(home: Path) -> dict[str, str]:
    """A user's environment with nothing of this one's daemons in it, and the installed commands first on its path."""
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "LC_ALL": "C.UTF-8",
    }


def run(script: list[str], home: Path, timeout_s: float = 50.0) -> list[str]:
    """What the script prints, both streams, line by line. Whatever it leaves running is the caller's to end."""
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        env=environment(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def end_daemons(home: Path) -> None:
    """End the daemons whose locks are below `home`, as many as a script has started."""
    for lock in home.rglob("lock"):
        pid = lock.read_text().strip()
        if pid.isdigit() and b"claimdagd" in _command_of(int(pid)):
            os.kill(int(pid), signal.SIGKILL)


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def compare(lines: list[str], printed: list[str]) -> None:
    """The printed lines are those that the block says, in order, no more and no fewer."""
    said = [line.removeprefix(PRINTS).removeprefix(" ") for line in lines if line.startswith(PRINTS)]
    for number, (expected, came) in enumerate(zip(said, printed, strict=False), 1):
        pattern = ".*".join(map(re.escape, _plain(expected).split("...")))
        assert re.fullmatch(pattern, _plain(came)), f"printed line {number}\n  says {expected}\n  came {came}"
    assert printed[len(said) :] == [], "more was printed than is said"
    assert said[len(printed) :] == [], "less was printed than is said"


def _plain(line: str) -> str:
    return _SECONDS.sub("N", _TIME.sub("N t", _TAG.sub("7q2f", line))).rstrip()
