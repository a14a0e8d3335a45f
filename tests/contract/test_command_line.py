"""docs/reference/command-line.md says what the command line does: every exit status, and the words for people."""

from __future__ import annotations

from claimdag_client.cli import session
from claimdag_client.cli.commands import ALIASES, MODULES
from tests.contract.markdown import ROOT

PAGE = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
STATUSES = {
    value
    for name, value in vars(session).items()
    if name.isupper() and isinstance(value, int) and not isinstance(value, bool)
}


def test_every_exit_status_is_in_the_table() -> None:
    """No status is a surprise, and none is promised that does not exist (law 9.1)."""
    rows = {int(line.split("|")[1]) for line in PAGE.splitlines() if line.startswith("| ") and line[2].isdigit()}
    assert rows == STATUSES


def test_words_for_people_are_verbs() -> None:
    """Each of them is one."""
    assert {"add", "ls", "done", "fail", "rm"} <= {*MODULES, *ALIASES}
