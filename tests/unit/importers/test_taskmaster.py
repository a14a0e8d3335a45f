"""A tasks.json of task-master becomes nodes."""

from __future__ import annotations

import json
from typing import Any

from claimdag_client.importers.taskmaster import TaskmasterImporter

from .drafts import faults, held, order, read, summaries, tree


def tasks(*rows: dict[str, Any]) -> str:
    return json.dumps({"master": {"tasks": [*rows], "metadata": {}}})


def test_tasks_subtasks_and_dependencies_are_read() -> None:
    """A subtask names its sibling by the last part of the id, or any task by the whole of it."""
    text = tasks(
        {"id": 1, "title": "Set up", "status": "done", "priority": "high", "dependencies": []},
        {"id": 2, "title": "Parser", "status": "pending", "priority": "high", "dependencies": [1], "subtasks": [
            {"id": 1, "title": "Grammar", "status": "done", "dependencies": []},
            {"id": 2, "title": "Tokens", "status": "pending", "dependencies": [1]},
            {"id": 3, "title": "Tree", "status": "pending", "dependencies": [2, "2.1"]},
        ]},
        {"id": 3, "title": "Ship", "status": "pending", "dependencies": [2, "2.3"], "priority": "low"},
    )  # fmt: skip
    found = read(TaskmasterImporter(), text)
    assert faults(found) == []
    assert summaries(found) == ["2 Parser", "2.2 Tokens", "2.3 Tree", "3 Ship"]
    assert found.nodes()[0]["kind"] == "goal"
    assert tree(found) == {"2.2": "2", "2.3": "2"}
    assert order(found) == {"2.3": ["2.2"], "3": ["2", "2.3"]}
    assert [node.get("priority", 0) for node in found.nodes()] == [10, 0, 0, -10]


def test_an_id_that_looks_like_a_number_keeps_its_zeros() -> None:
    """1.10 is not 1.1."""
    text = '{"tasks": [{"id": 1, "title": "a", "subtasks": [{"id": 10, "title": "b"}]}, '
    text += '{"id": 2, "title": "c", "dependencies": [1.10]}]}'
    assert order(read(TaskmasterImporter(), text)) == {"2": ["1.10"]}


def test_what_task_master_would_not_offer_is_held() -> None:
    """Deferred, blocked, in review, of an unknown status; waiting on what was cancelled; under what is done."""
    found = read(TaskmasterImporter(), tasks(
        {"id": 1, "title": "a", "status": "deferred"}, {"id": 2, "title": "b", "status": "blocked"},
        {"id": 3, "title": "c", "status": "review"}, {"id": 4, "title": "d", "status": "odd"},
        {"id": 5, "title": "e", "status": "cancelled"}, {"id": 6, "title": "f", "dependencies": [5]},
        {"id": 7, "title": "g", "status": "done", "subtasks": [{"id": 1, "title": "h", "status": "pending"}]},
        {"id": 8, "title": "i", "status": "in-progress"}, {"id": 9, "title": "j", "dependencies": [99]},
    ))  # fmt: skip
    assert held(found) == {
        "1": "deferred in the tracker",
        "2": "blocked in the tracker",
        "3": "review in the tracker",
        "4": "it has the unknown status 'odd'",
        "6": "depends on 5, which is cancelled and not finished",
        "7.1": "its task 7 is done",
        "9": "depends on 99, which is not in the file",
    }
    assert faults(found) == ["master.tasks[8]: 9 depends on 99, which is not in the file"]
    kept = read(TaskmasterImporter(), tasks({"id": 8, "title": "i", "status": "in-progress"}), keep_holders=True)
    assert held(kept) == {"8": "in-progress in the tracker"}


def test_tags_are_lists_of_their_own() -> None:
    """master unless another is named, and the others are noted; the old form has none."""
    text = json.dumps({"master": {"tasks": [{"id": 1, "title": "a"}]}, "next": {"tasks": [{"id": 1, "title": "b"}]}})
    found = read(TaskmasterImporter(), text)
    assert summaries(found) == ["1 a"]
    assert found.noted() == {"tags left out": 1}
    assert summaries(read(TaskmasterImporter(), text, tag="next")) == ["next/1 b"]
    assert faults(read(TaskmasterImporter(), text, tag="x")) == [
        "x: there is no list of tasks with the tag 'x'; there are master, next"
    ]
    assert summaries(read(TaskmasterImporter(), '[{"id": 1, "title": "a"}]')) == ["1 a"]


def test_faults_have_their_paths() -> None:
    """All at once, each where it is."""
    found = read(TaskmasterImporter(), tasks(
        {"title": "x"}, {"id": 1, "priority": "huge"}, {"id": 1}, "y", {"id": 2, "dependencies": 7, "subtasks": {}},
        {"id": 3, "dependencies": [None]},
    ))  # fmt: skip
    assert faults(found) == [
        "master.tasks[0]: its id is None, not a name",
        "master.tasks[1].priority: the priority 'huge' is not one of critical, high, medium, low",
        "master.tasks[2]: 1 is on master.tasks[1] already",
        "master.tasks[3]: its id is None, not a name",
        "master.tasks[4].dependencies: it must be a list of ids",
        "master.tasks[4].subtasks: it must be a list of tasks",
        "master.tasks[5].dependencies: a dependency is None, which names no task",
    ]
    assert faults(read(TaskmasterImporter(), '{"tasks": [\n{"id": 1,}]}'))[0].startswith("line 2: it is not JSON")
    assert faults(read(TaskmasterImporter(), b"\n\xff")) == ["line 2: it is not UTF-8"]
    assert len(faults(read(TaskmasterImporter(), "[" * 100_000))) == 1
