"""What commands write under `run` and `work`: shown, kept, bounded, followed, and never in the command's way."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, running, until
from tests.system.worker import alive, claimdag, pids_of


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir / "claimdag", "--grace", "0.5") as daemon:
        yield daemon


def add(daemon: Daemon, **fields: Any) -> str:
    return str(daemon.client().ask("upsert", **fields)["id"])


def kept(daemon: Daemon, id: str, attempt: int = 1) -> bytes:
    return (daemon.directory / "output" / f"{id}.{attempt}.log").read_bytes()


def output(daemon: Daemon, *arguments: str) -> bytes:
    with claimdag(daemon, "output", *arguments) as printed:
        assert printed.wait() == 0, printed.err
        return printed.out


def work(daemon: Daemon, script: str, *options: str, **popen: Any) -> Any:
    return claimdag(daemon, "work", "--assignee", "a", "--until-empty", *options, "--", "sh", "-c", script, **popen)


def test_work_keeps_and_shows_both_streams_in_their_order(daemon: Daemon) -> None:
    """The file holds what came, the worker shows lines with the id before them."""
    id = add(daemon)
    with work(daemon, "for i in 1 2 3; do echo out$i; echo err$i >&2; done; printf end") as worker:
        assert worker.wait() == 0
    text = b"out1\nerr1\nout2\nerr2\nout3\nerr3\nend"
    assert kept(daemon, id) == output(daemon, id) == text
    assert worker.out == b"".join(b"%s %s\n" % (id.encode(), line) for line in text.split(b"\n"))
    assert (daemon.directory / "output").stat().st_mode & 0o777 == 0o700


def test_run_passes_every_byte_on_and_keeps_it(daemon: Daemon) -> None:
    """Its streams stay two, binary as they are."""
    id = add(daemon)
    script = r"printf '\000\377\033[31m'; printf '\001err' >&2"
    with claimdag(daemon, "run", "--assignee", "a", id, "--", "sh", "-c", script) as worker:
        assert worker.wait() == 0
    assert (worker.out, worker.err) == (b"\x00\xff\x1b[31m", b"\x01err")
    assert sorted(output(daemon, id)) == sorted(worker.out + worker.err)


def test_failure_ends_with_the_last_line(daemon: Daemon) -> None:
    """That was not blank (law 12.3)."""
    id = add(daemon)
    with work(daemon, "echo first; echo 'ModuleNotFoundError: parser' >&2; echo; exit 2") as worker:
        assert worker.wait() == 0
    assert daemon.client().ask("get", id=id)["error"] == "exit status 2: ModuleNotFoundError: parser"


def test_no_capture_leaves_the_streams_alone(daemon: Daemon) -> None:
    """No file, no prefix."""
    add(daemon)
    with work(daemon, "echo plain; echo other >&2", "--no-capture") as worker:
        assert worker.wait() == 0
    assert (worker.out, worker.err) == (b"plain\n", b"other\n")
    assert not (daemon.directory / "output").exists()


def test_long_output_is_bounded(daemon: Daemon) -> None:
    """By --output-max, with a mark; the head and the tail are there (law 12.2)."""
    id = add(daemon)
    with work(daemon, "seq 1 200000", "--output-max", "64K", stdout=subprocess.DEVNULL) as worker:
        assert worker.wait() == 0
    text = kept(daemon, id)
    assert len(text) <= 65536
    assert text.startswith(b"1\n2\n3\n")
    assert text.endswith(b"\n199999\n200000\n")
    assert b"bytes left out]" in text


def test_each_attempt_has_its_own_file(daemon: Daemon) -> None:
    """And the last one is shown unless another is named (law 12.2)."""
    id = add(daemon)
    for attempt in (1, 2):
        with work(daemon, f"echo attempt {attempt}") as worker:
            assert worker.wait() == 0
        daemon.client().ask("reopen", id=id)
    assert output(daemon, id) == b"attempt 2\n"
    assert output(daemon, id, "--attempt", "1") == b"attempt 1\n"


def test_output_of_what_never_ran_says_so(daemon: Daemon) -> None:
    """Status 1, and where output comes from."""
    id = add(daemon)
    with claimdag(daemon, "output", id) as printed:
        assert printed.wait() == 1
    assert b"no output" in printed.err


def test_line_that_begins_with_the_id_gets_no_second_one(daemon: Daemon) -> None:
    """Many commands print it themselves."""
    id = add(daemon)
    with work(daemon, 'echo "$CLAIMDAG_ID: said"') as worker:
        assert worker.wait() == 0
    assert worker.out == f"{id}: said\n".encode()
    assert kept(daemon, id) == worker.out


def test_output_of_a_silent_command_is_empty(daemon: Daemon) -> None:
    """And is no error, unlike that of a node that was never tried."""
    id = add(daemon)
    with work(daemon, "true") as worker:
        assert worker.wait() == 0
    assert output(daemon, id) == output(daemon, "-f", id) == b""


def test_followers_see_all_from_the_first_byte_to_the_end(daemon: Daemon, short_dir: Path) -> None:
    """Two of them, one from before the command began."""
    id = add(daemon)
    gate = short_dir / "gate"
    with claimdag(daemon, "output", "-f", id) as early:
        script = f"echo first; while [ ! -e {gate} ]; do sleep 0.02; done; seq 1 1000; exit 3"
        with work(daemon, script, "--output-max", "4K") as worker:
            until(lambda: (daemon.directory / "output" / f"{id}.1.log").exists(), "a file")
            with claimdag(daemon, "output", "-f", id) as late:
                assert late.process.stdout is not None
                assert os.read(late.process.stdout.fileno(), 6) == b"first\n"
                gate.touch()
                assert worker.wait() == 0
                assert late.wait() == 0
        assert early.wait() == 0
    assert early.out.startswith(b"first\n1\n2\n")
    assert early.out.endswith(b"\n999\n1000\n")
    assert late.out.startswith(b"1\n2\n3\n")
    assert late.out.endswith(b"\n999\n1000\n")


def test_background_child_that_holds_the_pipe_does_not_hang_the_end(daemon: Daemon, short_dir: Path) -> None:
    """Neither by default, when it is ended, nor with --leave-daemons."""
    for option in ([], ["--leave-daemons"]):
        id = add(daemon)
        pids = short_dir / f"pids{len(option)}"
        with work(daemon, f"echo said; sleep 300 & echo $! > {pids}", *option) as worker:
            assert worker.process.wait(10) == 0
            (child,) = pids_of(pids, 1)
            assert alive(child) == bool(option)
            if option:
                os.kill(child, signal.SIGKILL)
            worker.wait()
        assert daemon.client().ask("get", id=id)["status"] == "done"
        assert kept(daemon, id) == b"said\n"


def test_reader_that_does_not_read_does_not_stop_work(daemon: Daemon) -> None:
    """What it does not take is left out of what is shown, not of what is kept."""
    ids = [add(daemon) for _ in range(2)]
    readable, writable = os.pipe()
    with work(daemon, "seq 1 400000", stdout=writable) as worker:
        os.close(writable)
        assert worker.wait(30) == 0
    os.close(readable)
    assert all(kept(daemon, id).endswith(b"\n400000\n") for id in ids)


def test_reader_that_leaves_ends_the_command_of_run_as_a_pipe_does(daemon: Daemon) -> None:
    """`claimdag run ... | head -1` ends."""
    id = add(daemon)
    with claimdag(daemon, "run", "--assignee", "a", id, "--", "yes") as worker:
        assert worker.process.stdout is not None
        worker.process.stdout.read(10)
        worker.process.stdout.close()
        worker.process.stdout = None
        assert worker.process.wait(15) == 128 + signal.SIGPIPE


def test_output_of_pruned_nodes_goes(daemon: Daemon, short_dir: Path) -> None:
    """The next worker removes it, and what exceeds --output-total (law 12.2)."""
    directory = short_dir / "small"
    with running(directory, "--max-nodes", "2") as small:
        first = add(small)
        for _ in range(3):
            with work(small, "echo kept") as worker:
                assert worker.wait() == 0
            add(small)
        with work(small, "true") as worker:
            assert worker.wait() == 0
        assert not (directory / "output" / f"{first}.1.log").exists()


def test_directory_that_cannot_be_made_keeps_nothing_and_stops_nothing(daemon: Daemon) -> None:
    """The worker says so once."""
    (daemon.directory / "output").write_text("a file")
    id = add(daemon)
    with work(daemon, "echo said") as worker:
        assert worker.wait() == 0
    assert worker.out == b"said\n"
    assert worker.err.count(b"output is not kept") == 1
    assert daemon.client().ask("get", id=id)["status"] == "done"


def test_lines_of_several_workers_are_not_mixed(daemon: Daemon) -> None:
    """Each line is whole, with its own id."""
    ids = [add(daemon) for _ in range(3)]
    with work(daemon, 'for i in $(seq 1 300); do echo "line $i"; done', "-n", "3") as worker:
        assert worker.wait() == 0
    lines = worker.out.decode().splitlines()
    assert sorted(lines) == sorted(f"{id} line {i}" for id in ids for i in range(1, 301))
