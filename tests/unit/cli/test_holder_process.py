"""What `--pid auto` finds: on a made-up /proc, and under real shells."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from claimdag_client.cli.holder_process import find_holder

HERE = os.geteuid()
#: Prints what is found and the number of the interpreter's parent.
FIND = "from claimdag_client.cli.holder_process import find_holder; print(find_holder())"


def tree(root: Path, *chain: tuple[str, str, str]) -> int | None:
    """Show a chain of processes, the nearest first: name, command line, standard input. Return what is found, by place.

    The place is counted from 0 for the nearest one.
    """
    for place, (name, line, stdin) in enumerate(chain):
        pid, parent = 100 + place, 101 + place if place + 1 < len(chain) else 0
        directory = root / str(pid)
        (directory / "fd").mkdir(parents=True)
        (directory / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0 -1 0 " + "0 " * 30)
        uid = HERE + 1 if line.startswith("other:") else HERE
        (directory / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (directory / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in line.split()))
        (directory / "fd" / "0").symlink_to(stdin)
    found = find_holder(100, str(root))
    return None if found is None else found - 100


TTY, PIPE = "/dev/pts/3", "pipe:[1]"
TOOL_SHELL = ("bash", "bash -lc claimdag", PIPE)


@pytest.mark.parametrize(
    ("chain", "place"),
    [
        pytest.param([TOOL_SHELL, ("node", "claude", TTY), ("bash", "-bash", TTY)], 1, id="a shell tool of an agent"),
        pytest.param([("bash", "bash", PIPE), ("codex", "codex", TTY)], 1, id="a shell that a tool keeps"),
        pytest.param([("timeout", "timeout 9 claimdag", PIPE), TOOL_SHELL, ("node", "x", TTY)], 2, id="timeout"),
        pytest.param([("bash", "-bash", TTY), ("tmux: server", "tmux", PIPE)], 0, id="tmux"),
        pytest.param([("zsh", "-zsh", TTY), ("sshd", "sshd: me@pts/0", PIPE)], 0, id="ssh with a terminal"),
        pytest.param(
            [("bash", "bash -c claimdag", PIPE), ("sshd", "sshd: me@notty", PIPE)], None, id="ssh host claimdag"
        ),
        pytest.param([("bash", "bash --init-file /x/y.sh", TTY), ("code", "code", PIPE)], 0, id="an editor's terminal"),
        pytest.param([("fish", "fish -C source", TTY)], 0, id="fish with an init command"),
        pytest.param([("bash", "bash loop.sh", TTY), ("bash", "-bash", TTY)], 1, id="a script at a terminal"),
        pytest.param([("python3", "python3 agent.py", PIPE), ("bash", "bash -c x", PIPE)], 0, id="a program"),
        pytest.param([("sh", "sh -c claimdag", PIPE), ("cron", "cron -f", PIPE)], None, id="cron"),
        pytest.param([("systemd", "systemd --user", PIPE)], None, id="a systemd unit"),
        pytest.param([TOOL_SHELL, ("node", "other: node", TTY)], None, id="sudo"),
        pytest.param(
            [("bash", "bash -c x", PIPE), ("agent", "agent", PIPE)], 1, id="a container whose first is the host"
        ),
    ],
)
def test_holder_is_the_nearest_that_outlives_the_command(
    tmp_path: Path, chain: list[tuple[str, str, str]], place: int | None
) -> None:
    """As the table in docs/how-to/process-claims.md says."""
    assert tree(tmp_path, *chain) == place


def test_name_with_brackets_and_spaces_is_read(tmp_path: Path) -> None:
    """A process may call itself anything."""
    assert tree(tmp_path, ("bash", "bash -c x", PIPE), ("a) S (b", "x", PIPE)) == 1


def test_missing_proc_is_no_holder(tmp_path: Path) -> None:
    """Then a number must be named."""
    assert find_holder(100, str(tmp_path)) is None


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([], id="directly"),
        pytest.param(["bash", "-c", '"$0" "$@"; :'], id="bash -c"),
        pytest.param(["timeout", "60", "bash", "-lc", '"$0" "$@"; :'], id="timeout bash -lc"),
        pytest.param(["nohup", "sh", "-c", '"$0" "$@"; :'], id="nohup sh -c"),
        pytest.param(["setsid", "-w", "sh", "-c", '"$0" "$@"; :'], id="setsid sh -c"),
    ],
)
def test_program_that_runs_a_shell_is_found(before: list[str]) -> None:
    """This test stands for an agent's host."""
    found = subprocess.run(
        [*before, sys.executable, "-c", FIND], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert int(found.stdout.split()[-1]) == os.getpid()


def test_shell_at_a_terminal_is_found() -> None:
    """As in tmux, over ssh and in an editor: the shell itself, which ends with its window."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"PS1": "", "PYTHON": sys.executable, "FIND": FIND}
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    try:
        os.write(terminal, b'echo found=$("$PYTHON" -c "$FIND")=; exit\n')
        seen = b""
        while True:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # the shell has ended
                break
            if not part:
                break
            seen += part
        assert f"found={child}=".encode() in seen
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
