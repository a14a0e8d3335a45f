"""The command line where its streams, its arguments or its directory are not as they should be, by real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, running

CLAIMDAG = (sys.executable, "-P", "-m", "claimdag_client.cli")


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Daemon]:
    with running(short_dir / "state") as daemon:
        yield daemon


def shell(daemon: Daemon, script: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a line of sh in which `claimdag` is the command line on this daemon."""
    function = f'claimdag() {{ {" ".join(CLAIMDAG)} --dir "$DIR" --no-start "$@"; }}\n'
    return subprocess.run(
        ["sh", "-c", function + script],
        env={"PATH": os.environ["PATH"], "DIR": str(daemon.directory), **environ},
        capture_output=True, check=False, text=True, encoding="utf-8", timeout=30,
    )  # fmt: skip


def views(daemon: Daemon) -> list[dict[str, object]]:
    with daemon.client() as client:
        nodes: list[dict[str, object]] = client.ask("list", all=True)["nodes"]
        return nodes


@pytest.mark.parametrize("output", [">/dev/full", ">&-", "1</dev/null"])
@pytest.mark.parametrize(
    "verb", ["next --actor ann", "next --actor ann --json", "claim 1 --actor ann", "claim 1 --actor ann --bound"]
)
def test_claim_that_cannot_be_printed_is_given_back(daemon: Daemon, verb: str, output: str) -> None:
    """Nobody knows of such a claim, so nobody may be kept from the node by it (law 9.11)."""
    shell(daemon, "claimdag upsert --summary x")
    ran = shell(daemon, f"claimdag {verb} {output}")
    assert ran.returncode == 74
    assert "the answer could not be written to standard output: " in ran.stderr
    assert "claimed and given back: " in ran.stderr
    (node,) = views(daemon)
    assert (node["status"], node["assignee"], node["gen"]) == ("ready", None, 3)


def test_claim_whose_reader_has_gone_is_given_back(daemon: Daemon) -> None:
    """The reader of the pipe ends while the command waits for work."""
    with daemon.client() as client:
        reader, writer = os.pipe()
        waiting = subprocess.Popen(
            [*CLAIMDAG, "--dir", str(daemon.directory), "--no-start", "next", "--actor", "ann", "--wait", "20"],
            stdout=writer, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        os.close(writer)
        os.close(reader)
        client.ask("upsert", summary="x")
        _, said = waiting.communicate(timeout=20)
    assert waiting.returncode == 74
    assert "claimed and given back: " in said
    assert views(daemon)[0]["status"] == "ready"


def test_next_claim_of_complete_is_given_back_and_the_end_is_told(daemon: Daemon) -> None:
    """What cannot be undone is named on stderr; what can be is undone."""
    shell(daemon, "claimdag upsert --summary a; claimdag upsert --summary b; claimdag claim 1 --actor ann")
    ran = shell(daemon, "claimdag complete 1 --actor ann --next >/dev/full")
    second, first = views(daemon)
    assert ran.returncode == 74
    assert f"done: {first['id']} done" in ran.stderr
    assert f"claimed and given back: {second['id']} (gen 2)" in ran.stderr
    assert (first["status"], second["status"]) == ("done", "ready")


def test_claim_with_a_token_is_kept_for_the_next_time_it_is_asked(daemon: Daemon) -> None:
    """With --once the answer is not lost: it is given again."""
    shell(daemon, "claimdag upsert --summary x")
    ran = shell(daemon, "claimdag next --actor ann --once t1 >/dev/full")
    assert ran.returncode == 74
    assert "ask again with --once t1" in ran.stderr
    assert "gen=2" in shell(daemon, "claimdag next --actor ann --once t1").stdout
    assert views(daemon)[0]["assignee"] == "ann"


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        ("upsert --summary y", "done: created "),
        ("upsert 1 --priority 3", "done: changed "),
        ("submit plan.json", "done: created 2 nodes"),
        ("cancel 1", "done: cancel "),
        ("complete 1 --status failed", "failed"),
        ("capacity gpu 2", "done: capacity of gpu is 2"),
        ("checkpoint", "done: checkpoint"),
        ("link 1 2", "done: link "),
    ],
)
def test_change_that_cannot_be_printed_is_told_on_stderr(daemon: Daemon, tmp_path: Path, verb: str, told: str) -> None:
    """Somebody who sees a failure must learn that the change was made."""
    (tmp_path / "plan.json").write_text('{"nodes": [{"summary": "a"}, {"summary": "b"}]}')
    shell(daemon, "claimdag upsert --summary x; claimdag upsert --summary y")
    ran = shell(daemon, f"cd {tmp_path} && claimdag {verb} >/dev/full")
    assert (ran.returncode, told in ran.stderr) == (74, True), ran.stderr


