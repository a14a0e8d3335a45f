"""Issues of GitHub become nodes, in each form in which its tools give them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from claimdag_client.importers.github import GithubImporter

from .drafts import faults, held, order, read, summaries, tree

SITE = "https://github.com/acme/app/issues/"
API = "https://api.github.com/repos/acme/app/issues/"


def rest(number: int, **fields: Any) -> dict[str, Any]:
    places = {"html_url": f"{SITE}{number}", "url": f"{API}{number}", "repository_url": API.removesuffix("/issues/")}
    return {"number": number, "title": f"title {number}", "state": "open", "labels": [], **places, **fields}


def gh(number: int, **fields: Any) -> dict[str, Any]:
    return {"number": number, "title": f"title {number}", "state": "OPEN", **fields}


def test_issues_of_the_rest_interface_are_read() -> None:
    """Parents by their address, blockers by object, pull requests not at all."""
    rows = [
        rest(1, sub_issues_summary={"total": 2}),
        rest(2, parent_issue_url=f"{API}1", labels=[{"name": "P1"}, {"name": "bug"}]),
        rest(3, parent_issue_url=f"{API}1", blocked_by=[{"number": 2, "state": "open", "url": f"{API}2"}]),
        rest(4, pull_request={"url": "x"}),
        rest(5, state="closed", state_reason="completed"),
        rest(6, blocked_by=[{"number": 5, "state": "closed"}, {"number": 4, "state": "open"}]),
    ]
    found = read(GithubImporter(), json.dumps(rows))
    assert faults(found) == []
    assert summaries(found)[:3] == ["#1 title 1", "#2 title 2", "#3 title 3"]
    assert tree(found) == {"#2": "#1", "#3": "#1"}
    assert found.nodes()[0]["kind"] == "goal"
    assert found.nodes()[1]["priority"] == 10
    assert order(found) == {"#3": ["#2"]}
    assert held(found) == {"#6": "is blocked by #4, which is a pull request and not finished"}
    assert found.left_out() == {"closed": 1, "a pull request": 1}


def test_issues_of_gh_are_read_from_both_ends() -> None:
    """What an issue blocks, and what is under it, may be said by the other one."""
    rows = [
        gh(1, subIssues=[{"number": 2}], blocking={"nodes": [{"number": 3}], "totalCount": 1}),
        gh(2, blockedBy={"nodes": [{"number": 3, "state": "OPEN"}], "totalCount": 1}, parent={"number": 1}),
        gh(3),
    ]
    assert faults(read(GithubImporter(), json.dumps(rows))) == [
        "line 1: #3 is blocked by #1, which closes a cycle: #3 -> #1's end -> #2 -> #3"
    ]
    rows[0].pop("blocking")
    found = read(GithubImporter(), "\n".join(json.dumps(row) for row in rows))
    assert tree(found) == {"#2": "#1"}
    assert order(found) == {"#2": ["#3"]}
    wrapped = {"data": {"repository": {"issues": {"nodes": rows}}}}
    assert read(GithubImporter(), json.dumps(wrapped)).nodes() == found.nodes()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"labels": [{"name": "blocked"}]}, "labelled 'blocked'"),
        ({"state": "odd"}, "it has the unknown state 'odd'"),
        ({"blockedBy": [{"number": 9, "state": "OPEN"}]}, "is blocked by #9, which is not in the file"),
        ({"blockedBy": [{"number": 9, "state": "CLOSED"}]}, None),
        ({"blocked_by": [9]}, "is blocked by #9, which is not in the file"),
        ({"issue_dependencies_summary": {"blocked_by": 2}}, "blocked by 2 issues that the file does not name"),
        ({"blockedBy": {"nodes": [], "totalCount": 1}}, "blocked by 1 more issues that the file does not name"),
        ({"blocked_by": [{"x": 1}]}, "what blocks it could not be read"),
    ],
)
def test_what_is_not_known_to_be_free_is_held(fields: dict[str, Any], reason: str | None) -> None:
    """Unless the blocker is known to be closed."""
    assert held(read(GithubImporter(), json.dumps([gh(1, **fields)]))) == ({} if reason is None else {"#1": reason})


def test_text_is_read_with_guess_alone() -> None:
    """People write of blockers and task lists in the body."""
    rows = [gh(1, body="- [ ] #2\n- [x] #3"), gh(2, body="Blocked by #3, #4"), gh(3), gh(4)]
    plain, guessed = (read(GithubImporter(), json.dumps(rows), guess=guess) for guess in (False, True))
    assert order(plain) == tree(plain) == {}
    assert order(guessed) == {"#2": ["#3", "#4"]}
    assert tree(guessed) == {"#2": "#1", "#3": "#1"}


def test_assignees_are_holders() -> None:
    """Somebody has it in hand there."""
    text = json.dumps([gh(1, assignees=[{"login": "ann"}])])
    assert held(read(GithubImporter(), text)) == {}
    assert held(read(GithubImporter(), text, keep_holders=True)) == {"#1": "assigned to ann"}


def test_issues_of_several_repositories_have_long_names() -> None:
    """Their numbers are the same."""
    rows = [rest(1), {**rest(1), "html_url": "https://github.com/acme/lib/issues/1"}]
    assert summaries(read(GithubImporter(), json.dumps(rows))) == ["acme/app#1 title 1", "acme/lib#1 title 1"]


def test_faults_have_their_lines() -> None:
    """Rows that are no issues, numbers that are none, the same one twice, a parent of nothing."""
    rows: list[Any] = [{"title": "x"}, {"number": "1"}, gh(2), gh(2), gh(3, parent="x")]
    found = read(GithubImporter(), "[\n" + ",\n".join(json.dumps(row) for row in [*rows, 7]) + "]")
    assert faults(found) == [
        "line 2: its number is None, not one of an issue",
        "line 3: its number is '1', not one of an issue",
        "line 5: #2 is on line 4 already",
        "line 6: #3: its parent is 'x', which is no issue",
        "line 7: it is not a JSON object",
    ]
