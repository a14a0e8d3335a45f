"""What the end of a command means, and what a command is told."""

from __future__ import annotations

import pytest

from claimdag_client.worker.exit_status import claim_environment, ending_of, exit_status, start_status
from claimdag_client.worker.output_keeper import with_last_line


@pytest.mark.parametrize(
    ("status", "error", "shell"),
    [(0, None, 0), (7, "exit status 7", 7), (-9, "killed by SIGKILL", 137), (-250, "killed by signal 250", 378)],
)
def test_status_is_told_as_a_node_and_as_a_shell(status: int, error: str | None, shell: int) -> None:
    """An error of the node, and the status that the worker exits with."""
    assert (ending_of(status), exit_status(status)) == (error, shell)


@pytest.mark.parametrize(
    ("error", "status"), [(FileNotFoundError(), 127), (PermissionError(), 126), (ValueError(), 126)]
)
def test_command_that_cannot_be_started_has_a_shells_status(error: OSError | ValueError, status: int) -> None:
    """127 if it is not there, 126 if it cannot run."""
    assert start_status(error) == status


def test_environment_holds_no_nul_and_any_text() -> None:
    """No environment can hold one."""
    assert claim_environment("7q2f-1", 2, "a\0b\ud800=ü", "/s") == [
        b"CLAIMDAG_ID=7q2f-1",
        b"CLAIMDAG_GEN=2",
        "CLAIMDAG_SUMMARY=a\N{REPLACEMENT CHARACTER}b?=ü".encode(),
        b"CLAIMDAG_SOCKET=/s",
    ]


@pytest.mark.parametrize(
    ("error", "line", "expected"),
    [
        (None, b"fine", None),
        ("exit status 2", b"", "exit status 2"),
        ("exit status 2", b"  ModuleNotFoundError: parser \r", "exit status 2: ModuleNotFoundError: parser"),
        ("exit status 2", b"\x1b[31mred\x1b[0m\x1b]0;title\x07", "exit status 2: red"),
        ("exit status 2", b"\xff\x07", "exit status 2: \N{REPLACEMENT CHARACTER}\\x07"),
    ],
)
def test_error_ends_with_the_last_line(error: str | None, line: bytes, expected: str | None) -> None:
    """Without escapes, and safe for a terminal."""
    assert with_last_line(error, line) == expected


def test_error_with_a_long_last_line_fits_a_node() -> None:
    """At most 1,024 bytes."""
    text = with_last_line("exit status 2", b"\xc3\xbc" * 2000)
    assert text is not None
    assert len(text.encode()) <= 1024