@pytest.mark.parametrize("verb", ["list", "ping", "status --json", "--help", "list --help", "--version", "wait 1"])
def test_reading_verbs_report_what_cannot_be_written(daemon: Daemon, verb: str) -> None:
    """A full disk is told by every verb; a closed output too."""
    shell(daemon, "claimdag upsert --summary x; claimdag complete 1")
    for output in (">/dev/full", ">&-"):
        ran = shell(daemon, f"claimdag {verb.replace('list', 'list --all', 1)} {output}")
        assert (ran.returncode, "Traceback" in ran.stderr) == (74, False), ran.stderr


def test_reader_that_has_enough_of_the_ledger_is_no_error(daemon: Daemon) -> None:
    """`claimdag watch | head -1` ends as `yes | head -1` does."""
    with daemon.client() as client:
        for _ in range(3000):
            client.send("upsert", summary="x" * 60)
        for _ in range(3000):
            client.answer()
    ran = shell(daemon, "{ claimdag watch --from 1; echo $? >&2; } | head -1")
    assert (ran.stdout.count("\n"), ran.stderr) == (1, "141\n")


def test_closed_standard_error_hides_no_answer(daemon: Daemon) -> None:
    """There is nobody to tell, and that is no reason to fail otherwise."""
    assert shell(daemon, "claimdag upsert --summary x 2>&-").returncode == 0
    assert shell(daemon, "claimdag next --actor ann >/dev/full 2>/dev/full").returncode == 74
    assert shell(daemon, "claimdag next --actor ann <&- >&- 2>&-").returncode == 74
    assert views(daemon)[0]["status"] == "ready"
    assert shell(daemon, "claimdag get 99 2>&-").returncode == 1


# ---------------------------------------------------------------------------------------------------- UTF-8

LOCALES: Sequence[dict[str, str]] = (
    {"LC_ALL": "C"},
    {"LC_ALL": "POSIX"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0"},
)


@pytest.mark.parametrize("locale", LOCALES, ids=lambda each: " ".join(f"{k}={v}" for k, v in each.items()))
def test_utf8_is_accepted_and_printed_in_the_c_locale(daemon: Daemon, tmp_path: Path, locale: dict[str, str]) -> None:
    """Arguments, file names and output are UTF-8 whatever the locale calls them."""
    plan = tmp_path / "plän.json"
    plan.write_text('{"nodes": [{"summary": "naïve"}]}', encoding="utf-8")
    ran = shell(
        daemon,
        f"claimdag upsert --summary 'café ☕' && claimdag cancel 1 --error 'straße' && claimdag submit '{plan}' && "
        "echo 'größer' | claimdag upsert --summary - && claimdag list --all",
        **locale,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    for text in ("café ☕", "straße", "naïve", "größer"):
        assert text in ran.stdout
    assert {node["summary"] for node in views(daemon)} == {"café ☕", "naïve", "größer"}


@pytest.mark.parametrize("locale", [{"LC_ALL": "C.UTF-8"}, LOCALES[2]], ids=["utf-8", "ascii"])
def test_bytes_that_are_not_utf8_are_refused_in_every_locale(daemon: Daemon, locale: dict[str, str]) -> None:
    """What no text has stays a wrong use."""
    ran = shell(daemon, "claimdag upsert --summary \"$(printf 'caf\\351')\"", **locale)
    assert (ran.returncode, "it must be text in UTF-8" in ran.stderr) == (2, True), ran.stderr
    assert views(daemon) == []


def test_directory_with_letters_beyond_ascii_is_found_in_the_c_locale(short_dir: Path) -> None:
    """--dir and --socket, before the verb and after it."""
    with running(short_dir / "größe") as daemon:
        for place in ('--dir "$DIR"', '--socket "$DIR/sock"'):
            ran = shell(daemon, f"claimdag {place} ping && claimdag ping {place}", **LOCALES[2])
            assert (ran.stdout, ran.stderr) == ("pong\npong\n", "")


# ------------------------------------------------------------------------------------- no traceback, a message


@pytest.mark.parametrize("verb", ["submit -", "import beads -", "upsert --summary -", "submit - --dry-run"])
def test_closed_standard_input_is_named(daemon: Daemon, verb: str) -> None:
    """`<&-` gives a message, not a traceback."""
    ran = shell(daemon, f"claimdag {verb} <&-")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "standard input is closed" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("verb", ["submit -", "import beads -", "upsert --summary -"])
def test_unreadable_standard_input_is_named(daemon: Daemon, tmp_path: Path, verb: str) -> None:
    """One that is open for writing alone."""
    ran = shell(daemon, f"claimdag {verb} 0>{tmp_path}/out")
    assert (ran.returncode, "standard input: " in ran.stderr) == (1, True), ran.stderr


@pytest.mark.parametrize("path", ["missing.json", ".", "no/such/dir.json", "a\x01b.json"])
def test_file_that_cannot_be_read_is_named(daemon: Daemon, tmp_path: Path, path: str) -> None:
    """A file that is missing, or a directory."""
    ran = shell(daemon, f"cd {tmp_path} && claimdag submit --format json '{path}'; claimdag import beads '{path}'")
    assert ran.stderr.count("claimdag: ") == 2
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "line",
    ["claimdag --dir x ping", "claimdag ping --socket x/sock", "claimdag list --offline --dir x",
     "claimdag wait 1 --dir x", "claimdag run --dir x --assignee a 1 -- true",
     "CLAIMDAG_DIR=x; export CLAIMDAG_DIR; claimdag_bare ping"],
)  # fmt: skip
def test_relative_path_below_a_deleted_directory_is_named(daemon: Daemon, tmp_path: Path, line: str) -> None:
    """The working directory was deleted: a relative path leads nowhere."""
    bare = f'claimdag_bare() {{ {" ".join(CLAIMDAG)} --no-start "$@"; }}\n'
    (tmp_path / "gone").mkdir()
    ran = shell(daemon, f"{bare} cd {tmp_path}/gone && rmdir {tmp_path}/gone && {line}")
    assert ran.returncode == 71, ran.stderr
    assert "the working directory is gone" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_absolute_path_serves_in_a_deleted_directory(daemon: Daemon, tmp_path: Path) -> None:
    """What needs no working directory works without one."""
    (tmp_path / "gone").mkdir()
    ran = shell(daemon, f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && claimdag upsert --summary x && claimdag list")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_unexpected_error_is_the_last_resort_and_gives_a_claim_back(daemon: Daemon, tmp_path: Path) -> None:
    """What failed, what was going on, where to report it; no traceback, status 70, and no claim left behind."""
    shell(daemon, "claimdag upsert --summary x")
    program = (
        "import sys, claimdag_client.cli.session as session\n"
        "from claimdag_client.cli.main import main\n"
        "session.Session.say_all = lambda self, lines: {}['no such key']\n"
        f"sys.exit(main(['--dir', {str(daemon.directory)!r}, 'next', '--actor', 'ann']))\n"
    )
    for environ, shown in (({}, False), ({"CLAIMDAG_TRACEBACK": "1"}, True)):
        ran = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **environ}, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 70
        assert "claimdag: next: unexpected KeyError: 'no such key'" in ran.stderr
        assert "while: writing the answer" in ran.stderr
        assert "report it" in ran.stderr
        assert "claimed and given back" in ran.stderr
        assert ("Traceback" in ran.stderr) is shown
        assert views(daemon)[0]["status"] == "ready"
